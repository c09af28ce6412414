package simulate

import (
	"fmt"
	"iter"
	"math"
	"strconv"
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

// Attempts returns the first attempts, at most count and no more than the
// policy grants. random returns numbers that are uniform in [0, 1).
func Attempts(p *backlog.Policy, count int, random func() float64) iter.Seq[Attempt] {
	return func(yield func(Attempt) bool) {
		a := Attempt{N: 1}
		for yield(a) && a.N < count && !p.GivenUp(a.N) {
			least, most := p.Wait(a.N)
			delay := p.Draw(a.N, random())
			a = Attempt{a.N + 1, a.At.Plus(delay), SpanOf(delay), SpanOf(least), SpanOf(most)}
		}
	}
}

// A Span is a sum of durations, which itself may be too long for one.
type Span struct{ sec, ns int64 }

// SpanOf returns the span of one duration.
func SpanOf(d time.Duration) Span { return Span{}.Plus(d) }

// Plus returns the span with a duration more.
func (s Span) Plus(d time.Duration) Span {
	ns := s.ns + int64(d%time.Second)
	return Span{s.sec + int64(d/time.Second) + ns/1e9, ns % 1e9}
}

// Seconds writes the number of seconds, exactly.
func (s Span) Seconds() string {
	text := strconv.FormatInt(s.sec, 10)
	if s.ns > 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", s.ns), "0")
	}
	return text
}

// MarshalJSON writes the number of seconds.
func (s Span) MarshalJSON() ([]byte, error) { return []byte(s.Seconds()), nil }

// String returns the span as people read it: no finer than matters.
func (s Span) String() string {
	if s.sec >= math.MaxInt64/int64(time.Second) {
		return fmt.Sprintf("%dd", s.sec/(24*60*60))
	}
	d := time.Duration(s.sec)*time.Second + time.Duration(s.ns)
	if d < 10*time.Second {
		return tiers.FormatDuration(d.Round(time.Millisecond))
	}
	return tiers.FormatDuration(d.Round(time.Second))
}
