package advise_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"backlog/backlog/advise"
)

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		model advise.Model
		want  int
		days  float64
	}{
		{advise.Model{}, 1, math.Inf(1)},
		{advise.Model{Passes: 1}, 2, math.Inf(1)},
		{advise.Model{Passes: 1, Days: 7}, 1, math.Inf(1)},
		{advise.Model{Passes: 1, Days: 7, Recoveries: 100}, 1, math.Inf(1)},
		{advise.Model{Passes: 1, Days: 6, Recoveries: 100, Oldest: time.Hour}, 1, 1},
		{advise.Model{Passes: 1, Days: 6, Recoveries: 1, Oldest: time.Hour}, 2, 594},
		{advise.Model{Passes: 1, Days: 10, Recoveries: 50, Oldest: time.Hour}, 1, 10},
		{advise.Model{Passes: 1, Days: 7, Recoveries: 100, Oldest: time.Hour}, 0, 0},
	} {
		if list, days := c.model.Missing(); len(list) != c.want || days != c.days {
			t.Errorf("%+v: %q, %v more days, want %d, %v", c.model, list, days, c.want, c.days)
		}
	}
}

func TestOutageGaps(t *testing.T) {
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return from.Add(time.Duration(hours) * time.Hour) }
	m := advise.Model{From: from, To: at(100)}
	if gap, lengths := m.OutageGaps(); gap != 0 || lengths != nil {
		t.Errorf("without outages: %v, %v", gap, lengths)
	}
	m.Outages = []advise.Outage{
		{From: at(-10), To: at(-5)}, // before behavior changed
		{From: at(10), To: at(14)},
		{From: at(50), To: at(56)},
		{From: at(100), To: at(100)}, // the last pass
	}
	gap, lengths := m.OutageGaps()
	if gap != 45*time.Hour || !slices.Equal(lengths, []time.Duration{4 * time.Hour, 6 * time.Hour}) {
		t.Errorf("a gap of %v, lengths %v", gap, lengths)
	}
}
