package timeform

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Calendar is a date, or a date and a time of day, as a wall calendar and a
// wall clock show it: text, or the digits of such a text as a number.
//
// Every value begins with the head, which has a fixed width and sorts by time.
// A fraction and a zone may follow and leave a value less than the next
// second's head. So bounds are heads.
type Calendar struct {
	Head     string         // layout of the date and the time of day, down to the second at most
	Fraction string         // layout of the fraction as written: "", ".000" or ".999"
	Suffix   string         // zone as written, "" for none
	Zone     *time.Location // has one offset only if there is a suffix
	Type     string         // of the column, where it tells the form
	Moment   bool           // the type stands for the same moment in every zone
	Compared bool           // the database compares times, not texts: bounds are exact

	class  Class
	sparse bool // a fraction of zero is not written at all
}

// Server returns the form of a column whose type tells it.
func Server(c Calendar) Form {
	c.class = Text
	return Form{c}
}

func (c Calendar) String() string {
	s := cmp.Or(c.Type, string(c.class)) + " "
	s += time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).Format(c.Head)
	if frac := strings.ReplaceAll(c.Fraction, "9", "0"); c.sparse || frac != c.Fraction {
		s += "[" + frac + "]"
	} else {
		s += frac
	}
	if c.Moment {
		return s + " (a moment, read as UTC)"
	}
	if c.Suffix == "" {
		return s + " (no zone, read as " + c.Zone.String() + ")"
	}
	return s + c.Suffix
}

// never is after all others: a mail that expires then never does.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// micros is the fraction at the precision that servers have.
const micros = ".000000"

// step returns the unit of head's last element.
func (c Calendar) step() time.Duration { return steps[c.Head[len(c.Head)-2:]] }

// precision returns the unit of what is written.
func (c Calendar) precision() time.Duration {
	d := c.step()
	for range max(len(c.Fraction)-1, 0) {
		d /= 10
	}
	return d
}

// fractional reports whether values may have a fraction. They may even if no
// sample had one: some programs write it only where it is not zero.
func (c Calendar) fractional() bool {
	return c.class == Text && strings.HasSuffix(c.Head, "05")
}

func (c Calendar) read(raw any) (time.Time, bool) {
	switch {
	case c.Compared && raw == "infinity":
		return never, true
	case c.Compared && raw == "-infinity":
		return time.Time{}, true
	}
	wall, rest, ok := cutHead(c.text(raw), c.Head)
	if c.fractional() {
		var frac time.Duration
		frac, _, rest = cutFraction(rest)
		wall = wall.Add(frac)
	}
	if ok && rest != c.Suffix {
		_, want := wall.In(c.Zone).Zone()
		offset, zoned := offsetOf(rest)
		ok = zoned && c.Suffix != "" && offset == want
	}
	if !ok {
		return time.Time{}, false
	}
	return wallEnd(wall, c.Zone), true
}

// text returns the raw value as text, "" if it is of no class for the form. A
// number is accepted even where text is expected: SQLite's NUMERIC affinity
// has then made one of the digits, and will do the same to a bound.
func (c Calendar) text(raw any) string {
	switch v := raw.(type) {
	case string:
		if c.class == Text {
			return v
		}
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

func (c Calendar) Lower(t time.Time) any {
	wall := leastWall(t, c.Zone)
	if !c.fractional() {
		wall = ceil(wall, c.step())
	} else if c.Compared {
		return c.value(wall, c.Head+micros, c.Suffix)
	}
	return c.value(wall, c.Head, "")
}

func (c Calendar) Exact(t time.Time) any {
	wall := leastWall(t, c.Zone)
	return c.whole(ceil(wall, c.precision()))
}

func (c Calendar) Write(t time.Time) any { return c.whole(wallAt(t, c.Zone)) }

// whole returns the value complete with fraction and zone.
func (c Calendar) whole(wall time.Time) any {
	if c.sparse && wall.Nanosecond() < int(c.precision()) {
		return c.value(wall, c.Head, c.Suffix)
	}
	return c.value(wall, c.Head+c.Fraction, c.Suffix)
}

// value returns the text, or its digits as a number of the column's class.
// Text has room for the years 0 to 9999; times beyond become the next within.
func (c Calendar) value(wall time.Time, layout, suffix string) any {
	switch y := wall.Year(); {
	case y < 0:
		wall = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case y > 9999:
		wall = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	}
	s := wall.Format(layout) + suffix
	if c.class != Integer && c.class != Real {
		return s
	}
	n, _ := strconv.ParseInt(s, 10, 64)
	if c.class == Real {
		return float64(n)
	}
	return n
}

// wallAt returns the reading at t of the clock in the zone, as if it were
// UTC.
func wallAt(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.Round(0).Add(time.Duration(offset) * time.Second).UTC()
}

// wallEnd returns the last instant at which the clock in the zone has not gone
// beyond the reading. So a reading that the clock shows twice is the later
// instant, a skipped one is the instant of the change, and readings sort like
// their instants. Here and below nothing relies on the end from ZoneBounds: at
// the end of leap years it is wrong (go.dev/issue/81583).
func wallEnd(wall time.Time, zone *time.Location) time.Time {
	if zone == time.UTC {
		return wall
	}
	// No zone is a day behind UTC: the instant is not after this one.
	last := wall.Add(24 * time.Hour).In(zone)
	for {
		_, offset := last.Zone()
		start, _ := last.ZoneBounds()
		t := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case t.After(last):
			return last.Add(1).UTC()
		case start.IsZero() || !t.Before(start):
			return t.UTC()
		}
		last = start.Add(-1)
	}
}

// leastWall returns the least that the clock in the zone reads at t or later: its
// reading at t, unless the clock is set back within hours.
func leastWall(t time.Time, zone *time.Location) time.Time {
	const reach = 48 * time.Hour // more than any clock was ever set back
	least := wallAt(t, zone)
	if w := wallAt(t.Add(-1), zone).Add(1); w.Before(least) {
		least = w // what the clock skips at t stands for t
	}
	for last := t.Add(reach).In(zone); ; {
		start, _ := last.ZoneBounds()
		if start.IsZero() || !start.After(t) {
			return least
		}
		if w := wallAt(start, zone); w.Before(least) {
			least = w
		}
		last = start.Add(-1)
	}
}

// Roughly returns a duration as people say it.
func Roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}
