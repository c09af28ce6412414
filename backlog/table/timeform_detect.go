package table

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Numbers are taken for times of the years 1990 to 2100, in which seconds,
// milliseconds, microseconds, Julian days and 14 digits cannot be confused.
const (
	timeFrom    = 631152000  // 1990, as a Unix time
	timeBefore  = 4133980800 // 2101
	timeCompact = "20060102150405"
)

// timeHeads are the heads that are detected; see [timeCalendar]. One that
// begins like another, but is longer, comes first.
var timeHeads = []string{
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02",
	timeCompact,
}

// timeSteps are the units of the elements that a head may end in.
var timeSteps = map[string]time.Duration{
	"02": 24 * time.Hour, "15": time.Hour, "04": time.Minute, "05": time.Second,
}

var timeUnits = []timeUnix{
	{name: "unix_s", unit: time.Second, class: timeInteger},
	{name: "unix_ms", unit: time.Millisecond, class: timeInteger},
	{name: "unix_us", unit: time.Microsecond, class: timeInteger},
}

// A timeShape is what all values of a column must have in common. The zero
// timeShape is that of values in no known form.
type timeShape struct {
	form   string // as `as:` has it, or the head of a timeCalendar
	text   bool
	zoned  bool
	offset int // of the zone, in seconds
}

// A timeSample is a value, or several of one shape, and what is seen of them.
type timeSample struct {
	shape  timeShape
	raw    any    // the first
	real   bool   // some are float64
	part   bool   // some are not whole
	widths uint   // bit n: some have a fraction of n digits
	suffix string // the first one's zone
}

// detectTimeForm returns the form that raw values from a column have. NULLs
// and zero dates are ignored; ok is false if there is nothing else. The zone,
// UTC if nil, is for forms without one of their own. Values in several forms,
// or in none that is known, are an error that shows one of each kind.
func detectTimeForm(samples []any, zone *time.Location) (f timeForm, ok bool, err error) {
	if zone == nil {
		zone = time.UTC
	}
	var kinds []timeSample
	for _, raw := range samples {
		if raw == nil || isZeroDate(raw) {
			continue
		}
		s := timeSampleOf(raw)
		i := slices.IndexFunc(kinds, func(k timeSample) bool { return k.shape == s.shape })
		if i < 0 {
			kinds = append(kinds, s)
			continue
		}
		k := &kinds[i]
		k.real, k.part, k.widths = k.real || s.real, k.part || s.part, k.widths|s.widths
	}
	switch {
	case len(kinds) == 0:
		return timeForm{}, false, nil
	case len(kinds) > 1:
		return timeForm{}, false, timeMixedError(kinds)
	case kinds[0].shape == timeShape{}:
		return timeForm{}, false, timeUnknownError(kinds[0].raw)
	}
	return kinds[0].timeForm(zone), true, nil
}

func timeSampleOf(raw any) timeSample {
	s := timeSample{raw: raw, widths: 1}
	switch v := raw.(type) {
	case time.Time:
		s.shape.form = "native"
	case int64:
		s.shape.form = timeNumberForm(float64(v))
	case float64:
		s.shape.form, s.real, s.part = timeNumberForm(v), true, v != math.Trunc(v)
	case []byte:
		return timeSampleOf(string(v))
	case string:
		s.look(v)
	}
	return s
}

// timeNumberForm returns the form of a number, "" if none is known.
func timeNumberForm(v float64) string {
	for _, u := range timeUnits {
		if per := float64(time.Second / u.unit); v >= timeFrom*per && v < timeBefore*per {
			return u.name
		}
	}
	const julian1970 = float64(julianEpoch) / julianDay
	if v >= julian1970+timeFrom/86400 && v < julian1970+timeBefore/86400 {
		return "julian"
	}
	if v == math.Trunc(v) && v >= 19900101000000 && v < 21010101000000 {
		if _, rest, ok := timeCutHead(strconv.FormatInt(int64(v), 10), timeCompact); ok && rest == "" {
			return timeCompact
		}
	}
	return ""
}

