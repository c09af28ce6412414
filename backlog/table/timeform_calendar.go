package table

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// timeCalendar is a date, or a date and a time of day, as a wall calendar and
// a wall clock show it: text, or the digits of such a text as a number.
//
// Every value begins with head, which is of fixed width and in the order of
// time. What may follow, a fraction and a zone, leaves a value less than the
// next second's head. So bounds are heads.
type timeCalendar struct {
	head   string // layout of the date and the time of day, down to the second at most
	class  timeClass
	frac   string         // layout of the fraction as written: "", ".000" or ".999"
	sparse bool           // a fraction of zero is not written at all
	suffix string         // zone as written, "" for none
	zone   *time.Location // has one offset only if there is a suffix
	native bool           // the database compares times, not texts: bounds are exact
	decl   string         // the column's type, where it tells the form
	moment bool           // the type stands for the same moment in every zone
}

func (c timeCalendar) String() string {
	s := cmp.Or(c.decl, string(c.class)) + " "
	s += time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).Format(c.head)
	if frac := strings.ReplaceAll(c.frac, "9", "0"); c.sparse || frac != c.frac {
		s += "[" + frac + "]"
	} else {
		s += frac
	}
	if c.moment {
		return s + " (a moment, read as UTC)"
	}
	if c.suffix == "" {
		return s + " (no zone, read as " + c.zone.String() + ")"
	}
	return s + c.suffix
}

// timeNever is after all others: a mail that expires then never does.
var timeNever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// timeMicros is the fraction at the precision that servers have.
const timeMicros = ".000000"

// step returns the unit of head's last element.
func (c timeCalendar) step() time.Duration { return timeSteps[c.head[len(c.head)-2:]] }

// precision returns the unit of what is written.
func (c timeCalendar) precision() time.Duration {
	d := c.step()
	for range max(len(c.frac)-1, 0) {
		d /= 10
	}
	return d
}

// fractional reports whether values may have a fraction. They may even if no
// sample had one: some programs write it only where it is not zero.
func (c timeCalendar) fractional() bool {
	return c.class == timeText && c.step() == time.Second
}

func (c timeCalendar) read(raw any) (time.Time, bool) {
	switch {
	case c.native && raw == "infinity":
		return timeNever, true
	case c.native && raw == "-infinity":
		return time.Time{}, true
	}
	wall, rest, ok := timeCutHead(c.text(raw), c.head)
	if c.fractional() {
		var frac time.Duration
		frac, _, rest = timeCutFraction(rest)
		wall = wall.Add(frac)
	}
	if ok && rest != c.suffix {
		_, want := wall.In(c.zone).Zone()
		offset, zoned := timeOffset(rest)
		ok = zoned && c.suffix != "" && offset == want
	}
	if !ok {
		return time.Time{}, false
	}
	return timeWallEnd(wall, c.zone), true
}

// text returns the raw value as text, "" if it is of no class for the form. A
// number is accepted even where text is expected: SQLite's NUMERIC affinity
// has then made one of the digits, and will do the same to a bound.
func (c timeCalendar) text(raw any) string {
	switch v := raw.(type) {
	case string:
		if c.class == timeText {
			return v
		}
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

func (c timeCalendar) lower(t time.Time) any {
	wall, _ := timeWallRange(t, c.zone)
	if !c.fractional() {
		wall = timeCeil(wall, c.step())
	} else if c.native {
		return c.value(wall, c.head+timeMicros, c.suffix)
	}
	return c.value(wall, c.head, "")
}

func (c timeCalendar) upper(t time.Time) any {
	_, wall := timeWallRange(t, c.zone)
	if c.fractional() && c.native {
		return c.value(wall, c.head+timeMicros, c.suffix)
	}
	if c.fractional() || c.suffix != "" {
		wall = wall.Add(c.step())
		if wall.Year() > 9999 {
			return ":" // follows every digit
		}
	}
	return c.value(wall, c.head, "")
}

func (c timeCalendar) exact(t time.Time) any {
	wall, _ := timeWallRange(t, c.zone)
	return c.whole(timeCeil(wall, c.precision()))
}

func (c timeCalendar) write(t time.Time) any { return c.whole(timeWall(t, c.zone)) }

// whole returns the value complete with fraction and zone.
func (c timeCalendar) whole(wall time.Time) any {
	if c.sparse && wall.Nanosecond() < int(c.precision()) {
		return c.value(wall, c.head, c.suffix)
	}
	return c.value(wall, c.head+c.frac, c.suffix)
}

// value returns the text, or its digits as a number of the column's class.
// Text has room for the years 0 to 9999; times beyond become the next within.
func (c timeCalendar) value(wall time.Time, layout, suffix string) any {
	switch y := wall.Year(); {
	case y < 0:
		wall = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case y > 9999:
		wall = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	}
	s := wall.Format(layout) + suffix
	n, _ := strconv.ParseInt(s, 10, 64) // the value only of digits
	switch c.class {
	case timeInteger:
		return n
	case timeReal:
		return float64(n)
	}
	return s
}

// timeWall returns the reading at t of the clock in the zone, as if it were
// UTC.
func timeWall(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.Round(0).Add(time.Duration(offset) * time.Second).UTC()
}

// timeWallEnd returns the last instant at which the clock in the zone has not
// gone beyond the reading. So one that the clock shows twice is the later
// instant, one that it skips is that of the change, and readings are in the
// order of their instants. Here and below nothing relies on the end that
// ZoneBounds gives: at the end of leap years it is wrong (go.dev/issue/81583).
func timeWallEnd(wall time.Time, zone *time.Location) time.Time {
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

// timeWallRange returns the least that the clock in the zone reads at t or
// later and the greatest that it reads at t or earlier: its reading at t,
// unless the clock is set back within hours.
func timeWallRange(t time.Time, zone *time.Location) (least, greatest time.Time) {
	const reach = 48 * time.Hour // more than any clock was ever set back
	least = timeWall(t, zone)
	greatest = least
	if w := timeWall(t.Add(-1), zone).Add(1); w.Before(least) {
		least = w // what the clock skips at t stands for t
	}
	for last := t.Add(reach).In(zone); ; {
		start, _ := last.ZoneBounds()
		if start.IsZero() || t.Sub(start) > reach {
			return least, greatest
		}
		last = start.Add(-1)
		if w := timeWall(start, zone); start.After(t) && w.Before(least) {
			least = w
		}
		if w := timeWall(last, zone); !start.After(t) && w.After(greatest) {
			greatest = w
		}
	}
}
