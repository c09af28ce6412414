// Package recur says when something recurs, by the recurrence rules of RFC 5545
// and by fixed intervals. It reads no clock.
//
// The calendar of a rule is expanded by rrule-go, within bounds: [Parse] refuses
// what that library gets wrong or would take long for, so that no rule, whoever
// wrote it, stops the program. Any text is parsed, and any occurrence found,
// within 50 ms.
package recur

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teambition/rrule-go"
)

// A Rule says when something recurs. It is immutable and safe for concurrent
// use. A nil Rule has no occurrence.
//
// Occurrences are reckoned in wall-clock time of the rule's zone and are instants
// afterwards: a wall time that a clock skips takes the offset before the gap, and
// one that it shows twice is the first. HOURLY and MINUTELY step in UTC.
type Rule struct {
	zone     *time.Location
	start    time.Time // DTSTART on the clock of the zone, as if that were UTC
	anchored bool      // there is no DTSTART: each midnight begins anew

	step time.Duration // of rules that step through the time, else 0

	calendar rrule.ROption // of all other rules; nothing in it depends on DTSTART
	last     time.Time     // no later wall time is an occurrence; zero: no end

	until  time.Time      // no later instant is one; zero: no end
	except map[int64]bool // Unix times of EXDATE

	gap atomic.Pointer[gap] // the last one asked about
}

// A gap is a time without occurrences but its end: rows that are due together ask
// for the same one.
type gap struct{ from, to time.Time }

const (
	day = 24 * time.Hour

	// The clocks of no zone were ever moved by more.
	maxJump = day
)

// Every returns the rule of the multiples of d since 1970 UTC, to the
// microsecond. It has no occurrence if d is not more than 0.
func Every(d time.Duration) *Rule {
	if d <= 0 {
		return nil
	}
	return &Rule{zone: time.UTC, start: time.Unix(0, 0).UTC(), step: max(d.Truncate(time.Microsecond), time.Microsecond)}
}

// First returns the first occurrence at or after t, in UTC. It returns false if
// there is none.
func (r *Rule) First(t time.Time) (time.Time, bool) { return r.Next(t.Add(-1)) }

// Next returns the first occurrence strictly after t, in UTC. It returns false if
// there is none.
func (r *Rule) Next(t time.Time) (time.Time, bool) {
	if r == nil {
		return time.Time{}, false
	}
	if g := r.gap.Load(); g != nil && !t.Before(g.from) && t.Before(g.to) {
		return g.to, true
	}
	next := r.after(t)
	for r.except[next.Unix()] && !next.IsZero() {
		next = r.after(next)
	}
	if next.IsZero() || !r.until.IsZero() && next.After(r.until) {
		return time.Time{}, false
	}
	r.gap.Store(&gap{t, next})
	return next, true
}

// after returns the first occurrence after t, zero if there is none. EXDATE and
// UNTIL are still to be regarded.
func (r *Rule) after(t time.Time) (next time.Time) {
	wall := clock(t, r.zone)
	switch {
	case r.step > 0 && r.anchored:
		next = stepAfter(instant(midnight(wall), r.zone), t, r.step)
		if tomorrow := instant(midnight(wall).Add(day), r.zone); tomorrow.After(t) && tomorrow.Before(next) {
			return tomorrow
		}
		return next
	case r.step > 0:
		return stepAfter(instant(r.start, r.zone), t, r.step)
	}
	// A wall time in a gap may come after later ones. Parse has walked the rule once;
	// should the library fail later, then this is the end.
	_ = r.walk(wall.Add(-maxJump), func(wall time.Time) bool {
		if at := instant(wall, r.zone); at.After(t) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return next.IsZero() || wall.Before(clock(next, r.zone).Add(maxJump))
	})
	return next
}

// stepAfter returns the first of start, start + step … that is after t.
func stepAfter(start, t time.Time, step time.Duration) time.Time {
	if t.Before(start) {
		return start
	}
	n := (t.UnixMicro()-start.UnixMicro())/step.Microseconds() + 1
	return time.UnixMicro(start.UnixMicro() + n*step.Microseconds()).UTC()
}

