package handler

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 7 ":                            7 * time.Second,
		"-5":                             0,
		"+5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"31622400":                       maxRetryAfter,
		"31622401":                       0,
		"99999999999999999999":           0,
		"Mon, 05 Jan 2026 12:01:00 GMT":  time.Minute,
		"Monday, 05-Jan-26 12:01:00 GMT": time.Minute,
		"Mon Jan  5 12:01:00 2026":       time.Minute,
		"Mon, 05 Jan 2026 11:59:59 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  0,
		"2026-01-05T12:01:00Z":           0,
	} {
		if got := parseRetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "-1", "99999999999", "Mon, 05 Jan 2026 12:01:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(s, int64(1_767_614_400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix, 0)
		wait := parseRetryAfter(value, now)
		if wait < 0 || wait > maxRetryAfter {
			t.Fatalf("%q: %v", value, wait)
		}
		if at, err := http.ParseTime(value); err == nil && wait > 0 && !now.Add(wait).Equal(at) {
			t.Fatalf("%q: %v from %v on", value, wait, now)
		}
	})
}
