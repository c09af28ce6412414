// Package simulate tells what a schedule or a policy would do, in virtual time.
package simulate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"backlog/backlog"
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
// numbers that are uniform in [0, 1), nil for the least waits. It is exact where every pass gets through:
// without caps, aborts and overlap. When ctx is done it returns what it has.
func LifeOf(ctx context.Context, s *tiers.Schedule, p *backlog.Policy, inserted time.Time, random func() float64) Life {
	if random == nil {
		random = func() float64 { return 0 }
	}
	list := s.Tiers()
	l := Life{Inserted: inserted, Expires: inserted.Add(s.Widest().MaxAge), ByTier: make([]TierAttempts, len(list))}
	for i, t := range list {
		l.ByTier[i].Name, l.ByTier[i].Tier = t.Name, t
	}
	var state backlog.Failures
	for at := inserted; ctx.Err() == nil; {
		if at = nextTick(list, inserted, at); at.IsZero() {
			return l
		}
		holds := func(t tiers.Tier) bool { return at.Sub(inserted) <= t.MaxAge }
		l.ByTier[slices.IndexFunc(list, holds)].Attempts++
		l.Total++
		l.First, l.Last = cmp.Or(l.First, at), at
		if state, l.GivenUp = p.After(state, at, random()); l.GivenUp {
			return l
		}
		at = waited(p, state, at)
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
