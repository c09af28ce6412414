// Package tiers computes when to try the records of an age.
//
// A [Schedule] is a list of tiers from narrow to wide, such as: records up to a day old every five
// minutes, up to a week old every hour. Each [Tier] ticks at fixed instants, which do not depend on
// when a process was started. [Schedule.Due] returns the tiers that ticked between two instants. The
// records of a wider tier include the records of a narrower one, so only one of the tiers that are due
// together needs to run: [Coalesce] picks it. A [Clock] does both for a daemon.
//
// The package is pure: every instant is an argument, so a daemon, a single run and a simulation get
// the same answers. Instants may lie anywhere from the year 1 to the year 9999, in any location.
// Ticks are whole seconds, in UTC.
package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Schedule is a list of tiers from [New]. All methods but Add may be called concurrently.
type Schedule struct {
	tiers []Tier // at least one, narrow to wide
}

// New returns a schedule of the given tiers, which must go from narrow to wide and have different
// names. It fills in empty names and locations, and puts single spaces between the fields of a cron
// expression. An error names the first tier that is wrong, counted from 1, and the key to blame.
func New(list ...Tier) (*Schedule, error) {
	if len(list) == 0 {
		return nil, errors.New("tiers: a schedule needs at least one tier")
	}
	s := new(Schedule)
	for i, t := range list {
		if key, err := s.Add(t); err != nil {
			return nil, fmt.Errorf("tier %d: %s: %w", i+1, key, err)
		}
	}
	return s, nil
}

// Add makes t the widest tier of a schedule that is not in use yet. An error comes with the key to
// blame.
func (s *Schedule) Add(t Tier) (key string, err error) {
	if key, err := t.prepare(); err != nil {
		return key, err
	}
	if len(s.tiers) > 0 && t.MaxAge <= s.Widest().MaxAge {
		return "max_age", fmt.Errorf("%s after %s: tiers go from narrow to wide", FormatDuration(t.MaxAge), FormatDuration(s.Widest().MaxAge))
	}
	if _, ok := s.ByName(t.Name); ok {
		return "name", fmt.Errorf("%q is taken by a tier before", t.Name)
	}
	s.tiers = append(s.tiers, t)
	return "", nil
}

// Tiers returns a copy of the tiers, narrow to wide.
func (s *Schedule) Tiers() []Tier { return slices.Clone(s.tiers) }

// Names returns the names of the tiers, narrow to wide.
func (s *Schedule) Names() []string {
	var names []string
	for _, t := range s.tiers {
		names = append(names, t.Name)
	}
	return names
}

// MaxAges returns the edges of the tiers' bands, narrow to wide.
func (s *Schedule) MaxAges() []time.Duration {
	var ages []time.Duration
	for _, t := range s.tiers {
		ages = append(ages, t.MaxAge)
	}
	return ages
}

// Widest returns the tier with the greatest MaxAge.
func (s *Schedule) Widest() Tier { return s.tiers[len(s.tiers)-1] }

// ByMaxAge returns the tier whose MaxAge is exactly d, if there is one.
func (s *Schedule) ByMaxAge(d time.Duration) (Tier, bool) {
	return s.find(func(t Tier) bool { return t.MaxAge == d })
}

// ByName returns the tier of that name, if there is one.
func (s *Schedule) ByName(name string) (Tier, bool) {
	return s.find(func(t Tier) bool { return t.Name == name })
}

func (s *Schedule) find(match func(Tier) bool) (Tier, bool) {
	if i := slices.IndexFunc(s.tiers, match); i >= 0 {
		return s.tiers[i], true
	}
	return Tier{}, false
}

// Next returns the earliest tick of any tier after the given instant.
func (s *Schedule) Next(after time.Time) time.Time {
	from := after.Unix()
	next := int64(never)
	for _, t := range s.tiers {
		next = min(next, t.pattern().next(from))
	}
	return time.Unix(next, 0).UTC()
}

