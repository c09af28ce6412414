package propose_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise/propose"
	"backlog/backlog/config"
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
			if (i+j)%3 > 0 && os.Getenv("BACKLOG_TRUTH") == "" {
				continue
			}
			w := world{truth, []float64{0, 0.05, 0.5}[(i+j)%3]}
			t.Run(p.Name+" "+w.Name, func(t *testing.T) {
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

// The settings that are found keep what was asked for when they are played, and of a grid none is better.
func TestPolicyMoney(t *testing.T) {
	s := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * day, Every: time.Hour})
	const records = 60_000
	for i, today := range []retry.Settings{
		fibonacci(time.Minute, backlog.MaxWait), linear(10*time.Minute, 100), exponential(time.Minute, 2, 10), list(5*time.Minute, time.Hour, 4*time.Hour, day),
	} {
		for j, truth := range []truth{truths[0], truths[2], truths[4]} {
			if (i+j)%2 == 0 && os.Getenv("BACKLOG_TRUTH") == "" {
				continue
			}
			w := world{truth, 0.05}
			in := w.inputs(7 * day)
			wishes := propose.Wishes{Lost: 0.03, Wait: 2 * time.Hour}
			r, err := propose.SearchPolicy(in, s, today, wishes)
			if err != nil || r.Kind != propose.Propose {
				t.Errorf("%s: %s, %q, %v", w.Name, r.Kind, r.Reasons, err)
				continue
			}
			got := r.Proposals[1]
			p := w.playPolicy(s, policyOf(t, parsed(t, got.Policy)), records, 7*day)
			slices.Sort(p.waits)
			late := p.longer(wishes.Wait.Seconds())
			lost := float64(p.lost) / float64(p.recoverable)
			t.Logf("%s: %s, %.0f calls a day, %.3f late, %.4f lost", w.Name, got.Policy, got.Figures.CallsPerDay.Value, late, lost)
			if late > 0.065 || lost > wishes.Lost+0.005 {
				t.Errorf("%s: %s: %v are late, %v lost", w.Name, got.Policy, late, lost)
			}
			best := bestSettings(t, in, s, today, wishes)
			if calls := got.Figures.CallsPerDay.Value; calls > 1.03*best {
				t.Errorf("%s: %s has %v calls a day, the best %v", w.Name, got.Policy, calls, best)
			}
		}
	}
}

// bestSettings returns the fewest calls a day of the settings that are searched, each evaluated as one that is proposed.
func bestSettings(t *testing.T, in *propose.Inputs, s *tiers.Schedule, today retry.Settings, w propose.Wishes) float64 {
	best := math.Inf(1)
	evaluate := propose.PolicyEvaluator(in, s)
	for i, settings := range propose.SettingsLike(today) {
		if i%9 != 0 && os.Getenv("BACKLOG_TRUTH") == "" {
			continue
		}
		f := evaluate(policyOf(t, settings))
		if f.Wait.P95.Value <= w.Wait.Seconds() && f.LostPer1000.Value <= 1000*w.Lost {
			best = min(best, f.CallsPerDay.Value)
		}
	}
	return best
}

// parsed returns the settings that the value of policy in a configuration stands for.
func parsed(t *testing.T, text string) retry.Settings {
	t.Helper()
	var known []config.Settings
	for _, name := range retry.Names() {
		known = append(known, config.Settings{Name: name, New: func() any { return retry.New(name) }})
	}
	p, err := config.ParsePolicy(text, known...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p.Settings.(retry.Settings)
}

// What is proposed is read as the settings that were meant, with the columns of today.
func TestPolicyAsYAML(t *testing.T) {
	renamed := fibonacci(5*time.Minute, day)
	renamed.Columns[0][0] = "yes"
	renamed.Columns[1][0] = "last try"
	short := list(0, time.Minute, 36*time.Hour)
	short.MaxDelay = time.Hour
	for text, s := range map[string]retry.Settings{
		"{fibonacci: {unit: 1m}}": fibonacci(time.Minute, backlog.MaxWait),
		`{fibonacci: {unit: 5m, max_delay: 1d, columns: {failures: "yes", last_failure: "last try"}}}`: renamed,
		"{linear: {interval: 1h30m, max_retries: 7}}":                                                  linear(90*time.Minute, 7),
		"{exponential: {interval: 35s, base: 1.5, max_retries: 100}}":                                  exponential(35*time.Second, 1.5, 100),
		"{list: {intervals: [0s, 1m, 1d12h], max_delay: 1h}}":                                          short,
	} {
		testkit.Equal(t, "YAML", propose.PolicyYAML(s), text)
		testkit.Equal(t, text, parsed(t, text), s)
	}
}

// Other policies are kept, and wishes that no settings keep are named.
func TestPolicyIsNotSearched(t *testing.T) {
	s := testkit.Schedule(t, example[:2]...)
	in := world{truths[0], 0.05}.inputs(7 * day)
	for _, c := range []struct {
		settings retry.Settings
		wishes   propose.Wishes
		kind     propose.Kind
		reason   string
	}{
		{retry.New("sneakers"), propose.Wishes{Lost: -1}, propose.Keep, "sneakers"},
		{linear(time.Hour, 50), propose.Wishes{Lost: -1, Fresh: time.Minute}, propose.Impossible, "--fresh 1m is too short: the tiers tick every 5m"},
		{linear(time.Hour, 50), propose.Wishes{Lost: -1, Wait: 10 * time.Second}, propose.Impossible, "--wait 10s is too short"},
		{linear(time.Hour, 50), propose.Wishes{Lost: -1, CallsPerHour: 1}, propose.Impossible, "--calls 1/h are too few"},
		{linear(time.Hour, 50), propose.Wishes{Lost: -1, CallsPerHour: 100, Wait: 5 * time.Minute}, propose.Impossible, "contradict"},
	} {
		r, err := propose.SearchPolicy(in, s, c.settings, c.wishes)
		if err != nil || r.Kind != c.kind {
			t.Errorf("%+v: %v, %v", c.wishes, r.Kind, err)
		}
		testkit.Contains(t, fmt.Sprintf("%+v", c.wishes), strings.Join(r.Reasons, "\n"), c.reason)
	}
	list, err := propose.FrontierPolicy(in, s, linear(time.Hour, 50), propose.Wishes{Lost: -1})
	if err != nil || len(list) < 5 || !slices.IsSortedFunc(list, func(a, b propose.Point) int { return cmp.Compare(b.CallsPerDay, a.CallsPerDay) }) {
		t.Errorf("frontier %v, %v", list, err)
	}
}
