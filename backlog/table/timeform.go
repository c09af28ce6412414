package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A timeForm is how a column holds a point in time: what its values stand for
// and how the database, comparing them as they are stored, orders them.
// [detectTimeForm] and [parseTimeForm] make one; it is immutable, and the zero
// timeForm is not usable.
//
// Raw values are those that database/sql gives for an expression without a
// declared type: int64, float64, string, []byte (which is text here) and, from
// native columns, time.Time. NULL and zero dates stand for no time in any
// form; the caller keeps them away, see [isZeroDate].
type timeForm struct{ timeCodec }

// parse returns the time, in UTC, that the raw value stands for. An error
// names the value and the form.
func (f timeForm) parse(raw any) (time.Time, error) {
	if b, ok := raw.([]byte); ok {
		raw = string(b)
	}
	t, ok := f.read(raw)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not %s", timeShow(raw), f)
	}
	return t, nil
}

// A timeCodec is a timeForm at work. What lower, upper, exact and write return
// is of the storage class that the column's own values have, so that an index
// on the bare column serves.
type timeCodec interface {
	// String returns what people, and where it has a word for it the
	// setting `as:`, call the form.
	String() string

	// read returns the time, in UTC, that the raw value stands for, or
	// false where it is not of the form. raw is no []byte.
	read(raw any) (time.Time, bool)

	// lower returns a bound that every value standing for t or later is
	// greater than or equal to. Values that stand for less than a second
	// before t may be so too, or for longer where a zone's clock was set
	// back: the bound spares reading the others, parse decides.
	lower(t time.Time) any

	// upper returns a bound that every value standing for t or earlier is
	// less than or equal to. The same goes for values up to a second after
	// t, or one step of a form that is coarser than that.
	upper(t time.Time) any

	// exact returns the least value, at the precision the column shows,
	// that stands for t or later: the place where one comparison in the
	// database splits the column at t, as nearly as one can.
	exact(t time.Time) any

	// write returns the value to be stored for t, cut to the precision the
	// column shows.
	write(t time.Time) any
}

// A timeClass is the storage class of a column's values, in SQLite's words.
type timeClass string

const (
	timeInteger timeClass = "integer"
	timeReal    timeClass = "real"
	timeText    timeClass = "text"
)

// timeNative is a column of the database's own type, whose values the driver
// has read as instants; servers keep microseconds. Times are bound in UTC
// because some drivers drop an offset.
type timeNative struct{}

func (timeNative) String() string { return "native" }

func (timeNative) read(raw any) (time.Time, bool) {
	t, ok := raw.(time.Time)
	return t.UTC(), ok
}

func (timeNative) lower(t time.Time) any   { return t.UTC().Truncate(time.Microsecond) }
func (timeNative) upper(t time.Time) any   { return timeCeil(t.UTC().Round(0), time.Microsecond) }
func (c timeNative) exact(t time.Time) any { return c.upper(t) }
func (c timeNative) write(t time.Time) any { return c.lower(t) }

// timeUnix is a number of units since 1970.
//
// Texts of digits are in the order of their numbers only where they are of
// equal length. So only those are read that have the length of today's, which
// is that of 2001-09-09 to 2286-11-20.
type timeUnix struct {
	name     string        // as `as:` has it
	unit     time.Duration // a second, a millisecond or a microsecond
	class    timeClass
	fraction bool  // real, and not all of them whole
	fine     bool  // real, and nobody has looked whether they are whole
	most     int64 // that the column can hold; 0: any
}

func (c timeUnix) String() string {
	if c.class == timeText {
		return c.name + " as text"
	}
	return c.name
}

// textRange returns the least and the greatest number that is read from text.
func (c timeUnix) textRange() (least, greatest int64) {
	least = 1e9 * int64(time.Second/c.unit)
	return least, 10*least - 1
}

