package advise_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/memory"
	"backlog/internal/worlds"
	"backlog/tiers"
)

// engineLane returns the lane of a record that a handler is given.
func engineLane(r *backlog.Record) advise.Lane {
	if r.Lane == backlog.Failed {
		return advise.Failed
	}
	return advise.Fresh
}

// The passes of a world are those that an engine runs under the same tiers.
func TestWorldIsTheEngine(t *testing.T) {
	w := worlds.New(worlds.Truths[3], 0.05, 9).WithOutages()
	w.Days = 9
	w.PerDay = 100
	var list []tiers.Tier
	for _, x := range w.Tiers {
		list = append(list, tiers.Tier{MaxAge: time.Duration(x.MaxAge) * time.Second, Every: time.Duration(x.Every) * time.Second})
	}
	schedule, err := tiers.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	records := w.Records()
	slices.SortFunc(records, func(a, b worlds.Record) int { return int(a.Inserted*1e6) - int(b.Inserted*1e6) })
	store := memory.New(memory.Options{})
	var now time.Time
	var counts advise.Collector
	engine := &backlog.Engine{Store: store, Now: func() time.Time { return now }}
	engine.Handler = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		mine := records[r.Key.Part(0).(int64)]
		at := now.Sub(worlds.Start).Seconds()
		succeeds := at-mine.Inserted >= mine.Recovers && !w.IsDown(at)
		counts.Add(advise.Attempt{Lane: engineLane(r), Age: now.Sub(r.Inserted), Succeeded: succeeds})
		if !succeeds {
			return errors.New("broken")
		}
		return nil
	})
	clock := tiers.Clock{Last: worlds.Start}
	inserted := 0
	for _, want := range w.Play()[1:] {
		now = want.Started
		for inserted < len(records) && records[inserted].Inserted < now.Sub(worlds.Start).Seconds() {
			at := worlds.Start.Add(time.Duration(records[inserted].Inserted * float64(time.Second)))
			if err := store.Insert(memory.Row{Key: backlog.NewKey(int64(inserted)), Status: "NEW", Inserted: at}); err != nil {
				t.Fatal(err)
			}
			inserted++
		}
		wake := clock.Wake(schedule, now, false, func(tiers.Tier) bool { return false })
		counts = advise.Collector{}
		report, err := engine.Pass(t.Context(), backlog.TierPass(schedule, wake.Start.Tier))
		if err != nil || report.MaxAge != want.MaxAge {
			t.Fatalf("a pass up to %v, not %v: %v", report.MaxAge, want.MaxAge, err)
		}
		if got := counts.Ages(); !reflect.DeepEqual(got, worlds.AgesOf(want.Bands)) {
			t.Fatalf("at %v: %+v, not %+v", now, got, want.Bands)
		}
	}
}
