package tiers

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	day   = 24 * 60 * 60  // seconds
	never = math.MaxInt64 // later than any second

	allHours   = 1<<24 - 1
	allMinutes = 1<<60 - 1
)

// A crontab is a compiled cron expression in its location.
//
// It deals in two kinds of seconds. Unix seconds count time. Wall seconds count
// what a clock on the wall shows, from 1970-01-01 00:00 on it; they have no
// zone, and the expression is matched against them alone. A [span] tells how
// the two relate.
type crontab struct {
	spec           *cron.SpecSchedule
	loc            *time.Location
	hours, minutes uint64 // spec's, without the bit that marks a star
}

const fieldItem = `(\*|\?|\w+(-\w+)?)(/\d+)?`

// field is what a field may look like. The parser is laxer: it takes "*-5" for
// "*" and "," for a field that matches nothing.
var field = regexp.MustCompile(`^` + fieldItem + `(,` + fieldItem + `)*$`)

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
	spec.Location = time.UTC // that of wall seconds
	c = &crontab{spec: spec, loc: loc, hours: spec.Hour & allHours, minutes: spec.Minute & allMinutes}
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
		if !field.MatchString(f) {
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

func (c *crontab) between(after, upTo int64) (ticks int, last int64) {
	if ticks = c.count(after, upTo); ticks == 0 {
		return 0, 0
	}
	last = c.next(after)
	// Bisect: last is a tick, and none lies in (hi, upTo].
	for hi := upTo; last < hi; {
		mid := last + (hi-last)/2
		if t := c.next(mid); t <= upTo {
			last = t
		} else {
			hi = mid
		}
	}
	return ticks, last
}

// count returns the number of ticks in (after, upTo].
func (c *crontab) count(after, upTo int64) (ticks int) {
	s := spanAt(after, c.loc)
	lo := max(after+s.offset, c.first(s)-1)
	for {
		if begin := s.start + s.offset; lo < begin {
			ticks += min(1, c.wallCount(lo, begin)) // those left out come as one
			lo = begin
		}
		ticks += c.wallCount(lo, min(upTo, s.end-1)+s.offset)
		if upTo < s.end {
			return ticks
		}
		s = s.following(c.loc)
		lo = c.first(s) - 1
	}
}

// first returns the wall second from which on matches are ticks of the span:
// the one the clock shows at its start or, when hours are named, the one it
// would have shown had it been left alone.
func (c *crontab) first(s span) int64 {
	if c.hours == allHours {
		return s.start + s.offset
	}
	return s.start + s.before
}

// interval looks at wall seconds, where no day is shorter than another. Its
// sample holds every minute of a day and is enough for some years of days.
func (c *crontab) interval() int64 {
	const sample = 1500
	shortest := int64(never)
	for n, w := 0, c.wallAfter(0); n < sample; n++ {
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

// wallCount returns the number of wall seconds in (lo, hi] that match. It
// takes one step for each day with a match.
func (c *crontab) wallCount(lo, hi int64) (n int) {
	for w := c.wallAfter(lo); w <= hi; {
		midnight := w - mod(w, day)
		last := min(hi, midnight+day-1)
		n += 1 + c.rank(last-midnight) - c.rank(w-midnight)
		w = c.wallAfter(last)
	}
	return n
}

// rank returns how many seconds of a matching day match, up to and including
// the given one.
func (c *crontab) rank(second int64) int {
	hour, minute := second/3600, second/60%60
	n := bits.OnesCount64(c.hours&(1<<hour-1)) * bits.OnesCount64(c.minutes)
	if c.hours>>hour&1 == 1 {
		n += bits.OnesCount64(c.minutes & (2<<minute - 1))
	}
	return n
}
