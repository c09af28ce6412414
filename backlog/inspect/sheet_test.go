package inspect_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
)

// A row without a date, or with an infinite one, has no age.
func TestExplainedAge(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	seconds := func(n float64) *float64 { return &n }
	for _, x := range []struct {
		inserted time.Time
		want     *float64
	}{
		{now.Add(-90 * time.Second), seconds(90)},
		{now.Add(time.Minute), seconds(-60)},
		{time.Time{}, nil},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), nil},
		{time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC), nil},
	} {
		got := inspect.Row{Record: backlog.Record{Inserted: x.inserted}}.Sheet(explainedSchedule(t), nil, 0, now).Age
		if (got == nil) != (x.want == nil) || got != nil && *got != *x.want {
			t.Errorf("%v: got %v, want %v", x.inserted, got, x.want)
		}
	}
}

// All dates in texts about a row of the policy refresh are in its zone rather than in UTC.
func TestDatesOfAttemptsAreInTheZone(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	settings := retry.New("refresh").(*retry.Refresh)
	settings.Schedule, settings.Timeout, settings.Intervals = "none", time.Hour, []time.Duration{5 * time.Minute, time.Hour}
	policy, err := retry.Policy(settings)
	if err != nil {
		t.Fatal(err)
	}
	row := inspect.Row{Record: backlog.Record{Inserted: now.Add(-time.Hour), Memory: &backlog.Memory{
		Next: now.Add(time.Hour), AttemptNo: 0, Started: now.Add(-time.Hour), FailingSince: now.Add(-2 * time.Hour),
	}}}
	hourly := func(after time.Time) (time.Time, bool) { return after.Add(time.Hour), true }
	lines := func(zone *time.Location) string {
		row.Zone = zone
		refreshing := inspect.Refreshing{Refresher: policy.Refresher, Rule: hourly, GiveUpAfter: 24 * time.Hour}
		return strings.Join(row.AttemptSheet(explainedSchedule(t), refreshing, now).Lines, "\n")
	}
	utc := lines(nil)
	elsewhere := lines(time.FixedZone("ELSE", 14*60*60))
	if n := strings.Count(utc, " UTC"); n < 8 || strings.Count(elsewhere, " ELSE") != n || strings.Contains(elsewhere, " UTC") {
		t.Errorf("want the same dates in another zone, got\n%s\n\n%s", utc, elsewhere)
	}
}
