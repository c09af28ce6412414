package watch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
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
			Pending: 5, Counts: map[string]int{"disabled": 1}, Beyond: inspect.Band{Failed: 2, OldestFresh: ago(600)},
			Bands: []inspect.TierBand{{Band: inspect.Band{Fresh: 2, OldestFresh: ago(20)}}, {Band: inspect.Band{Fresh: 1, Failed: 1, OldestFresh: ago(30)}}},
		},
		LookBack: watch.LookBack{Last: []watch.Pass{{Started: ago(50), Duration: 600}, {Started: ago(90)}}},
	}
	idle := &watch.Overview{Status: new(inspect.Status)}
	refresh := &watch.Overview{Status: &inspect.Status{Counts: map[string]int{"disabled": 3}}}
	for _, x := range []struct {
		limits watch.Limits
		o      *watch.Overview
		want   string
	}{
		{watch.Limits{}, busy, ""},
		{watch.Limits{}, idle, ""},
		{watch.Limits{Failed: 3}, refresh, "3 records failed"},
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

// The backlog of the last outage is told of until it is done, or until there is another outage.
func TestDraining(t *testing.T) {
	ended := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	over := watch.PastOutage{Ended: ended, Drained: ended.Add(12 * time.Minute)}
	for _, c := range []struct {
		name    string
		present *watch.Outage
		past    []watch.PastOutage
		after   time.Duration
		want    bool
	}{
		{"no outage", nil, nil, 0, false},
		{"not done yet", nil, []watch.PastOutage{over}, 5 * time.Minute, true},
		{"done", nil, []watch.PastOutage{over}, 12 * time.Minute, false},
		{"not known", nil, []watch.PastOutage{{Ended: ended}, over}, 5 * time.Minute, false},
		{"another outage", new(watch.Outage), []watch.PastOutage{over}, 5 * time.Minute, false},
	} {
		now := ended.Add(c.after)
		b := watch.LookBack{Draining: watch.Draining(c.present, c.past, now)}
		if (b.Draining != nil) != c.want {
			t.Errorf("%s: %+v", c.name, b.Draining)
		}
		const line = "recovered from an outage at 2026-03-05 12:00:00 UTC; its backlog is done by about 2026-03-05 12:12:00 UTC, in 7m"
		if told := strings.Contains(strings.Join(b.Lines(now), "\n"), line); told != c.want {
			t.Errorf("%s: %q", c.name, b.Lines(now))
		}
	}
}

// An outage that is over has the passes under way, that with which it ended first.
func TestRecoveredInPass(t *testing.T) {
	var p watch.Picture
	start := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	attempt := func(tier string, id int64, outcome backlog.Outcome) (watch.Change, watch.Outage) {
		ev := backlog.Event{
			Kind: backlog.AttemptEnded, Tier: tier, At: start, Outcome: outcome, Took: 2 * time.Second,
			Record: &backlog.Record{Key: backlog.NewKey(id), Lane: backlog.Fresh},
		}
		if outcome == backlog.Errored {
			ev.Err = errors.New("away")
		}
		return p.Observe(ev)
	}
	p.Restore(nil, nil, &watch.Outage{Since: start.Add(-time.Hour)})
	for _, tier := range []string{"1d", "7d"} {
		p.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: tier, At: start, Report: &backlog.Report{Tier: tier, Started: start}})
	}
	attempt("7d", 1, backlog.Errored)
	attempt("7d", 2, backlog.Errored)
	attempt("1d", 3, backlog.Errored)
	change, o := attempt("7d", 4, backlog.Succeeded)
	want := []watch.Running{{Tier: "7d", Started: start, Failed: 2}, {Tier: "1d", Started: start, Failed: 1}}
	if change != watch.Recovered || !slices.Equal(o.Running, want) {
		t.Errorf("%v, running %+v, want %+v", change, o.Running, want)
	}
	o.Pending = 9
	o.DrainedBy = start.Add(time.Minute)
	p.SetBacklog(o)
	if past := p.Outages()[0]; past.Pending != 9 || !past.Drained.Equal(o.DrainedBy) {
		t.Errorf("the past outage is %+v", past)
	}
	p.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "7d", At: start, Report: &backlog.Report{Tier: "7d", Started: start}})
	if last := p.Last("7d"); last.CallTime != 2 {
		t.Errorf("a call took %v s, want 2", last.CallTime)
	}
}
