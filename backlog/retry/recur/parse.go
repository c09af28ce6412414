package recur

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

const (
	maxText  = 1000    // bytes of a rule
	maxCount = 100_000 // walked once, by Parse
	maxYears = 10      // from DTSTART to the first occurrence, and of INTERVAL

	// DTSTART lies in one of these years.
	minYear, maxYear = 1900, 2099
)

// ints are the parts of a rule that are lists of numbers, with their bounds.
var ints = map[string]struct {
	least, most int
	signed      bool // -most to -least, too
	in          func(*rrule.ROption) *[]int
}{
	"BYSECOND":   {0, 59, false, func(o *rrule.ROption) *[]int { return &o.Bysecond }},
	"BYMINUTE":   {0, 59, false, func(o *rrule.ROption) *[]int { return &o.Byminute }},
	"BYHOUR":     {0, 23, false, func(o *rrule.ROption) *[]int { return &o.Byhour }},
	"BYMONTHDAY": {1, 31, true, func(o *rrule.ROption) *[]int { return &o.Bymonthday }},
	"BYYEARDAY":  {1, 366, true, func(o *rrule.ROption) *[]int { return &o.Byyearday }},
	"BYWEEKNO":   {1, 53, true, func(o *rrule.ROption) *[]int { return &o.Byweekno }},
	"BYMONTH":    {1, 12, false, func(o *rrule.ROption) *[]int { return &o.Bymonth }},
	"BYSETPOS":   {1, 366, true, func(o *rrule.ROption) *[]int { return &o.Bysetpos }},
}

// days are the weekdays, Sunday first as in package time.
var days = []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}

// A parsed is the text of a rule in its parts.
type parsed struct {
	start  stamp // without a zone: no DTSTART
	zone   *time.Location
	except []stamp
	parts  map[string]string // of the RRULE
	count  int               // 0: no COUNT
	until  stamp             // likewise
	option rrule.ROption     // the other parts
}

// A stamp is a time as RFC 5545 writes it.
type stamp struct {
	wall time.Time // as if the zone were UTC
	zone *time.Location
	date bool // a day: 20260105
}

func (s stamp) instant() time.Time { return instant(s.wall, s.zone) }

// Parse reads the text of a rule as RFC 5545 writes it: "RRULE:FREQ=DAILY",
// "FREQ=DAILY", either after a DTSTART and a space or the end of a line, with
// EXDATE or without. Times without a zone are in that of DTSTART, DTSTART itself
// in the zone given, nil for UTC. An UNTIL without a time is the end of that day.
//
// A rule without DTSTART begins anew at each midnight, as if that were its DTSTART.
//
// An error says what is wrong with the rule and how to write it instead.
func Parse(text string, zone *time.Location) (*Rule, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the rule has %d bytes; %d are the most", len(text), maxText)
	}
	p := parsed{zone: cmp.Or(zone, time.UTC), parts: make(map[string]string)}
	if err := p.read(text); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.rule()
}

