package recur_test

import (
	"fmt"
	"strings"
	"time"
)

var weekdays = []string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"}

// A chooser returns a number from 0 to n-1.
type chooser func(n int) int

// numbers returns a list of up to most numbers, signed ones on request.
func (c chooser) numbers(most, from, to int, signed bool) string {
	var list []string
	for range 1 + c(most) {
		n := from + c(to-from+1)
		if signed && c(3) == 0 {
			n = -n
		}
		list = append(list, fmt.Sprint(n))
	}
	return strings.Join(list, ",")
}

// rule returns a rule that DTSTART precedes, which begins at start. Where [Parse]
// follows RFC 5545 rather than others, the rule is one of which they think alike.
// Few of them never occur.
func (c chooser) rule(start time.Time) string {
	freq := []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"}[c(6)]
	text := "FREQ=" + freq
	part := func(odds int, name, value string) bool {
		use := c(odds) == 0
		if use {
			text += ";" + name + "=" + value
		}
		return use
	}
	switch freq {
	case "HOURLY":
		part(1, "INTERVAL", fmt.Sprint(3+c(100)))
	case "MINUTELY":
		part(1, "INTERVAL", fmt.Sprint(200+c(5000))) // what is more often is walked for minutes by others
	default:
		part(2, "INTERVAL", fmt.Sprint(1+c(6)))
	}
	switch c(4) {
	case 0:
		part(1, "COUNT", fmt.Sprint(1+c(100)))
	case 1:
		part(1, "UNTIL", start.AddDate(0, c(48), c(30)).Format("20060102T150405Z"))
	}
	if freq == "HOURLY" || freq == "MINUTELY" {
		return text
	}
	wkst := c(7)
	part(1, "WKST", weekdays[wkst])
	part(4, "BYMONTH", c.numbers(4, 1, 12, false))
	if freq != "WEEKLY" {
		part(3, "BYMONTHDAY", c.numbers(5, 1, 31, true))
	}
	if c(2) == 0 {
		ordinals := (freq == "YEARLY" || freq == "MONTHLY") && c(2) == 0
		var list []string
		for range 1 + c(4) {
			d := weekdays[c(7)]
			if ordinals {
				d = c.numbers(1, 1, 5, true) + d
			}
			list = append(list, d)
		}
		text += ";BYDAY=" + strings.Join(list, ",")
	}
	part(3, "BYHOUR", c.numbers(3, 0, 23, false))
	part(4, "BYMINUTE", c.numbers(3, 0, 59, false))
	part(8, "BYSECOND", c.numbers(2, 0, 59, false))
	if strings.Contains(text, "BY") && (freq == "YEARLY" || freq == "MONTHLY" || freq == "WEEKLY" && int(start.Weekday()) == (wkst+1)%7) {
		part(4, "BYSETPOS", c.numbers(3, 1, 4, true))
	}
	return text
}
