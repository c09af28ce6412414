package tiers_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"backlog/internal/testkit"
	"backlog/tiers"
)

const day = 24 * time.Hour

// progressive returns the schedule that the package documentation has in mind.
func progressive(t testing.TB) *tiers.Schedule {
	return testkit.Schedule(t,
		tiers.Tier{MaxAge: day, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * day, Every: time.Hour},
		tiers.Tier{MaxAge: 14 * day, Every: 12 * time.Hour},
		tiers.Tier{MaxAge: 30 * day, Every: 24 * time.Hour},
		tiers.Tier{MaxAge: 180 * day, Every: 96 * time.Hour},
		tiers.Tier{MaxAge: 360 * day, Every: 192 * time.Hour},
	)
}

// at parses an RFC 3339 time, to the nanosecond where it has a fraction.
func at(t testing.TB, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func idle(tiers.Tier) bool { return true }

// names lists the tiers of due, separated by spaces.
func names(due []tiers.Due) string {
	s := ""
	for i, d := range due {
		if i > 0 {
			s += " "
		}
		s += d.Tier.Name
	}
	return s
}

func TestEvery(t *testing.T) {
	tests := []struct {
		every, offset time.Duration
		after, next   string
	}{
		{time.Hour, 0, "2026-01-05T00:00:00Z", "2026-01-05T01:00:00Z"},
		{time.Hour, 0, "2026-01-05T00:59:59.999999999Z", "2026-01-05T01:00:00Z"},
		{time.Hour, 0, "2026-01-05T01:00:00.000000001Z", "2026-01-05T02:00:00Z"},
		{time.Hour, 0, "2026-01-05T05:45:00+05:30", "2026-01-05T01:00:00Z"},
		{time.Hour, 15 * time.Minute, "2026-01-05T00:14:59Z", "2026-01-05T00:15:00Z"},
		{time.Hour, 15 * time.Minute, "2026-01-05T00:15:00Z", "2026-01-05T01:15:00Z"},
		{7 * day, 0, "2026-01-05T00:00:00Z", "2026-01-08T00:00:00Z"}, // 1970-01-01 was a Thursday too
		{time.Hour, 0, "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"},
		{time.Hour, 0, "1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z"},
		{time.Hour, 20 * time.Minute, "1969-12-31T22:20:00Z", "1969-12-31T23:20:00Z"},
		{7 * time.Second, 3 * time.Second, "1969-12-31T23:59:55Z", "1969-12-31T23:59:56Z"},
		{day, 0, "0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"},
	}
	for _, test := range tests {
		tier := tiers.Tier{MaxAge: day, Every: test.every, Offset: test.offset}
		want := at(t, test.next)
		if got := testkit.Schedule(t, tier).Next(at(t, test.after)); !got.Equal(want) {
			t.Errorf("every %v offset %v: Next(%s) = %v, want %v", test.every, test.offset, test.after, got, want)
		}
		if got := tier.Next(at(t, test.after)); got != want {
			t.Errorf("every %v offset %v: Tier.Next(%s) = %v, want %v", test.every, test.offset, test.after, got, want)
		}
	}
}

func TestDue(t *testing.T) {
	tests := []struct {
		name, after, upTo string
		want              string
		ticks             int    // of the first
		last              string // of the first
	}{
		{"nothing", "2026-01-05T00:01:00Z", "2026-01-05T00:04:59Z", "", 0, ""},
		{"upper end included", "2026-01-05T00:01:00Z", "2026-01-05T00:05:00Z", "1d", 1, "2026-01-05T00:05:00Z"},
		{"lower end excluded", "2026-01-05T00:05:00Z", "2026-01-05T00:06:00Z", "", 0, ""},
		{"together", "2026-01-05T11:59:59Z", "2026-01-05T12:00:00Z", "1d 7d 14d", 1, "2026-01-05T12:00:00Z"},
		{"downtime", "2026-01-05T00:00:00Z", "2026-01-08T00:07:00Z", "1d 7d 14d 30d 180d", 865, "2026-01-08T00:05:00Z"},
		{"across the epoch", "1969-12-31T23:51:00Z", "1970-01-01T00:00:00Z", "1d 7d 14d 30d 180d 360d", 2, "1970-01-01T00:00:00Z"},
		{"empty", "2026-01-05T00:05:00Z", "2026-01-05T00:05:00Z", "", 0, ""},
		{"backwards", "2026-01-05T01:00:00Z", "2026-01-05T00:00:00Z", "", 0, ""},
	}
	s := progressive(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			due := s.Due(at(t, test.after), at(t, test.upTo))
			if got := names(due); got != test.want {
				t.Fatalf("due %q, want %q", got, test.want)
			}
			if test.want == "" {
				if due != nil {
					t.Errorf("due %v, want nil", due)
				}
				return
			}
			if got := due[0]; got.Ticks != test.ticks || got.Last != at(t, test.last) {
				t.Errorf("%d ticks until %v, want %d until %s", got.Ticks, got.Last, test.ticks, test.last)
			}
		})
	}
}

