package recur

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

const (
	maxText  = 1000    // bytes of a rule
	maxCount = 100_000 // of COUNT, so many occurrences Parse may walk, and of INTERVAL
	maxYears = 10      // from DTSTART to the first occurrence
)

// exampleValues has the parts a rule may have, each with an example of its value.
var exampleValues = map[string]string{
	"FREQ":       "DAILY",
	"INTERVAL":   "2",
	"COUNT":      "10",
	"UNTIL":      "20261231",
	"WKST":       "MO",
	"BYMONTH":    "1,7",
	"BYMONTHDAY": "1,-1",
	"BYDAY":      "MO,TU",
	"BYHOUR":     "6,16",
	"BYMINUTE":   "0,30",
	"BYSECOND":   "0",
	"BYSETPOS":   "1,-1",
}

// weekdays are the library's, Sunday first as in package time.
var weekdays = []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}

// A parser makes a rule of a text.
type parser struct {
	*Rule
	parts map[string]string // of the RRULE
	count int               // 0: no COUNT
}

// Parse reads a rule as RFC 5545 writes it: "RRULE:FREQ=DAILY" or "FREQ=DAILY". A DTSTART may stand
// before it and EXDATE after it, separated by a space or the end of a line. DTSTART without a zone
// is in the given zone, nil for UTC; other times without a zone are in DTSTART's zone. An UNTIL
// without a time means the end of that day.
//
// A rule without DTSTART starts anew at each midnight, as if that were its DTSTART.
//
// BYWEEKNO, BYYEARDAY and ordinals beyond the fifth weekday are not supported, because the library
// gets them wrong and they are rare.
//
// An error says what is wrong with the rule and how to write it instead.
func Parse(text string, zone *time.Location) (*Rule, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the rule has %d bytes; %d are the most", len(text), maxText)
	}
	r := &Rule{
		zone:          cmp.Or(zone, time.UTC),
		start:         time.Unix(0, 0).UTC(),
		startsEachDay: true,
		excluded:      make(map[int64]bool),
	}
	p := parser{Rule: r, parts: make(map[string]string)}
	for i, line := range strings.Fields(text) {
		if err := p.line(line, i == 0); err != nil {
			return nil, err
		}
	}
	err := p.check()
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// line reads DTSTART, EXDATE or the RRULE.
func (p *parser) line(line string, first bool) error {
	name := "RRULE"
	rest := ":" + line
	if i := strings.IndexAny(line, ";:="); i >= 0 && line[i] != '=' {
		name = strings.ToUpper(line[:i])
		rest = line[i:]
	}
	switch {
	case name == "DTSTART" && !first:
		return errors.New("DTSTART is there twice, or not at the beginning; write it once, before the RRULE")
	case name == "RRULE" && len(p.parts) > 0:
		return errors.New("RRULE is there twice; a rule has one")
	case name == "RRULE":
		return p.rrule(rest[1:])
	case name != "DTSTART" && name != "EXDATE":
		return fmt.Errorf("%s is not supported; a rule has DTSTART, RRULE and EXDATE", name)
	}
	value, zone, err := p.zoned(rest)
	switch {
	case err != nil:
	case name == "DTSTART":
		p.startsEachDay = false
		p.start, p.zone, err = parseWallTime(value, zone)
	default:
		err = p.exclude(value, zone)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// zoned splits the rest of a line after DTSTART or EXDATE into its value and its zone, which is
// the rule's unless a parameter names one: ";TZID=Europe/Berlin:20260105T060000".
func (p *parser) zoned(rest string) (value string, zone *time.Location, err error) {
	params, value, _ := strings.Cut(rest, ":")
	params = strings.NewReplacer(";VALUE=DATE-TIME", "", ";VALUE=DATE", "").Replace(params) // the value shows which it is
	id, named := strings.CutPrefix(params, ";TZID=")
	value = strings.ToUpper(value)
	zone = p.zone
	if named {
		zone, err = time.LoadLocation(id)
	}
	switch {
	case params != "" && !named:
		err = fmt.Errorf("%s is not supported; TZID and VALUE=DATE are", params[1:])
	case named && (err != nil || id == "" || zone == time.Local):
		err = fmt.Errorf("%s is not known; write it as TZID=Europe/Berlin", params[1:])
	case named && strings.HasSuffix(value, "Z") && zone != time.UTC:
		err = errors.New("there is a TZID and a time in UTC; leave out the one or the Z")
	}
	return value, zone, err
}

// exclude reads the times of EXDATE.
func (p *parser) exclude(value string, zone *time.Location) error {
	for _, v := range strings.Split(value, ",") {
		wall, ownZone, err := parseWallTime(v, zone)
		switch {
		case err != nil:
			return err
		case isDateOnly(v):
			return fmt.Errorf("%s is a day; write the time as well, as in %sT060000", v, v)
		}
		p.excluded[instant(wall, ownZone).Unix()] = true
	}
	return nil
}

const dateOnly = "20060102"

// isDateOnly reports whether a value that [parseWallTime] takes is a date without a time.
func isDateOnly(value string) bool { return len(value) == len(dateOnly) }

// parseWallTime reads a time as RFC 5545 writes it. It returns the wall time and its zone: UTC for a
// time with a Z, otherwise the default zone.
func parseWallTime(s string, defaultZone *time.Location) (wall time.Time, zone *time.Location, err error) {
	zone = defaultZone
	if strings.HasSuffix(s, "Z") {
		zone = time.UTC
	}
	for _, layout := range []string{dateOnly, "20060102T150405", "20060102T150405Z"} {
		if len(s) != len(layout) { // time.Parse takes a fraction of a second that no layout has
			continue
		}
		wall, err = time.Parse(layout, s)
		if err == nil {
			return wall, zone, nil
		}
	}
	return time.Time{}, defaultZone, fmt.Errorf("%q is no time; write it as 20260105T060000, or 20260105T060000Z for UTC", s)
}

// rrule reads the parts of the RRULE.
func (p *parser) rrule(text string) error {
	rule := "FREQ=DAILY" // the library needs a FREQ; check refuses a rule without one
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case value == "":
			return fmt.Errorf("%q is no part of a rule; write it as FREQ=DAILY", part)
		case p.has(name):
			return fmt.Errorf("%s is there twice; write all values in one list", name)
		case exampleValues[name] == "":
			return fmt.Errorf("%s is not supported; the parts of a rule are %s", part, strings.Join(slices.Sorted(maps.Keys(exampleValues)), ", "))
		}
		p.parts[name] = value
		if name == "UNTIL" {
			wall, zone, err := parseWallTime(value, p.zone)
			if err != nil {
				return fmt.Errorf("%s: %w", part, err)
			}
			if isDateOnly(value) {
				wall = wall.Add(day - time.Second)
			}
			p.until = instant(wall, zone)
			continue
		}
		if err := checkPart(name, part); err != nil {
			return fmt.Errorf("%s: %w; write it as %s=%s", part, err, name, exampleValues[name])
		}
		rule += ";" + part // the library takes the last FREQ
	}
	o, err := rrule.StrToROption(rule)
	if err != nil {
		return err
	}
	for _, list := range []*[]int{&o.Bysecond, &o.Byminute, &o.Byhour, &o.Bymonthday, &o.Bymonth, &o.Bysetpos} {
		slices.Sort(*list)
		*list = slices.Compact(*list) // to the library, an hour named twice would be two
	}
	o.Interval = max(o.Interval, 1)
	p.count = o.Count
	o.Count = 0 // the library would count from the start that walk gives it
	p.calendar = *o
	return nil
}

