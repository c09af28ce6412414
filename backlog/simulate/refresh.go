package simulate

import (
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Refreshed is one attempt of a record that is processed again and again.
type Refreshed struct {
	AttemptNo       int
	Start, Deadline time.Time
	Planned         time.Time // refresh_at while the attempt runs
	End             time.Time
	Next            time.Time // refresh_at after it; zero: none
	Disabled        bool      // after it
	Reason          string

	overdue bool // nobody answered: the pass that fails it may start it again
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
	for len(list) < n && !state.At.IsZero() {
		start := tick(state.At)
		if last := len(list) - 1; last >= 0 && !list[last].overdue && !start.After(list[last].Start) {
			start = s.Next(list[last].Start) // a pass tries a record once
		}
		if state, err = p.Start(state, start, "simulated"); err != nil {
			return list, err
		}
		a := Refreshed{AttemptNo: state.AttemptNo, Start: start, Deadline: state.Deadline, Planned: state.At, End: start.Add(callTime)}
		text := "failed"
		if !a.End.Before(state.Deadline) {
			a.overdue = true
			a.End, text = tick(state.Deadline), "timed out"
		}
		state, _ = p.End(state, backlog.Errored, a.End, text, nil)
		a.Next, a.Disabled, a.Reason = state.At, state.Disabled, state.Reason
		list = append(list, a)
	}
	return list, nil
}
