package timeform

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/pattern"
)

// A number is taken for a time of the years 1990 to 2100. In this range seconds, milliseconds,
// microseconds, Julian days and 14 digits cannot be confused.
const (
	firstUnix = 631152000  // 1990, as a Unix time
	endUnix   = 4133980800 // 2101
	compact   = "20060102150405"
)

// A time that was detected is plausible from First on and before End.
var (
	First = time.Unix(firstUnix, 0).UTC()
	End   = time.Unix(endUnix, 0).UTC()
)

// heads are the heads that can be detected, see [Calendar]. A longer head comes before one that
// it begins with.
var heads = []string{
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02",
	compact,
}

// steps are the units of the last element of a head.
var steps = map[string]time.Duration{
	"02": 24 * time.Hour, "15": time.Hour, "04": time.Minute, "05": time.Second,
}

// units are the forms that count since 1970.
var units = []unix{
	{name: "unix_s", unit: time.Second, class: Integer},
	{name: "unix_ms", unit: time.Millisecond, class: Integer},
	{name: "unix_us", unit: time.Microsecond, class: Integer},
}

// A shape is what the values of a column must have in common. The zero shape stands for values in
// an unknown form.
type shape struct {
	form   string // the name of `as:`, the head of a Calendar, or [dated]
	text   bool
	zoned  bool // its offset from UTC is known
	offset int  // from UTC, in seconds; if zoned
}

// dated is the form of texts with a date and a time of day, with or without seconds, and with
// whichever divider.
const dated = "2006-01-02 and a time of day"

// A sample is one value, or several of the same shape, with what was observed about them.
type sample struct {
	shape  shape
	count  int
	raw    any            // the first value
	real   bool           // some are float64
	part   bool           // some have a fraction
	widths uint           // bit n: some have a fraction of n digits
	heads  map[string]int // how many texts have the head
	zones  map[string]int // how many texts end in the zone; "": in no zone
}

// add merges another sample of the same shape into s.
func (s *sample) add(o sample) {
	s.count++
	s.real = s.real || o.real
	s.part = s.part || o.part
	s.widths |= o.widths
	for head := range o.heads {
		s.heads[head]++
	}
	for zone := range o.zones {
		s.zones[zone]++
	}
}

// mostCounted returns the key with the highest count, and of several the first in alphabetical order.
func mostCounted(counts map[string]int) (name string) {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] > counts[name] {
			name = key
		}
	}
	return name
}

// Detect returns the form that at least three quarters of the raw values of a column have. It
// ignores NULLs and zero dates; ok is false if there are no other values. Forms without a zone of
// their own are in the given zone; nil: UTC. If no form has three quarters, the error shows one
// value of each form.
//
// Texts are of one form if they differ only in the divider of date and time of day, in the
// fraction, or in the notation of the same zone.
func Detect(samples []any, zone *time.Location) (f Form, ok bool, err error) {
	zone = cmp.Or(zone, time.UTC)
	kinds, total := kindsOf(samples, zone)
	if total == 0 {
		return Form{}, false, nil
	}
	first := kinds[0]
	switch {
	case first.shape == shape{} && (len(kinds) == 1 || IsEnough(first.count, total)):
		return Form{}, false, fmt.Errorf("%s is no time in a known form: numbers are taken for times of the years 1990 to 2100, in seconds, milliseconds or microseconds; "+
			"`as: text:<layout>` describes texts that begin with the year, such as 2006/01/02 15:04 or 20060102; others do not sort by time, "+
			"and need a generated column that does", show(first.raw))
	case !IsEnough(first.count, total):
		return Form{}, false, mixedError(kinds)
	}
	return first.asForm(zone), true, nil
}

// MostCommon returns the form that most of the raw values have, even if they are few. ok is false
// if no value has a known form. The zone has the meaning it has in [Detect].
func MostCommon(samples []any, zone *time.Location) (f Form, ok bool) {
	zone = cmp.Or(zone, time.UTC)
	kinds, _ := kindsOf(samples, zone)
	kinds = slices.DeleteFunc(kinds, func(k sample) bool { return k.shape == shape{} })
	if len(kinds) == 0 {
		return Form{}, false
	}
	return kinds[0].asForm(zone), true
}

