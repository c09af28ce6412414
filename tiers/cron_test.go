package tiers_test

import (
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
	"backlog/tiers"
)

func cronTier(t testing.TB, expr, zone string) tiers.Tier {
	t.Helper()
	return testkit.Schedule(t, tiers.Tier{MaxAge: day, Cron: expr, Location: testkit.Zone(t, zone)}).Widest()
}

// ticks steps through (after, upTo] by Next.
func ticks(tier tiers.Tier, after, upTo time.Time) (list []time.Time) {
	for next := tier.Next(after); !next.After(upTo); next = tier.Next(next) {
		list = append(list, next)
	}
	return list
}

func TestCronClockChanges(t *testing.T) {
	const (
		spring = "2026-03-08T00:00:00-05:00" // New York, 02:00 becomes 03:00
		autumn = "2026-11-01T00:00:00-04:00" // New York, 02:00 becomes 01:00
		howe   = "Australia/Lord_Howe"
	)
	tests := []struct {
		expr, zone, after string
		length            time.Duration
		want              string // local hours and minutes
	}{
		{"30 2 * * *", "America/New_York", spring, 2 * day, "03:00 02:30"},
		{"*/15 2 * * *", "America/New_York", spring, day, "03:00"},
		{"0 2,3 * * *", "America/New_York", spring, day, "03:00"},
		{"30 1-3 * * *", "America/New_York", spring, day, "01:30 03:00 03:30"},
		{"30 */2 * * *", "America/New_York", spring, 7 * time.Hour, "00:30 03:00 04:30 06:30"},
		{"30 * * * *", "America/New_York", spring, 4 * time.Hour, "00:30 01:30 03:30 04:30"},
		{"0 * * * *", "America/New_York", spring, 3 * time.Hour, "01:00 03:00 04:00"},
		{"@hourly", "America/New_York", spring, 3 * time.Hour, "01:00 03:00 04:00"},

		{"30 1 * * *", "America/New_York", autumn, 2 * day, "01:30 01:30"},
		{"0 1 * * *", "America/New_York", autumn, day, "01:00"},
		{"0 2 * * *", "America/New_York", autumn, day, "02:00"},
		{"*/30 0-2 * * *", "America/New_York", autumn, 5 * time.Hour, "00:30 01:00 01:30 02:00 02:30"},
		{"30 * * * *", "America/New_York", autumn, 4 * time.Hour, "00:30 01:30 01:30 02:30"},
		{"30 */1 * * *", "America/New_York", autumn, 4 * time.Hour, "00:30 01:30 01:30 02:30"},
		{"30 0-23 * * *", "America/New_York", autumn, 4 * time.Hour, "00:30 01:30 01:30 02:30"},

		{"30 2 * * *", "America/Phoenix", "2026-03-08T00:00:00-07:00", 2 * day, "02:30 02:30"},
		{"30 1 * * *", "America/Phoenix", "2026-11-01T00:00:00-07:00", 2 * day, "01:30 01:30"},
		{"45 12 * * *", "Asia/Kolkata", "2026-03-08T00:00:00+05:30", 2 * day, "12:45 12:45"},

		// By half an hour: 02:00 becomes 02:30 in October and 01:30 in April.
		{"15 2 * * *", howe, "2026-10-04T00:00:00+10:30", 2 * day, "02:30 02:15"},
		{"0,30 1-2 * * *", howe, "2026-10-04T00:00:00+10:30", day, "01:00 01:30 02:30"},
		{"0 * * * *", howe, "2026-10-04T00:30:00+10:30", 3 * time.Hour, "01:00 03:00 04:00"},
		{"45 1 * * *", howe, "2026-04-05T00:00:00+11:00", 2 * day, "01:45 01:45"},
		{"45 * * * *", howe, "2026-04-05T00:00:00+11:00", 3 * time.Hour, "00:45 01:45 01:45"},

		// At midnight: a day that begins at 01:00, and one that begins twice.
		{"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", 2 * day, "01:00 00:00"},
		{"@daily", "America/Sao_Paulo", "2018-02-17T12:00:00-02:00", 2 * day, "00:00 00:00"},
		{"30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00-02:00", day, "23:30"},

		// Samoa had no 30 December 2011.
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", 2 * day, "12:00 00:00 12:00"},
	}
	for _, test := range tests {
		t.Run(test.expr+" "+test.zone, func(t *testing.T) {
			tier := cronTier(t, test.expr, test.zone)
			after := at(t, test.after)
			var got []string
			for _, tick := range ticks(tier, after, after.Add(test.length)) {
				got = append(got, tick.In(tier.Location).Format("15:04"))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("ticks at %s, want %s", got, test.want)
			}
		})
	}
}

