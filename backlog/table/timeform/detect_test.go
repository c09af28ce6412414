package timeform

import (
	"math"
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
)

func TestDetect(t *testing.T) {
	now := time.Unix(1767225600, 0)
	for _, c := range []struct {
		samples []any
		want    string // empty: nothing to see
	}{
		{nil, ""},
		{[]any{nil, int64(0), "", "0000-00-00 00:00:00"}, ""},
		{[]any{nil, "2026-01-01 12:00:00", "0000-00-00"}, "text 2026-01-02 15:04:05 (no zone, read as Asia/Kolkata)"},
		{[]any{[]byte("2026-01-01T12:00:00")}, "text 2026-01-02T15:04:05 (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01T12:00"}, "text 2026-01-02T15:04 (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01"}, "text 2026-01-02 (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01 12:00:00.5"}, "text 2026-01-02 15:04:05.0 (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01 12:00:00", "2026-01-01 12:00:00.500"}, "text 2026-01-02 15:04:05[.000] (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01 12:00:00.1", "2026-01-01 12:00:00.12"}, "text 2026-01-02 15:04:05[.000000] (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01 12:00", "2026-01-01 12:00", "2026-01-01T12:00:00.5"}, "text 2026-01-02T15:04:05[.0] (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01T12:00:00Z"}, "text 2026-01-02T15:04:05Z"},
		{[]any{"2026-01-01T12:00:00+00:00", "2026-01-01T12:00:00.000Z"}, "text 2026-01-02T15:04:05[.000]+00:00"},
		{[]any{"2026-01-01 12:00:00.000-0500", "2026-01-01 12:00:00.000-05:00"}, "text 2026-01-02 15:04:05.000-0500"},
		{[]any{"2026-01-01 12:00:00 +05:30"}, "text 2026-01-02 15:04:05 +05:30"},
		{[]any{"2026-01-01 12:00:00-00"}, "text 2026-01-02 15:04:05-00"},
		{[]any{"2026-01-01 12:00:00 UTC"}, "text 2026-01-02 15:04:05 UTC"},
		{[]any{"2026-01-01 12:00Z"}, "text 2026-01-02 15:04Z"},
		{[]any{now.UTC().String(), now.UTC().String() + " m=+0.1"}, "text 2026-01-02 15:04:05 +0000 UTC"},
		{[]any{now.In(time.FixedZone("MSK", 3*3600)).String()}, "text 2026-01-02 15:04:05 +0300 MSK"},
		{[]any{"20260101120000"}, "text 20260102150405 (no zone, read as Asia/Kolkata)"},
		{[]any{"20260101120000.123Z"}, "text 20260102150405.000Z"},
		{[]any{int64(20260101120000)}, "integer 20260102150405 (no zone, read as Asia/Kolkata)"},
		{[]any{20260101120000.0}, "real 20260102150405 (no zone, read as Asia/Kolkata)"},
		{[]any{int64(1767225600)}, "unix_s"},
		{[]any{int64(firstUnix), int64(endUnix - 1)}, "unix_s"},
		{[]any{int64(1767225600), 1767225600.123}, "unix_s"},
		{[]any{int64(firstUnix * 1000), int64(endUnix*1000 - 1)}, "unix_ms"},
		{[]any{1767225600000.5}, "unix_ms"},
		{[]any{int64(firstUnix * 1000000), int64(endUnix*1000000 - 1)}, "unix_us"},
		{[]any{2461041.5, int64(2461042)}, "julian"},
		{[]any{2447892.5, 2488434.4}, "julian"},
		// Three quarters are enough.
		{[]any{"2026-01-01 12:00:00", int64(1767225600000), "2026-01-01 12:00:01", "2026-01-01 12:00:02"}, "text 2026-01-02 15:04:05 (no zone, read as Asia/Kolkata)"},
		{[]any{"soon", int64(1767225600), int64(1767225601), int64(1767225602)}, "unix_s"},
		{[]any{"20260101120000", "2026-01-01 12:00", "2026-01-01 13:00", "2026-01-01 14:00"}, "text 2026-01-02 15:04 (no zone, read as Asia/Kolkata)"},
		// It writes the variant that most of them have.
		{[]any{"2026-01-01 12:00:00", "2026-01-01T12:00:00.5", "2026-01-01T12:00:00+05:30", "2026-01-01T12:00"}, "text 2026-01-02T15:04:05[.0] (no zone, read as Asia/Kolkata)"},
		{[]any{"2026-01-01 12:00:00", "2026-01-01T12:00:00+05:30", "2026-01-01T12:00:01+05:30"}, "text 2026-01-02T15:04:05+05:30"},
		{[]any{"2026-01-01 12:00:00Z", "2026-01-01T12:00:00+00:00", "2026-01-01T12:00:01Z"}, "text 2026-01-02T15:04:05Z"},
	} {
		f, ok, err := Detect(c.samples, testkit.Zone(t, "Asia/Kolkata"))
		switch {
		case err != nil || ok != (c.want != ""):
			t.Errorf("%v: %v, %v", c.samples, ok, err)
		case ok && f.String() != c.want:
			t.Errorf("%v: %v, want %s", c.samples, f, c.want)
		}
	}
	if f, _, err := Detect([]any{"2026-01-01"}, nil); err != nil || f.String() != "text 2026-01-02 (no zone, read as UTC)" {
		t.Errorf("without a zone: %v, %v", f, err)
	}
}