// IsEnough reports whether n of all values, three quarters, are enough for a column to have their
// form.
func IsEnough(n, all int) bool { return n*4 >= all*3 }

// kindsOf groups the samples by their shapes, the most frequent first. total is how many samples
// are neither NULL nor zero dates.
func kindsOf(samples []any, zone *time.Location) (kinds []sample, total int) {
	at := make(map[shape]int)
	for _, raw := range samples {
		if raw == nil || IsZero(raw) {
			continue
		}
		total++
		s := sampleOf(raw, zone)
		if i, ok := at[s.shape]; ok {
			kinds[i].add(s)
		} else {
			at[s.shape] = len(kinds)
			kinds = append(kinds, s)
		}
	}
	slices.SortStableFunc(kinds, func(a, b sample) int { return cmp.Compare(b.count, a.count) })
	return kinds, total
}

func sampleOf(raw any, zone *time.Location) sample {
	s := sample{raw: raw, widths: 1, count: 1}
	switch v := raw.(type) {
	case int64:
		s.shape.form = numberForm(float64(v))
	case float64:
		s.shape.form = numberForm(v)
		s.real = true
		s.part = v != math.Trunc(v)
	case []byte:
		return sampleOf(string(v), zone)
	case string:
		s.describe(v, zone)
	}
	return s
}

// numberForm returns the name of the form of a number, "" if it is in no known form.
func numberForm(v float64) string {
	for _, u := range units {
		if per := float64(time.Second / u.unit); v >= firstUnix*per && v < endUnix*per {
			return u.name
		}
	}
	const julian1970 = float64(julianEpoch) / julianDay
	if v >= julian1970+firstUnix/86400 && v < julian1970+endUnix/86400 {
		return "julian"
	}
	if v == math.Trunc(v) && v >= 19900101000000 && v < 21010101000000 {
		if _, rest, ok := cutHead(strconv.FormatInt(int64(v), 10), compact); ok && rest == "" {
			return compact
		}
	}
	return ""
}

// describe sets what can be observed about a text. A text without a zone is in the zone of the
// column; its offset is known if that zone always has the same one.
func (s *sample) describe(v string, zone *time.Location) {
	for _, head := range heads {
		wall, rest, ok := cutHead(v, head)
		if !ok || head == compact && (wall.Year() < 1990 || wall.Year() > 2100) {
			continue
		}
		var digits int
		if strings.HasSuffix(head, "05") {
			_, digits, rest = cutFraction(rest)
		}
		offset, zoned := offsetOf(rest)
		if rest != "" && !zoned {
			continue
		}
		if rest == "" {
			offset, zoned = fixed(zone)
		}
		s.shape = shape{head, true, zoned, offset}
		if strings.Contains(head, ":") {
			s.shape.form = dated
		}
		s.widths = 1 << digits
		suffix, _, _ := strings.Cut(rest, " m=")
		s.heads = map[string]int{head: 1}
		s.zones = map[string]int{suffix: 1}
		return
	}
}

// fixed returns the offset of the zone from UTC, in seconds, and whether it has been the same since
// 1990.
func fixed(zone *time.Location) (offset int, ok bool) {
	t := First.In(zone)
	_, offset = t.Zone()
	_, end := t.ZoneBounds()
	return offset, end.IsZero()
}

// headOf returns the head that fits a text with any divider, one of the first four.
func headOf(text string) string {
	const day, minute = len("2006-01-02"), len("2006-01-02 15:04")
	i := 2
	if len(text) > minute && text[minute] == ':' {
		i = 0
	}
	if len(text) > day && text[day] == 'T' {
		i++
	}
	return heads[i]
}

