package recur

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/teambition/rrule-go"
)

// limits are, by FREQ, how many INTERVALs are 10 years, and how many times of day
// a rule may name: the library expands a whole year, month, week or day at once.
var limits = map[rrule.Frequency]struct{ interval, times int }{
	rrule.YEARLY:   {maxYears, 24},
	rrule.MONTHLY:  {maxYears * 12, 300},
	rrule.WEEKLY:   {maxYears * 52, 1440},
	rrule.DAILY:    {maxYears * 365, 1440},
	rrule.HOURLY:   {maxYears * 365 * 24, 0},
	rrule.MINUTELY: {maxYears * 365 * 24 * 60, 0},
}

// maxSetpos is how many values BYSETPOS may have: the library tries each in every
// year, month or week.
const maxSetpos = 5

// A guard is what a rule must not be, and the error if it is.
type guard struct {
	wrong bool
	text  string
}

// check says what is wrong with the parts together.
func (p *parsed) check() error {
	o := &p.option
	o.Interval = max(o.Interval, 1)
	guards := p.general()
	if p.start.zone == nil {
		guards = append(guards, p.anchored()...)
	}
	switch {
	case o.Freq < rrule.HOURLY:
		guards = append(guards, p.expanded()...)
	case p.by():
		guards = append(guards, guard{true, "FREQ=" + p.parts["FREQ"] + " takes no BY part" + p.daily()})
	}
	for _, g := range guards {
		if g.wrong {
			return errors.New(g.text)
		}
	}
	return nil
}

func (p *parsed) has(name string) bool { return p.parts[name] != "" }

// by reports whether there is a BY part.
func (p *parsed) by() bool {
	for name := range p.parts {
		if strings.HasPrefix(name, "BY") && name != "BYSETPOS" {
			return true
		}
	}
	return false
}

// general are the guards of all rules.
func (p *parsed) general() []guard {
	most := limits[p.option.Freq].interval
	return []guard{
		{!p.has("FREQ"), "there is no FREQ; write FREQ=DAILY or the like"},
		{p.has("COUNT") && p.has("UNTIL"), "COUNT and UNTIL are both there; leave out one"},
		{p.option.Interval > most,
			fmt.Sprintf("INTERVAL=%d is more than %d years; with FREQ=%s, %d is the most", p.option.Interval, maxYears, p.parts["FREQ"], most)},
		{p.has("BYSETPOS") && !p.by(),
			"BYSETPOS picks from what another BY part names, and there is none; add BYDAY or the like, or leave it out"},
	}
}

// anchored are the guards of rules without DTSTART, which begin at each midnight.
func (p *parsed) anchored() []guard {
	const hint = "; add a DTSTART, as in DTSTART:20260105T060000"
	o, interval := &p.option, fmt.Sprintf("INTERVAL=%d", p.option.Interval)
	return []guard{
		{p.has("COUNT"), "COUNT counts from DTSTART, and there is none" + hint},
		{o.Freq == rrule.YEARLY, "FREQ=YEARLY needs to know in which year it starts" + hint},
		{o.Freq <= rrule.DAILY && o.Interval > 1, interval + " counts from DTSTART, and there is none" + hint},
		{o.Freq >= rrule.HOURLY && p.minutes() > 1440, interval + " is more than a day, and without DTSTART each midnight begins anew" + hint},
		{o.Freq == rrule.WEEKLY && !p.has("BYDAY"),
			"FREQ=WEEKLY takes its weekday from DTSTART, and there is none; add BYDAY, as in BYDAY=MO, or a DTSTART"},
		{o.Freq == rrule.MONTHLY && !p.has("BYDAY") && !p.has("BYMONTHDAY"),
			"FREQ=MONTHLY takes its day from DTSTART, and there is none; add BYMONTHDAY, as in BYMONTHDAY=1, BYDAY or a DTSTART"},
	}
}

// minutes returns the INTERVAL of an HOURLY or MINUTELY rule.
func (p *parsed) minutes() int {
	if p.option.Freq == rrule.HOURLY {
		return 60 * p.option.Interval
	}
	return p.option.Interval
}