// MinInterval returns the shortest interval between two ticks of the tier that ticks most often. For a
// cron tier that is the shortest between 1,500 successive ticks, by a clock that is never put forward
// or back. This takes some milliseconds.
//
// Other intervals may be much longer: cron tiers can pause for a night or a month. To notice a missed
// tick, ask [Schedule.Next] when it was due and allow MinInterval for grace.
func (s *Schedule) MinInterval() time.Duration {
	shortest := s.tiers[0].MinInterval()
	for _, t := range s.tiers[1:] {
		shortest = min(shortest, t.MinInterval())
	}
	return shortest
}

// A Due is a tier that ticked during an interval.
type Due struct {
	Tier  Tier
	Ticks int       // how often it ticked, at least once
	More  bool      // it ticked more often than Ticks: of Cron, at most 10,000 ticks are counted
	Last  time.Time // the newest of its ticks
}

// Due returns the tiers with at least one tick in (after, upTo], narrow to wide; nil if there are none.
// Adjoining intervals share no tick and miss none.
//
// The time it takes does not depend on the interval for a tier with Every. For a tier with Cron it is
// a microsecond or two per counted tick.
func (s *Schedule) Due(after, upTo time.Time) []Due { return s.DueOrOwed(after, upTo, nil) }

// DueOrOwed returns the same as Due, and the tiers with the owed names as if they had ticked once, at
// upTo.
func (s *Schedule) DueOrOwed(after, upTo time.Time, owed map[string]bool) []Due {
	var due []Due
	for _, t := range s.tiers {
		d := Due{Tier: t}
		if upTo.After(after) {
			var last int64
			d.Ticks, last, d.More = t.pattern().between(after.Unix(), upTo.Unix())
			d.Last = time.Unix(last, 0).UTC()
		}
		if d.Ticks == 0 && owed[t.Name] {
			d.Ticks = 1
			d.Last = upTo
		}
		if d.Ticks > 0 {
			due = append(due, d)
		}
	}
	return due
}

// A Pick says what becomes of tiers that are due together. Each of them is in exactly one field.
type Pick struct {
	Start   *Due  // the widest idle one; nil: none is idle
	Covered []Due // narrower than Start, idle or not: Start tries their records
	Skipped []Due // busy, and wider than Start if there is one
}

// Missed returns how many ticks Start makes up for, not counting the newest of each tier, and whether
// there are more that were not counted. Start is not nil.
func (p Pick) Missed() (n int, more bool) {
	for _, d := range append(p.Covered, *p.Start) {
		n += d.Ticks - 1
		more = more || d.More
	}
	return n, more
}

// Coalesce picks the tier to start among tiers that are due together, in the order of [Schedule.Due].
// idle reports whether a tier could start now; it is called from the widest tier on until one is idle.
// The slices of the Pick are parts of due.
func Coalesce(due []Due, idle func(Tier) bool) Pick {
	for i, d := range slices.Backward(due) {
		if idle(d.Tier) {
			return Pick{Start: &d, Covered: due[:i:i], Skipped: due[i+1:]}
		}
	}
	return Pick{Skipped: due}
}

// A Tier says how often records up to an age are tried. It has either Every or Cron.
//
// With Every, it ticks at whole multiples of Every since the Unix epoch in UTC, plus Offset.
//
// With Cron, it ticks whenever the wall clock of Location matches the expression. Where the clock is
// put forward, ticks in the skipped time happen as one, right after it. Where it is put back, ticks in
// the repeated time happen the first time only. An expression for every hour of the day, such as
// "30 * * * *", follows the clock instead: it ticks both times in the repeated time, and not at all
// for the skipped time. As in any crontab, a day matches by day of the month or by day of the week
// if both are given.
type Tier struct {
	Name     string         `yaml:"name"`           // label; New fills an empty one with FormatDuration(MaxAge)
	MaxAge   time.Duration  `yaml:"max_age,signed"` // greatest age of a record, inclusive; > 0
	Every    time.Duration  `yaml:"every,signed"`   // whole seconds, at least one; zero when Cron is given
	Offset   time.Duration  `yaml:"offset,signed"`  // whole seconds, 0 <= Offset < Every; only with Every
	Cron     string         `yaml:"cron"`           // five fields, or a descriptor such as @daily; only without Every
	Location *time.Location `yaml:"timezone"`       // of Cron, nil for UTC; only with Cron

	cron *crontab // compiled by New
}

