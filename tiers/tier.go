package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

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
	}
	t.Name = cmp.Or(t.Name, FormatDuration(t.MaxAge))
	if t.Cron == "" {
		return t.checkEvery()
	}
	t.Location = cmp.Or(t.Location, time.UTC)
	t.Cron = strings.Join(strings.Fields(t.Cron), " ")
	t.cron, err = parseCron(t.Cron, t.Location)
	return "cron", err
}

func (t *Tier) checkEvery() (key string, err error) {
	switch {
	case t.Every < time.Second:
		return "every", fmt.Errorf("must be at least 1s, not %s", FormatDuration(t.Every))
	case t.Every%time.Second != 0:
		return "every", fmt.Errorf("must be whole seconds, not %s", FormatDuration(t.Every))
	case t.Offset < 0 || t.Offset >= t.Every:
		return "offset", fmt.Errorf("must be at least 0s and less than every (%s), not %s",
			FormatDuration(t.Every), FormatDuration(t.Offset))
	case t.Offset%time.Second != 0:
		return "offset", fmt.Errorf("must be whole seconds, not %s", FormatDuration(t.Offset))
	}
	return "", nil
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
