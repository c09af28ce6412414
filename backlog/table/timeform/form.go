// Package timeform knows the forms in which columns hold times. It detects the form from
// values of the column, parses values, and converts a time to values for comparisons in SQL
// that can use an index. It does no input or output.
package timeform

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Form says how a column holds times: what its values mean, and how the database orders
// them. [Detect], [Parse] and [Server] return Forms. A Form is immutable, and the zero Form is
// not usable.
//
// Raw values are what database/sql returns for an expression without a declared type: int64,
// float64, string, or []byte, which is text here. NULL and zero dates must not be passed to a
// Form; see [IsZero].
type Form struct{ codec }

// Parse returns the time that a raw value means, in UTC. It refuses a number that would be
// before 1990 or after the year 9999, because that probably counts other units. The error
// contains the value and the form.
func (f Form) Parse(raw any) (time.Time, error) {
	if b, ok := raw.([]byte); ok {
		raw = string(b)
	}
	t, ok := f.read(raw)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not %s", show(raw), f)
	}
	isInRange := !t.Before(First) && !t.After(maxTime)
	if !isInRange && f.Numeric() {
		return time.Time{}, fmt.Errorf("%s read as %v lies in the year %d: is that how it is to be read?", show(raw), f, t.Year())
	}
	return t, nil
}

// Beyond returns the bound of [Form.Until] for a form that has only one way to write a time.
func (f Form) Beyond(t time.Time) any { return f.Exact(t.Truncate(time.Second).Add(time.Second)) }

// Coarse reports whether the precision of the column is coarser than a second.
func (f Form) Coarse() bool {
	c, ok := f.codec.(Calendar)
	return ok && c.precision() > time.Second
}

// Numeric reports whether values are numbers.
func (f Form) Numeric() bool {
	_, text := f.Write(First).(string)
	return !text
}

// AnyDivider reports whether values are texts that have either a space or a T between date and time of day.
func (f Form) AnyDivider() bool {
	c, _ := f.codec.(Calendar)
	return c.anyDivider
}

// Zoneless reports whether the type of the column is a date, with or without a time of day, that has no zone.
func (f Form) Zoneless() bool {
	c, _ := f.codec.(Calendar)
	return c.Type != "" && c.Suffix == "" && !c.Moment
}

// Limited returns the form for a column that holds no number above limit; 0: it holds any.
// maybeFraction says that the column is one of real numbers which may have a fraction.
func (f Form) Limited(limit int64, maybeFraction bool) Form {
	c, ok := f.codec.(unix)
	if !ok {
		return f
	}
	c.limit = limit
	if maybeFraction {
		c.class = Real
		c.maybeFraction = true
	}
	return Form{c}
}

// A codec implements a kind of Form. Lower, Exact and Write return values of the column's
// storage class, so that comparisons with the bare column can use an index.
type codec interface {
	// String returns the name of the form: the one in the setting `as:`, if it has one there.
	String() string

	// read returns the time that a raw value means, in UTC, and false if the value is not in
	// the form. raw is not []byte.
	read(raw any) (time.Time, bool)

	// Lower returns a lower bound of all values for t or later. A value for less than a second
	// before t may reach the bound too, and for longer where the clock of a zone was set back.
	// It only reduces how many rows are read: Parse decides.
	Lower(t time.Time) any

	// Exact returns the least value for t or later at the precision of the column. It is for
	// splitting the values at t by one comparison in the database.
	Exact(t time.Time) any

	// Write returns the value to store for t, truncated to the precision of the column.
	Write(t time.Time) any
}

// A Class is the storage class of a column's values, by SQLite's name.
type Class string

// The storage classes.
const (
	Integer Class = "integer"
	Real    Class = "real"
	Text    Class = "text"
)

