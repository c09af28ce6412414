package recur_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog/retry/recur"
	"backlog/internal/testkit"

	"pgregory.net/rapid"
)

func parse(t rapid.TB, text, in string) *recur.Rule {
	t.Helper()
	r, err := recur.Parse(text, testkit.Zone(t, in))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

const minutes = "2006-01-02T15:04Z"

func at(t testing.TB, text string) time.Time {
	t.Helper()
	tm, err := time.Parse(minutes, text)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// next returns the n occurrences after an instant, "-" at their end.
func next(r *recur.Rule, after time.Time, n int) string {
	var list []string
	for range n {
		tm, ok := r.Next(after)
		if !ok {
			list = append(list, "-")
			break
		}
		list = append(list, tm.Format(minutes))
		after = tm
	}
	return strings.Join(list, " ")
}

func TestOccurrences(t *testing.T) {
	tests := []struct{ name, zone, rule, after, want string }{
		{
			name:  "a description's own",
			zone:  "UTC",
			rule:  "RRULE:FREQ=HOURLY;INTERVAL=2",
			after: "2026-01-05T08:00Z",
			want:  "2026-01-05T10:00Z 2026-01-05T12:00Z",
		},
		{
			name:  "twice a day",
			zone:  "UTC",
			rule:  "FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0",
			after: "2026-01-05T06:00Z",
			want:  "2026-01-05T16:00Z 2026-01-06T06:00Z",
		},
		{
			name:  "half-hourly",
			zone:  "UTC",
			rule:  "freq=minutely;interval=30",
			after: "2026-01-05T08:10Z",
			want:  "2026-01-05T08:30Z 2026-01-05T09:00Z",
		},
		{
			name:  "each midnight begins anew",
			zone:  "UTC",
			rule:  "FREQ=HOURLY;INTERVAL=7",
			after: "2026-01-05T20:00Z",
			want:  "2026-01-05T21:00Z 2026-01-06T00:00Z 2026-01-06T07:00Z",
		},
		{
			name:  "midnight of the zone",
			zone:  "Asia/Kolkata",
			rule:  "FREQ=HOURLY;INTERVAL=6",
			after: "2026-01-05T08:00Z",
			want:  "2026-01-05T12:30Z 2026-01-05T18:30Z",
		},
		{
			name:  "days have 23 hours",
			zone:  "Europe/Berlin",
			rule:  "FREQ=HOURLY;INTERVAL=6",
			after: "2026-03-28T22:59Z",
			want:  "2026-03-28T23:00Z 2026-03-29T05:00Z 2026-03-29T11:00Z 2026-03-29T17:00Z 2026-03-29T22:00Z",
		},
		{
			name:  "days have 25 hours",
			zone:  "Europe/Berlin",
			rule:  "FREQ=HOURLY;INTERVAL=12",
			after: "2026-10-24T21:59Z",
			want:  "2026-10-24T22:00Z 2026-10-25T10:00Z 2026-10-25T22:00Z 2026-10-25T23:00Z",
		},
		{
			name:  "a day that was not",
			zone:  "Pacific/Apia",
			rule:  "FREQ=HOURLY;INTERVAL=12",
			after: "2011-12-29T21:59Z",
			want:  "2011-12-29T22:00Z 2011-12-30T10:00Z 2011-12-30T22:00Z",
		},
		{name: "weekly on a day", zone: "UTC", rule: "FREQ=WEEKLY;BYDAY=MO", after: "2026-01-05T00:00Z", want: "2026-01-12T00:00Z"},
		{
			name:  "the last workday",
			zone:  "UTC",
			rule:  "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-30T17:00Z 2026-02-27T17:00Z",
		},

		{
			name:  "UTC",
			zone:  "America/New_York",
			rule:  "DTSTART:20260101T060000Z RRULE:FREQ=DAILY",
			after: "2026-07-01T00:00Z",
			want:  "2026-07-01T06:00Z",
		},
		{
			name:  "floating",
			zone:  "America/New_York",
			rule:  "DTSTART:20260101T060000\nRRULE:FREQ=DAILY",
			after: "2026-07-01T00:00Z",
			want:  "2026-07-01T10:00Z",
		},
		{
			name:  "CR and LF",
			zone:  "America/New_York",
			rule:  "DTSTART:20260101T060000\r\nRRULE:FREQ=DAILY\r\n",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T11:00Z",
		},
		{
			name:  "a date",
			zone:  "Europe/Berlin",
			rule:  "DTSTART;VALUE=DATE:20260101 FREQ=DAILY",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T23:00Z",
		},
		{
			name:  "steps in UTC",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20260328T120000 FREQ=HOURLY;INTERVAL=24",
			after: "2026-03-28T00:00Z",
			want:  "2026-03-28T11:00Z 2026-03-29T11:00Z",
		},
		{name: "from DTSTART on", zone: "UTC", rule: "DTSTART:20260110T060000 FREQ=DAILY", after: "2026-01-05T00:00Z", want: "2026-01-10T06:00Z"},
		{
			name:  "a week begins on Sunday",
			zone:  "UTC",
			rule:  "DTSTART:20260106T060000 FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
			after: "2026-01-06T06:00Z",
			want:  "2026-01-18T06:00Z 2026-01-20T06:00Z",
		},
		{
			name:  "a week begins on Monday",
			zone:  "UTC",
			rule:  "DTSTART:20260106T060000 FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU",
			after: "2026-01-06T06:00Z",
			want:  "2026-01-11T06:00Z 2026-01-20T06:00Z",
		},
		{
			name:  "29 February",
			zone:  "UTC",
			rule:  "DTSTART:20240229T060000 FREQ=YEARLY",
			after: "2026-01-05T00:00Z",
			want:  "2028-02-29T06:00Z 2032-02-29T06:00Z",
		},
		{
			name:  "the 31st",
			zone:  "UTC",
			rule:  "DTSTART:20260131T060000 FREQ=MONTHLY",
			after: "2026-02-01T00:00Z",
			want:  "2026-03-31T06:00Z 2026-05-31T06:00Z",
		},
		{
			name:  "every 40 years",
			zone:  "UTC",
			rule:  "DTSTART:20720229T060000 FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
			after: "2072-03-01T00:00Z",
			want:  "2112-02-29T06:00Z",
		},
		{
			name:  "an old DTSTART",
			zone:  "UTC",
			rule:  "DTSTART:19000101T000000 FREQ=DAILY;INTERVAL=5",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-10T00:00Z",
		},

		{
			name:  "COUNT is used up",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 FREQ=DAILY;COUNT=2",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T06:00Z 2026-01-06T06:00Z -",
		},
		{
			name:  "COUNT of hours",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 FREQ=HOURLY;COUNT=2",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T06:00Z 2026-01-05T07:00Z -",
		},
		{
			name:  "every 11 years",
			zone:  "UTC",
			rule:  "DTSTART:18991231T060000 FREQ=YEARLY;INTERVAL=11",
			after: "2026-01-05T00:00Z",
			want:  "2031-12-31T06:00Z 2042-12-31T06:00Z",
		},
		{
			name:  "COUNT of centuries",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 FREQ=HOURLY;INTERVAL=87600;COUNT=100000",
			after: "2026-01-06T00:00Z",
			want:  "2036-01-03T06:00Z 2045-12-31T06:00Z",
		},
		{
			name:  "COUNT counts what is excepted",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 EXDATE:20260106T060000 FREQ=DAILY;COUNT=2",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T06:00Z -",
		},
		{
			name:  "an hour named twice",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 FREQ=DAILY;BYHOUR=6,6;COUNT=2",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T06:00Z 2026-01-06T06:00Z -",
		},
		{
			name:  "COUNT ends in a gap",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20260328T233000 FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30;COUNT=3",
			after: "2026-03-28T00:00Z",
			want:  "2026-03-29T01:00Z 2026-03-29T01:30Z -",
		},
		{
			name:  "UNTIL is included",
			zone:  "UTC",
			rule:  "DTSTART:20260105T060000 FREQ=DAILY;UNTIL=20260106T060000Z",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T06:00Z 2026-01-06T06:00Z -",
		},
		{
			name:  "UNTIL in the zone",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20260105T060000 FREQ=DAILY;UNTIL=20260106T055959",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T05:00Z -",
		},
		{
			name:  "UNTIL the end of a day",
			zone:  "America/New_York",
			rule:  "DTSTART:20260105T233000 FREQ=DAILY;UNTIL=20260106",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-06T04:30Z 2026-01-07T04:30Z -",
		},
		{
			name:  "UNTIL in a doubled hour",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20261025T023000 FREQ=DAILY;UNTIL=20261025T011000Z",
			after: "2026-10-25T00:00Z",
			want:  "2026-10-25T00:30Z -",
		},
		{
			name:  "UNTIL of an hourly rule",
			zone:  "UTC",
			rule:  "FREQ=HOURLY;INTERVAL=12;UNTIL=20260105",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T12:00Z -",
		},
		{
			name:  "EXDATE",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20260105T060000 EXDATE:20260106T060000,20260107T050000Z EXDATE;TZID=UTC:20260109T050000 FREQ=DAILY",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T05:00Z 2026-01-08T05:00Z 2026-01-10T05:00Z",
		},
		{
			name:  "EXDATE of an hour",
			zone:  "UTC",
			rule:  "FREQ=HOURLY;INTERVAL=8 EXDATE:20260105T080000",
			after: "2026-01-05T00:00Z",
			want:  "2026-01-05T16:00Z 2026-01-06T00:00Z",
		},

		{
			name:  "a gap: an hour later",
			zone:  "UTC",
			rule:  "DTSTART;TZID=America/New_York:20260101T023000 FREQ=DAILY",
			after: "2026-03-07T00:00Z",
			want:  "2026-03-07T07:30Z 2026-03-08T07:30Z 2026-03-09T06:30Z",
		},
		{
			name:  "doubled: the first",
			zone:  "America/New_York",
			rule:  "DTSTART:20260101T013000 FREQ=DAILY",
			after: "2026-10-31T00:00Z",
			want:  "2026-10-31T05:30Z 2026-11-01T05:30Z 2026-11-02T06:30Z",
		},
		{name: "6 AM in winter", zone: "America/New_York", rule: "FREQ=DAILY;BYHOUR=6", after: "2026-01-05T00:00Z", want: "2026-01-05T11:00Z"},
		{name: "6 AM in summer", zone: "America/New_York", rule: "FREQ=DAILY;BYHOUR=6", after: "2026-07-05T00:00Z", want: "2026-07-05T10:00Z"},
		{
			name:  "a gap in Berlin",
			zone:  "Europe/Berlin",
			rule:  "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
			after: "2026-03-28T00:00Z",
			want:  "2026-03-28T01:30Z 2026-03-29T01:30Z 2026-03-30T00:30Z",
		},
		{
			name:  "doubled in Berlin",
			zone:  "Europe/Berlin",
			rule:  "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
			after: "2026-10-24T00:00Z",
			want:  "2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z",
		},
		{
			name:  "what a gap makes equal is once",
			zone:  "Europe/Berlin",
			rule:  "FREQ=DAILY;BYHOUR=2,3",
			after: "2026-03-28T03:00Z",
			want:  "2026-03-29T01:00Z 2026-03-30T00:00Z",
		},
		{
			name:  "what a gap reorders",
			zone:  "Europe/Berlin",
			rule:  "DTSTART:20260329T024000 FREQ=DAILY;BYHOUR=2,3;BYMINUTE=20,40",
			after: "2026-03-29T00:00Z",
			want:  "2026-03-29T01:20Z 2026-03-29T01:40Z 2026-03-30T00:20Z",
		},
		{
			name:  "midnight in a gap",
			zone:  "America/Sao_Paulo",
			rule:  "FREQ=DAILY",
			after: "2018-11-03T12:00Z",
			want:  "2018-11-04T03:00Z 2018-11-05T02:00Z",
		},
		{
			name:  "a day in a gap",
			zone:  "Pacific/Apia",
			rule:  "FREQ=DAILY;BYHOUR=12",
			after: "2011-12-29T20:00Z",
			want:  "2011-12-29T22:00Z 2011-12-30T22:00Z 2011-12-31T22:00Z",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after := at(t, tt.after)
			if got := next(parse(t, tt.rule, tt.zone), after, strings.Count(tt.want, " ")+1); got != tt.want {
				t.Errorf("%s in %s after %s\ngot  %s\nwant %s", tt.rule, tt.zone, tt.after, got, tt.want)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	ten := at(t, "2026-01-05T10:00Z")
	for _, r := range []*recur.Rule{recur.Every(2 * time.Hour), parse(t, "FREQ=HOURLY;INTERVAL=2", "UTC"), parse(t, "FREQ=DAILY;BYHOUR=10,12", "UTC")} {
		for from, want := range map[time.Time]time.Time{ten: ten, ten.Add(1): ten.Add(2 * time.Hour), ten.Add(-1): ten} {
			if got, ok := r.First(from); !ok || !got.Equal(want) {
				t.Errorf("First(%v): %v, %v, want %v", from, got, ok, want)
			}
		}
		if got, _ := r.Next(ten); !got.Equal(ten.Add(2 * time.Hour)) {
			t.Errorf("Next(%v): %v", ten, got)
		}
	}
}

func TestEvery(t *testing.T) {
	for _, tt := range []struct {
		every time.Duration
		want  string
	}{
		{30 * time.Minute, "2026-01-05T08:30Z 2026-01-05T09:00Z"},
		{7 * time.Hour, "2026-01-05T09:00Z 2026-01-05T16:00Z"},
		{7 * 24 * time.Hour, "2026-01-08T00:00Z 2026-01-15T00:00Z"}, // 1970 began on a Thursday
		{0, "-"},
		{-time.Hour, "-"},
	} {
		if got := next(recur.Every(tt.every), at(t, "2026-01-05T08:00Z"), 2); got != tt.want {
			t.Errorf("every %v: %s, want %s", tt.every, got, tt.want)
		}
	}
	from := at(t, "2026-01-05T08:00Z")
	if got, _ := recur.Every(1500 * time.Millisecond).Next(from.Add(time.Second)); !got.Equal(from.Add(1500 * time.Millisecond)) {
		t.Errorf("every 1.5s: %v", got)
	}
	if got, _ := recur.Every(1).Next(from); !got.Equal(from.Add(time.Microsecond)) {
		t.Errorf("every 1ns: %v", got)
	}
}

func TestNone(t *testing.T) {
	var unset *recur.Rule
	for _, r := range []*recur.Rule{unset, recur.Every(0)} {
		if tm, ok := r.First(time.Time{}); ok {
			t.Errorf("First: %v", tm)
		}
		if tm, ok := r.Next(time.Time{}); ok {
			t.Errorf("Next: %v", tm)
		}
	}
}

func TestRefused(t *testing.T) {
	const (
		day    = "DTSTART:20260105T060000 "
		anchor = "; add a DTSTART, as in DTSTART:20260105T060000"
		parts  = " is not supported; the parts of a rule are BYDAY, BYHOUR, BYMINUTE, BYMONTH, BYMONTHDAY, BYSECOND, BYSETPOS, COUNT, FREQ, INTERVAL, UNTIL, WKST"
		hours  = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"
		never  = "the rule has no occurrence within the first 10 years; change DTSTART, UNTIL or the BY parts"
	)
	tests := []struct{ rule, want string }{
		{"", "there is no FREQ; write FREQ=DAILY or the like"},
		{strings.Repeat("x", 1001), "the rule has 1001 bytes; 1000 are the most"},
		{"RRULE:", `"" is no part of a rule; write it as FREQ=DAILY`},
		{"daily", `"DAILY" is no part of a rule; write it as FREQ=DAILY`},
		{"FREQ=DAILY;", `"" is no part of a rule; write it as FREQ=DAILY`},
		{"INTERVAL=2", "there is no FREQ; write FREQ=DAILY or the like"},
		{"BEGIN:VEVENT FREQ=DAILY", "BEGIN is not supported; a rule has DTSTART, RRULE and EXDATE"},
		{day + "RDATE:20260105T060000 FREQ=DAILY", "RDATE is not supported; a rule has DTSTART, RRULE and EXDATE"},
		{day + "EXRULE:FREQ=DAILY FREQ=DAILY", "EXRULE is not supported; a rule has DTSTART, RRULE and EXDATE"},
		{"RRULE:FREQ=DAILY RRULE:FREQ=DAILY", "RRULE is there twice; a rule has one"},
		{day + day + "FREQ=DAILY", "DTSTART is there twice, or not at the beginning; write it once, before the RRULE"},
		{"FREQ=DAILY " + day, "DTSTART is there twice, or not at the beginning; write it once, before the RRULE"},
		{"RRULE;X=1:FREQ=DAILY", "X=1:FREQ=DAILY" + parts},

		{"DTSTART:20260105T060000,20260106T060000 FREQ=DAILY", `DTSTART: "20260105T060000,20260106T060000" is no time; write it as 20260105T060000, or 20260105T060000Z for UTC`},
		{"DTSTART:20260230T000000 FREQ=DAILY", `DTSTART: "20260230T000000" is no time; write it as 20260105T060000, or 20260105T060000Z for UTC`},
		{"DTSTART;TZID=Europe/Atlantis:20260105T060000 FREQ=DAILY", "DTSTART: TZID=Europe/Atlantis is not known; write it as TZID=Europe/Berlin"},
		{"DTSTART;TZID=Local:20260105T060000 FREQ=DAILY", "DTSTART: TZID=Local is not known; write it as TZID=Europe/Berlin"},
		{"DTSTART;TZID=:20260105T060000 FREQ=DAILY", "DTSTART: TZID= is not known; write it as TZID=Europe/Berlin"},
		{"DTSTART;TZID=Europe/Berlin:20260105T060000Z FREQ=DAILY", "DTSTART: there is a TZID and a time in UTC; leave out the one or the Z"},
		{"DTSTART;VALUE=PERIOD:20260105T060000 FREQ=DAILY", "DTSTART: VALUE=PERIOD is not supported; TZID and VALUE=DATE are"},
		{day + "EXDATE:20260106 FREQ=DAILY", "EXDATE: 20260106 is a day; write the time as well, as in 20260106T060000"},
		{day + "EXDATE:x FREQ=DAILY", `EXDATE: "X" is no time; write it as 20260105T060000, or 20260105T060000Z for UTC`},

		{"FREQ=SECONDLY", "FREQ=SECONDLY: a rule cannot be finer than MINUTELY; write it as FREQ=DAILY"},
		{"FREQ=DAILY;FREQ=DAILY", "FREQ is there twice; write all values in one list"},
		{"FREQ=DAILY;BYHOUR=6;BYHOUR=7", "BYHOUR is there twice; write all values in one list"},
		{day + "FREQ=YEARLY;BYEASTER=0", "BYEASTER=0" + parts},
		{"FREQ=DAILY;INTERVAL=0", "INTERVAL=0: must be from 1 to 100000; write it as INTERVAL=2"},
		{"FREQ=DAILY;INTERVAL=9223372036854775808", `INTERVAL=9223372036854775808: "9223372036854775808" is no whole number that it can have; write it as INTERVAL=2`},
		{day + "FREQ=MINUTELY;INTERVAL=100001", "INTERVAL=100001: must be from 1 to 100000; write it as INTERVAL=2"},
		{day + "FREQ=DAILY;COUNT=0", "COUNT=0: must be from 1 to 100000; write it as COUNT=10"},
		{day + "FREQ=DAILY;COUNT=100001", "COUNT=100001: must be from 1 to 100000; write it as COUNT=10"},
		{day + "FREQ=DAILY;COUNT=2;UNTIL=20260106", "COUNT and UNTIL are both there; leave out one"},
		{day + "FREQ=DAILY;UNTIL=tomorrow", `UNTIL=TOMORROW: "TOMORROW" is no time; write it as 20260105T060000, or 20260105T060000Z for UTC`},
		{"FREQ=DAILY;WKST=1MO", "WKST=1MO: a week cannot start with the n-th of a weekday; write it as WKST=MO"},
		{"FREQ=DAILY;BYHOUR=24", "BYHOUR=24: byhour must be between 0 and 23; write it as BYHOUR=6,16"},
		{"FREQ=DAILY;BYHOUR=6,", `BYHOUR=6,: "" is no whole number that it can have; write it as BYHOUR=6,16`},
		{"FREQ=DAILY;BYSECOND=60", "BYSECOND=60: bysecond must be between 0 and 59; write it as BYSECOND=0"},
		{"FREQ=DAILY;BYMONTHDAY=-32", "BYMONTHDAY=-32: bymonthday must be between 1 and 31 or -1 and -31; write it as BYMONTHDAY=1,-1"},
		{"FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY=0: bymonthday must be between 1 and 31 or -1 and -31; write it as BYMONTHDAY=1,-1"},
		{"FREQ=DAILY;BYDAY=XX", "BYDAY=XX: undefined weekday: XX; write it as BYDAY=MO,TU"},
		{"FREQ=DAILY;BYDAY=0MO", "BYDAY=0MO: the n-th of a weekday goes from 1 to 5, or from -5 to -1; write it as BYDAY=MO,TU"},

		{"FREQ=DAILY;COUNT=2", "COUNT counts from DTSTART, and there is none" + anchor},
		{"FREQ=YEARLY", "FREQ=YEARLY needs to know in which year it starts" + anchor},
		{"FREQ=DAILY;INTERVAL=2", "INTERVAL=2 counts from DTSTART, and there is none" + anchor},
		{"FREQ=HOURLY;INTERVAL=25", "INTERVAL=25 is more than a day, and without DTSTART each midnight begins anew" + anchor},
		{"FREQ=WEEKLY", "FREQ=WEEKLY takes its weekday from DTSTART, and there is none; add BYDAY, as in BYDAY=MO, or a DTSTART"},
		{"FREQ=MONTHLY", "FREQ=MONTHLY takes its day from DTSTART, and there is none; add BYMONTHDAY, as in BYMONTHDAY=1, BYDAY or a DTSTART"},

		{day + "FREQ=YEARLY;BYWEEKNO=1", "BYWEEKNO=1" + parts},
		{day + "FREQ=YEARLY;BYYEARDAY=1", "BYYEARDAY=1" + parts},
		{day + "FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY does not go with FREQ=WEEKLY; write FREQ=MONTHLY, or BYDAY instead"},
		{day + "FREQ=DAILY;BYHOUR=6,7;BYSETPOS=1", "BYSETPOS does not go with FREQ=DAILY; name the times it picks in BYHOUR and BYMINUTE instead"},
		{day + "FREQ=MONTHLY;BYSETPOS=2", never}, // of one day
		{day + "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1,2,3,4,5,6", "BYSETPOS has 6 values; 5 are the most"},
		{"FREQ=WEEKLY;BYDAY=1MO", "BYDAY with an ordinal, as in 1MO, does not go with FREQ=WEEKLY; write FREQ=MONTHLY, or leave out the ordinal"},
		{"FREQ=MONTHLY;BYDAY=-6MO", "BYDAY=-6MO: the n-th of a weekday goes from 1 to 5, or from -5 to -1; write it as BYDAY=MO,TU"},
		{day + "FREQ=YEARLY;BYMONTH=2;BYDAY=6MO", "BYDAY=6MO: the n-th of a weekday goes from 1 to 5, or from -5 to -1; write it as BYDAY=MO,TU"},
		{"FREQ=MONTHLY;BYDAY=MO,1TU", "BYDAY has weekdays with and without an ordinal; write MO as 1MO,2MO,3MO,4MO,5MO"},
		{day + "FREQ=YEARLY;BYHOUR=" + hours + ";BYMINUTE=0,30",
			"the rule names 48 times of day; with FREQ=YEARLY, 24 are the most: name fewer, or write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes 1440"},
		{"FREQ=DAILY;BYHOUR=" + hours + ";BYMINUTE=0,1,2,3,4,5,6,7,8,9;BYSECOND=0,1,2,3,4,5,6",
			"the rule names 1680 times of day; with FREQ=DAILY, 1440 are the most: name fewer, or write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes 1440"},
		{day + "FREQ=MONTHLY;BYHOUR=" + upTo(7) + ";BYMINUTE=" + upTo(43),
			"the rule names 301 times of day; with FREQ=MONTHLY, 300 are the most: name fewer, or write FREQ=DAILY with BYMONTH, BYMONTHDAY or BYDAY, which takes 1440"},
		{day + "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", never},
		{"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", never},
		{day + "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29", never},
		{day + "FREQ=DAILY;UNTIL=20260104", never},
		{day + "EXDATE:20260105T060000 FREQ=DAILY;COUNT=1", never},
		{day + "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", never},

		{"DTSTART:20260101T000000Z FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "FREQ=HOURLY takes no BY part, and with these it never occurs; write FREQ=DAILY with BYHOUR and BYMINUTE"},
		{"DTSTART:20260101T090000Z FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=0,30", "FREQ=HOURLY takes no BY part; this says the same: FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,30"},
		{"FREQ=HOURLY;INTERVAL=8;BYDAY=MO,TU", "FREQ=HOURLY takes no BY part; this says the same: FREQ=DAILY;BYHOUR=0,8,16;BYMINUTE=0;BYDAY=MO,TU"},
		{"FREQ=MINUTELY;INTERVAL=20;BYHOUR=9;BYMONTH=1", "FREQ=MINUTELY takes no BY part; this says the same: FREQ=DAILY;BYHOUR=9;BYMINUTE=0,20,40;BYMONTH=1"},
		{"DTSTART:20260101T000500 FREQ=HOURLY;INTERVAL=2;BYMONTHDAY=1;UNTIL=20270101",
			"FREQ=HOURLY takes no BY part; this says the same: FREQ=DAILY;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22;BYMINUTE=5;BYMONTHDAY=1;UNTIL=20270101"},
		{"FREQ=MINUTELY;INTERVAL=120;BYMONTHDAY=1", "FREQ=MINUTELY takes no BY part; write FREQ=DAILY with BYHOUR and BYMINUTE"},
		{"FREQ=MINUTELY;INTERVAL=90;BYDAY=MO", "FREQ=MINUTELY takes no BY part; write FREQ=DAILY with BYHOUR and BYMINUTE"},
		{"FREQ=HOURLY;INTERVAL=5;BYHOUR=5", "FREQ=HOURLY takes no BY part; write FREQ=DAILY with BYHOUR and BYMINUTE"},
		{"FREQ=HOURLY;BYHOUR=5;BYSETPOS=1", "FREQ=HOURLY takes no BY part; write FREQ=DAILY with BYHOUR and BYMINUTE"},
	}
	for _, tt := range tests {
		if r, err := recur.Parse(tt.rule, nil); r != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.rule, err, tt.want)
		}
	}
}

// A rule may be at each limit.
func TestLimits(t *testing.T) {
	const start = "DTSTART:20260105T060000 "
	for _, rule := range []string{
		"FREQ=DAILY" + strings.Repeat(" ", 990), // 1,000 bytes
		"FREQ=HOURLY;INTERVAL=24",
		start + "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,2,3,-2,-1",
		start + "EXDATE:20260105T060000 FREQ=YEARLY;INTERVAL=10", // it begins after ten years
		"FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=" + upTo(20) + ";BYMINUTE=" + upTo(15),
		"FREQ=WEEKLY;BYDAY=MO;BYHOUR=" + upTo(24) + ";BYMINUTE=" + upTo(60),
	} {
		if _, err := recur.Parse(rule, nil); err != nil {
			t.Errorf("%.60s: %v", rule, err)
		}
	}
}

// upTo returns a list of the first n numbers.
func upTo(n int) string {
	var list []string
	for i := range n {
		list = append(list, strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

func TestRules(t *testing.T) {
	rules := recur.NewRules(testkit.Zone(t, "America/New_York"))
	six, err := rules.Parse("FREQ=DAILY;BYHOUR=6")
	if got := next(six, at(t, "2026-01-05T00:00Z"), 1); err != nil || got != "2026-01-05T11:00Z" {
		t.Fatalf("%s, %v", got, err)
	}
	if _, err := rules.Parse("FREQ=NEVER"); err == nil {
		t.Error("FREQ=NEVER is read")
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() { // 1,000 other rules are not enough to forget this one
			for i := range 250 {
				r, err := rules.Parse(fmt.Sprintf("FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d;BYSECOND=%d", 6+g, i%60, 1+i/60))
				if err != nil {
					t.Error(err)
					continue
				}
				r.Next(at(t, "2026-01-05T00:00Z"))
				six.Next(at(t, "2026-01-05T00:00Z").Add(time.Duration(i) * time.Hour))
			}
		})
	}
	wg.Wait()
	if again, err := rules.Parse("FREQ=DAILY;BYHOUR=6"); err != nil || again != six {
		t.Errorf("it is parsed again: %v", err)
	}
	for i := range 2000 {
		rules.Parse(fmt.Sprintf("FREQ=MINUTELY;INTERVAL=%d", 1+i))
	}
	if again, err := rules.Parse("FREQ=DAILY;BYHOUR=6"); err != nil || again == six {
		t.Errorf("it is still there: %v", err)
	}
}

// The one rule more than are kept makes them forget all others.
func TestRulesAreBounded(t *testing.T) {
	rules := recur.NewRules(nil)
	nth := func(n int) *recur.Rule {
		r, err := rules.Parse(fmt.Sprintf("FREQ=DAILY;BYHOUR=0;BYMINUTE=%d;BYSECOND=%d", n/60, n%60))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := nth(0)
	for n := range 2000 {
		nth(n)
	}
	if nth(0) != first {
		t.Error("it is parsed again, and 2,000 are kept")
	}
	nth(2000)
	if nth(0) == first {
		t.Error("2,001 are kept")
	}
}

var zones = []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"}

// Two years of any rule in any zone: what is found going forward is found from any
// instant, and by a rule that was asked nothing before.
func TestOccurrencesInZones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SampledFrom(zones).Draw(t, "zone")
		choose := chooser(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		start := time.Unix(1735689600+int64(choose(365*86400)), 0).UTC()
		text := "DTSTART:" + start.Format("20060102T150405") + " RRULE:" + choose.rule(start)
		r, err := recur.Parse(text, testkit.Zone(t, in))
		if err != nil {
			if !strings.Contains(err.Error(), "no occurrence") {
				t.Fatalf("%s: %v", text, err)
			}
			t.Skip(err)
		}
		from := start.AddDate(0, choose(24), choose(31))
		var list []time.Time
		for at, ok := r.First(from); ok && at.Before(from.AddDate(2, 0, 0)) && len(list) < 3000; at, ok = r.Next(at) {
			if at.Before(from) || len(list) > 0 && !at.After(list[len(list)-1]) {
				t.Fatalf("%s in %s: %v comes after %v", text, in, at, list)
			}
			list = append(list, at)
		}
		if len(list) == 0 {
			return
		}
		for range 5 {
			i := choose(len(list))
			fresh := parse(t, text, in)
			before := from.Add(-1)
			if i > 0 {
				before = list[i-1]
			}
			some := before.Add(1 + list[i].Sub(before)/1000*time.Duration(choose(1000)))
			for _, tm := range []time.Time{some, list[i]} {
				if got, ok := fresh.First(tm); !ok || got != list[i] {
					t.Fatalf("%s in %s: First(%v) is %v, want %v", text, in, tm, got, list[i])
				}
			}
			if got, ok := parse(t, text, in).Next(before); !ok || got != list[i] {
				t.Fatalf("%s in %s: Next(%v) is %v, want %v", text, in, before, got, list[i])
			}
		}
	})
}
