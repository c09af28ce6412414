// Package timeform knows how columns write time: it detects the form from raw
// values, reads them, and gives bounds in the form, so that an index serves.
package timeform

import (
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
// names the value and the form.
func (f Form) Parse(raw any) (time.Time, error) {
	if b, ok := raw.([]byte); ok {
		raw = string(b)
	}
	t, ok := f.read(raw)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not %s", show(raw), f)
	}
	return t, nil
}

// Beyond returns a bound above every value for t or earlier. Values for up to two seconds
// after t may be below it, too: the bound spares reading the others, Parse decides.
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
	c, ok := f.codec.(Calendar)
	return ok && c.Type != "" && c.Suffix == "" && !c.Moment
}

// Fine returns the form for a column of real numbers, where nobody has looked whether
// they are whole.
func (f Form) Fine() Form {
	if c, ok := f.codec.(unix); ok {
		c.class, c.fine = Real, true
		return Form{c}
	}
	return f
}

// AtMost returns the form for a column that holds no number above most; 0: any.
func (f Form) AtMost(most int64) Form {
	if c, ok := f.codec.(unix); ok {
		c.most = most
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
	name     string        // as `as:` has it
	unit     time.Duration // a second, a millisecond or a microsecond
	class    Class
	fraction bool  // real, and not all of them whole
	fine     bool  // real, and nobody has looked whether they are whole
	most     int64 // that the column can hold; 0: any
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
	if c.fraction || c.fine {
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
	if c.most > 0 {
		n = min(max(n, -c.most), c.most)
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