// asForm returns the form of samples whose shape is known.
func (s sample) asForm(zone *time.Location) Form {
	class := Integer
	switch {
	case s.shape.text:
		class = Text
	case s.real:
		class = Real
	}
	if c, ok := named[s.shape.form].(unix); ok {
		c.class = class
		c.fraction = s.part
		return Form{c}
	} else if c := named[s.shape.form]; c != nil {
		return Form{c}
	}
	widest := bits.Len(s.widths) - 1 // of the fractions
	heads := maps.Clone(s.heads)
	if widest > 0 { // what is written has a fraction, too, and so seconds
		maps.DeleteFunc(heads, func(head string, _ int) bool { return !strings.HasSuffix(head, "05") })
	}
	c := Calendar{Head: cmp.Or(mostCounted(heads), s.shape.form), class: class, Suffix: mostCounted(s.zones), Zone: zone, anyDivider: s.shape.form == dated}
	if offset, ok := fixed(zone); s.shape.text && ok {
		c.zoneOptional = offset == s.shape.offset
	}
	if c.Suffix != "" {
		c.Zone = time.FixedZone("", s.shape.offset)
	}
	if widest > 0 {
		c.Fraction = "." + strings.Repeat("0", widest)
		c.omitsZero = s.widths&1 != 0
		if s.widths&^1 != 1<<widest {
			c.Fraction = ".999999"
		}
	}
	return Form{c}
}

// named are the forms that `as:` names by one word.
var named = map[string]codec{"julian": julian{}, "unix_s": units[0], "unix_ms": units[1], "unix_us": units[2]}

// Seconds is the form of whole seconds since 1970.
var Seconds = Form{units[0]}

// Standard is the form of SQL's CURRENT_TIMESTAMP as text, in the zone.
func Standard(zone *time.Location) Form {
	return Form{Calendar{Head: heads[0], Zone: zone, class: Text}}
}

// Parse parses the setting `as:`, which is unix_s, unix_ms, unix_us, julian or text:<layout>. Parse
// does not accept native, because then the type of the column determines the form. The layout is
// one of package time; Parse refuses it if its texts are not ordered by time. Forms without a zone
// of their own are in the given zone; nil: UTC. A layout with an offset is for texts that all have
// the same one: the zone's or, if that changes, UTC.
func Parse(as string, zone *time.Location) (Form, error) {
	if c := named[as]; c != nil {
		return Form{c}, nil
	}
	layout, ok := strings.CutPrefix(as, "text:")
	if !ok {
		return Form{}, fmt.Errorf("%q is not native, unix_s, unix_ms, unix_us, julian or text:<layout>", as)
	}
	zone = cmp.Or(zone, time.UTC)
	m := layoutPattern().FindStringSubmatch(layout)
	if m == nil {
		return Form{}, fmt.Errorf("layout %q: the order of such texts is not known to be the order of time, "+
			"as is that of 2006-01-02 15:04:05, with or without a fraction (.000, .999) and an offset (Z07:00, -07:00)", layout)
	}
	c := Calendar{class: Text, Head: strings.TrimSuffix(layout, m[1]+m[2]), Fraction: m[1], Zone: zone}
	if m[2] == "" {
		return Form{c}, nil
	}
	t := time.Unix(firstUnix, 0).In(zone)
	if _, end := t.ZoneBounds(); !end.IsZero() || !strings.Contains(m[2], "07") {
		t = t.UTC()
	}
	_, offset := t.Zone()
	c.Zone = t.Location()
	c.Suffix = t.Format(m[2])
	if shown, ok := offsetOf(c.Suffix); !ok || shown != offset {
		return Form{}, fmt.Errorf("layout %q cannot show the offset of %s", layout, zone)
	}
	return Form{c}, nil
}

// layoutPattern matches the layouts whose texts are ordered by time. Its groups are the fraction
// and the zone.
var layoutPattern = pattern.Lazily(strings.ReplaceAll(
	`^2006~01~02(?:~15(?:~04(?:~05(\.0{1,9}|\.9{1,9})?)?)?)?`+
		`( ?(?:Z|UTC|Z07|Z0700|Z07:00|-07|-0700|-07:00|-0700 MST))?$`, "~", "[-/.:_ T]*"))

