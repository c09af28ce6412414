package recur

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

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
