// Package tiers says when to try the records of an age.
//
// A [Schedule] is a list of tiers from narrow to wide, such as: records up to
// a day old every five minutes, up to a week old every hour. Each [Tier] ticks
// at fixed instants that do not depend on when a process was started, and
// [Schedule.Due] tells which tiers ticked between two instants. A wider tier
// holds every record of a narrower one, so of the tiers due together only one
// needs to run: [Coalesce] picks it.
//
// The package has no clock and does no input or output. Every instant is an
// argument, so a daemon, a single run and a simulation can ask the same
// questions and get the same answers. Instants given may lie anywhere from the
// year 1 to the year 9999, in any location; ticks are whole seconds, in UTC.
package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Schedule is a list of tiers, made by [New]. It is safe for concurrent use, but
// for Add.
type Schedule struct {
	tiers []Tier // at least one, narrow to wide
}

// New returns a schedule of the given tiers, which must go from narrow to wide
// and bear different names. It fills in empty names and locations and puts
// single spaces between the fields of a cron expression. An error names the first
// tier that is wrong, counted from 1, and the key that is to blame.
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

// Add makes t the widest tier of a schedule that nobody uses yet. An error goes
// with the key that is to blame.
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

// Next returns the earliest tick of any tier strictly after the given instant.
func (s *Schedule) Next(after time.Time) time.Time {
	from, next := after.Unix(), int64(never)
	for _, t := range s.tiers {
		next = min(next, t.pattern().next(from))
	}
	return time.Unix(next, 0).UTC()
}

// MinInterval returns the shortest interval between two ticks of the tier that
// ticks most often. For a cron tier that is the shortest among 1,500 successive
// ticks, by a clock that is never put forward or back; finding it takes some
// milliseconds.
//
// Other intervals may be much longer, as cron tiers can pause for a night or a
// month. To notice a missed tick, ask [Schedule.Next] when it was due and allow
// MinInterval for grace.
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
	More  bool      // it ticked more often: with Cron, ticks are counted up to 10,000
	Last  time.Time // the newest of its ticks
}

// Due returns the tiers with at least one tick in (after, upTo], narrow to
// wide. Adjoining intervals share no tick and miss none. Due returns nil when
// no tier ticked or upTo is not after the other instant.
//
// A tier with Every takes the same time for any interval, one with Cron a
// microsecond or two for each tick that is counted.
func (s *Schedule) Due(after, upTo time.Time) []Due { return s.DueOrOwed(after, upTo, nil) }

// DueOrOwed is Due, with the tiers of the names as if they had ticked once, at the end.
func (s *Schedule) DueOrOwed(after, upTo time.Time, owed map[string]bool) (due []Due) {
	for _, t := range s.tiers {
		d := Due{Tier: t}
		if upTo.After(after) {
			var last int64
			d.Ticks, last, d.More = t.pattern().between(after.Unix(), upTo.Unix())
			d.Last = time.Unix(last, 0).UTC()
		}
		if d.Ticks == 0 && owed[t.Name] {
			d.Ticks, d.Last = 1, upTo
		}
		if d.Ticks > 0 {
			due = append(due, d)
		}
	}
	return due
}

// A Pick says what becomes of tiers that are due together. Each of them is in
// exactly one of the three places.
type Pick struct {
	Start   *Due  // the widest idle one; nil when none is idle
	Covered []Due // narrower than Start, idle or not: Start tries their records
	Skipped []Due // wider than Start, or all of them: still busy
}

// Missed returns how many ticks Start makes up for beside one of each tier, and whether
// there are more than were counted.
func (p Pick) Missed() (n int, more bool) {
	for _, d := range append(p.Covered, *p.Start) {
		n += d.Ticks - 1
		more = more || d.More
	}
	return n, more
}

// Coalesce picks the tier to start from tiers that are due together, in the
// order in which [Schedule.Due] returns them. It calls idle, which reports
// whether a tier could start now, from the widest on until one is idle. The
// slices of the Pick are parts of due.
func Coalesce(due []Due, idle func(Tier) bool) Pick {
	for i, d := range slices.Backward(due) {
		if idle(d.Tier) {
			return Pick{Start: &d, Covered: due[:i:i], Skipped: due[i+1:]}
		}
	}
	return Pick{Skipped: due}
}

// A Tier says how often records up to a certain age are tried. It ticks either
// Every so often or by a Cron expression.
//
// With Every, ticks lie at whole multiples of Every since the Unix epoch in
// UTC, plus Offset.
//
// With Cron, ticks lie where the wall clock of Location matches the
// expression. When the clock is put forward, ticks in the time left out happen
// as one, right after it; when it is put back, those in the time that comes
// twice happen the first time only. An expression for every hour of the day,
// such as "30 * * * *", follows the clock as it goes instead: it ticks both
// times, and makes up for nothing that was left out. As in any crontab, a day
// matches by day of the month or by day of the week when both are given.
type Tier struct {
	Name     string         `yaml:"name"`           // label; New fills an empty one with FormatDuration(MaxAge)
	MaxAge   time.Duration  `yaml:"max_age,signed"` // greatest age of a record, inclusive; > 0
	Every    time.Duration  `yaml:"every,signed"`   // whole seconds, at least one; zero when Cron is given
	Offset   time.Duration  `yaml:"offset,signed"`  // whole seconds, 0 <= Offset < Every; only with Every
	Cron     string         `yaml:"cron"`           // five fields, or a descriptor such as @daily; only without Every
	Location *time.Location `yaml:"timezone"`       // of Cron, nil for UTC; only with Cron

	cron *crontab // compiled by New
}

// A pattern is a set of ticks that has no end. Instants are in Unix seconds.
type pattern interface {
	next(after int64) int64 // first tick after the instant
	interval() int64        // shortest time between two ticks

	// between counts the ticks in (after, upTo] and reports whether there are
	// more; if there are any, last is the newest.
	between(after, upTo int64) (ticks int, last int64, more bool)
}

// Next returns the first tick strictly after the given instant. It panics when
// t is not from a [Schedule] and has no valid Every.
func (t Tier) Next(after time.Time) time.Time {
	return time.Unix(t.pattern().next(after.Unix()), 0).UTC()
}

// MinInterval is [Schedule.MinInterval] for one tier, which is from a [Schedule].
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

// prepare checks t by itself and completes it. An error goes with the key that
// is to blame.
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

// multiples ticks at offset plus every multiple of every.
type multiples struct{ every, offset int64 }

// index returns the number of the newest tick at or before sec; tick 0 is the
// one at offset.
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

// mod is a modulo n, from 0 to n-1 also for negative a.
func mod(a, n int64) int64 { return (a%n + n) % n }
