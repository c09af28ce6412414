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
	maxCount = 100_000 // walked once, by Parse
	maxYears = 10      // from DTSTART to the first occurrence
)

// parts are those that a rule may have, with what one may look like.
var parts = map[string]string{
	"FREQ": "DAILY", "INTERVAL": "2", "COUNT": "10", "UNTIL": "20261231", "WKST": "MO", "BYMONTH": "1,7", "BYMONTHDAY": "1,-1",
	"BYDAY": "MO,TU", "BYHOUR": "6,16", "BYMINUTE": "0,30", "BYSECOND": "0", "BYSETPOS": "1,-1",
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
// EXDATE or without. Times without a zone are in DTSTART's zone, DTSTART itself
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
	p := parsed{Rule: r, parts: make(map[string]string)}
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
	rule := "FREQ=DAILY" // without FREQ, which is refused later
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case value == "":
			return fmt.Errorf("%q is no part of a rule; write it as FREQ=DAILY", part)
		case p.has(name):
			return fmt.Errorf("%s is there twice; write all values in one list", name)
		case parts[name] == "":
			return fmt.Errorf("%s is not supported; the parts of a rule are %s", part, strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		}
		p.parts[name] = value
		if name == "UNTIL" {
			wall, zone, err := stamp(value, p.zone)
			if err != nil {
				return fmt.Errorf("%s: %w", part, err)
			}
			if len(value) == len(dateOnly) {
				wall = wall.Add(day - time.Second)
			}
			p.until = instant(wall, zone)
			continue
		}
		if err := understood(name, part); err != nil {
			return fmt.Errorf("%s: %w; write it as %s=%s", part, err, name, parts[name])
		}
		rule += ";" + part // of parts that are there twice, as FREQ may be, the library takes the last
	}
	o, err := rrule.StrToROption(rule)
	if err != nil {
		return err
	}
	for _, list := range []*[]int{&o.Bysecond, &o.Byminute, &o.Byhour, &o.Bymonthday, &o.Bymonth, &o.Bysetpos} {
		slices.Sort(*list)
		*list = slices.Compact(*list) // the library would count an hour named twice as two
	}
	o.Interval = max(o.Interval, 1)
	p.count, o.Count = o.Count, 0 // which the library would count from another start
	p.calendar = *o
	return nil
}

