package recur_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/retry/recur"
)

const (
	longest = 200                   // bytes of a text
	bound   = 50 * time.Millisecond // of whatever is done with it
)

// slow reports whether what f returns takes longer than the bound again and again,
// and longer than 20 times what a rule that never occurs takes then, which is a few
// milliseconds: a machine that is busy, or looks for races, is slow at both.
func slow(f func() func()) bool {
	took := func(f func()) time.Duration {
		begun := time.Now()
		f()
		return time.Since(begun)
	}
	for range 3 {
		d := took(f())
		if d <= bound || d <= 20*took(func() { recur.Parse("DTSTART:20260101T000000 FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", nil) }) {
			return false
		}
	}
	return true
}

func FuzzParse(f *testing.F) {
	const (
		start = "DTSTART;TZID=America/New_York:20260101T023000 "
		hours = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"
	)
	for _, text := range []string{
		"RRULE:FREQ=HOURLY;INTERVAL=2",
		"DTSTART:20260101T000000Z RRULE:FREQ=HOURLY;INTERVAL=2;BYHOUR=1",
		start + "FREQ=MINUTELY;INTERVAL=7;COUNT=100000",
		start + "EXDATE:20260105T060000 FREQ=DAILY;UNTIL=20991231",
		start + "FREQ=YEARLY;BYSETPOS=-366,-2,7,99,300;BYDAY=MO,TU,WE,TH,FR,SA,SU;COUNT=100000",
		start + "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29,31;INTERVAL=3;BYSETPOS=4,5,6,7,8",
		start + "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;COUNT=100000;BYHOUR=" + hours,
		start + "FREQ=YEARLY;BYMONTHDAY=-1,-2,-3,-4,-5,-6,-7,-8,-9,-10,-11,-12,-13,-14,-15,-16,-17,-18,-19,-20,-21,-22,-23;BYMONTH=1",
		start + "FREQ=YEARLY;INTERVAL=99999;BYDAY=-5MO,5SU;BYMONTH=2;BYSETPOS=1,2,3,4,5",
		"DTSTART:00010101T000000 FREQ=DAILY;INTERVAL=99999;COUNT=100000",
		"DTSTART:99991231T235959 FREQ=MONTHLY;BYDAY=-5MO,5SU",
		start + "FREQ=MONTHLY;BYDAY=5MO,-5TU,1WE;BYMONTH=2;BYMONTHDAY=30;INTERVAL=7",
		start + "FREQ=MONTHLY;BYSETPOS=-1,-2,250,251,252;COUNT=100000;BYDAY=MO,TU,WE,TH,FR;BYMINUTE=0,1,2,3,4,5,6,7,8,9;BYHOUR=" + hours,
		start + "FREQ=WEEKLY;BYDAY=MO,TU;BYMONTH=2;BYSETPOS=3,4,5,6,7",
		start + "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE=0,1,2,3,4,5,6,7,8,9",
		"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE=0,1,2,3,4,5,6,7,8,9;BYSECOND=0,1,2,3,4,5,6,7,8,9",
	} {
		for _, sec := range []int64{1767571200, 7258118400, -62135596800, 253402300799} {
			f.Add(text, sec)
		}
	}
	f.Fuzz(func(t *testing.T, text string, sec int64) {
		if len(text) > longest {
			text = text[:longest]
		}
		var r *recur.Rule
		var err error
		if slow(func() func() { return func() { r, err = recur.Parse(text, time.UTC) } }) {
			t.Errorf("%q is parsed for more than %v", text, bound)
		}
		if (r == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, r, err)
		}
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "cannot be expanded") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		at := time.Unix(sec%253402300800, 999)
		for range 3 {
			var first, next time.Time
			var ok, more bool
			find := func() func() {
				r, _ := recur.Parse(text, time.UTC) // which was asked nothing before
				return func() { first, ok = r.First(at) }
			}
			if slow(find) {
				t.Errorf("%q at %v takes more than %v", text, at, bound)
			}
			next, more = r.Next(first)
			if ok && first.Before(at) {
				t.Fatalf("%q: the first from %v on is %v, which is earlier", text, at, first)
			}
			if ok && first.Nanosecond() != 0 {
				t.Fatalf("%q: the first from %v on is %v, want a whole second", text, at, first)
			}
			if more && !next.After(first) {
				t.Fatalf("%q: the next after %v is %v, want a later one", text, first, next)
			}
			if !ok || !more {
				return
			}
			at = next
		}
	})
}