// expanded are the guards of rules that the library expands: what RFC 5545
// excludes, and what the library does otherwise than it says, or takes long for.
func (p *parsed) expanded() []guard {
	o, limit := &p.option, limits[p.option.Freq]
	with := " does not go with FREQ=" + p.parts["FREQ"] + "; "
	ordinals, highest := 0, 0
	for _, d := range o.Byweekday {
		if n := max(d.N(), -d.N()); n > 0 {
			ordinals, highest = ordinals+1, max(highest, n)
		}
	}
	times := max(1, len(o.Byhour)) * max(1, len(o.Byminute)) * max(1, len(o.Bysecond))
	fewer := "name fewer of BYHOUR, BYMINUTE and BYSECOND"
	if o.Freq < rrule.WEEKLY {
		fewer = "write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes 1440"
	}
	return []guard{
		{p.has("BYWEEKNO") && o.Freq != rrule.YEARLY, "BYWEEKNO" + with + "write FREQ=YEARLY, or BYDAY instead"},
		{p.has("BYYEARDAY") && o.Freq != rrule.YEARLY, "BYYEARDAY" + with + "write FREQ=YEARLY, or BYMONTH and BYMONTHDAY instead"},
		{p.has("BYMONTHDAY") && o.Freq == rrule.WEEKLY, "BYMONTHDAY" + with + "write FREQ=MONTHLY, or BYDAY instead"},
		{p.has("BYSETPOS") && o.Freq == rrule.DAILY, "BYSETPOS" + with + "name the times it picks in BYHOUR and BYMINUTE instead"},
		{len(o.Bysetpos) > maxSetpos, fmt.Sprintf("BYSETPOS has %d values; %d are the most", len(o.Bysetpos), maxSetpos)},
		{slices.ContainsFunc(o.Byweekno, func(n int) bool { return max(n, -n) > 51 }),
			"BYWEEKNO: the weeks 52 and 53, from either end, may miss days in January or December; write -1 for the last week"},
		{ordinals > 0 && o.Freq > rrule.MONTHLY, "BYDAY with an ordinal, as in 1MO," + with + "write FREQ=MONTHLY, or leave out the ordinal"},
		{ordinals > 0 && p.has("BYWEEKNO"), "BYDAY with an ordinal, as in 1MO, does not go with BYWEEKNO; leave out one of them"},
		{highest > 5 && (o.Freq == rrule.MONTHLY || p.has("BYMONTH")),
			fmt.Sprintf("BYDAY: no month has %d of a weekday; write an ordinal from 1 to 5 or from -5 to -1", highest)},
		{ordinals > 0 && ordinals < len(o.Byweekday), "BYDAY has weekdays with and without an ordinal; write MO as 1MO,2MO,3MO,4MO,5MO"},
		{times > limit.times,
			fmt.Sprintf("the rule names %d times of day; with FREQ=%s, %d are the most: %s", times, p.parts["FREQ"], limit.times, fewer)},
	}
}

// daily returns, as the end of an error, the DAILY rule that says the same as an
// HOURLY or MINUTELY one with BY parts. Not each has one.
func (p *parsed) daily() string {
	o := &p.option
	const otherwise = "; write FREQ=DAILY with BYHOUR and BYMINUTE"
	minutes := p.minutes()
	if o.Byyearday != nil || o.Byweekno != nil || o.Bysetpos != nil || minutes%60 > 0 && 60%minutes > 0 || 1440%minutes > 0 {
		return otherwise
	}
	start := p.start.wall // at midnight without a DTSTART
	from := start.Hour()*60 + start.Minute()
	var at [2][]int // hours and minutes that are reached and named
	for m := range 1440 {
		h, m := m/60, m%60
		reached := (h*60+m-from)%minutes == 0
		if o.Freq == rrule.HOURLY && o.Byminute != nil { // it expands
			reached = (h-start.Hour())%o.Interval == 0
		}
		if reached && (o.Byhour == nil || slices.Contains(o.Byhour, h)) && (o.Byminute == nil || slices.Contains(o.Byminute, m)) {
			at[0], at[1] = append(at[0], h), append(at[1], m)
		}
	}
	if at[0] == nil {
		return ", and with these it never occurs" + otherwise
	}
	text := "FREQ=DAILY"
	for i, name := range []string{"BYHOUR", "BYMINUTE"} {
		slices.Sort(at[i])
		var list []string
		for _, n := range slices.Compact(at[i]) {
			list = append(list, strconv.Itoa(n))
		}
		text += ";" + name + "=" + strings.Join(list, ",")
	}
	for _, name := range []string{"BYSECOND", "BYMONTH", "BYMONTHDAY", "BYDAY", "COUNT", "UNTIL"} {
		if v := p.parts[name]; v != "" {
			text += ";" + name + "=" + v
		}
	}
	return "; this says the same: " + text
}