// understood says what is wrong with a part by itself: what the library does not
// understand, knows to be out of bounds, or would pass over.
func understood(name, part string) error {
	o, err := rrule.StrToROption("FREQ=DAILY;" + part)
	if err == nil {
		_, err = rrule.NewRRule(*o)
	}
	tooFar := func(d rrule.Weekday) bool { return d.N() < -5 || d.N() > 5 }
	number, wrong := errors.AsType[*strconv.NumError](err)
	switch {
	case wrong:
		return fmt.Errorf("%q is no whole number that it can have", number.Num)
	case err != nil:
		return err
	case o.Freq == rrule.SECONDLY:
		return errors.New("a rule cannot be finer than MINUTELY")
	case name == "INTERVAL" && (o.Interval < 1 || o.Interval > maxCount), name == "COUNT" && (o.Count < 1 || o.Count > maxCount):
		return fmt.Errorf("must be from 1 to %d", maxCount)
	case o.Wkst.N() != 0:
		return errors.New("a week cannot start with the n-th of a weekday")
	case slices.ContainsFunc(o.Byweekday, tooFar) || name == "BYDAY" && strings.Contains(part, "0"):
		return errors.New("the n-th of a weekday goes from 1 to 5, or from -5 to -1")
	}
	return nil
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
		var n int
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

// mostTimes is, by FREQ, how many times of day a rule may name: the library expands a
// whole year, month, week or day at once.
var mostTimes = [...]int{rrule.YEARLY: 24, rrule.MONTHLY: 300, rrule.WEEKLY: 1440, rrule.DAILY: 1440, rrule.HOURLY: 1, rrule.MINUTELY: 1}

// maxSetpos is how many values BYSETPOS may have: the library tries each in every
// year, month or week.
const maxSetpos = 5

func (p *parsed) has(name string) bool { return p.parts[name] != "" }

// check says what is wrong with the parts together: what is not supported without
// DTSTART, what RFC 5545 excludes, and what the library does otherwise than it says,
// or takes long for.
func (p *parsed) check() error {
	o, freq := &p.calendar, p.parts["FREQ"]
	p.step = map[rrule.Frequency]time.Duration{rrule.HOURLY: time.Hour, rrule.MINUTELY: time.Minute}[o.Freq] * time.Duration(o.Interval)
	for name := range p.parts {
		if p.step > 0 && strings.HasPrefix(name, "BY") {
			return errors.New("FREQ=" + freq + " takes no BY part" + p.daily())
		}
	}
	ordinals := strings.ContainsAny(p.parts["BYDAY"], "12345")
	without := slices.ContainsFunc(o.Byweekday, func(d rrule.Weekday) bool { return d.N() == 0 })
	times := max(1, len(o.Byhour)) * max(1, len(o.Byminute)) * max(1, len(o.Bysecond))
	with, interval := " does not go with FREQ="+freq+"; ", fmt.Sprintf("INTERVAL=%d", o.Interval)
	const start = "; add a DTSTART, as in DTSTART:20260105T060000"
	for _, guard := range []struct {
		wrong bool
		text  string
	}{
		{freq == "", "there is no FREQ; write FREQ=DAILY or the like"},
		{p.has("COUNT") && p.has("UNTIL"), "COUNT and UNTIL are both there; leave out one"},

		{p.anchored && p.has("COUNT"), "COUNT counts from DTSTART, and there is none" + start},
		{p.anchored && o.Freq == rrule.YEARLY, "FREQ=YEARLY needs to know in which year it starts" + start},
		{p.anchored && p.step == 0 && o.Interval > 1, interval + " counts from DTSTART, and there is none" + start},
		{p.anchored && p.step > day, interval + " is more than a day, and without DTSTART each midnight begins anew" + start},
		{p.anchored && o.Freq == rrule.WEEKLY && !p.has("BYDAY"),
			"FREQ=WEEKLY takes its weekday from DTSTART, and there is none; add BYDAY, as in BYDAY=MO, or a DTSTART"},
		{p.anchored && o.Freq == rrule.MONTHLY && !p.has("BYDAY") && !p.has("BYMONTHDAY"),
			"FREQ=MONTHLY takes its day from DTSTART, and there is none; add BYMONTHDAY, as in BYMONTHDAY=1, BYDAY or a DTSTART"},

		{o.Freq == rrule.WEEKLY && p.has("BYMONTHDAY"), "BYMONTHDAY" + with + "write FREQ=MONTHLY, or BYDAY instead"},
		{o.Freq == rrule.DAILY && p.has("BYSETPOS"), "BYSETPOS" + with + "name the times it picks in BYHOUR and BYMINUTE instead"},
		{len(o.Bysetpos) > maxSetpos, fmt.Sprintf("BYSETPOS has %d values; %d are the most", len(o.Bysetpos), maxSetpos)},
		{ordinals && o.Freq > rrule.MONTHLY, "BYDAY with an ordinal, as in 1MO," + with + "write FREQ=MONTHLY, or leave out the ordinal"},
		{ordinals && without, "BYDAY has weekdays with and without an ordinal; write MO as 1MO,2MO,3MO,4MO,5MO"},
		{times > mostTimes[o.Freq],
			fmt.Sprintf("the rule names %d times of day; with %s, %d are the most: name fewer, or write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes %d",
				times, "FREQ="+freq, mostTimes[o.Freq], mostTimes[rrule.DAILY])},
	} {
		if guard.wrong {
			return errors.New(guard.text)
		}
	}
	return nil
}

// daily returns, as the end of an error, the DAILY rule that says the same as an
// HOURLY or MINUTELY one with BY parts. Not each has one.
func (p *parsed) daily() string {
	const otherwise = "; write FREQ=DAILY with BYHOUR and BYMINUTE"
	o, hours, minutes := &p.calendar, p.calendar.Interval, 60 // from one to the next
	switch {
	case o.Freq == rrule.MINUTELY:
		hours, minutes = 1, o.Interval
	case o.Byminute != nil: // all of them in each hour
		minutes = 1
	}
	if p.has("BYSETPOS") || 24%hours > 0 || 60%minutes > 0 {
		return otherwise
	}
	text := "; this says the same: FREQ=DAILY"
	for _, unit := range []struct {
		name             string
		all, start, step int
		by               []int
	}{
		{"BYHOUR", 24, p.start.Hour(), hours, o.Byhour},
		{"BYMINUTE", 60, p.start.Minute(), minutes, o.Byminute},
	} {
		var list []string
		for n := range unit.all {
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