// walk visits the wall times of a calendar rule from one on, in ascending order,
// until the last one or until visit returns false.
//
// The library would walk there from DTSTART, and an empty rule to the year 9999.
// It is handed the rule from the period of from instead, and this a multiple of
// 400 years later, after which the calendar repeats itself: it has 300 to 700
// years to walk.
func (r *Rule) walk(from time.Time, visit func(wall time.Time) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	o := r.calendar
	o.Dtstart = r.period(from)
	years := (9700 - o.Dtstart.Year()) / 400 * 400
	o.Dtstart = o.Dtstart.AddDate(years, 0, 0)
	rule, err := rrule.NewRRule(o)
	if err != nil {
		return err
	}
	for next := rule.Iterator(); ; {
		wall, ok := next()
		wall = wall.AddDate(-years, 0, 0)
		if !ok || !r.last.IsZero() && wall.After(r.last) {
			return nil
		}
		if !wall.Before(r.start) && !wall.Before(from) && !visit(wall) {
			return nil
		}
	}
}

// period returns where the period of the rule begins, of INTERVAL years, months,
// weeks or days, that the wall time is in, at the earliest the first one.
func (r *Rule) period(wall time.Time) time.Time {
	first, n := midnight(r.start), r.calendar.Interval
	switch r.calendar.Freq {
	case rrule.YEARLY:
		years := max(0, wall.Year()-first.Year()) / n * n
		return time.Date(first.Year()+years, time.January, 1, 0, 0, 0, 0, time.UTC)
	case rrule.MONTHLY:
		months := max(0, 12*(wall.Year()-first.Year())+int(wall.Month()-first.Month())) / n * n
		return time.Date(first.Year(), first.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	case rrule.WEEKLY:
		first = first.AddDate(0, 0, -(int(first.Weekday())+6-r.calendar.Wkst.Day())%7)
		n *= 7
	}
	days := int(max(0, wall.Unix()-first.Unix())/86400) / n * n
	return first.AddDate(0, 0, days)
}

func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// clock returns what the clock of the zone shows at t, as if that were UTC.
func clock(t time.Time, zone *time.Location) time.Time { return t.UTC().Add(offset(t, zone)) }

func midnight(wall time.Time) time.Time { return wall.Truncate(day) }

// instant returns when the clock of the zone shows the wall time, in UTC: the
// first time if it does so twice, and by the offset before the gap if it never
// does (RFC 5545, 3.3.5).
func instant(wall time.Time, zone *time.Location) time.Time {
	at := wall.Add(-offset(wall.Add(-day), zone)) // by the offset before any change
	if changed := wall.Add(-offset(at, zone)); clock(changed, zone).Equal(wall) {
		return changed
	}
	return at
}

// keptRules is how many rules of rows are remembered at most.
const keptRules = 2000

// Rules parses the rules of rows and remembers them. Each rule remembers the last gap
// that was asked about. It is safe for concurrent use.
type Rules struct {
	zone *time.Location

	mu    sync.Mutex
	known map[string]func() (*Rule, error)
}

// NewRules returns Rules that parse as [Parse] does with the zone.
func NewRules(zone *time.Location) *Rules {
	return &Rules{zone: zone, known: make(map[string]func() (*Rule, error))}
}

// Parse is as [Parse], and errors are remembered as well.
func (r *Rules) Parse(text string) (*Rule, error) {
	if len(text) > maxText {
		return Parse(text, r.zone) // refused at once, and not worth the memory
	}
	r.mu.Lock()
	parsed := r.known[text]
	if parsed == nil {
		if len(r.known) == keptRules {
			clear(r.known) // what is still in use comes back
		}
		parsed = sync.OnceValues(func() (*Rule, error) { return Parse(text, r.zone) })
		r.known[text] = parsed
	}
	r.mu.Unlock()
	return parsed()
}
