// Package timeform knows how columns write time: it detects the form from raw
// values, reads them, and gives bounds in the form, so that an index serves.
package timeform

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Form is how a column holds a point in time: what its values stand for and
// how the database orders them as stored. [Detect], [Parse] and [Server] make
// one. A Form is immutable, and the zero Form is not usable.
//
// Raw values are what database/sql gives for an expression without a declared
// type: int64, float64, string and []byte, which is text here. The caller keeps away
// NULL and zero dates, see [IsZero].
type Form struct{ codec }

// Parse returns the time, in UTC, that the raw value stands for. An error
// names the value and the form. A number is no time before 1990 or after the year
// 9999: it counts other units.
func (f Form) Parse(raw any) (time.Time, error) {
	if b, ok := raw.([]byte); ok {
		raw = string(b)
	}
	t, ok := f.read(raw)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not %s", show(raw), f)
	}
	if f.Numeric() && (t.Before(First) || t.After(maxTime)) {
		return time.Time{}, fmt.Errorf("%s read as %v lies in the year %d: is that how it is to be read?", show(raw), f, t.Year())
	}
	return t, nil
}

// Beyond is the bound of [Form.Until] for values that are written in one way.
func (f Form) Beyond(t time.Time) any { return f.Exact(t.Truncate(time.Second).Add(time.Second)) }

// Coarse reports whether one second looks like the next.
func (f Form) Coarse() bool {
	c, ok := f.codec.(Calendar)
	return ok && c.precision() > time.Second
}

// Numeric reports whether values are numbers.
func (f Form) Numeric() bool {
	_, text := f.Write(First).(string)
	return !text
}

// Zoneless reports whether the column's type is one of dates without a zone.
func (f Form) Zoneless() bool {
	c, _ := f.codec.(Calendar)
	return c.Type != "" && c.Suffix == "" && !c.Moment
}

// Held returns the form for a column that holds no number above most; 0: any. fine is for
// one of real numbers, where nobody has looked whether they are whole.
func (f Form) Limited(most int64, fine bool) Form {
	if c, ok := f.codec.(unix); ok {
		if c.limit = most; fine {
			c.class, c.maybeFraction = Real, true
		}
		return Form{c}
	}
	return f
}

// A codec is a Form at work. Lower, Exact and Write return values of the
// column's storage class, so that an index on the bare column serves.
type codec interface {
	// String returns what people, and where it has a word for it the
	// setting `as:`, call the form.
	String() string

	// read returns the time, in UTC, that the raw value stands for, or
	// false where it is not of the form. raw is no []byte.
	read(raw any) (time.Time, bool)

	// Lower returns a bound that every value for t or later reaches. Values
	// for less than a second before t may reach it too, or for longer where
	// a zone's clock was set back: the bound spares reading the others,
	// Parse decides.
	Lower(t time.Time) any

	// Exact returns the least value for t or later at the precision that
	// the column shows: one comparison in the database splits the column
	// at t as nearly as possible.
	Exact(t time.Time) any

	// Write returns the value to store for t, cut to the precision that the
	// column shows.
	Write(t time.Time) any
}

// A Class is the storage class of a column's values, in SQLite's words.
type Class string

const (
	Integer Class = "integer"
	Real    Class = "real"
	Text    Class = "text"
)

// unix is a number of units since 1970. Texts of digits are none: they sort like their
// numbers only at equal length.
type unix struct {
	name          string        // as `as:` has it
	unit          time.Duration // a second, a millisecond or a microsecond
	class         Class
	fraction      bool  // real, and not all of them whole
	maybeFraction bool  // real, and nobody has looked whether they are whole
	limit         int64 // that the column can hold; 0: any
}

func (c unix) String() string { return c.name }

func (c unix) read(raw any) (time.Time, bool) {
	const most = 1 << 62 // more would overflow in time.Time
	switch v := raw.(type) {
	case int64:
		return c.at(v, 0), v > -most && v < most
	case float64:
		if !(v > -most && v < most) {
			return time.Time{}, false
		}
		whole := math.Floor(v)
		return c.between(int64(whole), v-whole), true
	case string:
		if whole, part, ok := strings.Cut(v, "."); ok || c.class == Real { // a decimal
			n, err := strconv.ParseInt(whole, 10, 64)
			part, bad := strconv.ParseFloat("0."+part+"0", 64)
			return c.between(n, part), err == nil && bad == nil && n > -most && n < most
		}
	}
	return time.Time{}, false
}

// between returns the time n units and a part of one after the beginning of
// 1970. Rounding never reaches the next unit, because bounds are whole units.
func (c unix) between(n int64, part float64) time.Time {
	parts := float64(c.unit / time.Microsecond)
	return c.at(n, time.Duration(min(math.Round(part*parts), parts-1))*time.Microsecond)
}

// at returns the time n units and d after the beginning of 1970.
func (c unix) at(n int64, d time.Duration) time.Time {
	per := int64(time.Second / c.unit)
	return time.Unix(n/per, n%per*int64(c.unit)+int64(d)).UTC()
}