// look sets what a text shows.
func (s *timeSample) look(v string) {
	for _, head := range timeHeads {
		wall, rest, ok := timeCutHead(v, head)
		if !ok || head == timeCompact && (wall.Year() < 1990 || wall.Year() > 2100) {
			continue
		}
		digits := 0
		if strings.HasSuffix(head, "05") {
			_, digits, rest = timeCutFraction(rest)
		}
		offset, zoned := timeOffset(rest)
		if rest != "" && !zoned {
			continue
		}
		s.shape = timeShape{head, true, zoned, offset}
		s.widths = 1 << digits
		s.suffix, _, _ = strings.Cut(rest, " m=")
		return
	}
	for _, u := range timeUnits {
		u.class = timeText
		if t, ok := u.read(v); ok && t.Unix() < timeBefore {
			s.shape = timeShape{form: u.name, text: true}
		}
	}
}

// timeForm returns the form of samples of a known shape.
func (s timeSample) timeForm(zone *time.Location) timeForm {
	class := timeInteger
	switch {
	case s.shape.text:
		class = timeText
	case s.real:
		class = timeReal
	}
	switch c := timeNamed(s.shape.form).(type) {
	case nil:
	case timeUnix:
		c.class, c.fraction = class, s.part
		return timeForm{c}
	default:
		return timeForm{c}
	}
	c := timeCalendar{head: s.shape.form, class: class, suffix: s.suffix, zone: zone}
	if s.shape.zoned {
		c.zone = time.FixedZone("", s.shape.offset)
	}
	if most := bits.Len(s.widths) - 1; most > 0 {
		c.frac = "." + strings.Repeat("0", most)
		c.sparse = s.widths&1 != 0
		if s.widths&^1 != 1<<most {
			c.frac = ".999999"
		}
	}
	return timeForm{c}
}

// timeNamed returns the form of which name is the whole `as:`, nil if there is
// none.
func timeNamed(name string) timeCodec {
	switch name {
	case "native":
		return timeNative{}
	case "julian":
		return timeJulian{}
	}
	for _, u := range timeUnits {
		if u.name == name {
			return u
		}
	}
	return nil
}

// parseTimeForm reads the setting `as:`, one of native, unix_s, unix_ms,
// unix_us, julian and text:<layout>. The layout is Go's; it is refused if the
// order of its texts is not the order of time. The zone, UTC if nil, is for
// forms without one of their own; a layout with an offset is for texts that
// all have the zone's or, if that changes, UTC's.
func parseTimeForm(as string, zone *time.Location) (timeForm, error) {
	if c := timeNamed(as); c != nil {
		return timeForm{c}, nil
	}
	layout, ok := strings.CutPrefix(as, "text:")
	if !ok {
		return timeForm{}, fmt.Errorf("%q is not native, unix_s, unix_ms, unix_us, julian or text:<layout>", as)
	}
	if zone == nil {
		zone = time.UTC
	}
	return timeLayoutForm(layout, zone)
}

// timeLayout matches the layouts whose texts are in the order of time, and in
// them the fraction and the zone.
var timeLayout = pattern(strings.ReplaceAll(
	`^2006~01~02(?:~15(?:~04(?:~05(\.0{1,9}|\.9{1,9})?)?)?)?`+
		`( ?(?:Z|UTC|Z07|Z0700|Z07:00|-07|-0700|-07:00|-0700 MST))?$`, "~", "[-/.:_ T]*"))

func timeLayoutForm(layout string, zone *time.Location) (timeForm, error) {
	m := timeLayout().FindStringSubmatch(layout)
	if m == nil {
		for _, element := range []string{"2006", "01", "02"} {
			if !strings.Contains(layout, element) {
				return timeForm{}, fmt.Errorf("layout %q has no %s: it needs the whole date, as 2006, 01 and 02", layout, element)
			}
		}
		return timeForm{}, fmt.Errorf("layout %q: the order of such texts is not known to be the order of time, "+
			"as is that of 2006-01-02 15:04:05, with or without a fraction (.000, .999) and an offset (Z07:00, -07:00)", layout)
	}
	c := timeCalendar{class: timeText, frac: m[1], zone: zone}
	c.head = strings.TrimSuffix(layout, m[1]+m[2])
	if m[2] == "" {
		return timeForm{c}, nil
	}
	t := time.Unix(timeFrom, 0).In(zone)
	if _, end := t.ZoneBounds(); !end.IsZero() || !strings.Contains(m[2], "07") {
		t = t.UTC()
	}
	_, offset := t.Zone()
	c.zone, c.suffix = t.Location(), t.Format(m[2])
	if shown, ok := timeOffset(c.suffix); !ok || shown != offset {
		return timeForm{}, fmt.Errorf("layout %q cannot show the offset of %s", layout, zone)
	}
	return timeForm{c}, nil
}