func (c timeUnix) read(raw any) (time.Time, bool) {
	const most = 1 << 62 // more would overflow in time.Time
	switch v := raw.(type) {
	case int64:
		return c.at(v, 0), c.class != timeText && v > -most && v < most
	case float64:
		if c.class == timeText || !(v > -most && v < most) {
			return time.Time{}, false
		}
		whole := math.Floor(v)
		return c.between(int64(whole), v-whole), true
	case string:
		if whole, part, ok := strings.Cut(v, "."); ok || c.class == timeReal { // a decimal
			n, err := strconv.ParseInt(whole, 10, 64)
			part, bad := strconv.ParseFloat("0."+part+"0", 64)
			return c.between(n, part), c.class != timeText && err == nil && bad == nil && n > -most && n < most
		}
		n, _ := strconv.ParseInt(v, 10, 64) // 0 is below every range
		least, greatest := c.textRange()
		ok := c.class == timeText && n >= least && n <= greatest && v == strconv.FormatInt(n, 10)
		return c.at(n, 0), ok
	}
	return time.Time{}, false
}

// between returns the time n units and a part of one after the beginning of 1970.
// Rounding does not lead to the next unit: bounds are whole units.
func (c timeUnix) between(n int64, part float64) time.Time {
	parts := float64(c.unit / time.Microsecond)
	return c.at(n, time.Duration(min(math.Round(part*parts), parts-1))*time.Microsecond)
}

// at returns the time n units and d after the beginning of 1970.
func (c timeUnix) at(n int64, d time.Duration) time.Time {
	per := int64(time.Second / c.unit)
	return time.Unix(n/per, n%per*int64(c.unit)+int64(d)).UTC()
}

func (c timeUnix) lower(t time.Time) any { return c.value(c.units(t)) }
func (c timeUnix) upper(t time.Time) any { return c.value(c.units(t) + 1) }

func (c timeUnix) exact(t time.Time) any {
	if c.fraction || c.fine {
		return c.parts(timeCeil(t, time.Microsecond))
	}
	return c.lower(timeCeil(t, c.unit))
}

func (c timeUnix) write(t time.Time) any {
	if c.fraction {
		return c.parts(t)
	}
	return c.lower(t)
}

func (c timeUnix) parts(t time.Time) float64 {
	return float64(t.UnixMicro()) / float64(c.unit/time.Microsecond)
}

// units returns the number of whole units up to t.
func (c timeUnix) units(t time.Time) int64 {
	return t.Unix()*int64(time.Second/c.unit) + int64(t.Nanosecond())/int64(c.unit)
}

func (c timeUnix) value(n int64) any {
	if c.most > 0 {
		n = min(max(n, -c.most), c.most)
	}
	switch c.class {
	case timeReal:
		return float64(n)
	case timeText:
		least, greatest := c.textRange()
		return strconv.FormatInt(min(max(n, least), greatest), 10)
	}
	return n
}

// timeJulian is a number of days since noon of 24 November 4714 BC, as SQLite
// counts them: a number of this size tells some 40 microseconds apart, and
// SQLite itself rounds it to the millisecond.
type timeJulian struct{}

const (
	julianDay   = 24 * 60 * 60 * 1000 // milliseconds
	julianEpoch = 210866760000000     // milliseconds from day 0 to 1970
	julianEnd   = 5373484.5           // the end of the year 9999
)

func (timeJulian) String() string { return "julian" }

func (c timeJulian) read(raw any) (time.Time, bool) {
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

// A millisecond more than covers what rounding moves a value.
func (c timeJulian) lower(t time.Time) any { return c.write(t.Add(-time.Millisecond)) }
func (c timeJulian) upper(t time.Time) any { return c.write(t.Add(time.Millisecond)) }
func (c timeJulian) exact(t time.Time) any { return c.write(timeCeil(t, time.Millisecond)) }
func (timeJulian) write(t time.Time) any   { return float64(t.UnixMilli()+julianEpoch) / julianDay }