// checkPart returns what is wrong with a part by itself: the library does not understand it, knows
// that it is out of bounds, or would ignore it.
func checkPart(name, part string) error {
	o, err := rrule.StrToROption("FREQ=DAILY;" + part)
	if err == nil {
		_, err = rrule.NewRRule(*o)
	}
	tooFar := func(d rrule.Weekday) bool { return d.N() < -5 || d.N() > 5 }
	outOfRange := func(n int) bool { return n < 1 || n > maxCount }
	number, isNumError := errors.AsType[*strconv.NumError](err)
	switch {
	case isNumError:
		return fmt.Errorf("%q is no whole number that it can have", number.Num)
	case err != nil:
		return err
	case o.Freq == rrule.SECONDLY:
		return errors.New("a rule cannot be finer than MINUTELY")
	case name == "INTERVAL" && outOfRange(o.Interval), name == "COUNT" && outOfRange(o.Count):
		return fmt.Errorf("must be from 1 to %d", maxCount)
	case o.Wkst.N() != 0:
		return errors.New("a week cannot start with the n-th of a weekday")
	case slices.ContainsFunc(o.Byweekday, tooFar) || name == "BYDAY" && strings.Contains(part, "0"):
		return errors.New("the n-th of a weekday goes from 1 to 5, or from -5 to -1")
	}
	return nil
}

