package tiers_test

import (
	"math"
	"testing"
	"time"

	"backlog/tiers"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	tests := map[string]time.Duration{
		"0":                           0,
		"-0":                          0,
		"0s":                          0,
		"90s":                         90 * time.Second,
		"1.5s":                        1500 * time.Millisecond,
		".5h":                         30 * time.Minute,
		"1h30m":                       90 * time.Minute,
		"250ms":                       250 * time.Millisecond,
		"3us":                         3 * time.Microsecond,
		"3µs":                         3 * time.Microsecond,
		"3μs":                         3 * time.Microsecond,
		"7ns":                         7,
		"+5m":                         5 * time.Minute,
		"-5m":                         -5 * time.Minute,
		"1d":                          day,
		"1.5d":                        36 * time.Hour,
		"1d12h":                       36 * time.Hour,
		"-1d12h":                      -36 * time.Hour,
		"2w":                          14 * day,
		"0.5w":                        84 * time.Hour,
		"1w1d1h1m1s":                  8*day + time.Hour + time.Minute + time.Second,
		" 7D ":                        7 * day,
		"5 m":                         5 * time.Minute,
		"5 minutes":                   5 * time.Minute,
		"5minutes":                    5 * time.Minute,
		"1 hour":                      time.Hour,
		"7 Days":                      7 * day,
		"2 weeks":                     14 * day,
		"1 day 12 hours":              36 * time.Hour,
		"30 secs":                     30 * time.Second,
		"10 min":                      10 * time.Minute,
		"10 MIN":                      10 * time.Minute,
		"10MS":                        10 * time.Millisecond,
		"hourly":                      time.Hour,
		"Daily":                       day,
		"weekly":                      7 * day,
		"an hour":                     time.Hour,
		"a  day":                      day,
		"every 5 minutes":             5 * time.Minute,
		"every hour":                  time.Hour,
		"EVERY\t5m":                   5 * time.Minute,
		"106751d":                     106751 * day,
		"9223372036854775807ns":       math.MaxInt64,
		"-9223372036854775807ns":      -math.MaxInt64,
		"-106751d23h47m16.854775807s": -math.MaxInt64,
	}
	for s, want := range tests {
		if got, err := tiers.ParseDuration(s); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	const (
		form    = "want numbers and units, such as 5m or 1d12h"
		long    = "longer than 106751d, the longest possible"
		month   = "a month has no fixed length, write 30d"
		year    = "a year has no fixed length, write 365d"
		capital = "capital M may be a minute or a month, write m or 30d"
	)
	tests := map[string]string{
		"":                         "there is nothing in it",
		"  ":                       "there is nothing in it",
		"-":                        "there is nothing in it",
		"every":                    "there is nothing in it",
		"m":                        form,
		"5m s":                     form,
		"1 day, 2 hours":           form,
		"--5m":                     form,
		"- 5m":                     form,
		"a":                        "1 has no unit, such as s, m, h, d or w",
		"5":                        "5 has no unit, such as s, m, h, d or w",
		"1h30":                     "30 has no unit, such as s, m, h, d or w",
		"1..5h":                    `"1..5" is not a number`,
		".h":                       `"." is not a number`,
		"5 fortnights":             `unknown unit "fortnights", want one such as s, m, h, d or w`,
		"1 month":                  month,
		"3mo":                      month,
		"monthly":                  month,
		"every month":              month,
		"1y":                       year,
		"2 years":                  year,
		"yearly":                   year,
		"1M":                       capital,
		"1h 30 M":                  capital,
		"a M":                      capital,
		"9223372036854775808ns":    long,
		"99999999999999999999999h": long,
		"106752d":                  long,
		"15251w":                   long,
		"106751d24h":               long,
		"-106751d23h48m":           long,
		"-9223372036854775808ns":   long,
		"9223372036854775807ns1ns": long,
	}
	for s, want := range tests {
		want = `invalid duration "` + s + `": ` + want
		if got, err := tiers.ParseDuration(s); err == nil || err.Error() != want || got != 0 {
			t.Errorf("%q: %v, %v\nwant %s", s, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	tests := map[time.Duration]string{
		0:                              "0s",
		1:                              "1ns",
		1500:                           "1.5µs",
		250 * time.Millisecond:         "250ms",
		1500 * time.Millisecond:        "1.5s",
		90 * time.Second:               "1m30s",
		5 * time.Minute:                "5m",
		time.Hour:                      "1h",
		time.Hour + time.Second:        "1h1s",
		36 * time.Hour:                 "1d12h",
		7 * day:                        "7d",
		360 * day:                      "360d",
		day + time.Millisecond:         "1d1ms",
		-36 * time.Hour:                "-1d12h",
		-1500 * time.Millisecond:       "-1.5s",
		-(time.Minute + time.Second/2): "-1m500ms",
		math.MaxInt64:                  "106751d23h47m16.854775807s",
		math.MinInt64:                  "-106751d23h47m16.854775808s",
	}
	for d, want := range tests {
		if got := tiers.FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, day}).Draw(t, "unit")
		n := rapid.Int64Range(-int64(math.MaxInt64/unit), int64(math.MaxInt64/unit)).Draw(t, "n")
		d := time.Duration(n) * unit
		s := tiers.FormatDuration(d)
		if got, err := tiers.ParseDuration(s); err != nil || got != d {
			t.Fatalf("%v is written %q and read back as %v, %v", d, s, got, err)
		}
	})
}
