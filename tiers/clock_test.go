package tiers

import (
	"slices"
	"testing"
	"time"
)

func TestWake(t *testing.T) {
	s, err := New(
		Tier{Name: "narrow", MaxAge: time.Hour, Every: 5 * time.Minute},
		Tier{Name: "middle", MaxAge: 2 * time.Hour, Every: 10 * time.Minute},
		Tier{Name: "wide", MaxAge: 3 * time.Hour, Every: time.Hour},
	)
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return hour.Add(time.Duration(minutes) * time.Minute) }
	for _, c := range []struct {
		name    string
		last    int // the clock's, in minutes after the hour
		owed    []string
		now     int
		paused  bool
		busy    []string
		start   string
		covered []string
		skipped []string
		taken   []string // owed tiers that Start and Covered make up for
		delayed []string
		after   []string // owed after it
		back    int
	}{
		{name: "no tick", last: 1, now: 4},
		{name: "one tick", last: 4, now: 5, start: "narrow"},
		{name: "a tick counts once", last: 5, now: 6},
		{name: "the widest covers the others", last: 59, now: 60, start: "wide", covered: []string{"narrow", "middle"}},
		{name: "a busy tier is skipped", last: 59, now: 60, busy: []string{"wide"}, start: "middle", covered: []string{"narrow"}, skipped: []string{"wide"}},
		{name: "all are busy", last: 4, now: 5, busy: []string{"narrow"}, skipped: []string{"narrow"}},
		{name: "an owed tier starts without a tick", last: 1, owed: []string{"middle"}, now: 2, start: "middle", taken: []string{"middle"}},
		{name: "an owed tier is covered", last: 59, owed: []string{"narrow"}, now: 60, start: "wide", covered: []string{"narrow", "middle"}, taken: []string{"narrow"}},
		{name: "an owed tier that is busy is not taken", last: 1, owed: []string{"middle"}, now: 2, busy: []string{"middle"}, skipped: []string{"middle"}},
		{name: "a pause delays ticks", last: 4, now: 10, paused: true, start: "middle", covered: []string{"narrow"}, delayed: []string{"narrow", "middle"}, after: []string{"middle", "narrow"}},
		{name: "and leaves what is owed", last: 1, owed: []string{"wide"}, now: 2, paused: true, after: []string{"wide"}},
		{name: "a clock that was set back counts from where it is", last: 30, now: 10, back: 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := Clock{Last: at(c.last)}
			for _, name := range c.owed {
				clock.Owe(name)
			}
			w := clock.Wake(s, at(c.now), c.paused, func(t Tier) bool { return slices.Contains(c.busy, t.Name) })
			start := ""
			if w.Start != nil {
				start = w.Start.Tier.Name
			}
			if start != c.start {
				t.Errorf("want %q started, got %q", c.start, start)
			}
			for _, list := range []struct {
				what      string
				got, want []string
			}{
				{"covered", names(w.Covered), c.covered},
				{"skipped", names(w.Skipped), c.skipped},
				{"taken", keys(w.Taken), c.taken},
				{"delayed", w.Delayed, c.delayed},
				{"owed after it", keys(clock.Owed), c.after},
			} {
				if !slices.Equal(list.got, list.want) {
					t.Errorf("want %v %s, got %v", list.want, list.what, list.got)
				}
			}
			if got := time.Duration(c.back) * time.Minute; w.Back != got {
				t.Errorf("want the clock set back by %v, got %v", got, w.Back)
			}
			if !clock.Last.Equal(at(c.now)) {
				t.Errorf("want ticks handled up to now, got up to %v", clock.Last)
			}
		})
	}
}

func names(due []Due) (list []string) {
	for _, d := range due {
		list = append(list, d.Tier.Name)
	}
	return list
}

func keys(set map[string]bool) (list []string) {
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