func TestNextIsTheEarliest(t *testing.T) {
	s := testkit.Schedule(t,
		tiers.Tier{MaxAge: day, Every: 10 * time.Minute},
		tiers.Tier{MaxAge: 2 * day, Cron: "3 * * * *"},
		tiers.Tier{MaxAge: 3 * day, Every: time.Hour, Offset: 17 * time.Minute},
	)
	now := at(t, "2026-01-05T00:55:00Z")
	for _, want := range []string{"01:00", "01:03", "01:10", "01:17", "01:20"} {
		if now = s.Next(now); now.Format("15:04") != want {
			t.Fatalf("got %v, want %s", now, want)
		}
	}
}

func TestLookups(t *testing.T) {
	s := progressive(t)
	if got := s.Widest().Name; got != "360d" {
		t.Errorf("Widest is %s", got)
	}
	if tier, ok := s.ByMaxAge(7 * day); !ok || tier.Every != time.Hour {
		t.Errorf("ByMaxAge(7d) = %v, %v", tier, ok)
	}
	if tier, ok := s.ByMaxAge(2 * day); ok {
		t.Errorf("ByMaxAge(2d) = %v", tier)
	}
	if tier, ok := s.ByName("14d"); !ok || tier.MaxAge != 14*day {
		t.Errorf("ByName(14d) = %v, %v", tier, ok)
	}
	if tier, ok := s.ByName(""); ok {
		t.Errorf("ByName of nothing = %v", tier)
	}
	s.Tiers()[0].Name = "changed"
	if _, ok := s.ByName("changed"); ok {
		t.Error("Tiers is not a copy")
	}
}

func TestMinInterval(t *testing.T) {
	tests := []struct {
		cron string
		want time.Duration
	}{
		{"* * * * *", time.Minute},
		{"*/15 * * * *", 15 * time.Minute},
		{"0,59 * * * *", time.Minute},
		{"0 9-17 * * 1-5", time.Hour},
		{"30 2 * * *", day},
		{"0 0 1,31 * *", day},
		{"0 23,0 * * *", time.Hour},
		{"@weekly", 7 * day},
		{"0 0 29 2 *", (4*365 + 1) * day},
	}
	for _, test := range tests {
		tier := tiers.Tier{MaxAge: day, Cron: test.cron, Location: testkit.Zone(t, "America/New_York")}
		if got := testkit.Schedule(t, tier).MinInterval(); got != test.want {
			t.Errorf("%s: %v, want %v", test.cron, got, test.want)
		}
	}
	if got := progressive(t).MinInterval(); got != 5*time.Minute {
		t.Errorf("progressive: %v", got)
	}
}

func TestCoalesce(t *testing.T) {
	tests := []struct {
		due, busy               string // one letter a tier, narrow to wide
		start, covered, skipped string
	}{
		{"", "", "", "", ""},
		{"a", "", "a", "", ""},
		{"abc", "", "c", "a b", ""},
		{"abc", "a", "c", "a b", ""},
		{"abc", "c", "b", "a", "c"},
		{"abc", "bc", "a", "", "b c"},
		{"abc", "ac", "b", "a", "c"},
		{"abc", "abc", "", "", "a b c"},
		{"ac", "b", "c", "a", ""},
	}
	for _, test := range tests {
		var due []tiers.Due
		for _, name := range test.due {
			due = append(due, tiers.Due{Tier: tiers.Tier{Name: string(name)}, Ticks: 1})
		}
		pick := tiers.Coalesce(due, func(tier tiers.Tier) bool {
			for _, name := range test.busy {
				if tier.Name == string(name) {
					return false
				}
			}
			return true
		})
		start := ""
		if pick.Start != nil {
			start = pick.Start.Tier.Name
		}
		if start != test.start || names(pick.Covered) != test.covered || names(pick.Skipped) != test.skipped {
			t.Errorf("due %q, busy %q: start %q, covered %q, skipped %q; want %q, %q, %q", test.due, test.busy,
				start, names(pick.Covered), names(pick.Skipped), test.start, test.covered, test.skipped)
		}
	}
}

func TestProgressiveLife(t *testing.T) {
	s := progressive(t)
	inserted := at(t, "2026-01-05T00:00:00Z")
	total, firstDay := 0, 0
	for now := s.Next(inserted); now.Sub(inserted) <= s.Widest().MaxAge; now = s.Next(now) {
		age := now.Sub(inserted)
		pick := tiers.Coalesce(s.Due(now.Add(-1), now), idle)
		if pick.Start == nil || pick.Start.Tier.MaxAge < age {
			continue
		}
		total++
		if age <= day {
			firstDay++
		}
	}
	if firstDay != 288 || total != 522 {
		t.Errorf("tried %d times on the first day and %d times in all, want 288 and 522", firstDay, total)
	}
}
