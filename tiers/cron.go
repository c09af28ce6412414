package tiers

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	day   = 24 * 60 * 60  // seconds
	never = math.MaxInt64 // later than any second

	allHours = 1<<24 - 1

	// mostCounted bounds the work of counting the ticks of a long downtime.
	mostCounted = 10_000
)

// A crontab is a compiled cron expression in its location.
//
// It deals in two kinds of seconds. Unix seconds count time. Wall seconds count
// what a clock on the wall shows, from 1970-01-01 00:00 on it; they have no
// zone, and the expression is matched against them alone. A [span] tells how
// the two relate.
type crontab struct {
	spec *cron.SpecSchedule
	loc  *time.Location
}

const fieldItem = `(\*|\?|\w+(-\w+)?)(/\d+)?`

// field is what a field may look like. The parser is laxer: it takes "*-5" for
// "*" and "," for a field that matches nothing.
var field = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + fieldItem + `(,` + fieldItem + `)*$`) })

// parseCron compiles an expression, trimmed, or says why it cannot be used.
func parseCron(expr string, loc *time.Location) (c *crontab, err error) {
	if err := checkCron(expr); err != nil {
		return nil, err
	}
	// Some malformed input makes the parser panic, "TZ=0" for one.
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("%q is not a cron expression: %v", expr, r)
		}
	}()
	parsed, err := cron.ParseStandard(expr)
	if err != nil {
		if weekday := expr[strings.LastIndexByte(expr, ' ')+1:]; strings.Contains(weekday, "7") {
			return nil, fmt.Errorf("%q: %w (Sunday is 0 or sun)", expr, err)
		}
		return nil, fmt.Errorf("%q: %w", expr, err)
	}
	spec := parsed.(*cron.SpecSchedule)
	spec.Location = time.UTC // like wall seconds
	c = &crontab{spec: spec, loc: loc}
	if c.wallAfter(0) == never {
		return nil, fmt.Errorf("%q never ticks: no month it names has such a day", expr)
	}
	return c, nil
}

// checkCron refuses what the parser accepts though it means something else
// here, and what it would refuse in less helpful words.
func checkCron(expr string) error {
	upper := strings.ToUpper(expr)
	switch {
	case strings.HasPrefix(upper, "TZ="), strings.HasPrefix(upper, "CRON_TZ="):
		return errors.New("a zone in front is not accepted: give it as timezone")
	case strings.HasPrefix(upper, "@EVERY"):
		return errors.New("@every counts from the start of the process: give the interval as every")
	case strings.HasPrefix(expr, "@"):
		return nil
	}
	fields := strings.Fields(expr)
	if len(fields) != 5 {
		return fmt.Errorf("%q has %d fields, not five: minute, hour, day of month, month, day of week", expr, len(fields))
	}
	for _, f := range fields {
		if !field().MatchString(f) {
			return fmt.Errorf("%q: %q is not a field of a cron expression", expr, f)
		}
	}
	return nil
}

func (c *crontab) next(after int64) int64 {
	s := spanAt(after, c.loc)
	lo := max(after+s.offset, c.first(s)-1)
	for {
		if w := c.wallAfter(lo); w < s.end+s.offset {
			return max(w-s.offset, s.start) // the start, for one that was left out before
		}
		s = s.following(c.loc)
		lo = c.first(s) - 1
	}
}

func (c *crontab) between(after, upTo int64) (ticks int, last int64, more bool) {
	for t := c.next(after); t <= upTo; t = c.next(t) {
		if ticks == mostCounted { // the newest is the first second after which there is none
			newest := sort.Search(int(upTo-t), func(n int) bool { return c.next(t+int64(n)) > upTo })
			return ticks, t + int64(newest), true
		}
		ticks, last = ticks+1, t
	}
	return ticks, last, false
}

// first returns the wall second from which on matches are ticks of the span:
// the one the clock shows at its start or, when hours are named, the one it
// would have shown had it been left alone.
func (c *crontab) first(s span) int64 {
	if c.spec.Hour&allHours == allHours {
		return s.start + s.offset
	}
	return s.start + s.before
}

// interval looks at wall seconds, where no day is shorter than another. Its
// sample holds every minute of a day and is enough for some years of days.
func (c *crontab) interval() int64 {
	const sample = 1500
	shortest := int64(never)
	w := c.wallAfter(0)
	for range sample {
		next := c.wallAfter(w)
		shortest = min(shortest, next-w)
		w = next
	}
	return shortest
}

// wallAfter returns the first wall second after w that matches, or never.
func (c *crontab) wallAfter(w int64) int64 {
	t := time.Unix(w, 0).UTC()
	// A search ends with the fifth year from t, returning the zero Time, and
	// from one 29 February to the next it can be eight. Two searches find any
	// date that exists.
	for range 2 {
		if next := c.spec.Next(t); next.After(t) {
			return next.Unix()
		}
		t = time.Date(t.Year()+5, time.December, 31, 23, 59, 59, 0, time.UTC)
	}
	return never
}

// forever is beyond any instant in use, and can take an offset without
// overflowing.
const forever = 1 << 62

// A span is a stretch of time in which the clock of a location is neither put
// forward nor back: a wall second is a Unix second plus the offset. All values
// are in seconds.
type span struct {
	start, end int64 // Unix; end is exclusive
	offset     int64 // of the clock in this span, east of UTC
	before     int64 // of the clock in the span before
}

// spanAt returns the span that holds the Unix second.
func spanAt(sec int64, loc *time.Location) span {
	t := time.Unix(sec, 0).In(loc)
	s := span{start: -forever, end: forever, offset: offset(t)}
	s.before = s.offset
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start, s.before = start.Unix(), offset(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= sec {
		// For years beyond a zone's table, ZoneBounds reckons with 365 days: on
		// the last day of a leap year its end has passed. Midnight is near
		// enough, the offset being the same on both sides.
		s.end = sec - mod(sec, day) + day
	}
	return s
}

// following returns the span after s.
func (s span) following(loc *time.Location) span {
	next := spanAt(s.end, loc)
	next.start, next.before = s.end, s.offset
	return next
}

func offset(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds)
}
