package watch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// The last pass of each tier is the one that started last, whichever source tells of it.
func TestLastOfEach(t *testing.T) {
	pass := func(tier string, minute int) watch.Pass {
		return watch.Pass{Tier: tier, Started: inspect.Stamp(time.Date(2026, 3, 5, 12, minute, 0, 0, time.UTC))}
	}
	got := ""
	for _, p := range watch.LastOfEach([]watch.Pass{pass("7d", 0), pass("1d", 5), pass("1d", 10), pass("1d", 10), pass("7d", 1), pass("1d", 2)}) {
		got += fmt.Sprintf("%s %d, ", p.Tier, time.Time(p.Started).Minute())
	}
	if want := "1d 10, 7d 1, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A limit that is reached is a clause; none is said of what was not asked for.
func TestLimits(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) inspect.Stamp { return inspect.Stamp(now.Add(-time.Duration(minutes) * time.Minute)) }
	busy := &watch.Overview{
		Status: &inspect.Status{
			Pending: 5, Counts: map[string]int{"disabled": 1}, Beyond: inspect.Band{Failed: 1, OldestFresh: ago(600)},
			Bands: []inspect.TierBand{{Band: inspect.Band{Fresh: 2, OldestFresh: ago(20)}}, {Band: inspect.Band{Fresh: 1, Failed: 1, OldestFresh: ago(30)}}},
		},
		LookBack: watch.LookBack{Last: []watch.Pass{{Started: ago(50), Duration: 600}, {Started: ago(90)}}},
	}
	idle := &watch.Overview{Status: new(inspect.Status)}
	for _, x := range []struct {
		limits watch.Limits
		o      *watch.Overview
		want   string
	}{
		{watch.Limits{}, busy, ""},
		{watch.Limits{}, idle, ""},
		{watch.Limits{Idle: 40 * time.Minute, Oldest: 30 * time.Minute, Pending: 6, Failed: 4}, busy, ""},
		{watch.Limits{Idle: 39 * time.Minute}, busy, "no pass has ended since 2026-03-05 11:20:00 UTC, 40m ago"},
		{watch.Limits{Oldest: 29 * time.Minute}, busy, "the oldest record that was never tried is 30m old"},
		{watch.Limits{Pending: 5, Failed: 3}, busy, "5 records pending; 3 records failed"},
		{watch.Limits{Idle: time.Hour, Oldest: time.Hour, Pending: 1, Failed: 1}, idle, "no pass is known to have ended"},
	} {
		if got := strings.Join(x.limits.Exceeded(x.o, now), "; "); got != x.want {
			t.Errorf("%+v: %q, want %q", x.limits, got, x.want)
		}
	}
}
