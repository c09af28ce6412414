package inspect

import (
	"iter"
	"slices"
	"time"

	"backlog/tiers"
)

// A Tick is an instant at which a pass starts.
type Tick struct {
	At     Stamp    `json:"at"`
	Tier   string   `json:"tier"`
	MaxAge float64  `json:"max_age_seconds"`
	Covers []string `json:"covers"`
}

// Ticks returns the ticks after from, up to until if that is not zero, at most count.
func Ticks(s *tiers.Schedule, from, until time.Time, count int) iter.Seq[Tick] {
	return func(yield func(Tick) bool) {
		at := s.Next(from)
		for n := 0; !at.IsZero() && (until.IsZero() || !at.After(until)) && n < count; n++ {
			pick := tiers.Coalesce(s.Due(at.Add(-time.Nanosecond), at), func(tiers.Tier) bool { return true })
			covers := []string{}
			for _, d := range pick.Covered {
				covers = append(covers, d.Tier.Name)
			}
			if start := pick.Start.Tier; !yield(Tick{Stamp(at), start.Name, start.MaxAge.Seconds(), covers}) {
				return
			}
			at = s.Next(at)
		}
	}
}

// A Start is when a tier's next pass starts.
type Start struct {
	At   Stamp  `json:"at"`
	Tier string `json:"tier"`
}

// Starts returns when each tier's next pass starts. A tier whose ticks are all
// covered by wider ones for long has none.
func Starts(s *tiers.Schedule, now time.Time) (next []Start) {
	const ticks = 10_000 // how far ahead to look
	for t := range Ticks(s, now, time.Time{}, ticks) {
		if !slices.ContainsFunc(next, func(n Start) bool { return n.Tier == t.Tier }) {
			next = append(next, Start{t.At, t.Tier})
		}
		if len(next) == len(s.Tiers()) {
			break
		}
	}
	return next
}
