package simulate

import (
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// A Refreshed is one attempt of a record that is processed again and again.
type Refreshed struct {
	N         int           `json:"n"` // from 1
	AttemptNo int           `json:"attempt_no"`
	Start     inspect.Stamp `json:"start"`
	Deadline  inspect.Stamp `json:"deadline_at"`
	Planned   inspect.Stamp `json:"refresh_at"` // while the attempt runs
	End       inspect.Stamp `json:"end"`
	Next      inspect.Stamp `json:"next_refresh_at"` // refresh_at after it; zero: none
	Disabled  bool          `json:"-"`               // after it
	Reason    string        `json:"-"`
}

// Refresh returns the first n attempts of a record that is first due at or after
// from, as the passes of the schedule start it. Each takes callTime and fails, or is
// not answered by its deadline if that comes first.
func Refresh(p backlog.Refresher, s *tiers.Schedule, from time.Time, callTime time.Duration, n int) (list []Refreshed, err error) {
	state, _ := p.End(backlog.Refresh{}, backlog.Succeeded, from.Add(-1), "", nil)
	if state.At.IsZero() {
		state.At = from
	}
	tick := func(t time.Time) time.Time { return s.Next(t.Add(-1)) } // the first at or after it
	var last time.Time                                               // start, unless nobody answered: the pass that fails it may start it again
	for len(list) < n && !state.At.IsZero() {
		start := tick(state.At)
		if !start.After(last) {
			start = s.Next(last) // a pass tries a record once
		}
		if state, err = p.Start(state, start, "simulated"); err != nil {
			return list, err
		}
		a := Refreshed{N: len(list) + 1, AttemptNo: state.AttemptNo, Start: inspect.Stamp(start), Deadline: inspect.Stamp(state.Deadline), Planned: inspect.Stamp(state.At)}
		end, text := start.Add(callTime), "failed"
		if last = start; !end.Before(state.Deadline) {
			end, text, last = tick(state.Deadline), "timed out", time.Time{}
		}
		state, _ = p.End(state, backlog.Errored, end, text, nil)
		a.End, a.Next, a.Disabled, a.Reason = inspect.Stamp(end), inspect.Stamp(state.At), state.Disabled, state.Reason
		list = append(list, a)
	}
	return list, nil
}