// cutHead parses the beginning of s, which must be in the layout, as a time in UTC, and returns the
// rest. The digits of the layout stand for as many digits in s: four of the year, then two each
// for the elements down to seconds at most. Every row of a pass is parsed here, several times
// faster than by time.Parse.
func cutHead(s, layout string) (wall time.Time, rest string, ok bool) {
	if len(s) < len(layout) {
		return time.Time{}, s, false
	}
	var number int64 // all digits so far
	var digits int   // how many
	for i, c := range []byte(s[:len(layout)]) {
		switch like := layout[i]; {
		case !isDigit(like) && c == like:
		case isDigit(like) && isDigit(c):
			number = number*10 + int64(c-'0')
			digits++
		default:
			return time.Time{}, s, false
		}
	}
	for ; digits < len("20060102150405"); digits += 2 {
		number *= 100
	}
	year := number / 1e10
	month := number / 1e8 % 100
	day := number / 1e6 % 100
	hour := number / 1e4 % 100
	minute := number / 100 % 100
	second := number % 100
	wall = time.Date(int(year), time.Month(month), int(day), int(hour), int(minute), int(second), 0, time.UTC)
	ok = month >= 1 && month <= 12 && day >= 1 && hour < 24 && minute < 60 && second < 60
	return wall, s[len(layout):], ok && (day <= 28 || int(day) == wall.Day())
}

// cutFraction parses the fraction of a second at the beginning of s, which has 1 to 9 digits, and
// returns the rest. digits is 0 if there is no fraction.
func cutFraction(s string) (d time.Duration, digits int, rest string) {
	if s == "" || s[0] != '.' {
		return 0, 0, s
	}
	rest = s[1:]
	for unit := time.Second; rest != "" && isDigit(rest[0]); rest = rest[1:] {
		unit /= 10
		d += time.Duration(rest[0]-'0') * unit
		digits++
	}
	if digits < 1 || digits > 9 {
		return 0, 0, s
	}
	return d, digits, rest
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// zonePattern matches the zones at the end of a text. Go prints a time with " +0000 UTC m=+0.1".
var zonePattern = pattern.Lazily(
	`^ ?(?:Z|UTC|([+-][01]\d)(?::?([0-5]\d))?(?: [A-Za-z0-9+-]+(?: m=[+-][0-9.]+)?)?)$`)

// offsetOf returns the offset from UTC, in seconds, of the zone at the end of a text.
func offsetOf(s string) (seconds int, ok bool) {
	m := zonePattern().FindStringSubmatch(s)
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

// zeroPattern matches texts that programs write instead of no date, such as MySQL's zero date and
// Go's zero time.
var zeroPattern = pattern.Lazily(
	`^(0+|(0000-00-00|0001-01-01)([ T]00:00(:00(\.0+)?)?)?( ?(Z|UTC|\+00(:?00)?))*)$`)

// IsZero reports whether a raw value means that there is no date: 0, an empty text, or a zero date.
// It is false for NULL.
func IsZero(raw any) bool {
	switch v := raw.(type) {
	case int64, float64:
		return v == int64(0) || v == 0.0
	case []byte:
		return IsZero(string(v))
	case string:
		return v == "" || v[0] == '0' && zeroPattern().MatchString(v)
	}
	return false
}

// mixedError says that the values of a column are of several forms, and shows one of each.
func mixedError(kinds []sample) error {
	var shown []string
	onlyZonesDiffer := true
	for _, k := range kinds {
		shown = append(shown, show(k.raw))
		isSameForm := k.shape.form == kinds[0].shape.form
		hasZone := k.shape.zoned && mostCounted(k.zones) != ""
		onlyZonesDiffer = onlyZonesDiffer && isSameForm && hasZone
	}
	last := len(shown) - 1
	list := strings.Join(shown[:last], ", ") + " and " + shown[last]
	if onlyZonesDiffer {
		return fmt.Errorf("mixed zones: %s: the order of such texts is not the order of time", list)
	}
	return fmt.Errorf("mixed: %s", list)
}

// show returns a raw value for an error message, in quotes unless it is clear without. It is never
// longer than a line.
func show(raw any) string {
	switch v := raw.(type) {
	case string:
		const most = 48
		if len(v) > most {
			return strconv.Quote(v[:most]) + "…"
		}
		q := strconv.Quote(v)
		if q[1:len(q)-1] == v && strings.TrimSpace(v) == v && strings.ContainsAny(v, "-:") {
			return v
		}
		return q
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(raw)
}