// read takes the text to pieces.
func (p *parsed) read(text string) error {
	lines := make(map[string][]string) // name -> parameters and value
	for _, line := range strings.Fields(text) {
		name, rest := "RRULE", ":"+line
		if i := strings.IndexAny(line, ";:="); i >= 0 && line[i] != '=' {
			name, rest = strings.ToUpper(line[:i]), line[i:]
		}
		if !slices.Contains([]string{"DTSTART", "RRULE", "EXDATE"}, name) {
			return fmt.Errorf("%s is not supported; a rule has DTSTART, RRULE and EXDATE", name)
		}
		if name != "EXDATE" && lines[name] != nil {
			return fmt.Errorf("%s is there twice; a rule has one", name)
		}
		lines[name] = append(lines[name], rest)
	}
	if lines["RRULE"] == nil {
		return errors.New("there is no RRULE; write FREQ=DAILY or the like")
	}
	for _, rest := range lines["DTSTART"] {
		list, err := p.stamps("DTSTART", rest)
		if err != nil {
			return err
		}
		if p.start = list[0]; len(list) > 1 {
			return errors.New("DTSTART has more than one time; a rule has one")
		}
		if y := p.start.wall.Year(); y < minYear || y > maxYear {
			return fmt.Errorf("DTSTART is in the year %d; it must be from %d to %d", y, minYear, maxYear)
		}
		p.zone = p.start.zone
	}
	for _, rest := range lines["EXDATE"] {
		list, err := p.stamps("EXDATE", rest)
		if err != nil {
			return err
		}
		p.except = append(p.except, list...)
	}
	rest := lines["RRULE"][0]
	if rest[0] != ':' {
		return fmt.Errorf("RRULE%s: an RRULE has no parameters; write RRULE:FREQ=…", rest)
	}
	for _, part := range strings.Split(strings.ToUpper(rest[1:]), ";") {
		name, value, _ := strings.Cut(part, "=")
		if value == "" {
			return fmt.Errorf("%q is no part of a rule; write it as FREQ=DAILY", part)
		}
		if _, twice := p.parts[name]; twice {
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
	o := &p.option
	switch name {
	case "FREQ":
		i := slices.Index([]string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"}, value)
		if i < 0 {
			return errors.New("must be MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY")
		}
		o.Freq = rrule.Frequency(i)
	case "INTERVAL":
		o.Interval, err = number(value, 1, 1<<31-1, false)
	case "COUNT":
		p.count, err = number(value, 1, maxCount, false)
		if err != nil {
			err = fmt.Errorf("%w; for more, write UNTIL", err)
		}
	case "UNTIL":
		p.until, err = parseStamp(value, p.zone)
	case "WKST":
		o.Wkst, err = weekday(value)
		if err == nil && o.Wkst.N() != 0 {
			err = errors.New("must be a weekday: MO, TU, WE, TH, FR, SA or SU")
		}
	case "BYDAY":
		for _, s := range strings.Split(value, ",") {
			d, err := weekday(s)
			if err != nil {
				return err
			}
			if !slices.Contains(o.Byweekday, d) {
				o.Byweekday = append(o.Byweekday, d)
			}
		}
	default:
		known, ok := ints[name]
		if !ok {
			return errors.New("is not supported; the parts of a rule are FREQ, INTERVAL, COUNT, UNTIL, WKST, " +
				"BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND and BYSETPOS")
		}
		list := known.in(o)
		for _, s := range strings.Split(value, ",") {
			n, err := number(s, known.least, known.most, known.signed)
			if err != nil {
				return err
			}
			*list = append(*list, n)
		}
		slices.Sort(*list)
		*list = slices.Compact(*list) // the library would count an hour named twice as two
	}
	return err
}

// number reads a number from least to most, a signed one also from -most to -least.
func number(s string, least, most int, signed bool) (int, error) {
	n, err := strconv.Atoi(s)
	size, also := n, ""
	if signed {
		size, also = max(n, -n), fmt.Sprintf(", or from %d to %d", -most, -least)
	}
	if err != nil || size < least || size > most {
		return 0, fmt.Errorf("%q must be a whole number from %d to %d%s", s, least, most, also)
	}
	return n, nil
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
	n, err := number(s[:len(s)-2], 1, 53, true)
	return days[i].Nth(n), err
}

// stamps reads the parameters and times of DTSTART or EXDATE:
// ";TZID=Europe/Berlin:20260105T060000".
func (p *parsed) stamps(name, rest string) (list []stamp, err error) {
	params, value, _ := strings.Cut(rest, ":")
	zone := p.zone
	for _, param := range strings.Split(params, ";")[1:] {
		key, arg, _ := strings.Cut(param, "=")
		switch key, upper := strings.ToUpper(key), strings.ToUpper(arg); {
		case key == "VALUE" && (upper == "DATE" || upper == "DATE-TIME"):
		case key != "TZID":
			return nil, fmt.Errorf("%s: %s is not supported; TZID and VALUE=DATE are", name, param)
		case arg == "" || upper == "LOCAL":
			return nil, fmt.Errorf("%s: TZID=%s names no zone; write it as TZID=Europe/Berlin", name, arg)
		default:
			if zone, err = time.LoadLocation(arg); err != nil {
				return nil, fmt.Errorf("%s: TZID=%s is not known; write it as TZID=Europe/Berlin", name, arg)
			}
			if strings.HasSuffix(strings.ToUpper(value), "Z") && zone != time.UTC {
				return nil, fmt.Errorf("%s has a TZID and a time in UTC; leave out the one or the Z", name)
			}
		}
	}
	for _, v := range strings.Split(value, ",") {
		s, err := parseStamp(strings.ToUpper(v), zone)
		if err == nil && s.date && name == "EXDATE" {
			err = fmt.Errorf("%s is a day; write the time as well, as in %sT060000", v, v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func parseStamp(s string, zone *time.Location) (stamp, error) {
	for _, layout := range []string{"20060102", "20060102T150405", "20060102T150405Z"} {
		if t, err := time.Parse(layout, s); err == nil && len(s) == len(layout) {
			if strings.HasSuffix(layout, "Z") {
				zone = time.UTC
			}
			return stamp{t, zone, layout == "20060102"}, nil
		}
	}
	return stamp{}, fmt.Errorf("%q is no time; write it as 20260105T060000, or 20260105T060000Z for UTC", s)
}

// rule builds the rule of parts that were checked.
func (p *parsed) rule() (*Rule, error) {
	o := p.option
	r := &Rule{zone: p.zone, start: p.start.wall, except: make(map[int64]bool)}
	if p.start.zone == nil {
		r.start = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, s := range p.except {
		r.except[s.instant().Unix()] = true
	}
	if s := p.until; s.zone != nil {
		if r.until = s.instant(); s.date {
			r.until = instant(s.wall.Add(day), s.zone).Add(-1)
		}
		r.last = clock(r.until, r.zone).Add(maxJump)
	}
	if o.Freq >= rrule.HOURLY {
		r.step, r.midnight = time.Duration(p.minutes())*time.Minute, p.start.zone == nil
		if steps := time.Duration(p.count - 1); steps >= 0 && steps <= math.MaxInt64/r.step { // else it is in more than 290 years
			r.until = instant(r.start, r.zone).Add(steps * r.step)
		}
	} else {
		p.complete(&o, r.start)
		r.calendar = o
	}
	found, err := p.limit(r)
	if err != nil {
		return nil, fmt.Errorf("the rule cannot be expanded: %w", err)
	}
	if found {
		var first time.Time
		first, found = r.First(instant(r.start, r.zone))
		found = found && first.Before(r.start.AddDate(maxYears, 0, 0))
	}
	switch {
	case found:
		return r, nil
	case p.start.zone == nil:
		return nil, fmt.Errorf("the rule never occurs, or not in %d years; change UNTIL or the BY parts", maxYears)
	}
	return nil, fmt.Errorf("the rule has no occurrence within %d years of %s; change DTSTART, UNTIL or the BY parts", maxYears, r.start.Format(time.DateOnly))
}

// complete makes explicit what a rule takes from DTSTART, and what the library
// leaves out of it: the weekday of BYWEEKNO.
func (p *parsed) complete(o *rrule.ROption, start time.Time) {
	if o.Byhour == nil {
		o.Byhour = []int{start.Hour()}
	}
	if o.Byminute == nil {
		o.Byminute = []int{start.Minute()}
	}
	if o.Bysecond == nil {
		o.Bysecond = []int{start.Second()}
	}
	if o.Freq == rrule.DAILY || o.Byyearday != nil || o.Bymonthday != nil || o.Byweekday != nil {
		return
	}
	if o.Freq == rrule.WEEKLY || o.Byweekno != nil {
		o.Byweekday = []rrule.Weekday{days[start.Weekday()]}
		return
	}
	o.Bymonthday = []int{start.Day()}
	if o.Freq == rrule.YEARLY && o.Bymonth == nil {
		o.Bymonth = []int{int(start.Month())}
	}
}

// limit finds the last occurrence of a calendar rule with COUNT: in more than 290
// years it is none. It returns false if there is no occurrence at all.
func (p *parsed) limit(r *Rule) (found bool, err error) {
	if p.count == 0 || r.step > 0 {
		return true, nil
	}
	n := 0
	err = r.walk(r.start, func(wall time.Time) bool {
		if n++; n == p.count {
			r.last = wall
		}
		return n < p.count
	})
	return n > 0, err
}
