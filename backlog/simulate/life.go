// Package simulate tells what a schedule or a policy would do, in virtual time.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// A Life is the attempts at one record that never succeeds.
type Life struct {
	Inserted time.Time      `json:"inserted"`
	ByTier   []TierAttempts `json:"by_tier"` // narrow to wide, one per tier of the schedule
	Total    int            `json:"total"`
	First    time.Time      `json:"-"` // of the attempts; zero: there is none
	Last     time.Time      `json:"-"`
	Expires  time.Time      `json:"expires"`  // the last moment at which it is not older than every tier
	GivenUp  bool           `json:"given_up"` // by the policy, before that
}

// TierAttempts counts the attempts at ages for which the tier is the narrowest
// that holds them.
type TierAttempts struct {
	Name     string     `json:"tier"`
	Tier     tiers.Tier `json:"-"`
	Attempts int        `json:"attempts"`
}

// LifeOf returns the life of a record that is inserted at the given time. A tick
// at that very moment is too early for it. Under a policy, nil for progressive,
// the record is tried at the first tick at which it is due; random returns
// numbers that are uniform in [0, 1). It is exact where every pass gets through:
// without caps, aborts and overlap. When ctx is done it returns what it has.
func LifeOf(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, inserted time.Time, random func() float64) Life {
	return restOf(ctx, s, p, inspect.Row{Record: backlog.Record{Inserted: inserted}}, inserted, random)
}

// Ahead returns what is left at a time of the life of a row that goes on failing, at the least
// waits; nil if it is not tried any more, or age does not matter. If it expires before that, so
// does the life.
func Ahead(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, r inspect.Row, now time.Time) *Life {
	if p.HasDeadlines() || r.Inserted.IsZero() || r.Never(now) != "" {
		return nil
	}
	from := r.Eligible
	if r.State == backlog.RowError {
		due, ok := p.Rule().At(backlog.Failed, r.Memory)
		if !ok {
			return nil
		}
		from = latest(from, due)
	}
	return new(restOf(ctx, s, p, r, latest(from.Add(-1), now), func() float64 { return 0 }))
}

// restOf is LifeOf for what comes after a time, when the row has failed as it says.
func restOf(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, r inspect.Row, from time.Time, random func() float64) Life {
	list, inserted, state := s.Tiers(), r.Inserted, r.Memory
	rule := p.Rule()
	l := Life{Inserted: inserted, Expires: inserted.Add(s.Widest().MaxAge), ByTier: make([]TierAttempts, len(list))}
	for i, t := range list {
		l.ByTier[i].Name, l.ByTier[i].Tier = t.Name, t
	}
	l.Expires = soonest(l.Expires, r.Expires)
	for at := from; ctx.Err() == nil; {
		if at = nextTick(list, inserted, at); at.IsZero() || at.After(l.Expires) {
			return l
		}
		holds := func(t tiers.Tier) bool { return at.Sub(inserted) <= t.MaxAge }
		l.ByTier[slices.IndexFunc(list, holds)].Attempts++
		l.Total++
		l.First, l.Last = cmp.Or(l.First, at), at
		if state, l.GivenUp = fails(p, state, at, random); l.GivenUp {
			return l
		}
		at = waited(rule, state, at)
	}
	return l
}

// nextTick returns the first tick after the given time of a tier that still
// holds the record, zero if there is none.
func nextTick(list []tiers.Tier, inserted, after time.Time) (at time.Time) {
	for _, t := range list {
		if after.Sub(inserted) > t.MaxAge {
			continue
		}
		tick := t.Next(after)
		if tick.Sub(inserted) <= t.MaxAge && (at.IsZero() || tick.Before(at)) {
			at = tick
		}
	}
	return at
}

// An Attempt is one at a record that never succeeds, where the policy alone
// decides: a pass comes only when a tier ticks.
type Attempt struct {
	N     int  `json:"n"`             // from 1
	At    Span `json:"at_seconds"`    // since the record's insertion
	Delay Span `json:"delay_seconds"` // since the attempt before
	Least Span `json:"min_seconds"`   // the bounds between which the delay was drawn
	Most  Span `json:"max_seconds"`
}

// Attempts returns the first attempts, at most count, no more than the policy
// grants, and none that is later than the longest duration. random returns numbers that are uniform in [0, 1).
func Attempts(p *backlog.Policy, count int, random func() float64) []Attempt {
	a := Attempt{N: 1}
	list := []Attempt{a}
	for a.N < count && !p.GivenUp(a.N) {
		least, most := p.Wait(a.N)
		delay := p.Draw(a.N, random())
		if delay > math.MaxInt64-time.Duration(a.At) { // 292 years after its insertion
			break
		}
		a = Attempt{a.N + 1, a.At + Span(delay), Span(delay), Span(least), Span(most)}
		list = append(list, a)
	}
	return list
}

// A Span is a duration that JSON has in seconds.
type Span time.Duration

// Seconds writes the number of seconds, exactly.
func (s Span) Seconds() string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", s/1e9, s%1e9), "0"), ".")
}

// MarshalJSON writes the number of seconds.
func (s Span) MarshalJSON() ([]byte, error) { return []byte(s.Seconds()), nil }

// String returns the span as people read it: no finer than matters.
func (s Span) String() string {
	unit := time.Second
	if time.Duration(s) < 10*unit {
		unit = time.Millisecond
	}
	return tiers.FormatDuration(time.Duration(s).Round(unit))
}

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
	state, _ := p.End(backlog.Memory{}, backlog.Succeeded, from.Add(-1), "", nil)
	state.Next = cmp.Or(state.Next, from)
	tick := func(t time.Time) time.Time { return s.Next(t.Add(-1)) } // the first at or after it
	// The last start, unless nobody answered: the pass that fails it may start it again.
	var last time.Time
	for len(list) < n && !state.Next.IsZero() {
		start := tick(state.Next)
		if !start.After(last) {
			start = s.Next(last) // a pass tries a record once
		}
		if state, err = p.Start(state, start, "simulated"); err != nil {
			return list, err
		}
		a := Refreshed{N: len(list) + 1, AttemptNo: state.AttemptNo, Start: inspect.Stamp(start)}
		a.Deadline, a.Planned = inspect.Stamp(state.Deadline), inspect.Stamp(state.Next)
		end, text := start.Add(callTime), "failed"
		if last = start; !end.Before(state.Deadline) {
			end, text, last = tick(state.Deadline), "timed out", time.Time{}
		}
		state, _ = p.End(state, backlog.Errored, end, text, nil)
		a.End, a.Next, a.Disabled, a.Reason = inspect.Stamp(end), inspect.Stamp(state.Next), state.Disabled, state.Reason
		list = append(list, a)
	}
	return list, nil
}