// A pattern is an endless sequence of ticks. Instants are Unix seconds.
type pattern interface {
	next(after int64) int64 // the first tick after the instant
	interval() int64        // the shortest time between two ticks

	// between counts the ticks in (after, upTo] and reports whether there are more than it has
	// counted. last is the newest of them, if there is one.
	between(after, upTo int64) (ticks int, last int64, more bool)
}

// Next returns the first tick after the given instant. It panics if t is not from a [Schedule] and has
// no valid Every.
func (t Tier) Next(after time.Time) time.Time {
	return time.Unix(t.pattern().next(after.Unix()), 0).UTC()
}

// MinInterval returns the same as [Schedule.MinInterval] for one tier of a Schedule.
func (t Tier) MinInterval() time.Duration {
	return time.Duration(t.pattern().interval()) * time.Second
}

func (t Tier) pattern() pattern {
	if t.cron != nil {
		return t.cron
	}
	if t.Every < time.Second {
		panic("tiers: use of a Tier that is not from a Schedule")
	}
	return multiples{int64(t.Every / time.Second), int64(t.Offset / time.Second)}
}

// prepare checks t by itself and fills in what is empty. An error comes with the key to blame.
func (t *Tier) prepare() (key string, err error) {
	switch {
	case t.MaxAge <= 0:
		return "max_age", fmt.Errorf("must be positive, not %s", FormatDuration(t.MaxAge))
	case t.Cron == "" && t.Every == 0:
		return "every", errors.New("missing or zero: a tier needs every (at least 1s) or cron")
	case t.Cron != "" && t.Every != 0:
		return "cron", errors.New("a tier has every or cron, not both")
	case t.Cron != "" && t.Offset != 0:
		return "offset", errors.New("goes with every, not with cron")
	case t.Cron == "" && t.Location != nil:
		return "timezone", errors.New("goes with cron; every is counted in UTC")
	case t.Cron == "" && t.Every < time.Second:
		return "every", fmt.Errorf("must be at least 1s, not %s", FormatDuration(t.Every))
	case t.Every%time.Second != 0:
		return "every", fmt.Errorf("must be whole seconds, not %s", FormatDuration(t.Every))
	case t.Offset < 0 || t.Offset != 0 && t.Offset >= t.Every:
		return "offset", fmt.Errorf("must be at least 0s and less than every (%s), not %s", FormatDuration(t.Every), FormatDuration(t.Offset))
	case t.Offset%time.Second != 0:
		return "offset", fmt.Errorf("must be whole seconds, not %s", FormatDuration(t.Offset))
	}
	t.Name = cmp.Or(t.Name, FormatDuration(t.MaxAge))
	if t.Cron == "" {
		return "", nil
	}
	t.Location = cmp.Or(t.Location, time.UTC)
	t.Cron = strings.Join(strings.Fields(t.Cron), " ")
	t.cron, err = parseCron(t.Cron, t.Location)
	return "cron", err
}

// multiples ticks at every multiple of every, plus offset. Both are in seconds.
type multiples struct{ every, offset int64 }

// index returns the number of the newest tick at or before sec. Tick 0 is at offset.
func (m multiples) index(sec int64) int64 {
	sec -= m.offset
	return (sec - mod(sec, m.every)) / m.every
}

func (m multiples) tick(index int64) int64 { return index*m.every + m.offset }

func (m multiples) next(after int64) int64 { return m.tick(m.index(after) + 1) }

func (m multiples) between(after, upTo int64) (ticks int, last int64, more bool) {
	newest := m.index(upTo)
	return int(newest - m.index(after)), m.tick(newest), false
}

func (m multiples) interval() int64 { return m.every }

// mod returns a modulo n: from 0 to n-1, also for negative a.
func mod(a, n int64) int64 { return (a%n + n) % n }