func (c unix) Lower(t time.Time) any { return c.value(c.units(t)) }

func (c unix) Exact(t time.Time) any {
	if c.fraction || c.maybeFraction {
		return c.parts(ceil(t, time.Microsecond))
	}
	return c.Lower(ceil(t, c.unit))
}

func (c unix) Write(t time.Time) any {
	if c.fraction {
		return c.parts(t)
	}
	return c.Lower(t)
}

func (c unix) parts(t time.Time) float64 {
	return float64(t.UnixMicro()) / float64(c.unit/time.Microsecond)
}

// units returns the number of whole units up to t.
func (c unix) units(t time.Time) int64 {
	return t.Unix()*int64(time.Second/c.unit) + int64(t.Nanosecond())/int64(c.unit)
}

func (c unix) value(n int64) any {
	if c.limit > 0 {
		n = min(max(n, -c.limit), c.limit)
	}
	if c.class == Real {
		return float64(n)
	}
	return n
}

// julian is a number of days since noon of 24 November 4714 BC, as SQLite
// counts them: a float64 of this size resolves some 40 microseconds, and SQLite
// itself rounds to the millisecond.
type julian struct{}

const (
	julianDay   = 24 * 60 * 60 * 1000 // milliseconds
	julianEpoch = 210866760000000     // milliseconds from day 0 to 1970
	julianEnd   = 5373484.5           // the end of the year 9999
)

func (julian) String() string { return "julian" }

func (c julian) read(raw any) (time.Time, bool) {
	switch v := raw.(type) {
	case float64:
		if !(v >= 0 && v < julianEnd) {
			return time.Time{}, false
		}
		return time.UnixMilli(int64(math.Round(v*julianDay)) - julianEpoch).UTC(), true
	case int64: // a whole number that the column's affinity has made an integer
		return c.read(float64(v))
	}
	return time.Time{}, false
}

// A millisecond more covers what rounding moves a value.
func (c julian) Lower(t time.Time) any { return c.Write(t.Add(-time.Millisecond)) }
func (c julian) Exact(t time.Time) any { return c.Write(ceil(t, time.Millisecond)) }
func (julian) Write(t time.Time) any   { return float64(t.UnixMilli()+julianEpoch) / julianDay }

// ceil is Truncate's counterpart.
func ceil(t time.Time, d time.Duration) time.Time {
	if c := t.Truncate(d); c.Before(t) {
		return c.Add(d)
	}
	return t
}

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

	class        Class
	omitsZero    bool // a fraction of zero is not written at all
	anyDivider   bool // date and time of day may be divided by a space or a T, and seconds be left out
	zoneOptional bool // texts with the zone and without one are in the same
}

// Server returns the form of a column whose type tells it.
func Server(c Calendar) Form {
	c.class = Text
	return Form{c}
}

func (c Calendar) String() string {
	s := cmp.Or(c.Type, string(c.class)) + " "
	s += time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).Format(c.Head)
	if frac := strings.ReplaceAll(c.Fraction, "9", "0"); c.omitsZero || frac != c.Fraction {
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

// never is after all others: a mail that expires then never does. before is before all
// others, and is a time nevertheless.
var (
	maxTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	minTime = time.Time{}.Add(time.Second)
)

// Past and Future are what a column that can be compared with them holds for the time before
// all others and for never.
const Past, Future = "-infinity", "infinity"

// HasPast reports whether the column may hold [Past].
func (f Form) HasPast() bool {
	c, _ := f.codec.(Calendar)
	return c.Compared
}

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
func (c Calendar) fractional() bool { return c.class == Text && strings.HasSuffix(c.Head, "05") }

func (c Calendar) read(raw any) (time.Time, bool) {
	switch {
	case c.Compared && raw == Future:
		return maxTime, true
	case c.Compared && raw == Past:
		return minTime, true
	}
	text := c.text(raw)
	if c.anyDivider {
		c.Head = headOf(text)
	}
	wall, rest, ok := cutHead(text, c.Head)
	if rest != "" && c.fractional() {
		var frac time.Duration
		frac, _, rest = cutFraction(rest)
		wall = wall.Add(frac)
	}
	if !ok || rest != c.Suffix && !c.isZone(rest, wall) {
		return time.Time{}, false
	}
	return wallEnd(wall, c.Zone), true
}

// isZone reports whether a text may end so, which says the column's own zone in another way.
func (c Calendar) isZone(rest string, wall time.Time) bool {
	if rest == "" {
		return c.zoneOptional
	}
	_, want := wall.In(c.Zone).Zone()
	offset, zoned := offsetOf(rest)
	return zoned && (c.zoneOptional || c.Suffix != "") && offset == want
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
	if c.omitsZero && wall.Nanosecond() < int(c.precision()) {
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
	n, _ := strconv.ParseInt(s, 10, 64)
	switch c.class {
	case Integer:
		return n
	case Real:
		return float64(n)
	}
	return s
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
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute} {
		if d >= 2*unit {
			return fmt.Sprintf("%d %s", d/unit, []string{"days", "h", "min"}[i])
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
