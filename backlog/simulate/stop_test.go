package simulate_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// The report of a simulation that was stopped is about the records that were gone through until then,
// and adds up.
func TestRunStopsBetweenRecords(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for name, poison := range map[string]float64{"each alone": 0, "those that never succeed": 1} {
		w := &simulate.Workload{From: from, To: from.Add(10 * day), PerHour: 60, Poison: poison, Success: 1}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := simulate.Run(ctx, w, simulate.Options{
			Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}),
			Bucket:   day,
			Progress: func(done, _ int) {
				if done >= 3000 {
					cancel()
				}
			},
		})
		if !errors.Is(err, context.Canceled) || r.Complete {
			t.Errorf("%s: %v, complete: %t", name, err, r.Complete)
		}
		if poison == 0 && r.Records != 3072 { // it looks at each 1,024th
			t.Errorf("%s: %d records, want 3072", name, r.Records)
		}
		if sum := r.Succeeded + r.Dead + r.Pending; sum != r.Records {
			t.Errorf("%s: %d of %d records succeeded, died or are pending", name, sum, r.Records)
		}
		if pending := r.Series[len(r.Series)-1].Pending; pending != r.Pending {
			t.Errorf("%s: %d pending at the end of the series, %d in the report", name, pending, r.Pending)
		}
		if r.Dead > 0 || poison == 1 && r.Attempts > 3100*288 {
			t.Errorf("%s: it went on: %d dead, %d attempts", name, r.Dead, r.Attempts)
		}
	}
}

// So does one in the middle of a record's life, however long that is.
func TestRunStopsInALife(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(day), Records: []simulate.Record{{Inserted: from, Poison: true}}, Success: 1}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := simulate.Run(ctx, w, simulate.Options{
		Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: time.Second}),
		Bucket:   day,
		Observe:  func(time.Time, string, int, bool) { cancel() },
	})
	if !errors.Is(err, context.Canceled) || r.Complete || r.Attempts != 4095 || r.Failed != 4095 || r.Pending != 1 { // it looks at each 4,096th
		t.Errorf("%v: complete: %t, %d attempts, %d failed, %d pending; want 4095 failed ones of a pending record", err, r.Complete, r.Attempts, r.Failed, r.Pending)
	}
}

// A stopped comparison has what it came to: of the last a part, but nothing of one without an attempt.
func TestCompareStops(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(10 * day), PerHour: 60, Success: 1}
	o := simulate.Options{Schedule: testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}), Bucket: day}
	for _, c := range []struct {
		name string
		stop func(second *simulate.Options, cancel func())
		want []bool
	}{
		{"before the second has tried a record", func(o *simulate.Options, cancel func()) {
			o.MaxRecords, o.NewTable = 1000, func() simulate.Table {
				cancel()
				return inMemoryWith(nil)()
			}
		}, []bool{true}},
		{"in the second", func(o *simulate.Options, cancel func()) {
			o.Progress = func(done, _ int) {
				if done >= 3000 {
					cancel()
				}
			}
		}, []bool{true, false}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		second := o
		c.stop(&second, cancel)
		all, err := simulate.Compare(ctx, w, []simulate.Candidate{{Name: "a", Options: o}, {Name: "b", Options: second}, {Name: "c", Options: o}})
		var got []bool
		for _, r := range all {
			got = append(got, r.Complete)
		}
		if !errors.Is(err, context.Canceled) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, complete: %v, want %v", c.name, err, got, c.want)
		}
	}
}

// A difference to a part is none of the whole.
func TestDiffOfAPart(t *testing.T) {
	for _, c := range []struct{ was, will, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		was, will := &simulate.Report{Complete: c.was}, &simulate.Report{Complete: c.will}
		if got := simulate.NewDiff(simulate.Result{Report: was}, simulate.Result{Report: will}).Complete; got != c.want {
			t.Errorf("of %t and %t: complete is %t", c.was, c.will, got)
		}
	}
}
