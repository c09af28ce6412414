package propose_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise/propose"
	"backlog/backlog/retry"
	"backlog/internal/testkit"
	"backlog/tiers"
)

func policyOf(t testing.TB, s retry.Settings) *backlog.Policy {
	t.Helper()
	p, err := retry.Policy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fibonacci(unit, delay time.Duration) *retry.Fibonacci {
	s := retry.New("fibonacci").(*retry.Fibonacci)
	s.Unit = unit
	s.MaxDelay = delay
	return s
}

func linear(interval time.Duration, retries int) *retry.Linear {
	s := retry.New("linear").(*retry.Linear)
	s.Interval = interval
	s.MaxRetries = retries
	return s
}

func exponential(interval time.Duration, base float64, retries int) *retry.Exponential {
	s := retry.New("exponential").(*retry.Exponential)
	s.Interval = interval
	s.Base = base
	s.MaxRetries = retries
	return s
}

func list(intervals ...time.Duration) *retry.List {
	s := retry.New("list").(*retry.List)
	s.Intervals = intervals
	return s
}

// The figures of a policy are those of records that are followed one by one.
func TestPolicyIsPlayed(t *testing.T) {
	s := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * day, Every: time.Hour})
	policies := []retry.Settings{
		fibonacci(5*time.Minute, 6*time.Hour),
		linear(40*time.Minute, 30),
		exponential(2*time.Minute, 2, 10),
		list(5*time.Minute, 15*time.Minute, time.Hour, 4*time.Hour, 12*time.Hour, day, day),
		retry.New("none"),
	}
	const records = 100_000
	for i, settings := range policies {
		p := policyOf(t, settings)
		for j, truth := range truths {
			if (i+j)%2 == 0 && os.Getenv("BACKLOG_TRUTH") == "" {
				continue
			}
			w := world{truth, []float64{0, 0.05, 0.5}[(i+j)%3]}
			t.Run(p.Name+" "+w.name, func(t *testing.T) {
				t.Parallel()
				f := propose.EvaluatePolicy(w.inputs(7*day), s, p)
				played := w.playPolicy(s, p, records, 7*day)
				slices.Sort(played.waits)
				perDay := perHour * 24 / float64(records)
				near(t, "calls", f.CallsPerDay.Value, perDay*float64(played.calls), 0.02)
				near(t, "in vain", f.InVainPerDay.Value, perDay*float64(played.inVain), 0.025)
				lost := float64(played.lost) / float64(played.recoverable)
				if d := lost - f.LostPer1000.Value/1000; d > 0.015 || d < -0.015 {
					t.Errorf("lost %v of 1000, played %v", f.LostPer1000.Value, 1000*lost)
				}
				w.checkWaits(t, played, 0.5, f.Wait.P50.Value)
				w.checkWaits(t, played, 0.95, f.Wait.P95.Value)
			})
		}
	}
}

func TestPolicyShow(t *testing.T) {
	s := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * day, Every: time.Hour})
	for i, today := range []retry.Settings{fibonacci(time.Minute, backlog.MaxWait), linear(10*time.Minute, 100), exponential(time.Minute, 2, 10), list(5*time.Minute, time.Hour, 4*time.Hour, day)} {
		for j, truth := range []truth{truths[0], truths[3], truths[4]} {
			w := world{truth, []float64{0.05, 0.5, 0}[(i+j)%3]}
			in := w.inputs(7 * day)
			for range 200 {
				in.Drawn = append(in.Drawn, in.Broken)
			}
			for _, wish := range []propose.Wishes{{Lost: -1}, {Lost: -1, Wait: time.Hour}} {
				start := time.Now()
				r, err := propose.SearchPolicy(in, s, today, wish)
				fmt.Println(w.name, w.poison, wish, r.Kind, r.Reasons, time.Since(start), err)
				for _, p := range r.Proposals {
					f := p.Figures
					fmt.Printf("   %-15s %8.1f calls %8.0f peak p50 %7.0f p95 %7.0f lost %5.1f  %s\n", p.Name, f.CallsPerDay.Value, f.Peak, f.Wait.P50.Value, f.Wait.P95.Value, f.LostPer1000.Value, p.Policy)
				}
			}
		}
	}
}
