package advise_test

import (
	"slices"
	"testing"
	"time"

	"backlog/backlog/advise"
)

func TestLacking(t *testing.T) {
	for _, c := range []struct {
		model advise.Model
		want  int
	}{
		{advise.Model{}, 1},
		{advise.Model{Passes: 1}, 3},
		{advise.Model{Passes: 1, Days: 7}, 2},
		{advise.Model{Passes: 1, Days: 7, Recoveries: 100}, 1},
		{advise.Model{Passes: 1, Days: 6.9, Recoveries: 99, Oldest: time.Hour}, 2},
		{advise.Model{Passes: 1, Days: 7, Recoveries: 100, Oldest: time.Hour}, 0},
	} {
		if list := c.model.Lacking(); len(list) != c.want {
			t.Errorf("%+v lacks %q, want %d", c.model, list, c.want)
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
