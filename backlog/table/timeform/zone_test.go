package timeform

import (
	"testing"
	"time"
)

// Some times a clock shows twice, and some never.
func TestZoneReadings(t *testing.T) {
	for _, c := range []struct{ zone, wall, want string }{
		// 06:00Z: from 02:00 EDT back to 01:00 EST.
		{"America/New_York", "2026-11-01 00:59:59", "2026-11-01T04:59:59Z"},
		{"America/New_York", "2026-11-01 01:00:00", "2026-11-01T06:00:00Z"}, // the later of two
		{"America/New_York", "2026-11-01 01:59:59", "2026-11-01T06:59:59Z"},
		{"America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00Z"},
		// 07:00Z: from 02:00 EST on to 03:00 EDT.
		{"America/New_York", "2026-03-08 01:59:59", "2026-03-08T06:59:59Z"},
		{"America/New_York", "2026-03-08 02:00:00", "2026-03-08T07:00:00Z"}, // skipped: the change
		{"America/New_York", "2026-03-08 02:59:59", "2026-03-08T07:00:00Z"},
		{"America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00Z"},
		{"America/New_York", "2026-03-08 03:00:01", "2026-03-08T07:00:01Z"},
		{"Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T01:30:00Z"},
		{"Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:00:00Z"},
		// Half an hour.
		{"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T15:15:00Z"},
		{"Australia/Lord_Howe", "2026-10-04 02:15:00", "2026-10-03T15:30:00Z"},
		// A whole day skipped.
		{"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-31 00:00:00", "2011-12-30T10:00:00Z"},
		{"Asia/Kolkata", "2026-01-01 00:00:00", "2025-12-31T18:30:00Z"},
		// The last day of a leap year, beyond the changes that are listed one by one.
		{"America/New_York", "2040-12-31 12:00:00", "2040-12-31T17:00:00Z"},
		{"Australia/Lord_Howe", "2040-12-31 12:00:00", "2040-12-31T01:00:00Z"},
	} {
		got, err := detected(t, c.zone, c.wall).Parse(c.wall)
		if err != nil || !got.Equal(timeAt(t, c.want)) {
			t.Errorf("%s in %s is %v, %v, want %s", c.wall, c.zone, got, err, c.want)
		}
	}
}

func TestZoneBounds(t *testing.T) {
	for _, c := range []struct{ zone, at, lower, beyond, exact string }{
		{"America/New_York", "2026-11-01T03:30:00Z", "2026-10-31 23:30:00", "2026-10-31 23:30:01", "2026-10-31 23:30:00"},
		{"America/New_York", "2026-11-01T05:30:00Z", "2026-11-01 01:00:00", "2026-11-01 01:00:00", "2026-11-01 01:00:00"},
		{"America/New_York", "2026-11-01T06:30:00Z", "2026-11-01 01:30:00", "2026-11-01 01:30:01", "2026-11-01 01:30:00"},
		{"America/New_York", "2026-11-01T08:30:00Z", "2026-11-01 03:30:00", "2026-11-01 03:30:01", "2026-11-01 03:30:00"},
		{"America/New_York", "2026-03-08T06:59:59Z", "2026-03-08 01:59:59", "2026-03-08 02:00:00", "2026-03-08 01:59:59"},
		{"America/New_York", "2026-03-08T07:00:00Z", "2026-03-08 02:00:00", "2026-03-08 03:00:01", "2026-03-08 02:00:00"},
		{"America/New_York", "2026-03-08T07:00:01Z", "2026-03-08 03:00:01", "2026-03-08 03:00:02", "2026-03-08 03:00:01"},
		{"America/New_York", "2040-12-31T17:00:00Z", "2040-12-31 12:00:00", "2040-12-31 12:00:01", "2040-12-31 12:00:00"},
		{"Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05 01:30:00", "2026-04-05 01:30:00", "2026-04-05 01:30:00"},
	} {
		f, at := detected(t, c.zone, "2026-01-01 12:00:00"), timeAt(t, c.at)
		if l, u, e := f.Lower(at), f.Beyond(at), f.Exact(at); l != c.lower || u != c.beyond || e != c.exact {
			t.Errorf("%s in %s: lower %v, beyond %v, exact %v", c.at, c.zone, l, u, e)
		}
	}
}

// A text can only have the years 0 to 9999.
func TestYears(t *testing.T) {
	early, late := time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC)
	text, number := detected(t, "UTC", "2026-01-01 12:00:00"), detected(t, "UTC", int64(20260101120000))
	for _, c := range []struct{ got, want any }{
		{text.Lower(early), "0000-01-01 00:00:00"},
		{text.Beyond(early), "0000-01-01 00:00:00"},
		{text.Lower(late), "9999-12-31 23:59:59"},
		{text.Beyond(last), "9999-12-31 23:59:59"},
		{text.Write(late), "9999-12-31 23:59:59"},
		{number.Lower(early), int64(101000000)},
		{number.Beyond(late), int64(99991231235959)},
	} {
		if c.got != c.want {
			t.Errorf("got %#v, want %#v", c.got, c.want)
		}
	}
}
