package simulate_test

import (
	"testing"
	"time"

	"backlog/backlog/memory"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// However a workload is gone through, progress grows, is told now and then and
// comes near the end.
func TestProgress(t *testing.T) {
	s := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute})
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		poison float64
		most   int
	}{{"lives", 0, 0}, {"both", 0.5, 0}, {"never", 1, 0}, {"passes", 0.1, 1000}} {
		w := &simulate.Workload{From: from, To: from.Add(2 * day), PerHour: 100, Poison: c.poison, Success: 1}
		told, last := 0, 0
		r, err := simulate.Run(t.Context(), w, simulate.Options{
			Schedule: s, Bucket: day, MaxRecords: c.most, NewTable: func() simulate.Table { return inMemory{memory.New(memory.Options{})} },
			Progress: func(done, of int) {
				if told++; done <= last || done > of {
					t.Errorf("%s: %d of %d after %d", c.name, done, of, last)
				}
				last = done
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if told < 100 || told > 1001 || last < r.Records*99/100 {
			t.Errorf("%s: %d times, the last %d of %d", c.name, told, last, r.Records)
		}
	}
}