func TestDetectError(t *testing.T) {
	const unknown = " is no time in a known form: numbers are taken for times of the years 1990 to 2100, in seconds, milliseconds or microseconds; " +
		"`as: text:<layout>` describes texts that begin with the year, such as 2006/01/02 15:04 or 20060102; others do not sort by time, and need a generated column that does"
	for _, c := range []struct {
		samples []any
		want    string
	}{
		{[]any{"2026-01-01T12:00:00+05:30", "2026-01-01 12:00:00"}, "mixed: 2026-01-01T12:00:00+05:30 and 2026-01-01 12:00:00"},
		{[]any{"2026-01-01 12:00:00", "20260101120000"}, "mixed: 2026-01-01 12:00:00 and \"20260101120000\""},
		{[]any{"2026-01-01 12:00:00", "2026-01-01", "2026-01-01 13:00"}, "mixed: 2026-01-01 12:00:00 and 2026-01-01"},
		{[]any{"2026-01-01 12:00:00", "2026-01-01 13:00:00", "soon"}, "mixed: 2026-01-01 12:00:00 and \"soon\""},
		{[]any{"soon", int64(1767225600)}, "mixed: \"soon\" and 1767225600"},
		{[]any{"2026-01-01T12:00:00+01:00", "2026-07-01T12:00:00+02:00"}, "mixed zones: 2026-01-01T12:00:00+01:00 and " +
			"2026-07-01T12:00:00+02:00: the order of such texts is not the order of time"},
		{[]any{int64(1767225600), int64(1767225600000)}, "mixed: 1767225600 and 1767225600000"},
		{[]any{int64(1767225600), "1767225600"}, "mixed: 1767225600 and \"1767225600\""},
		{[]any{int64(1767225600), int64(253402300799)}, "mixed: 1767225600 and 253402300799"},
		{[]any{"1767225600", "999999999"}, `"1767225600"` + unknown},
		{[]any{"soon", "later"}, `"soon"` + unknown},
		{[]any{" 2026-01-01 12:00:00"}, `" 2026-01-01 12:00:00"` + unknown},
		{[]any{"2026-01-01 12:00:00\n"}, `"2026-01-01 12:00:00\n"` + unknown},
		{[]any{"2026-01-01 24:00:00"}, "2026-01-01 24:00:00" + unknown},
		{[]any{"2026-01-01 12:00:00+25"}, "2026-01-01 12:00:00+25" + unknown},
		{[]any{"01/02/2026"}, `"01/02/2026"` + unknown},
		{[]any{"1.2.2026 11:00"}, "1.2.2026 11:00" + unknown},
		{[]any{"21-11-2026"}, "21-11-2026" + unknown},
		{[]any{"21.11.26"}, `"21.11.26"` + unknown},
		{[]any{"2461041.5"}, `"2461041.5"` + unknown},
		{[]any{"17670101000000"}, `"17670101000000"` + unknown},
		{[]any{int64(1)}, "1" + unknown},
		{[]any{int64(20261301120000)}, "20261301120000" + unknown},
		{[]any{math.NaN()}, "NaN" + unknown},
		{[]any{int64(1767225600000000000)}, "1767225600000000000" + unknown},
		{[]any{int64(20260101)}, "20260101" + unknown},
		{[]any{"20260101"}, `"20260101"` + unknown},
		{[]any{true}, "true" + unknown},
	} {
		if f, ok, err := Detect(c.samples, time.UTC); err == nil || ok || err.Error() != c.want {
			t.Errorf("%v:\n got %v, %v\nwant %s", c.samples, f, err, c.want)
		}
	}
}