// finish computes where a rule with checked parts ends, and refuses a rule that occurs too late or
// never.
func (p *parser) finish() error {
	if p.step > 0 && p.count > 0 {
		steps := int64(p.count-1) * int64(p.step/time.Second)
		p.until = time.Unix(instant(p.start, p.zone).Unix()+steps, 0)
	}
	if p.step == 0 {
		p.complete()
		n := 0
		err := p.walk(p.start, func(wall time.Time) bool {
			n++
			if n == p.count {
				p.last = wall
			}
			return n < p.count
		})
		if err != nil {
			return fmt.Errorf("the rule cannot be expanded: %w", err)
		}
	}
	first, ok := p.First(instant(p.start, p.zone))
	if !ok || first.After(p.start.AddDate(maxYears, 0, 0)) {
		return fmt.Errorf("the rule has no occurrence within the first %d years; change DTSTART, UNTIL or the BY parts", maxYears)
	}
	return nil
}

// complete sets the parts that a calendar rule takes from DTSTART.
func (p *parser) complete() {
	o := &p.calendar
	if o.Byhour == nil {
		o.Byhour = []int{p.start.Hour()}
	}
	if o.Byminute == nil {
		o.Byminute = []int{p.start.Minute()}
	}
	if o.Bysecond == nil {
		o.Bysecond = []int{p.start.Second()}
	}
	switch {
	case o.Freq == rrule.DAILY || p.has("BYMONTHDAY") || p.has("BYDAY"):
		return
	case o.Freq == rrule.WEEKLY:
		o.Byweekday = []rrule.Weekday{weekdays[p.start.Weekday()]}
		return
	case o.Freq == rrule.YEARLY && o.Bymonth == nil:
		o.Bymonth = []int{int(p.start.Month())}
	}
	o.Bymonthday = []int{p.start.Day()}
}

// maxTimes is how many times of day a rule may name, by its FREQ. The library expands a whole year,
// month, week or day at once.
var maxTimes = [...]int{
	rrule.YEARLY:   24,
	rrule.MONTHLY:  300,
	rrule.WEEKLY:   1440,
	rrule.DAILY:    1440,
	rrule.HOURLY:   1,
	rrule.MINUTELY: 1,
}

// maxSetpos is how many values BYSETPOS may have. The library tries each in every year, month or
// week.
const maxSetpos = 5

// has reports whether the RRULE has a part.
func (p *parser) has(name string) bool { return p.parts[name] != "" }

