// Package simulate computes, in virtual time, what a schedule and a policy would do.
//
//   - [Run] simulates a [Workload]: a stream of records, or the rows of a table. [Compare] does
//     so for several schedules or policies, and [WhatIf] for counted rows.
//   - [LifeOf] counts how often each tier tries one record that never succeeds.
//   - [Attempts] and [RefreshAttempts] list the first attempts that a policy plans.
//
// Everything here is pure but for [DrawPicture] and the Table of [Options]: time and randomness
// are arguments.
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

// A Life counts the attempts at one record that never succeeds.
type Life struct {
	Inserted time.Time      `json:"inserted"`
	ByTier   []TierAttempts `json:"by_tier"` // narrow to wide, one per tier of the schedule
	Total    int            `json:"total"`
	First    time.Time      `json:"-"`        // attempt; zero: none
	Last     time.Time      `json:"-"`        // attempt; zero: none
	Expires  time.Time      `json:"expires"`  // the last moment at which a tier is wide enough for it
	GivenUp  bool           `json:"given_up"` // by the policy, before it expires
}

// TierAttempts counts the attempts at ages for which the tier is the narrowest that is wide
// enough.
type TierAttempts struct {
	Name     string     `json:"tier"`
	Tier     tiers.Tier `json:"-"`
	Attempts int        `json:"attempts"`
}

// LifeOf returns the life of a record that is inserted at the given time. A tick at that very
// moment is too early for it. Under a policy, nil for progressive, the record is tried at the
// first tick at which it is due. random returns numbers that are uniform in [0, 1).
//
// The life is exact if every pass reaches all its records: without caps, aborts and passes that
// overlap. When ctx is done, LifeOf returns the life so far.
func LifeOf(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, inserted time.Time, random func() float64) Life {
	f := failingRow{schedule: s, policy: p, from: inserted, random: random}
	f.Inserted = inserted
	return f.simulate(ctx)
}

// RemainingLife returns the life of a row from now on if every attempt fails and every wait is
// as short as the policy allows. It ends when the row expires. It is nil if the row is not tried
// any more, or if its age does not decide when it is tried.
func RemainingLife(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, r inspect.Row, now time.Time) *Life {
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
	f := failingRow{Row: r, schedule: s, policy: p}
	f.from = latest(from.Add(-1), now) // a tick at from itself is in time
	f.random = func() float64 { return 0 }
	return new(f.simulate(ctx))
}

// A failingRow is a row at which all attempts after a time fail.
type failingRow struct {
	inspect.Row
	schedule *tiers.Schedule
	policy   *backlog.Policy
	from     time.Time
	random   func() float64 // for the waits, uniform in [0, 1)
}

// simulate returns the life of the row after from.
func (r failingRow) simulate(ctx context.Context) Life {
	list := r.schedule.Tiers()
	rule := r.policy.Rule()
	memory := r.Memory
	tooOld := r.Inserted.Add(r.schedule.Widest().MaxAge)
	l := Life{
		Inserted: r.Inserted,
		Expires:  earliest(tooOld, r.Expires),
		ByTier:   make([]TierAttempts, len(list)),
	}
	for i, t := range list {
		l.ByTier[i].Name = t.Name
		l.ByTier[i].Tier = t
	}
	after := r.from
	for ctx.Err() == nil {
		at := nextTickByAge(list, r.Inserted, after)
		if at.IsZero() || at.After(l.Expires) {
			return l
		}
		l.ByTier[narrowestTier(list, at.Sub(r.Inserted))].Attempts++
		l.Total++
		l.First = cmp.Or(l.First, at)
		l.Last = at
		memory, l.GivenUp = afterFailure(r.policy, memory, at, r.random)
		if l.GivenUp {
			return l
		}
		after = waitUntilDue(rule, memory, at)
	}
	return l
}

// narrowestTier returns the index of the first tier that is wide enough for the age. The list goes
// from narrow to wide, and its last tier must be wide enough.
func narrowestTier(list []tiers.Tier, age time.Duration) int {
	isWideEnough := func(t tiers.Tier) bool { return age <= t.MaxAge }
	return slices.IndexFunc(list, isWideEnough)
}

// nextTickByAge returns the first tick after the given time of a tier that is still wide enough
// for the record then, or the zero time.
func nextTickByAge(list []tiers.Tier, inserted, after time.Time) time.Time {
	var first time.Time
	for _, t := range list {
		if after.Sub(inserted) > t.MaxAge {
			continue
		}
		tick := t.Next(after)
		if tick.Sub(inserted) <= t.MaxAge && (first.IsZero() || tick.Before(first)) {
			first = tick
		}
	}
	return first
}

