package watch_test

import (
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

// Days are days of the zone, also where clocks are put forward, and an hour counts where it starts.
func TestTimelineOfZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 30, 9, 59, 0, 0, time.UTC)
	hours := advise.NewHours("t", now.Add(-advise.KeptHours))
	for _, at := range []string{"2026-03-28T22:59:00Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:00Z", "2026-03-29T22:00:00Z", "2026-03-30T10:00:00Z"} {
		hours.Add([]byte(`{"tier":"1d","max_age_seconds":60,"started":"` + at + `","selected":3,"succeeded":1,"failed":1}`))
	}
	timeline := watch.NewTimeline(hours.List(), now, berlin)
	for i, want := range []watch.Span{
		{Start: inspect.Stamp(time.Date(2026, 3, 28, 0, 0, 0, 0, berlin)), Length: 86400, Passes: 1},
		{Start: inspect.Stamp(time.Date(2026, 3, 29, 0, 0, 0, 0, berlin)), Length: 82800, Passes: 2},
		{Start: inspect.Stamp(time.Date(2026, 3, 30, 0, 0, 0, 0, berlin)), Length: 86400, Passes: 1},
	} {
		got := timeline.Days[27+i]
		testkit.Equal(t, "start", got.Start.String(), want.Start.String())
		testkit.Equal(t, "length", got.Length, want.Length)
		testkit.Equal(t, "passes of "+want.Start.String(), got.Passes, want.Passes)
		testkit.Equal(t, "successes", got.Succeeded(), want.Passes)
		testkit.Equal(t, "others", got.Others(), want.Passes)
	}
	testkit.Equal(t, "hours", len(timeline.Hours), 24)
	testkit.Equal(t, "first hour", timeline.Hours[0].Start.String(), "2026-03-29 10:00:00 UTC")
	testkit.Equal(t, "passes of the hour at 22:00", timeline.Hours[12].Passes, 1)
	testkit.Equal(t, "since", timeline.Since, time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC))
}

// A day whose midnight is skipped starts when clocks are put forward, not on the evening before.
func TestTimelineWithoutMidnight(t *testing.T) {
	for name, at := range map[string]string{"America/Havana": "2026-03-08T05:00:00Z", "Africa/Cairo": "2026-04-23T22:00:00Z"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		start, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		hours := advise.NewHours("t", start.AddDate(0, 0, -1))
		hours.Add([]byte(`{"table":"t","hour":"` + start.Add(-time.Hour).Format(time.RFC3339) + `","passes":1}`))
		days := watch.NewTimeline(hours.List(), start.Add(time.Hour), zone).Days
		testkit.Equal(t, name, days[29].Start.String(), inspect.Stamp(start).String())
		testkit.Equal(t, name+": length of the day before", days[28].Length, 86400.0)
		testkit.Equal(t, name+": passes before that", days[28].Passes, 1)
	}
}