// timeCutHead cuts from s the reading of a clock, in UTC, that it begins with
// in the layout, whose digits stand for exactly as many digits.
func timeCutHead(s, layout string) (wall time.Time, rest string, ok bool) {
	if len(s) < len(layout) {
		return time.Time{}, s, false
	}
	for i := range len(layout) {
		if s[i] != layout[i] && !(timeDigit(s[i]) && timeDigit(layout[i])) {
			return time.Time{}, s, false
		}
	}
	if wall, ok := timeCommonHead(s, layout); ok {
		return wall, s[len(layout):], true
	}
	wall, err := time.Parse(layout, s[:len(layout)])
	return wall, s[len(layout):], err == nil
}

// timeCommonHead reads what most columns hold, a date and a time to the second
// with some separators, several times faster than time.Parse: each row of a
// pass goes through it. Where s is not a date that exists it leaves the
// judgement to that.
func timeCommonHead(s, layout string) (time.Time, bool) {
	if len(layout) != 19 || layout[:4] != "2006" || layout[5:7] != "01" || layout[8:10] != "02" ||
		layout[11:13] != "15" || layout[14:16] != "04" || layout[17:] != "05" {
		return time.Time{}, false
	}
	two := func(i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	if month > 12 || day == 0 || day > 28 && day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() ||
		hour > 23 || minute > 59 || second > 59 || month == 0 {
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC), true
}

// timeCutFraction cuts from s the fraction of a second, of 1 to 9 digits, that
// it begins with; digits is 0 if there is none.
func timeCutFraction(s string) (d time.Duration, digits int, rest string) {
	if s == "" || s[0] != '.' {
		return 0, 0, s
	}
	rest = s[1:]
	for unit := time.Second; rest != "" && timeDigit(rest[0]); rest = rest[1:] {
		unit /= 10
		d += time.Duration(rest[0]-'0') * unit
		digits++
	}
	if digits < 1 || digits > 9 {
		return 0, 0, s
	}
	return d, digits, rest
}

func timeDigit(c byte) bool { return '0' <= c && c <= '9' }

// timeZoned matches the zones that texts end in; " +0000 UTC m=+0.1" is how
// Go prints a time.
var timeZoned = pattern(
	`^ ?(?:Z|UTC|([+-][01]\d)(?::?([0-5]\d))?(?: [A-Za-z0-9+-]+(?: m=[+-][0-9.]+)?)?)$`)

// timeOffset returns the seconds east of UTC of a zone that a text ends in.
func timeOffset(s string) (seconds int, ok bool) {
	m := timeZoned().FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	hours, _ := strconv.Atoi(m[1]) // 0 if it is empty
	minutes, _ := strconv.Atoi(m[2])
	if strings.HasPrefix(m[1], "-") {
		minutes = -minutes
	}
	return hours*3600 + minutes*60, true
}

// timeCeil is Truncate's counterpart.
func timeCeil(t time.Time, d time.Duration) time.Time {
	if c := t.Truncate(d); c.Before(t) {
		return c.Add(d)
	}
	return t
}

// timeZeroDate matches what programs write for want of a date: MySQL's zero
// date, and Go's zero time as text.
var timeZeroDate = pattern(
	`^(0+|(0000-00-00|0001-01-01)([ T]00:00(:00(\.0+)?)?)?( ?(Z|UTC|\+00(:?00)?))*)$`)

// isZeroDate reports whether a raw value is a date only by its type: 0, an
// empty text, a zero date or a zero time.Time. NULL is not one.
func isZeroDate(raw any) bool {
	switch v := raw.(type) {
	case int64, float64:
		return v == int64(0) || v == 0.0
	case []byte:
		return isZeroDate(string(v))
	case string:
		return v == "" || v[0] == '0' && timeZeroDate().MatchString(v)
	case time.Time:
		return v.IsZero()
	}
	return false
}