// A repeated hour has two ticks that the clock shows alike; only the time in
// UTC tells which of them it is.
func TestCronFirstOfTwo(t *testing.T) {
	tier := cronTier(t, "30 1 * * *", "America/New_York")
	got := tier.Next(at(t, "2026-11-01T00:00:00-04:00"))
	if want := at(t, "2026-11-01T05:30:00Z"); got != want {
		t.Errorf("ticks at %v, want %v", got, want)
	}
	if got, want := tier.Next(got), at(t, "2026-11-02T06:30:00Z"); got != want {
		t.Errorf("ticks again at %v, want %v", got, want)
	}
}

func TestCronLeapDay(t *testing.T) {
	tier := cronTier(t, "30 2 29 2 *", "America/New_York")
	now := at(t, "2088-03-01T00:00:00Z")
	for _, year := range []int{2092, 2096, 2104, 2108} {
		now = tier.Next(now)
		if want := time.Date(year, time.February, 29, 7, 30, 0, 0, time.UTC); now != want {
			t.Fatalf("ticks at %v, want %v", now, want)
		}
	}
	due := testkit.Schedule(t, tier).Due(at(t, "2000-01-01T00:00:00Z"), at(t, "2400-01-01T00:00:00Z"))
	if len(due) != 1 || due[0].Ticks != 97 || due[0].Last.Year() != 2396 {
		t.Errorf("due %v, want 97 ticks until 2396", due)
	}
}

// In years that a zone's table does not reach, ZoneBounds ends 31 December of
// a leap year before it begins.
func TestCronEndOfLeapYear(t *testing.T) {
	after := at(t, "2440-12-30T00:30:00Z")
	for expr, want := range map[string]int{"0 * * * *": 72, "0 12 * * *": 3} {
		tier := cronTier(t, expr, "Europe/Berlin")
		if got := ticks(tier, after, after.Add(3*day)); len(got) != want {
			t.Errorf("%s: ticks at %v, want %d of them", expr, got, want)
		}
		if due := testkit.Schedule(t, tier).Due(after, after.Add(3*day)); len(due) != 1 || due[0].Ticks != want {
			t.Errorf("%s: due %v, want %d ticks", expr, due, want)
		}
	}
}

func TestCronDueIsCounted(t *testing.T) {
	const most = -1 // 10,000, and more
	tests := []struct {
		expr, zone, after, upTo string
		ticks                   int
		last                    string
	}{
		{"* * * * *", "UTC", "2025-01-01T00:00:00Z", "2025-01-07T22:40:00Z", 10000, "2025-01-07T22:40:00Z"},
		{"* * * * *", "UTC", "2025-01-01T00:00:00Z", "2025-01-07T22:41:00Z", most, "2025-01-07T22:41:00Z"},
		{"* * * * *", "UTC", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", most, "2026-01-01T00:00:00Z"},
		{"* * * * *", "America/New_York", "2025-01-01T00:00:00Z", "2026-01-01T00:00:30Z", most, "2026-01-01T00:00:00Z"},
		{"*/5 8-17 * * 1-5", "America/New_York", "2026-01-01T00:00:00-05:00", "2026-04-01T00:00:00-05:00", 64 * 120,
			"2026-03-31T21:55:00Z"},
		{"*/5 8-17 * * 1-5", "America/New_York", "2026-01-01T00:00:00-05:00", "2027-01-01T00:00:00-05:00", most, "2026-12-31T22:55:00Z"},
		{"30 2 * * *", "America/New_York", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", 365, "2026-12-31T07:30:00Z"},
		{"* * * * *", "Europe/Berlin", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z", most, "2026-01-01T00:00:00Z"},
		{"@daily", "America/New_York", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z", most, "2025-12-31T05:00:00Z"},
	}
	for _, test := range tests {
		due := testkit.Schedule(t, cronTier(t, test.expr, test.zone)).Due(at(t, test.after), at(t, test.upTo))
		want, more := test.ticks, test.ticks == most
		if more {
			want = 10000
		}
		what := test.expr + " " + test.zone
		if len(due) != 1 {
			t.Errorf("%s: got %v, want one tier due", what, due)
			continue
		}
		testkit.Equal(t, what+": ticks", due[0].Ticks, want)
		testkit.Equal(t, what+": there are more", due[0].More, more)
		if last := at(t, test.last); due[0].Last != last {
			t.Errorf("%s: the last tick is %v, want %v", what, due[0].Last, last)
		}
	}
}

func BenchmarkCronDueYear(b *testing.B) {
	upTo := at(b, "2026-01-01T00:00:00Z")
	for _, expr := range []string{"* * * * *", "59 23 * * *"} {
		b.Run(expr, func(b *testing.B) {
			s := testkit.Schedule(b, cronTier(b, expr, "America/New_York"))
			for b.Loop() {
				s.Due(upTo.Add(-365*day), upTo)
			}
		})
	}
}
