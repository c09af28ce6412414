package tiers_test

import (
	"testing"
	"time"

	"backlog/internal/testkit"
	"backlog/tiers"
)

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{
		"1d12h", "1.5d", "5 minutes", "every hour", "an hour", "-106751d23h47m16.854775808s", "3µs", "1mo", ".5w",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := tiers.ParseDuration(s)
		if want, ok := time.ParseDuration(s); ok == nil && (err != nil || got != want) {
			t.Fatalf("%q: %v, %v; package time reads %v", s, got, err, want)
		}
		if err != nil {
			return
		}
		if again, err := tiers.ParseDuration(tiers.FormatDuration(got)); err != nil || again != got {
			t.Fatalf("%q: %v is written %q and read back as %v, %v", s, got, tiers.FormatDuration(got), again, err)
		}
	})
}

func FuzzCron(f *testing.F) {
	for _, expr := range []string{
		"*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 30 2 *", "0 0 13 * FRI", "? 1-3/2,5 */2 JAN-mar 0",
		"@daily", "@every 1s", "TZ=0", "CRON_TZ=UTC", "TZ=UTC * * * * *", ", , , , ,", "*/99999999999 * * * *",
	} {
		for i := range changes {
			f.Add(expr, uint8(i), int64(1772953200)+int64(i)*86400*90)
		}
	}
	f.Fuzz(func(t *testing.T, expr string, zone uint8, sec int64) {
		loc := testkit.Zone(t, changes[int(zone)%len(changes)].zone)
		s, err := tiers.New(tiers.Tier{MaxAge: day, Cron: expr, Location: loc})
		if err != nil {
			return
		}
		const lastYear = 250000000000 // Unix seconds within the year 9892
		after := time.Unix(sec%lastYear, 0)
		if after.Year() < 1 {
			after = time.Time{}
		}
		next := s.Next(after)
		if next.IsZero() || !next.After(after) {
			t.Fatalf("%q: after %v comes %v", expr, after, next)
		}
		upTo := next.Add(day)
		due, steps := s.Due(after, upTo), ticks(s.Widest(), after, upTo)
		if len(due) != 1 || due[0].Ticks != len(steps) || due[0].Last != steps[len(steps)-1] {
			t.Fatalf("%q: due %v, but Next goes %v", expr, due, steps)
		}
	})
}
