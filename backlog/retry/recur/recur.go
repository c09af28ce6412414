// Package recur computes when something recurs, by the recurrence rules of RFC 5545 ([Parse]) and
// by fixed intervals ([Every]). It reads no clock.
//
// The library rrule-go expands the calendar of a rule. [Parse] refuses the rules that the library
// gets wrong or takes long for, so that a rule from a user's table cannot stop the program: any
// text is parsed, and any occurrence found, within 50 ms.
package recur

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teambition/rrule-go"
)

// A Rule says when something recurs. It is immutable and safe for concurrent use. A nil Rule has no
// occurrence.
//
// Occurrences are computed in the wall time of the rule's zone and then converted to instants. A
// wall time that the clocks skip takes the offset before the gap; of one that they show twice, the
// first counts. HOURLY and MINUTELY step in UTC.
//
// Wall times are represented as times in UTC that show the same clock.
type Rule struct {
	zone          *time.Location
	start         time.Time // wall time of DTSTART
	startsEachDay bool      // there is no DTSTART: the rule starts anew at each midnight

	step time.Duration // HOURLY and MINUTELY rules occur at multiples of step; 0: a calendar rule

	calendar rrule.ROption // of a calendar rule; nothing in it depends on DTSTART
	last     time.Time     // wall time of the last occurrence; zero: no end

	until    time.Time      // no later instant is an occurrence; zero: no end
	excluded map[int64]bool // Unix times of EXDATE

	gap atomic.Pointer[gap] // the last that Next has found
}

// A gap is a time from which on, until to, nothing occurs. Rows that are due together ask for the
// same one.
type gap struct{ from, to time.Time }

const (
	day = 24 * time.Hour

	// maxJump is the most by which the clocks of a zone were ever moved.
	maxJump = day
)

// Every returns the rule that occurs at the multiples of d since 1970 UTC. d is cut to
// microseconds. The rule has no occurrence if d <= 0.
func Every(d time.Duration) *Rule {
	if d <= 0 {
		return nil
	}
	step := max(d.Truncate(time.Microsecond), time.Microsecond)
	return &Rule{zone: time.UTC, start: time.Unix(0, 0).UTC(), step: step}
}

// First returns the first occurrence at or after t, in UTC; false: none.
func (r *Rule) First(t time.Time) (time.Time, bool) { return r.Next(t.Add(-1)) }

// Next returns the first occurrence after t, in UTC; false: none.
func (r *Rule) Next(t time.Time) (time.Time, bool) {
	if r == nil {
		return time.Time{}, false
	}
	if g := r.gap.Load(); g != nil && !t.Before(g.from) && t.Before(g.to) {
		return g.to, true
	}
	next := r.unfiltered(t)
	for r.excluded[next.Unix()] && !next.IsZero() {
		next = r.unfiltered(next)
	}
	if next.IsZero() || !r.until.IsZero() && next.After(r.until) {
		return time.Time{}, false
	}
	r.gap.Store(&gap{t, next})
	return next, true
}

// unfiltered returns the first occurrence after t without regard to EXDATE and UNTIL, or the zero
// time.
func (r *Rule) unfiltered(t time.Time) time.Time {
	wall := wallTime(t, r.zone)
	switch {
	case r.step > 0 && r.startsEachDay:
		today := instant(midnight(wall), r.zone)
		tomorrow := instant(midnight(wall).Add(day), r.zone)
		next := stepAfter(today, t, r.step)
		if tomorrow.After(t) && tomorrow.Before(next) {
			return tomorrow
		}
		return next
	case r.step > 0:
		return stepAfter(instant(r.start, r.zone), t, r.step)
	}
	// A wall time that the clocks skip may become a later instant than the wall times after it,
	// so walk goes on for a while behind the first that is found. Parse has walked the whole rule
	// without an error; if the library fails now, the rule ends here.
	var next time.Time
	_ = r.walk(wall.Add(-maxJump), func(wall time.Time) bool {
		at := instant(wall, r.zone)
		if at.After(t) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return next.IsZero() || wall.Before(wallTime(next, r.zone).Add(maxJump))
	})
	return next
}