// unix is the form of a number of units since 1970. Digits as text are not in this form, because
// they are only ordered like numbers if they have the same length.
type unix struct {
	name          string        // of the setting `as:`
	unit          time.Duration // a second, a millisecond or a microsecond
	class         Class
	fraction      bool  // some values are known to have a fraction; the class is Real
	maybeFraction bool  // some values may have a fraction; the class is Real
	limit         int64 // the largest number that the column can hold; 0: any
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
		if whole, part, ok := strings.Cut(v, "."); ok || c.class == Real { // a decimal number
			n, err := strconv.ParseInt(whole, 10, 64)
			part, bad := strconv.ParseFloat("0."+part+"0", 64)
			return c.between(n, part), err == nil && bad == nil && n > -most && n < most
		}
	}
	return time.Time{}, false
}

// between returns the time n units and a fraction of a unit after the start of 1970. It never
// rounds up to the next unit: bounds are whole units, and a time must stay on its side.
func (c unix) between(n int64, part float64) time.Time {
	parts := float64(c.unit / time.Microsecond)
	return c.at(n, time.Duration(min(math.Round(part*parts), parts-1))*time.Microsecond)
}

// at returns the time n units and d after the start of 1970.
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

// parts returns t in units, with a fraction.
func (c unix) parts(t time.Time) float64 {
	return float64(t.UnixMicro()) / float64(c.unit/time.Microsecond)
}

// units returns the number of whole units from 1970 to t.
func (c unix) units(t time.Time) int64 {
	return t.Unix()*int64(time.Second/c.unit) + int64(t.Nanosecond())/int64(c.unit)
}

// value returns a number in the class of the column, within its limit.
func (c unix) value(n int64) any {
	if c.limit > 0 {
		n = min(max(n, -c.limit), c.limit)
	}
	if c.class == Real {
		return float64(n)
	}
	return n
}

// julian is the form of days since noon of 24 November 4714 BC, as SQLite counts them. A float64
// of this size is precise to some 40 microseconds, and SQLite rounds to the millisecond.
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
	case int64: // SQLite has stored a whole number as an integer
		return c.read(float64(v))
	}
	return time.Time{}, false
}

// Lower subtracts a millisecond, by which rounding may have moved a value.
func (c julian) Lower(t time.Time) any { return c.Write(t.Add(-time.Millisecond)) }
func (c julian) Exact(t time.Time) any { return c.Write(ceil(t, time.Millisecond)) }
func (julian) Write(t time.Time) any   { return float64(t.UnixMilli()+julianEpoch) / julianDay }

// ceil rounds t up to a multiple of d.
func ceil(t time.Time, d time.Duration) time.Time {
	if c := t.Truncate(d); c.Before(t) {
		return c.Add(d)
	}
	return t
}

// A Calendar is the form of a date, or of a date and a time of day. Its values are text, or
// numbers that consist of the digits of such a text.
//
// Every value begins with the head, which has a fixed width and is ordered by time. A fraction
// and a zone may follow, but leave the value less than the head of the next second. This is why
// a head can serve as a bound.
type Calendar struct {
	Head     string         // the layout of the date and the time of day, down to seconds at most
	Fraction string         // the layout of the fraction as it is written: "", ".000" or ".999"
	Suffix   string         // the zone as it is written; "": it is not
	Zone     *time.Location // with a Suffix it has one offset for all times
	Type     string         // of the column, if that determines the form; else ""
	Moment   bool           // the type is a moment, independent of the zone in which it is shown
	Compared bool           // the database compares times rather than texts, so that bounds are exact

	class        Class
	omitsZero    bool // a fraction of zero is not written at all
	anyDivider   bool // a space or a T divides date and time of day, and seconds may be missing
	zoneOptional bool // texts without a zone are in the same zone as those with one
}

// Server returns the form of a column whose type determines it.
func Server(c Calendar) Form {
	c.class = Text
	return Form{c}
}

