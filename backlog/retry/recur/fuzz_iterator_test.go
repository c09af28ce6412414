package recur_test

import (
	"testing"
	"time"

	"backlog/backlog/retry/recur"
)

// FuzzIterator makes a rule of bytes, most of them good ones, and walks its occurrences: they ascend, are where
// asking from anywhere before finds them, end with COUNT and UNTIL, and each is found in bounded time.
func FuzzIterator(f *testing.F) {
	for _, b := range []string{"", "\x00", "\x01\x02\x03\x04\x05\x06\x07", "\x05\x01\x00\x02\x09\x01\x01\x01\x01", "\x03\x00\x00\x63\x02\x06\x00\x00\x05", "\x02\x01\x05\x03\x03\x03\x03\x02\x02\x02\x01\x01\x00"} {
		for _, sec := range []int64{1767571200, 1774749600, 951782400} {
			f.Add([]byte(b), sec, uint8(0))
			f.Add([]byte(b), sec, uint8(1))
		}
	}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia"}
	f.Fuzz(func(t *testing.T, b []byte, sec int64, zone uint8) {
		choose := chooser(func(n int) int {
			if len(b) == 0 {
				return 0
			}
			c := int(b[0])
			b = b[1:]
			return c % n
		})
		start := time.Unix(sec%4102444800, 0).UTC() // until 2100
		name := zones[int(zone)%len(zones)]
		text := "DTSTART;TZID=" + name + ":" + start.Format("20060102T150405") + " " + choose.rule(start)
		if name == "UTC" {
			text = "DTSTART:" + start.Format("20060102T150405Z") + " " + choose.rule(start)
		}
		r, err := recur.Parse(text, time.UTC)
		if err != nil {
			return
		}
		at, ok := r.First(time.Time{})
		// A second is enough for 40 occurrences of all but the sparsest rules.
		for n, began := 0, time.Now(); ok && n < 40 && time.Since(began) < time.Second; n++ {
			fresh, _ := recur.Parse(text, time.UTC)
			if first, found := fresh.First(at); !found || !first.Equal(at) {
				t.Fatalf("%s: occurrence %d is %v, and the first from then on is %v, %v", text, n, at, first, found)
			}
			if slow(func() func() { r, _ := recur.Parse(text, time.UTC); return func() { r.Next(at) } }) {
				t.Errorf("%s: the next after %v takes more than %v", text, at, bound)
			}
			next, more := r.Next(at)
			if again, found := r.Next(at); found != more || !again.Equal(next) {
				t.Fatalf("%s: after %v comes %v, and then %v", text, at, next, again)
			}
			if !more {
				break
			}
			if !next.After(at) {
				t.Fatalf("%s: after %v comes %v", text, at, next)
			}
			if between, _ := fresh.Next(at.Add(next.Sub(at) / 2)); !between.Equal(next) {
				t.Fatalf("%s: after %v comes %v, and from half way on %v", text, at, next, between)
			}
			at = next
		}
	})
}
