package propose_test

import (
	"math"
	"testing"
	"time"

	"backlog/backlog/advise/propose"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A simulation of a million records makes as many calls as the closed form says, once records of all ages are there.
func TestSimulationAgrees(t *testing.T) {
	const days = 50
	const perHour = 1_000_000.0 / (days * 24)
	schedule := testkit.Schedule(t,
		tiers.Tier{MaxAge: time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 8 * time.Hour, Every: 30 * time.Minute},
		tiers.Tier{MaxAge: day, Every: 4 * time.Hour},
	)
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, truth := range truths[:4] {
		in := world{truth, 0.05}.inputs(day)
		in.PerHour = perHour
		w := &simulate.Workload{
			From:    from,
			To:      from.Add(days * day),
			PerHour: perHour,
			Seed:    1,
			Learned: &simulate.Behavior{
				Broken: func(age time.Duration) float64 { return in.Broken(age.Seconds()) },
				Oldest: in.Oldest,
			},
		}
		report, err := simulate.Run(t.Context(), w, simulate.Options{Schedule: schedule, Bucket: day})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		failed := 0
		for _, b := range report.Series[1:] { // the first day lacks the old ones
			calls += b.Attempts
			failed += b.Failed
		}
		want := propose.Evaluate(in, schedule)
		for _, x := range []struct {
			name      string
			got, want float64
		}{
			{"calls", float64(calls) / (days - 1), want.CallsPerDay.Value},
			{"calls in vain", float64(failed) / (days - 1), want.InVainPerDay.Value},
		} {
			if math.Abs(x.got/x.want-1) > 0.02 {
				t.Errorf("%s: %.0f %s a day, not %.0f", truth.Name, x.got, x.name, x.want)
			}
		}
	}
}
