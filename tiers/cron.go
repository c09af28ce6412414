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

// The program does not compile where an int has 32 bits: seconds since 1970 would overflow it.
const _ int = 1 << 40

const (
	day   = 24 * 60 * 60  // seconds
	never = math.MaxInt64 // later than any second

	allHours = 1<<24 - 1 // a bit per hour, as in cron.SpecSchedule

	// maxCounted is how many ticks are counted, which bounds the work after a long downtime.
	maxCounted = 10_000
)

// A crontab is a compiled cron expression in its location.
//
// It uses two kinds of seconds. Unix seconds count time. Wall seconds count what a clock on the wall
// shows, since it showed 1970-01-01 00:00. They have no zone, and the expression is matched against
// them alone. A [span] says how the two relate.
type crontab struct {
	spec *cron.SpecSchedule
	loc  *time.Location
}

const fieldItem = `(\*|\?|\w+(-\w+)?)(/\d+)?`

// field matches a valid field. The parser accepts more: it reads "*-5" as "*", and "," as a field that
// matches nothing.
var field = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + fieldItem + `(,` + fieldItem + `)*$`) })

// parseCron compiles a trimmed expression.
func parseCron(expr string, loc *time.Location) (c *crontab, err error) {
	if err := checkCron(expr); err != nil {
		return nil, err
	}
	// The parser panics on some malformed input, such as "TZ=0".
	defer func() {
		if r := recover(); r != nil {
			c = nil
			err = fmt.Errorf("%q is not a cron expression: %v", expr, r)
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
	if c.nextWallSecond(0) == never {
		return nil, fmt.Errorf("%q never ticks: no month it names has such a day", expr)
	}
	return c, nil
}

// checkCron refuses what the parser accepts but understands differently, and what it would refuse in
// less helpful words.
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

// next implements pattern.
func (c *crontab) next(after int64) int64 {
	s := spanAt(after, c.loc)
	from := max(after+s.offset, c.first(s)-1)
	for {
		w := c.nextWallSecond(from)
		if w < s.end+s.offset {
			return max(w-s.offset, s.start) // the start for a tick in the time skipped before it
		}
		s = s.following(c.loc)
		from = c.first(s) - 1
	}
}

// between implements pattern.
func (c *crontab) between(after, upTo int64) (ticks int, last int64, more bool) {
	for t := c.next(after); t <= upTo; t = c.next(t) {
		if ticks == maxCounted {
			// The newest tick is the first second after which no tick comes by upTo.
			newest := sort.Search(int(upTo-t), func(n int) bool { return c.next(t+int64(n)) > upTo })
			return ticks, t + int64(newest), true
		}
		ticks++
		last = t
	}
	return ticks, last, false
}

// first returns the wall second from which on matches are ticks of the span: what the clock shows at
// its start or, if the expression names hours, what it would show if it had not been changed then.
func (c *crontab) first(s span) int64 {
	if c.spec.Hour&allHours == allHours {
		return s.start + s.offset
	}
	return s.start + s.before
}

// interval implements pattern. It looks at wall seconds, in which all days have the same length. Its
// sample has more ticks than a day has minutes, and covers some years of daily ticks.
func (c *crontab) interval() int64 {
	const sample = 1500
	shortest := int64(never)
	w := c.nextWallSecond(0)
	for range sample {
		next := c.nextWallSecond(w)
		shortest = min(shortest, next-w)
		w = next
	}
	return shortest
}

// searchedYears is after how many years from its start a search of the library ends without a result.
const searchedYears = 5

// nextWallSecond returns the first wall second after the given one that matches, or never. From one
// 29 February to the next it can be eight years, so two searches find any date that exists.
func (c *crontab) nextWallSecond(after int64) int64 {
	start := time.Unix(after, 0).UTC()
	endOfSearch := time.Date(start.Year()+searchedYears, time.December, 31, 23, 59, 59, 0, time.UTC)
	for _, t := range []time.Time{start, endOfSearch} {
		next := c.spec.Next(t)
		if next.After(t) { // otherwise it is the zero Time: the search found none
			return next.Unix()
		}
	}
	return never
}

// forever is beyond any instant in use. An offset can be added without an overflow.
const forever = 1 << 62

// A span is a time in which the clock of a location is not changed: a wall second is a Unix second plus
// the offset. All values are in seconds.
type span struct {
	start, end int64 // Unix; end is exclusive
	offset     int64 // east of UTC
	before     int64 // offset in the span before
}

// spanAt returns the span that holds the Unix second.
func spanAt(sec int64, loc *time.Location) span {
	t := time.Unix(sec, 0).In(loc)
	s := span{start: -forever, end: forever, offset: offset(t)}
	s.before = s.offset
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
		s.before = offset(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= sec {
		// For years beyond a zone's table, ZoneBounds assumes 365 days, so that its end has passed
		// on the last day of a leap year. Midnight is as good: the offset is the same on both sides.
		s.end = sec - mod(sec, day) + day
	}
	return s
}

// following returns the span after s.
func (s span) following(loc *time.Location) span {
	next := spanAt(s.end, loc)
	next.start = s.end
	next.before = s.offset
	return next
}

// offset returns the offset of t's zone east of UTC, in seconds.
func offset(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds)
}
