package tiers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const oneDay = 24 * time.Hour

// units has all the ways to write a unit.
var units = map[string]struct {
	name  string        // of a unit that [time.ParseDuration] knows
	times time.Duration // how many of that
}{
	"ns": {"ns", 1}, "us": {"us", 1}, "µs": {"us", 1}, "μs": {"us", 1}, "ms": {"ms", 1},
	"s": {"s", 1}, "sec": {"s", 1}, "secs": {"s", 1}, "second": {"s", 1}, "seconds": {"s", 1},
	"m": {"m", 1}, "min": {"m", 1}, "mins": {"m", 1}, "minute": {"m", 1}, "minutes": {"m", 1},
	"h": {"h", 1}, "hr": {"h", 1}, "hrs": {"h", 1}, "hour": {"h", 1}, "hours": {"h", 1},
	"d": {"h", 24}, "day": {"h", 24}, "days": {"h", 24},
	"w": {"h", 168}, "week": {"h", 168}, "weeks": {"h", 168},
}

var adverbs = map[string]string{
	"hourly": "1 hour", "daily": "1 day", "weekly": "1 week", "monthly": "1 month", "yearly": "1 year",
}

var errRange = fmt.Errorf("longer than %dd, the longest possible", math.MaxInt64/oneDay)

// ParseDuration reads a duration as people write it. It understands what [time.ParseDuration] does and
//
//   - d for 24 hours and w for 7 days: 1d12h, 1.5d
//   - words for units: 5 minutes, 2 weeks, 1 day 12 hours
//   - a or an for 1, and every in front: every 5 minutes, every hour
//   - hourly, daily and weekly
//   - ISO 8601: PT5M, P7D, P1DT12H
//
// Case does not matter, nor does space around numbers and units. A duration may be negative.
//
// It refuses months and years, which have no fixed length, what is too long for a [time.Duration], and
// the unit M, which may be a minute or a month.
func ParseDuration(s string) (time.Duration, error) {
	if d, ok := parseISO(s); ok {
		return d, nil
	}
	d, err := parseDuration(strings.Join(strings.Fields(strings.ToLower(s)), " "))
	words := strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
	if err == nil && slices.Contains(words, "M") {
		err = errors.New("capital M may be a minute or a month, write m or 30d")
	}
	if err != nil {
		return 0, fmt.Errorf("invalid duration %q: %w", s, err)
	}
	return d, nil
}

// parseISO reads a duration as ISO 8601 writes it. It returns false if s is not one, or has months or
// years.
func parseISO(s string) (time.Duration, bool) {
	date, clock, _ := strings.Cut(s, "T")
	if !strings.HasPrefix(s, "P") || strings.ContainsAny(date, "MY") || strings.ContainsAny(s, "-+") {
		return 0, false
	}
	d, err := parseDuration(strings.ToLower(date[1:] + clock))
	return d, err == nil
}

// parseDuration reads a duration in lower case and with single spaces.
func parseDuration(s string) (time.Duration, error) {
	s = spellOut(s)
	s, negative := strings.CutPrefix(s, "-")
	if !negative {
		s = strings.TrimPrefix(s, "+")
	}
	switch s {
	case "":
		return 0, errors.New("there is nothing in it")
	case "0":
		return 0, nil
	}
	var sum time.Duration
	for s != "" {
		var number, unit string
		number, s = cutFunc(s, func(r rune) bool { return r == '.' || '0' <= r && r <= '9' })
		unit, s = cutFunc(s, unicode.IsLetter)
		part, err := lengthOf(number, unit)
		if err != nil {
			return 0, err
		}
		if part > math.MaxInt64-sum {
			return 0, errRange
		}
		sum += part
	}
	if negative {
		return -sum, nil
	}
	return sum, nil
}

// spellOut replaces the words that stand for a number.
func spellOut(s string) string {
	if long, ok := adverbs[s]; ok {
		return long
	}
	switch word, rest, _ := strings.Cut(s, " "); {
	case word == "a", word == "an", word == "every" && strings.IndexFunc(rest, unicode.IsLetter) == 0:
		return "1 " + rest
	case word == "every":
		return rest
	}
	return s
}

// cutFunc cuts s after the leading runes that satisfy f. It drops a space after them.
func cutFunc(s string, f func(rune) bool) (head, rest string) {
	rest = strings.TrimLeftFunc(s, f)
	return s[:len(s)-len(rest)], strings.TrimPrefix(rest, " ")
}

// lengthOf returns the duration of one number and its unit.
func lengthOf(number, unit string) (time.Duration, error) {
	u, known := units[unit]
	switch {
	case number == "":
		return 0, errors.New("want numbers and units, such as 5m or 1d12h")
	case number == "." || strings.Count(number, ".") > 1:
		return 0, fmt.Errorf("%q is not a number", number)
	case unit == "":
		return 0, fmt.Errorf("%s has no unit, such as s, m, h, d or w", number)
	case strings.HasPrefix(unit, "mo"):
		return 0, errors.New("a month has no fixed length, write 30d")
	case strings.HasPrefix(unit, "y"):
		return 0, errors.New("a year has no fixed length, write 365d")
	case !known:
		return 0, fmt.Errorf("unknown unit %q, want one such as s, m, h, d or w", unit)
	}
	d, err := time.ParseDuration(number + u.name)
	if err != nil || d > math.MaxInt64/u.times {
		return 0, errRange
	}
	return d * u.times, nil
}

// FormatDuration returns d in days, hours, minutes and seconds without those that are zero: 7d, 1d12h,
// 5m, 1m30s. Fractions are written as by [time.Duration.String]: 1.5s, 250ms. [ParseDuration] reads
// the text back, but for the least Duration, whose absolute value is too long.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	sign := time.Duration(1)
	if d < 0 {
		b.WriteByte('-')
		sign = -1
	}
	for _, u := range []struct {
		length time.Duration
		name   byte
	}{{oneDay, 'd'}, {time.Hour, 'h'}, {time.Minute, 'm'}} {
		if n := d / u.length; n != 0 {
			fmt.Fprintf(&b, "%d%c", n*sign, u.name)
			d -= n * u.length
		}
	}
	if d != 0 || b.Len() == 0 {
		b.WriteString((d * sign).String())
	}
	return b.String()
}

var errRate = errors.New("is no rate; write how many per second, minute, hour or day: 10/s, 100/m, 5000/h")

// ParseRate reads a rate above 0, such as 10/s or 5000/h: n per time. The error is a predicate whose
// subject is the text.
func ParseRate(s string) (n float64, per time.Duration, err error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	per, unitErr := ParseDuration("1 " + unit)
	perSecond := n / per.Seconds()
	valid := perSecond > 0 && !math.IsInf(perSecond, 0) // false for NaN
	if err != nil || unitErr != nil || !valid {
		return 0, 0, errRate
	}
	return n, per, nil
}
