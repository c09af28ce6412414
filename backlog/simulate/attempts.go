package simulate

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

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
func Attempts(p *backlog.Policy, count int, random func() float64) iter.Seq[Attempt] {
	return func(yield func(Attempt) bool) {
		a := Attempt{N: 1}
		for yield(a) && a.N < count && !p.GivenUp(a.N) {
			least, most := p.Wait(a.N)
			delay := p.Draw(a.N, random())
			if delay > math.MaxInt64-time.Duration(a.At) { // 292 years after its insertion
				return
			}
			a = Attempt{a.N + 1, a.At + Span(delay), Span(delay), Span(least), Span(most)}
		}
	}
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