// stepAfter returns the first of start, start + step, start + 2·step … that is after t.
func stepAfter(start, t time.Time, step time.Duration) time.Time {
	if t.Before(start) {
		return start
	}
	n := (t.UnixMicro()-start.UnixMicro())/step.Microseconds() + 1
	return time.UnixMicro(start.UnixMicro() + n*step.Microseconds()).UTC()
}

// walk visits the wall times of a calendar rule at or after from, in ascending order, until the
// last one or until visit returns false.
//
// The library walks from DTSTART to the year 9999 at most, which takes long for a rule that never
// occurs. So walk gives it the rule as if it started in the period of from, and moved to the end of
// that time by a multiple of 400 years, after which the calendar repeats itself. That leaves 300 to
// 700 years to walk.
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
	next := rule.Iterator()
	for {
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

// period returns the beginning of the period of the rule that holds the wall time: of INTERVAL
// years, months, weeks or days. Before DTSTART it returns the first period.
func (r *Rule) period(wall time.Time) time.Time {
	first := midnight(r.start)
	n := r.calendar.Interval
	switch r.calendar.Freq {
	case rrule.YEARLY:
		years := max(0, wall.Year()-first.Year()) / n * n
		return time.Date(first.Year()+years, time.January, 1, 0, 0, 0, 0, time.UTC)
	case rrule.MONTHLY:
		months := max(0, 12*(wall.Year()-first.Year())+int(wall.Month()-first.Month())) / n * n
		return time.Date(first.Year(), first.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	case rrule.WEEKLY:
		daysIntoWeek := (int(first.Weekday()) + 6 - r.calendar.Wkst.Day()) % 7
		first = first.AddDate(0, 0, -daysIntoWeek)
		n *= 7
	}
	days := int(max(0, wall.Unix()-first.Unix())/86400) / n * n
	return first.AddDate(0, 0, days)
}

// offset returns by how much the clocks of the zone are ahead of UTC at t.
func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// wallTime returns the wall time of t in the zone.
func wallTime(t time.Time, zone *time.Location) time.Time { return t.UTC().Add(offset(t, zone)) }

func midnight(wall time.Time) time.Time { return wall.Truncate(day) }

// instant returns when the clocks of the zone show the wall time, in UTC: the first time if they do
// so twice, and by the offset before the gap if they skip it (RFC 5545, 3.3.5).
func instant(wall time.Time, zone *time.Location) time.Time {
	before := wall.Add(-offset(wall.Add(-day), zone)) // by the offset before any change
	after := wall.Add(-offset(before, zone))
	if wallTime(after, zone).Equal(wall) {
		return after
	}
	return before
}

// maxRules is how many rules of rows are kept at most.
const maxRules = 2000

// Rules parses the rules of rows and keeps the parsed ones. It is safe for concurrent use.
type Rules struct {
	zone *time.Location

	mu     sync.Mutex
	parsed map[string]func() (*Rule, error)
}

// NewRules returns Rules whose texts are parsed by [Parse] with the zone.
func NewRules(zone *time.Location) *Rules {
	return &Rules{zone: zone, parsed: make(map[string]func() (*Rule, error))}
}

// Parse returns the same as [Parse]. Errors are kept as well.
func (r *Rules) Parse(text string) (*Rule, error) {
	if len(text) > maxText {
		return Parse(text, r.zone) // which refuses it at once, so it is not worth the memory
	}
	r.mu.Lock()
	parse := r.parsed[text]
	if parse == nil {
		if len(r.parsed) == maxRules {
			clear(r.parsed) // rules that are still in use are parsed again
		}
		parse = sync.OnceValues(func() (*Rule, error) { return Parse(text, r.zone) })
		r.parsed[text] = parse
	}
	r.mu.Unlock()
	return parse()
}