// An Attempt is an attempt at a record that never succeeds, at the moment the policy makes it
// due. A real one comes at the next tick after that.
type Attempt struct {
	N     int  `json:"n"`             // from 1
	At    Span `json:"at_seconds"`    // since the first attempt
	Delay Span `json:"delay_seconds"` // since the attempt before
	Least Span `json:"min_seconds"`   // bounds between which the delay was drawn
	Most  Span `json:"max_seconds"`
}

// Attempts returns the first attempts at a record that never succeeds: at most count, and no
// more than the policy grants. It stops at an attempt that is more than 292 years after the
// first, which a duration cannot hold. random returns numbers that are uniform in [0, 1).
func Attempts(p *backlog.Policy, count int, random func() float64) []Attempt {
	a := Attempt{N: 1}
	list := []Attempt{a}
	for a.N < count && !p.GivenUp(a.N) {
		least, most := p.Wait(a.N)
		delay := p.Draw(a.N, random())
		if delay > math.MaxInt64-time.Duration(a.At) {
			break
		}
		a = Attempt{N: a.N + 1, At: a.At + Span(delay), Delay: Span(delay), Least: Span(least), Most: Span(most)}
		list = append(list, a)
	}
	return list
}

// A Span is a duration that is written to JSON as a number of seconds.
type Span time.Duration

// Seconds returns the number of seconds in decimal, without rounding.
func (s Span) Seconds() string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", s/1e9, s%1e9), "0"), ".")
}

// MarshalJSON returns the number of seconds.
func (s Span) MarshalJSON() ([]byte, error) { return []byte(s.Seconds()), nil }

// String returns the span for people, rounded to seconds or, below 10 s, to milliseconds.
func (s Span) String() string {
	unit := time.Second
	if time.Duration(s) < 10*unit {
		unit = time.Millisecond
	}
	return tiers.FormatDuration(time.Duration(s).Round(unit))
}

// A RefreshAttempt is one attempt at a record under the policy refresh.
type RefreshAttempt struct {
	N         int           `json:"n"` // from 1
	AttemptNo int           `json:"attempt_no"`
	Start     inspect.Stamp `json:"start"`
	Deadline  inspect.Stamp `json:"deadline_at"`
	Planned   inspect.Stamp `json:"refresh_at"` // while the attempt runs
	End       inspect.Stamp `json:"end"`
	Next      inspect.Stamp `json:"next_refresh_at"` // refresh_at after the attempt; zero: none
	Disabled  bool          `json:"-"`               // after the attempt
	Reason    string        `json:"-"`               // for which it is disabled
}

// RefreshAttempts returns the first n attempts at a record that is first due at or after from,
// as the passes of the schedule start them. Each fails after callTime, or at the first tick at
// or after its deadline if that comes before.
func RefreshAttempts(p backlog.Refresher, s *tiers.Schedule, from time.Time, callTime time.Duration, n int) ([]RefreshAttempt, error) {
	var list []RefreshAttempt
	memory, _ := p.End(backlog.Memory{}, backlog.Succeeded, from.Add(-1), "", nil)
	memory.Next = cmp.Or(memory.Next, from)
	tickFrom := func(t time.Time) time.Time { return s.Next(t.Add(-1)) } // the first at or after t
	// The tick of the pass that made the last attempt, which tries the record only once. Zero
	// after a timeout: the pass that ends the attempt may start the next one.
	var tried time.Time
	for len(list) < n && !memory.Next.IsZero() {
		start := tickFrom(memory.Next)
		if !start.After(tried) {
			start = s.Next(tried)
		}
		var err error
		memory, err = p.Start(memory, start, "simulated")
		if err != nil {
			return list, err
		}
		a := RefreshAttempt{
			N:         len(list) + 1,
			AttemptNo: memory.AttemptNo,
			Start:     inspect.Stamp(start),
			Deadline:  inspect.Stamp(memory.Deadline),
			Planned:   inspect.Stamp(memory.Next),
		}
		end := start.Add(callTime)
		text := "failed"
		tried = start
		if !end.Before(memory.Deadline) {
			end = tickFrom(memory.Deadline)
			text = "timed out"
			tried = time.Time{}
		}
		memory, _ = p.End(memory, backlog.Errored, end, text, nil)
		a.End = inspect.Stamp(end)
		a.Next = inspect.Stamp(memory.Next)
		a.Disabled = memory.Disabled
		a.Reason = memory.Reason
		list = append(list, a)
	}
	return list, nil
}