func (c Calendar) String() string {
	s := cmp.Or(c.Type, string(c.class)) + " "
	s += time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC).Format(c.Head)
	fraction := strings.ReplaceAll(c.Fraction, "9", "0")
	dropsZeros := strings.Contains(c.Fraction, "9") // a layout with .999 drops trailing zeros
	if c.omitsZero || dropsZeros {
		fraction = "[" + fraction + "]"
	}
	s += fraction
	if c.Moment {
		return s + " (a moment, read as UTC)"
	}
	if c.Suffix == "" {
		return s + " (no zone, read as " + c.Zone.String() + ")"
	}
	return s + c.Suffix
}

// maxTime is later than all other times: what expires then never does. minTime is earlier than all
// other times, but is not the zero time, which means that no time is set.
var (
	maxTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	minTime = time.Time{}.Add(time.Second)
)

// The values of a Compared column for a time before all others, and for never.
const (
	Past   = "-infinity"
	Future = "infinity"
)

// HasPast reports whether the column may hold [Past] and [Future].
func (f Form) HasPast() bool {
	c, _ := f.codec.(Calendar)
	return c.Compared
}

// micros is the layout of the fraction in database servers.
const micros = ".000000"

// step returns the unit of the last element of the head.
func (c Calendar) step() time.Duration { return steps[c.Head[len(c.Head)-2:]] }

// precision returns the unit of the last digit that is written.
func (c Calendar) precision() time.Duration {
	d := c.step()
	for range max(len(c.Fraction)-1, 0) {
		d /= 10
	}
	return d
}

// fractional reports whether values may have a fraction, even if no sample had one: some programs
// omit a fraction of zero.
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
	if !ok {
		return time.Time{}, false
	}
	if rest != c.Suffix && !c.acceptsZone(rest, wall) {
		return time.Time{}, false
	}
	return wallEnd(wall, c.Zone), true
}

// acceptsZone reports whether the end of a text is another notation of the column's own zone.
func (c Calendar) acceptsZone(rest string, wall time.Time) bool {
	if rest == "" {
		return c.zoneOptional
	}
	mayHaveZone := c.zoneOptional || c.Suffix != ""
	if !mayHaveZone {
		return false
	}
	offset, isZone := offsetOf(rest)
	_, ownOffset := wall.In(c.Zone).Zone()
	return isZone && offset == ownOffset
}

// text returns a raw value as text, "" if its class does not suit the form. It accepts a number
// where text is expected: SQLite's NUMERIC affinity makes numbers of digits, and will convert a
// bound in the same way.
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

// whole returns the value with fraction and zone.
func (c Calendar) whole(wall time.Time) any {
	if c.omitsZero && wall.Nanosecond() < int(c.precision()) {
		return c.value(wall, c.Head, c.Suffix)
	}
	return c.value(wall, c.Head+c.Fraction, c.Suffix)
}

// value returns the text in the layout, or a number of its digits in the class of the column. Years
// before 0 and after 9999 do not fit into a text: the nearest time that does takes their place.
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

// wallAt returns what a clock in the zone shows at t, as a time in UTC.
func wallAt(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.Round(0).Add(time.Duration(offset) * time.Second).UTC()
}

// wallEnd returns the last instant at which a clock in the zone shows no later time than wall. If
// the clock shows wall twice, that is the second time. If it skips wall, that is the moment of the
// change. So the times that a clock shows are ordered like their instants.
//
// The end that ZoneBounds returns is wrong at the end of leap years (go.dev/issue/81583), and is
// not used here or below.
func wallEnd(wall time.Time, zone *time.Location) time.Time {
	if zone == time.UTC {
		return wall
	}
	// No zone is a whole day behind UTC, so the instant is not later than this one.
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

// leastWall returns the earliest time that a clock in the zone shows at t or later. That is what it
// shows at t, unless it is set back within hours.
func leastWall(t time.Time, zone *time.Location) time.Time {
	const reach = 48 * time.Hour // more than any clock was ever set back
	least := wallAt(t, zone)
	if w := wallAt(t.Add(-1), zone).Add(1); w.Before(least) {
		least = w // the clock skips from w to what it shows at t, and times between mean t
	}
	last := t.Add(reach).In(zone)
	for {
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

// Roughly returns a duration for people, in one unit.
func Roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