func TestSetting(t *testing.T) {
	for _, c := range []struct {
		as, zone, want string
		value          any // for 12:34 of 2026-01-01 in UTC
	}{
		{"unix_s", "UTC", "unix_s", int64(1767270840)},
		{"unix_ms", "UTC", "unix_ms", int64(1767270840000)},
		{"unix_us", "UTC", "unix_us", int64(1767270840000000)},
		{"julian", "UTC", "julian", 2461042.0 + 34.0/1440},
		{"text:2006-01-02 15:04:05", "Asia/Kolkata", "text 2026-01-02 15:04:05 (no zone, read as Asia/Kolkata)", "2026-01-01 18:04:00"},
		{"text:2006-01-02 15:04:05.000", "UTC", "text 2026-01-02 15:04:05.000 (no zone, read as UTC)", "2026-01-01 12:34:00.000"},
		{"text:2006-01-02 15:04:05.999", "UTC", "text 2026-01-02 15:04:05[.000] (no zone, read as UTC)", "2026-01-01 12:34:00"},
		{"text:20060102150405", "UTC", "text 20260102150405 (no zone, read as UTC)", "20260101123400"},
		{"text:20060102", "UTC", "text 20260102 (no zone, read as UTC)", "20260101"},
		{"text:2006.01.02 15", "UTC", "text 2026.01.02 15 (no zone, read as UTC)", "2026.01.01 12"},
		{"text:2006/01/02 15.04", "UTC", "text 2026/01/02 15.04 (no zone, read as UTC)", "2026/01/01 12.34"},
		{"text:2006_01_02__15_04_05", "UTC", "text 2026_01_02__15_04_05 (no zone, read as UTC)", "2026_01_01__12_34_00"},
		{"text:2006-01-02T15:04:05Z07:00", "UTC", "text 2026-01-02T15:04:05Z", "2026-01-01T12:34:00Z"},
		{"text:2006-01-02T15:04:05Z07:00", "Asia/Kolkata", "text 2026-01-02T15:04:05+05:30", "2026-01-01T18:04:00+05:30"},
		{"text:2006-01-02T15:04:05Z", "Asia/Kolkata", "text 2026-01-02T15:04:05Z", "2026-01-01T12:34:00Z"},
		{"text:2006-01-02 15:04:05-07:00", "Europe/Berlin", "text 2026-01-02 15:04:05+00:00", "2026-01-01 12:34:00+00:00"},
		{"text:2006-01-02 15:04:05.999999999 -0700 MST", "UTC", "text 2026-01-02 15:04:05[.000000000] +0000 UTC", "2026-01-01 12:34:00 +0000 UTC"},
		{"text:2006-01-02-07", "UTC", "text 2026-01-02+00", "2026-01-01+00"},
	} {
		f, err := Parse(c.as, testkit.Zone(t, c.zone))
		if err != nil || f.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.as, f, err, c.want)
			continue
		}
		at := time.Unix(1767270840, 0)
		value := f.Write(at)
		if value != c.value {
			t.Errorf("%s: writes %#v, want %#v", c.as, value, c.value)
		}
		if step, ok := f.codec.(Calendar); ok {
			at = at.Truncate(step.step())
		}
		if got, err := f.Parse(value); err != nil || !got.Equal(at) {
			t.Errorf("%s: reads %v as %v, %v", c.as, value, got, err)
		}
	}
}

