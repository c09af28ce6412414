package inspect_test

import (
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// What has no date, or an infinite one, has no age.
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
