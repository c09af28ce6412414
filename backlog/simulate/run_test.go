package simulate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
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
			o := simulate.Options{Schedule: schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 4 * day, Every: time.Hour}), Policy: p, Bucket: time.Hour}
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
			t.Logf("%d records, %d attempts, recovery %v %v", r.Records, r.Attempts, r.RecoveryQuantile(0.5), r.RecoveryQuantile(1))
		})
	}
}