func TestSettingError(t *testing.T) {
	order := ": the order of such texts is not known to be the order of time, " +
		"as is that of 2006-01-02 15:04:05, with or without a fraction (.000, .999) and an offset (Z07:00, -07:00)"
	for as, want := range map[string]string{
		"unix_ns":                      `"unix_ns" is not native, unix_s, unix_ms, unix_us, julian or text:<layout>`,
		"":                             `"" is not native, unix_s, unix_ms, unix_us, julian or text:<layout>`,
		"text:":                        `layout ""` + order,
		"text:15:04:05":                `layout "15:04:05"` + order,
		"text:2006-01":                 `layout "2006-01"` + order,
		"text:2 Jan 2006":              `layout "2 Jan 2006"` + order,
		"text:02/01/2006":              `layout "02/01/2006"` + order,
		"text:2006-01-02 03:04:05PM":   `layout "2006-01-02 03:04:05PM"` + order,
		"text:2006-01-02 15:05":        `layout "2006-01-02 15:05"` + order,
		"text:15:04:05 2006-01-02":     `layout "15:04:05 2006-01-02"` + order,
		"text:2006-01-02 15:04.000":    `layout "2006-01-02 15:04.000"` + order,
		"text: 2006-01-02":             `layout " 2006-01-02"` + order,
		"text:2006-01-02 15:04:05 MST": `layout "2006-01-02 15:04:05 MST"` + order,
		"text:2006-01-02 15:04:05-07":  `layout "2006-01-02 15:04:05-07" cannot show the offset of Asia/Kolkata`,
	} {
		if f, err := Parse(as, testkit.Zone(t, "Asia/Kolkata")); err == nil || err.Error() != want {
			t.Errorf("%s: %v\n got %v\nwant %s", as, f, err, want)
		}
	}
}

// Values without a common form can be read in the form that most of them have.
func TestMostCommon(t *testing.T) {
	for _, c := range []struct {
		samples []any
		want    string // empty: none has a known form
	}{
		{[]any{"soon", "later", int64(1767225600), "2026-01-01", "2026-01-02"}, "text 2026-01-02 (no zone, read as UTC)"},
		{[]any{"soon", nil, ""}, ""},
		{nil, ""},
	} {
		f, ok := MostCommon(c.samples, nil)
		if ok != (c.want != "") || ok && f.String() != c.want {
			t.Errorf("%v: got %v, want %q", c.samples, ok, c.want)
		}
	}
}

// isMinuteInZ reports whether the value is a text without seconds that ends in Z. It sorts after all texts
// of its minute that have seconds.
func isMinuteInZ(raw any) bool {
	text, _ := raw.(string)
	return len(text) == len("2006-01-02 15:04Z") && strings.HasSuffix(text, "Z")
}

// A detected form must be able to read the values, and what it writes must be detected and read again.
func FuzzDetect(f *testing.F) {
	for _, s := range []string{
		"2026-01-01 12:00:00", "2026-01-01T12:00:00.123Z", "2026-01-01 12:00:00 +0000 UTC m=+0.1", "2026-01-01 12:00-05:00",
		"2026-01-01", "20260101120000", "1767225600", "1767225600000", "0000-00-00", "soon", "",
	} {
		f.Add(s, s, int64(1767225600), 1767225600.5)
		f.Add(s, "2026-01-01 12:00:00.5", int64(20260101120000), 2461041.5)
		f.Add("2026-01-01 12:00:00.00Z", "2026-01-01T12:00Z", int64(1), 1.5)
		f.Add("2026-01-01T12:00:00.100Z", "2026-01-01 12:00Z", int64(1), 1.5)
	}
	zone := testkit.Zone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, s1, s2 string, n int64, x float64) {
		for _, samples := range [][]any{{s1}, {s1, s2}, {n}, {x}, {n, x}, {s1, n}, {s2, x}} {
			form, ok, err := Detect(samples, zone)
			if err != nil || !ok {
				continue
			}
			for _, raw := range samples {
				if IsZero(raw) {
					continue
				}
				at, err := form.Parse(raw)
				if err != nil {
					t.Fatalf("%v detected, but %v", form, err)
				}
				if at.Year() < 1 {
					continue // ticks and ages are computed from the year 1 on
				}
				end := at
				if isMinuteInZ(raw) && !isMinuteInZ(form.Write(at)) { // beside others with seconds
					end = at.Add(time.Minute - time.Second)
				}
				if since, until := form.Since(at), form.Until(end); isBelow(raw, since) || !isBelow(raw, until) {
					t.Fatalf("%v: %#v is not within %#v and %#v", form, raw, since, until)
				}
				written := form.Write(at)
				if _, err := form.Parse(written); err != nil {
					t.Fatalf("%v: wrote %#v, but %v", form, written, err)
				}
				if _, ok, err := Detect([]any{raw, written}, zone); !ok || err != nil {
					t.Fatalf("%v: wrote %#v next to %#v: %v, %v", form, written, raw, ok, err)
				}
			}
		}
		if form, err := Parse("text:"+s1, zone); err == nil {
			if _, err := form.Parse(form.Write(time.Unix(n%endUnix, 0))); err != nil {
				t.Fatal(err)
			}
		}
	})
}
