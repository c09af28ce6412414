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

// check says what is wrong with the parts together.
func (p *parsed) check() error {
	o := &p.option
	freq := p.parts["FREQ"]
	has := func(name string) bool { return p.parts[name] != "" }
	if !has("FREQ") {
		return errors.New("there is no FREQ; write FREQ=DAILY or the like")
	}
	if o.Interval = max(o.Interval, 1); o.Interval > limits[o.Freq].interval {
		return fmt.Errorf("INTERVAL=%d is more than %d years; with FREQ=%s, %d is the most", o.Interval, maxYears, freq, limits[o.Freq].interval)
	}
	if has("COUNT") && has("UNTIL") {
		return errors.New("COUNT and UNTIL are both there; leave out one")
	}
	if p.start.wall.IsZero() {
		if err := p.checkAnchor(freq, has); err != nil {
			return err
		}
	}
	if o.Freq >= rrule.HOURLY {
		for name := range p.parts {
			if strings.HasPrefix(name, "BY") {
				return fmt.Errorf("FREQ=%s takes no BY part%s", freq, p.daily())
			}
		}
		return nil
	}
	if err := p.checkParts(freq, has); err != nil {
		return err
	}
	times := max(1, len(o.Byhour)) * max(1, len(o.Byminute)) * max(1, len(o.Bysecond))
	if most := limits[o.Freq].times; times > most {
		hint := "name fewer of BYHOUR, BYMINUTE and BYSECOND"
		if o.Freq < rrule.WEEKLY {
			hint = "write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes 1440"
		}
		return fmt.Errorf("the rule names %d times of day; with FREQ=%s, %d are the most: %s", times, freq, most, hint)
	}
	return nil
}

// checkAnchor says what a rule without DTSTART cannot do, because each midnight is
// its start.
func (p *parsed) checkAnchor(freq string, has func(string) bool) error {
	o := &p.option
	const hint = "add a DTSTART, as in DTSTART:20260105T060000"
	switch {
	case has("COUNT"):
		return errors.New("COUNT counts from DTSTART, and there is none; " + hint)
	case o.Freq == rrule.YEARLY:
		return errors.New("FREQ=YEARLY needs to know in which year it starts; " + hint)
	case o.Freq <= rrule.DAILY && o.Interval > 1:
		return fmt.Errorf("INTERVAL=%d counts from DTSTART, and there is none; %s", o.Interval, hint)
	case o.Freq >= rrule.HOURLY && int64(o.Interval)*int64(unit(o.Freq)) > int64(day):
		return fmt.Errorf("INTERVAL=%d is more than a day, and without DTSTART each midnight begins anew; %s", o.Interval, hint)
	case o.Freq == rrule.WEEKLY && !has("BYDAY"):
		return errors.New("FREQ=WEEKLY takes its weekday from DTSTART, and there is none; add BYDAY, as in BYDAY=MO, or a DTSTART")
	case o.Freq == rrule.MONTHLY && !has("BYDAY") && !has("BYMONTHDAY"):
		return errors.New("FREQ=MONTHLY takes its day from DTSTART, and there is none; add BYMONTHDAY, as in BYMONTHDAY=1, BYDAY or a DTSTART")
	}
	return nil
}

// checkParts says which BY parts of a calendar rule do not go together: those
// that RFC 5545 excludes, and those that the library does otherwise than it says.
func (p *parsed) checkParts(freq string, has func(string) bool) error {
	o := &p.option
	for _, part := range []struct {
		name string
		goes bool
		hint string
	}{
		{"BYWEEKNO", o.Freq == rrule.YEARLY, "write FREQ=YEARLY, or BYDAY instead"},
		{"BYYEARDAY", o.Freq == rrule.YEARLY, "write FREQ=YEARLY, or BYMONTH and BYMONTHDAY instead"},
		{"BYMONTHDAY", o.Freq != rrule.WEEKLY, "write FREQ=MONTHLY, or BYDAY instead"},
		{"BYSETPOS", o.Freq != rrule.DAILY, "name the times it picks in BYHOUR and BYMINUTE instead"},
	} {
		if has(part.name) && !part.goes {
			return fmt.Errorf("%s does not go with FREQ=%s; %s", part.name, freq, part.hint)
		}
	}
	for _, n := range o.Byweekno {
		if n > 51 || n < -51 {
			return fmt.Errorf("BYWEEKNO=%d: not every year has this week, and its days in January or December may be missed; write -1 for the last week", n)
		}
	}
	if n := len(o.Bysetpos); n > maxSetpos {
		return fmt.Errorf("BYSETPOS has %d values; %d are the most", n, maxSetpos)
	}
	ordinals := 0
	for _, d := range o.Byweekday {
		n := max(d.N(), -d.N())
		if n == 0 {
			continue
		}
		ordinals++
		switch {
		case o.Freq > rrule.MONTHLY:
			return fmt.Errorf("BYDAY=%v: an ordinal goes with FREQ=MONTHLY and YEARLY alone; with FREQ=%s, leave it out", d, freq)
		case has("BYWEEKNO"):
			return fmt.Errorf("BYDAY=%v: an ordinal does not go with BYWEEKNO; leave it out", d)
		case n > 5 && (o.Freq == rrule.MONTHLY || has("BYMONTH")):
			return fmt.Errorf("BYDAY=%v: no month has that many; write an ordinal from 1 to 5 or from -5 to -1", d)
		}
	}
	if ordinals > 0 && ordinals < len(o.Byweekday) {
		return errors.New("BYDAY has weekdays with and without an ordinal; write MO as 1MO,2MO,3MO,4MO,5MO")
	}
	if has("BYSETPOS") && len(o.Byweekday)+len(o.Bymonth)+len(o.Bymonthday)+len(o.Byyearday)+len(o.Byweekno)+len(o.Byhour)+len(o.Byminute)+len(o.Bysecond) == 0 {
		return errors.New("BYSETPOS picks from what another BY part names, and there is none; add BYDAY or the like, or leave it out")
	}
	return nil
}

// daily returns, as the end of an error, the DAILY rule that says the same as an
// HOURLY or MINUTELY one with BY parts. Not each has one.
func (p *parsed) daily() string {
	o := &p.option
	const otherwise = "; write FREQ=DAILY with BYHOUR and BYMINUTE"
	minutes := o.Interval
	if o.Freq == rrule.HOURLY {
		minutes *= 60
	}
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
