// Package simulate tells what a schedule or a policy would do, in virtual time.
package simulate

import (
	"context"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Life is the attempts at one record that never succeeds.
type Life struct {
	Inserted time.Time
	ByTier   []TierAttempts // narrow to wide, one per tier of the schedule
	Total    int
	First    time.Time // of the attempts; zero: there is none
	Last     time.Time
	Expires  time.Time // the last moment at which it is not older than every tier
	GivenUp  bool      // by the policy, before that
}

// TierAttempts counts the attempts at ages for which the tier is the narrowest
// that holds them.
type TierAttempts struct {
	Tier     tiers.Tier
	Attempts int
}

// LifeOf returns the life of a record that is inserted at the given time. A tick
// at that very moment is too early for it. Under a policy, nil for progressive,
// the record is tried at the first tick at which it is due; random returns
// numbers that are uniform in [0, 1), nil for the least waits. It is exact where every pass gets through:
// without caps, aborts and overlap. When ctx is done it returns what it has.
func LifeOf(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, inserted time.Time, random func() float64) Life {
	if random == nil {
		random = func() float64 { return 0 }
	}
	list := s.Tiers()
	l := Life{Inserted: inserted, Expires: inserted.Add(s.Widest().MaxAge), ByTier: make([]TierAttempts, len(list))}
	for i, t := range list {
		l.ByTier[i].Tier = t
	}
	var state backlog.Failures
	narrowest := 0 // tiers before it are past
	for at := inserted; ctx.Err() == nil; {
		at, narrowest = nextTick(list, narrowest, inserted, at)
		if at.IsZero() {
			return l
		}
		l.ByTier[narrowest].Attempts++
		l.Total++
		l.Last = at
		if l.First.IsZero() {
			l.First = at
		}
		if state, l.GivenUp = p.After(state, at, random()); l.GivenUp {
			return l
		}
		at = waited(p, state, at)
	}
	return l
}

// nextTick returns the first tick after the given time of a tier that still
// holds the record, zero if there is none, and the narrowest tier that holds it
// then. Those before from do not any more.
func nextTick(list []tiers.Tier, from int, inserted, after time.Time) (at time.Time, narrowest int) {
	for _, t := range list[from:] {
		tick := t.Next(after)
		if tick.Sub(inserted) <= t.MaxAge && (at.IsZero() || tick.Before(at)) {
			at = tick
		}
	}
	for narrowest = from; narrowest < len(list)-1 && at.Sub(inserted) > list[narrowest].MaxAge; narrowest++ {
	}
	return at, narrowest
}
