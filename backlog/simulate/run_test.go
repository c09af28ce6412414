package simulate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

func TestRunAdds(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for name, p := range map[string]*backlog.Policy{"progressive": nil, "minutes": minutes(-1), "given up": minutes(9)} {
		t.Run(name, func(t *testing.T) {
			w := &simulate.Workload{
				From: from, To: from.Add(10 * day), PerHour: 60, Poison: 0.02, Success: 0.9, Seed: 7,
				Outages: []simulate.Outage{{From: from.Add(30 * time.Hour), To: from.Add(32 * time.Hour)}},
			}
			o := simulate.Options{Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 4 * day, Every: time.Hour}), Policy: p, Bucket: time.Hour}
			r, err := simulate.Run(t.Context(), w, o)
			if err != nil || r.Records != r.Succeeded+r.Dead+r.Pending {
				t.Errorf("%v: %+v", err, r)
			}
			attempts, failed := 0, 0
			for _, b := range r.Series {
				attempts += b.Attempts
				failed += b.Failed
			}
			if attempts != r.Attempts || failed != r.Failed || r.Attempts-r.Failed != r.Succeeded {
				t.Errorf("the series has %d attempts, %d failed; the report %d, %d, and %d successes", attempts, failed, r.Attempts, r.Failed, r.Succeeded)
			}
			if last := r.Series[len(r.Series)-1].Pending; last != r.Pending {
				t.Errorf("%d pending at the end of the series, %d in the report", last, r.Pending)
			}
			again, _ := simulate.Run(context.Background(), w, o)
			if !slices.Equal(again.Series, r.Series) {
				t.Errorf("the same seed gave another series")
			}
			t.Logf("%d records, %d attempts, recovery %v %v", r.Records, r.Attempts, r.Recovery.Quantile(0.5), r.Recovery.Quantile(1))
		})
	}
}

// A schedule that looks once an hour: what comes in an outage and is not tried
// before its end has waited all the same, and all are pending until the tick.
func TestRunCountsWhatWaits(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{
		From: from, To: from.Add(4 * time.Hour), PerHour: 60, Regular: true, Success: 1,
		Outages: []simulate.Outage{{From: from.Add(65 * time.Minute), To: from.Add(95 * time.Minute)}},
	}
	hourly := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: time.Hour})
	for name, o := range map[string]simulate.Options{
		"counted": {}, "gone through": {MaxRecords: 1_000_000, NewTable: inMemoryWith(nil)},
	} {
		o.Schedule, o.Bucket = hourly, time.Hour
		r, err := simulate.Run(t.Context(), w, o)
		if err != nil {
			t.Fatal(err)
		}
		// From the 61st, which came at the tick itself, to the 95th.
		testkit.Equal(t, name+": records that recover", len(r.Recovery), 35)
		testkit.Equal(t, name+": the fastest recovery", r.Recovery.Quantile(0), 25*time.Minute)
		testkit.Equal(t, name+": the slowest recovery", r.Recovery.Quantile(1), 25*time.Minute)
		testkit.Equal(t, name+": lost records", r.Lost, 0)
		if b := r.Series[1]; b.MaxPending != 61 || b.Pending != 1 || r.PeakPerMinute != 60 {
			t.Errorf("%s: %+v; %d at a time", name, b, r.PeakPerMinute)
		}
	}
	once := minutes(0)
	o := simulate.Options{Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: time.Minute}), Policy: once, Bucket: time.Hour}
	if r, err := simulate.Run(t.Context(), w, o); err != nil || r.Lost != 30 || r.Dead != 30 {
		t.Errorf("%v: %d of %d dead are lost by the outage", err, r.Lost, r.Dead)
	}
}

// One record with a long life is stopped in it.
func TestRunStops(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(50 * 365 * day), PerHour: 0.001, Success: 0.5, Outages: []simulate.Outage{{From: from, To: from.Add(50 * 365 * day)}}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := simulate.Run(ctx, w, simulate.Options{Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: 20_000 * day, Every: time.Second}), Bucket: day})
	if err == nil || r.Complete {
		t.Errorf("%v, %+v", err, r.Attempts)
	}
}

// However long a workload lasts, its series has buckets, and not too many.
func FuzzBucketWidth(f *testing.F) {
	for _, length := range []time.Duration{time.Minute, time.Hour, 7 * day, 100 * 365 * day} {
		f.Add(int64(length))
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		length := max(time.Minute, min(time.Duration(ns), 100*365*day))
		if w := simulate.BucketWidth(length); w <= 0 || length/w > 1300 {
			t.Errorf("buckets of %v in %v", w, length)
		}
	})
}

// A handler that has waited for the rate leaves its turn to the next one at once: four at a time, of calls of 20 s, are
// one in 5 s, which a rate of one in 4 s allows.
func TestRateWithSeveralHandlers(t *testing.T) {
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(2 * time.Hour), Success: 1}
	for i := range 100 {
		w.Records = append(w.Records, simulate.Record{Inserted: from.Add(-time.Minute), Seed: uint64(i)})
	}
	r, err := simulate.Run(t.Context(), w, simulate.Options{
		Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: time.Hour}),
		Rate:     0.25, CallTime: 20 * time.Second, Concurrency: 4, NewTable: inMemoryWith(nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Duration(r.LongestPass); r.Succeeded != 100 || took < 500*time.Second || took > 530*time.Second {
		t.Errorf("%d records took %v", r.Succeeded, took)
	}
}
