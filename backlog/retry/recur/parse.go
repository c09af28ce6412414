package recur

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

const (
	maxText  = 1000    // bytes of a rule
	maxCount = 100_000 // walked once, by Parse
	maxYears = 10      // from DTSTART to the first occurrence
)

// bounds are the numbers in the parts of a rule. Where there are negative ones, 0 is
// none of them.
var bounds = map[string]struct{ least, most int }{
	"INTERVAL":   {1, maxCount},
	"COUNT":      {1, maxCount},
	"BYSECOND":   {0, 59},
	"BYMINUTE":   {0, 59},
	"BYHOUR":     {0, 23},
	"BYDAY":      {-5, 5},
	"BYMONTHDAY": {-31, 31},
	"BYMONTH":    {1, 12},
	"BYSETPOS":   {-366, 366},
}

// days are the weekdays, Sunday first as in package time.
var days = []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}

// A parsed is a rule that is being made of a text.
type parsed struct {
	*Rule
	parts map[string]string // of the RRULE
	count int               // 0: no COUNT
}

// Parse reads the text of a rule as RFC 5545 writes it: "RRULE:FREQ=DAILY",
// "FREQ=DAILY", either after a DTSTART and a space or the end of a line, with
// EXDATE or without. Times without a zone are in that of DTSTART, DTSTART itself
// in the zone given, nil for UTC. An UNTIL without a time is the end of that day.
//
// A rule without DTSTART begins anew at each midnight, as if that were its DTSTART.
//
// BYWEEKNO, BYYEARDAY and ordinals beyond the fifth weekday are not supported: few
// write them, and the library has faults of its own there.
//
// An error says what is wrong with the rule and how to write it instead.
func Parse(text string, zone *time.Location) (*Rule, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the rule has %d bytes; %d are the most", len(text), maxText)
	}
	r := &Rule{zone: cmp.Or(zone, time.UTC), start: time.Unix(0, 0).UTC(), anchored: true, except: make(map[int64]bool)}
	r.calendar.Interval = 1
	p := parsed{Rule: r, parts: make(map[string]string)}
	for i, line := range strings.Fields(text) {
		if err := p.line(line, i == 0); err != nil {
			return nil, err
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return r, nil
}

// line reads DTSTART, EXDATE or the RRULE. Times after DTSTART are in its zone.
func (p *parsed) line(line string, first bool) (err error) {
	name, rest := "RRULE", ":"+line
	if i := strings.IndexAny(line, ";:="); i >= 0 && line[i] != '=' {
		name, rest = strings.ToUpper(line[:i]), line[i:]
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
		p.anchored = false
		p.start, p.zone, err = stamp(value, zone)
	default:
		err = p.exclude(value, zone)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// zoned splits the value of DTSTART or EXDATE from its parameters, which may name
// a zone: ";TZID=Europe/Berlin:20260105T060000".
func (p *parsed) zoned(rest string) (value string, zone *time.Location, err error) {
	params, value, _ := strings.Cut(rest, ":")
	params = strings.NewReplacer(";VALUE=DATE-TIME", "", ";VALUE=DATE", "").Replace(params) // the value shows it
	id, named := strings.CutPrefix(params, ";TZID=")
	value, zone = strings.ToUpper(value), p.zone
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
func (p *parsed) exclude(value string, zone *time.Location) error {
	for _, v := range strings.Split(value, ",") {
		wall, zone, err := stamp(v, zone)
		switch {
		case err != nil:
			return err
		case len(v) == len(dateOnly):
			return fmt.Errorf("%s is a day; write the time as well, as in %sT060000", v, v)
		}
		p.except[instant(wall, zone).Unix()] = true
	}
	return nil
}

const dateOnly = "20060102"

// stamp reads a time as RFC 5545 writes it: on the clock of a zone, as if that were
// UTC.
func stamp(s string, zone *time.Location) (time.Time, *time.Location, error) {
	for _, layout := range []string{dateOnly, "20060102T150405", "20060102T150405Z"} {
		if wall, err := time.Parse(layout, s); err == nil && len(s) == len(layout) {
			if strings.HasSuffix(s, "Z") {
				zone = time.UTC
			}
			return wall, zone, nil
		}
	}
	return time.Time{}, zone, fmt.Errorf("%q is no time; write it as 20260105T060000, or 20260105T060000Z for UTC", s)
}

// rrule reads the parts of the RRULE.
func (p *parsed) rrule(text string) error {
	for _, part := range strings.Split(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		if value == "" {
			return fmt.Errorf("%q is no part of a rule; write it as FREQ=DAILY", part)
		}
		if p.has(name) {
			return fmt.Errorf("%s is there twice; write all values in one list", name)
		}
		p.parts[name] = value
		if err := p.part(name, value); err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	return nil
}

// part reads one part of the RRULE.
func (p *parsed) part(name, value string) (err error) {
	o := &p.calendar
	lists := map[string]*[]int{
		"BYSECOND": &o.Bysecond, "BYMINUTE": &o.Byminute, "BYHOUR": &o.Byhour,
		"BYMONTHDAY": &o.Bymonthday, "BYMONTH": &o.Bymonth, "BYSETPOS": &o.Bysetpos,
	}
	switch list := lists[name]; {
	case name == "FREQ":
		if o.Freq, err = rrule.StrToFreq(value); err != nil || o.Freq > rrule.MINUTELY {
			err = errors.New("must be MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY")
		}
	case name == "INTERVAL":
		o.Interval, err = number(name, value)
	case name == "COUNT":
		p.count, err = number(name, value)
	case name == "UNTIL":
		wall, zone, err := stamp(value, p.zone)
		if len(value) == len(dateOnly) {
			wall = wall.Add(day - time.Second)
		}
		p.until = instant(wall, zone)
		return err
	case name == "WKST":
		if o.Wkst, err = weekday(value); len(value) > 2 {
			err = errors.New("must be a weekday: MO, TU, WE, TH, FR, SA or SU")
		}
	case name == "BYDAY":
		o.Byweekday, err = each(value, weekday)
	case list != nil:
		*list, err = each(value, func(s string) (int, error) { return number(name, s) })
		slices.Sort(*list)
		*list = slices.Compact(*list) // the library would count an hour named twice as two
	default:
		return errors.New("is not supported; the parts of a rule are FREQ, INTERVAL, COUNT, UNTIL, WKST, " +
			"BYMONTH, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND and BYSETPOS")
	}
	return err
}

// each reads what stands between commas.
func each[T any](list string, read func(string) (T, error)) (all []T, err error) {
	for _, s := range strings.Split(list, ",") {
		one, err := read(s)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// number reads a number within the bounds of a part.
func number(name, s string) (int, error) {
	b := bounds[name]
	n, err := strconv.Atoi(s)
	switch {
	case err == nil && n >= b.least && n <= b.most && (n != 0 || b.least == 0):
		return n, nil
	case b.least < 0:
		return 0, fmt.Errorf("%q must be a whole number from 1 to %d, or from %d to -1", s, b.most, b.least)
	}
	return 0, fmt.Errorf("%q must be a whole number from %d to %d", s, b.least, b.most)
}

// weekday reads a weekday with an ordinal or without: MO, 2MO, -1MO.
func weekday(s string) (d rrule.Weekday, err error) {
	i := slices.IndexFunc(days, func(d rrule.Weekday) bool { return strings.HasSuffix(s, d.String()) })
	if i < 0 {
		return d, fmt.Errorf("%q must be a weekday: MO, TU, WE, TH, FR, SA or SU", s)
	}
	if len(s) == 2 {
		return days[i], nil
	}
	n, err := number("BYDAY", s[:len(s)-2])
	return days[i].Nth(n), err
}

// finish reckons where a rule of checked parts ends, and refuses one that occurs too
// late or never.
func (p *parsed) finish() error {
	if p.step > 0 && p.count > 0 {
		steps := int64(p.count-1) * int64(p.step/time.Second)
		p.until = time.Unix(instant(p.start, p.zone).Unix()+steps, 0)
	}
	if p.step == 0 {
		p.complete()
		n := 0
		err := p.walk(p.start, func(wall time.Time) bool {
			if n++; n == p.count {
				p.last = wall
			}
			return n < p.count
		})
		if err != nil {
			return fmt.Errorf("the rule cannot be expanded: %w", err)
		}
	}
	if first, ok := p.First(instant(p.start, p.zone)); !ok || first.After(p.start.AddDate(maxYears, 0, 0)) {
		return fmt.Errorf("the rule has no occurrence within the first %d years; change DTSTART, UNTIL or the BY parts", maxYears)
	}
	return nil
}

// complete makes explicit what a calendar rule takes from DTSTART.
func (p *parsed) complete() {
	o := &p.calendar
	for list, start := range map[*[]int]int{&o.Byhour: p.start.Hour(), &o.Byminute: p.start.Minute(), &o.Bysecond: p.start.Second()} {
		if *list == nil {
			*list = []int{start}
		}
	}
	switch {
	case o.Freq == rrule.DAILY || p.has("BYMONTHDAY") || p.has("BYDAY"):
		return
	case o.Freq == rrule.WEEKLY:
		o.Byweekday = []rrule.Weekday{days[p.start.Weekday()]}
		return
	case o.Freq == rrule.YEARLY && o.Bymonth == nil:
		o.Bymonth = []int{int(p.start.Month())}
	}
	o.Bymonthday = []int{p.start.Day()}
}