// check returns what is wrong with the parts together: they need a DTSTART, RFC 5545 forbids them,
// or the library gets them wrong or takes long for them. It sets step.
func (p *parser) check() error {
	o := &p.calendar
	freq := p.parts["FREQ"]
	switch o.Freq {
	case rrule.HOURLY:
		p.step = time.Hour * time.Duration(o.Interval)
	case rrule.MINUTELY:
		p.step = time.Minute * time.Duration(o.Interval)
	}
	for name := range p.parts {
		if p.step > 0 && strings.HasPrefix(name, "BY") {
			return errors.New("FREQ=" + freq + " takes no BY part" + p.daily())
		}
	}
	ordinals := strings.ContainsAny(p.parts["BYDAY"], "12345")
	plainWeekdays := slices.ContainsFunc(o.Byweekday, func(d rrule.Weekday) bool { return d.N() == 0 })
	times := max(1, len(o.Byhour)) * max(1, len(o.Byminute)) * max(1, len(o.Bysecond))
	with := " does not go with FREQ=" + freq + "; "
	interval := fmt.Sprintf("INTERVAL=%d", o.Interval)
	const start = "; add a DTSTART, as in DTSTART:20260105T060000"
	for _, guard := range []struct {
		wrong bool
		text  string
	}{
		{freq == "", "there is no FREQ; write FREQ=DAILY or the like"},
		{p.has("COUNT") && p.has("UNTIL"), "COUNT and UNTIL are both there; leave out one"},

		{p.startsEachDay && p.has("COUNT"), "COUNT counts from DTSTART, and there is none" + start},
		{p.startsEachDay && o.Freq == rrule.YEARLY, "FREQ=YEARLY needs to know in which year it starts" + start},
		{p.startsEachDay && p.step == 0 && o.Interval > 1, interval + " counts from DTSTART, and there is none" + start},
		{p.startsEachDay && p.step > day, interval + " is more than a day, and without DTSTART each midnight begins anew" + start},
		{p.startsEachDay && o.Freq == rrule.WEEKLY && !p.has("BYDAY"),
			"FREQ=WEEKLY takes its weekday from DTSTART, and there is none; add BYDAY, as in BYDAY=MO, or a DTSTART"},
		{p.startsEachDay && o.Freq == rrule.MONTHLY && !p.has("BYDAY") && !p.has("BYMONTHDAY"),
			"FREQ=MONTHLY takes its day from DTSTART, and there is none; add BYMONTHDAY, as in BYMONTHDAY=1, BYDAY or a DTSTART"},

		{o.Freq == rrule.WEEKLY && p.has("BYMONTHDAY"), "BYMONTHDAY" + with + "write FREQ=MONTHLY, or BYDAY instead"},
		{o.Freq == rrule.DAILY && p.has("BYSETPOS"), "BYSETPOS" + with + "name the times it picks in BYHOUR and BYMINUTE instead"},
		{len(o.Bysetpos) > maxSetpos, fmt.Sprintf("BYSETPOS has %d values; %d are the most", len(o.Bysetpos), maxSetpos)},
		{ordinals && o.Freq > rrule.MONTHLY, "BYDAY with an ordinal, as in 1MO," + with + "write FREQ=MONTHLY, or leave out the ordinal"},
		{ordinals && plainWeekdays, "BYDAY has weekdays with and without an ordinal; write MO as 1MO,2MO,3MO,4MO,5MO"},
		{times > maxTimes[o.Freq],
			fmt.Sprintf("the rule names %d times of day; with %s, %d are the most: name fewer, or write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes %d",
				times, "FREQ="+freq, maxTimes[o.Freq], maxTimes[rrule.DAILY])},
	} {
		if guard.wrong {
			return errors.New(guard.text)
		}
	}
	return nil
}

// daily returns the end of an error about an HOURLY or MINUTELY rule with BY parts: the DAILY rule
// that means the same, if there is one.
func (p *parser) daily() string {
	const otherwise = "; write FREQ=DAILY with BYHOUR and BYMINUTE"
	o := &p.calendar
	hours := o.Interval // from one occurrence to the next
	minutes := 60
	switch {
	case o.Freq == rrule.MINUTELY:
		hours = 1
		minutes = o.Interval
	case o.Byminute != nil: // each of them in each hour
		minutes = 1
	}
	if p.has("BYSETPOS") || 24%hours > 0 || 60%minutes > 0 {
		return otherwise
	}
	text := "; this says the same: FREQ=DAILY"
	for _, unit := range []struct {
		name  string
		count int // of its values
		start int
		step  int
		by    []int // the rule's own list; nil: all
	}{
		{"BYHOUR", 24, p.start.Hour(), hours, o.Byhour},
		{"BYMINUTE", 60, p.start.Minute(), minutes, o.Byminute},
	} {
		var list []string
		for n := range unit.count {
			if (n-unit.start)%unit.step == 0 && (unit.by == nil || slices.Contains(unit.by, n)) {
				list = append(list, strconv.Itoa(n))
			}
		}
		if list == nil {
			return ", and with these it never occurs" + otherwise
		}
		text += ";" + unit.name + "=" + strings.Join(list, ",")
	}
	for _, name := range []string{"BYSECOND", "BYMONTH", "BYMONTHDAY", "BYDAY", "COUNT", "UNTIL"} {
		if p.has(name) {
			text += ";" + name + "=" + p.parts[name]
		}
	}
	return text
}
