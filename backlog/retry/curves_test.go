package retry_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/retry"
)

const day = 24 * time.Hour

func mustNew(t testing.TB, name string, settings map[string]any) *backlog.Policy {
	t.Helper()
	p, err := retry.New(name, settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// series are the waits after so many failures, from 1 on, in one unit; from and
// to where a wait is drawn.
type series struct {
	policy   string
	settings map[string]any
	unit     time.Duration
	from, to []float64
	retries  int
}

func row(policy string, settings map[string]any, unit time.Duration, retries int, waits ...float64) series {
	return series{policy, settings, unit, waits, waits, retries}
}

var curves = []series{
	row("fibonacci", nil, time.Minute, -1, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144),
	row("fibonacci", map[string]any{"unit": 5 * time.Minute, "max_delay": time.Hour}, time.Minute, -1, 5, 5, 10, 15, 25, 40, 60, 60),
	row("arctan", nil, time.Hour, -1, 1.02, 7.49, 16.25, 20.48, 22.18, 22.94, 23.33, 23.55, 23.69, 23.77, 23.83),
	row("arctan", map[string]any{"max": 12 * time.Hour}, time.Hour, -1, 0.51, 3.74, 8.13, 10.24),
	row("arctan", map[string]any{"max": 1600 * time.Millisecond}, time.Second, -1, 0, 0, 1, 1, 1, 1.6, 1.6),
	row("list", nil, time.Minute, 6, 0, 1, 5, 15, 30, 60),
	row("list", map[string]any{"intervals": []time.Duration{time.Hour, 0, 2 * day}, "max_delay": day}, time.Hour, 3, 1, 0, 24),
	row("sneakers", nil, time.Second, 5, 60, 120, 240, 480, 960),
	row("sneakers", map[string]any{"base": 15 * time.Second}, time.Second, 5, 120, 240, 480, 960, 1920),
	row("sneakers", map[string]any{"base": 30 * time.Second}, time.Second, 5, 180, 360, 720, 1440, 2880),
	row("sneakers", map[string]any{"base": 45 * time.Second}, time.Second, 5, 240, 480, 960, 1920, 3840),
	row("sneakers", map[string]any{"base": time.Duration(math.MaxInt64)}, backlog.MaxWait, 5, 1, 1),
	row("list", map[string]any{"intervals": []time.Duration{math.MaxInt64}}, backlog.MaxWait, 1, 1),
	row("none", nil, time.Second, 0, 0),
	row("linear", nil, time.Second, 3, 35, 35, 35),
	row("linear", map[string]any{"interval": time.Hour, "max_retries": 0, "max_delay": time.Minute}, time.Minute, 0, 1),
	{"exponential", nil, time.Second, []float64{35, 70, 140}, []float64{70, 140, 280}, 3},
	{"exponential", map[string]any{"max_retries": 10}, time.Second,
		[]float64{35, 70, 140, 280, 560, 1120, 2240, 4480, 8960, 17920},
		[]float64{70, 140, 280, 560, 1120, 2240, 4480, 8960, 17920, 35840}, 10},
	{"exponential", map[string]any{"interval": time.Minute, "base": 1.5, "max_delay": 2 * time.Minute}, time.Second,
		[]float64{60, 90, 120, 120}, []float64{90, 120, 120, 120}, 3},
	row("exponential", map[string]any{"base": 1.0}, time.Second, 3, 35, 35, 35),
}

func TestCurves(t *testing.T) {
	for _, c := range curves {
		t.Run(fmt.Sprint(c.policy, c.settings), func(t *testing.T) {
			p := mustNew(t, c.policy, c.settings)
			if p.Name != c.policy || p.Retries != c.retries {
				t.Errorf("it is called %s and has %d retries, not %d", p.Name, p.Retries, c.retries)
			}
			if got := p.Draw(0, 0.5); got != 0 {
				t.Errorf("a record that never failed waits %v", got)
			}
			for i := range c.from {
				least, most := p.Wait(i + 1)
				for _, x := range []struct {
					got  time.Duration
					want float64
				}{{least, c.from[i]}, {most, c.to[i]}} {
					got := x.got.Seconds() / c.unit.Seconds()
					if c.policy == "arctan" { // whose hours are given to two places
						got = math.Round(100*got) / 100
					}
					if got != x.want {
						t.Errorf("after %d failures: %v to %v; want %v to %v times %v", i+1, least, most, c.from[i], c.to[i], c.unit)
					}
				}
			}
		})
	}
}

// Every policy of the table is tested above.
func TestCurvesAreAll(t *testing.T) {
	for _, s := range retry.Specs() {
		if s.Name != "progressive" && !slices.ContainsFunc(curves, func(c series) bool { return c.policy == s.Name }) {
			t.Errorf("%s has no row", s.Name)
		}
	}
}

func TestProgressive(t *testing.T) {
	p, err := retry.New("progressive", nil)
	if p != nil || err != nil {
		t.Fatalf("got %v, %v", p, err)
	}
	r := backlog.Retry{Count: 7, Last: time.Unix(1, 0)}
	if next, givenUp := p.After(r, time.Unix(2, 0), 0.5); next != r || givenUp {
		t.Errorf("a failure leaves %+v, given up %v", next, givenUp)
	}
}

// The arctangent is in whole seconds and does reach its limit, from below.
func TestArctanEnds(t *testing.T) {
	p := mustNew(t, "arctan", nil)
	for n := 1; n < 100; n++ {
		if w, _ := p.Wait(n); w >= day || w != w.Truncate(time.Second) {
			t.Errorf("after %d failures: %v", n, w)
		}
	}
	if w, _ := p.Wait(99); w != day-time.Second {
		t.Errorf("after 99 failures: %v", w)
	}
	for _, n := range []int{100, 101, 1_000_000} {
		if w, _ := p.Wait(n); w != day {
			t.Errorf("after %d failures: %v", n, w)
		}
	}
	// The formula's distance from its limit, where the curve leaves it.
	if missing := 1 - 2/math.Pi*math.Atan(1e6/15); missing >= 1e-5 {
		t.Errorf("%v is missing", missing)
	}
}

// The shape of what is kept and asked for is part of the contract.
func TestSpecs(t *testing.T) {
	var got []string
	for _, s := range retry.Specs() {
		names := make([]string, len(s.Settings))
		for i, x := range s.Settings {
			names[i] = fmt.Sprintf("%s=%v", x.Name, x.Default)
			if err := x.Check(x.Default); err != nil {
				t.Errorf("%s: the default of %s: %v", s.Name, x.Name, err)
			}
		}
		got = append(got, fmt.Sprintf("%s %d %v %v", s.Name, s.Mechanism, s.Columns, names))
		if s.Once() != (s.Name == "none") {
			t.Errorf("%s tries once: %v", s.Name, s.Once())
		}
		if want := map[retry.Mechanism]int{retry.Counted: 2, retry.Planned: 4}[s.Mechanism]; len(s.Columns) != want {
			t.Errorf("%s has %d columns", s.Name, len(s.Columns))
		}
	}
	want := []string{
		"progressive 0 [] []",
		"none 0 [] []",
		"fibonacci 1 [failures last_failure] [unit=1m0s max_delay=876000h0m0s]",
		"arctan 1 [attempts updated_at] [max=24h0m0s max_delay=876000h0m0s]",
		"list 1 [failures last_failure] [intervals=[0s 1m0s 5m0s 15m0s 30m0s 1h0m0s] max_delay=876000h0m0s]",
		"sneakers 1 [failures last_failure] [base=0s max_retries=5 max_delay=876000h0m0s]",
		"linear 2 [attempt_count last_attempt_time next_attempt_time in_retry] [interval=35s max_retries=3 max_delay=876000h0m0s]",
		"exponential 2 [attempt_count last_attempt_time next_attempt_time in_retry] [interval=35s base=2 max_retries=3 max_delay=876000h0m0s]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	many := make([]time.Duration, 101)
	for _, c := range []struct {
		policy   string
		settings map[string]any
		want     string
	}{
		{"fibonaci", nil, `unknown policy "fibonaci"`},
		{"", nil, `unknown policy ""`},
		{"progressive", map[string]any{"unit": time.Hour}, "unit: the policy progressive has no such setting"},
		{"none", map[string]any{"max_delay": time.Hour}, "max_delay: the policy none has no such setting"},
		{"fibonacci", map[string]any{"max": time.Hour, "base": 1.0}, "base: the policy fibonacci has no such setting"},
		{"fibonacci", map[string]any{"unit": time.Duration(0)}, "unit: must be more than 0"},
		{"fibonacci", map[string]any{"unit": -time.Second}, "unit: must be more than 0"},
		{"fibonacci", map[string]any{"unit": 60}, "unit: cannot be a int"},
		{"fibonacci", map[string]any{"unit": nil}, "unit: cannot be a <nil>"},
		{"arctan", map[string]any{"max": time.Duration(0)}, "max: must be more than 0"},
		{"arctan", map[string]any{"max_delay": time.Duration(0)}, "max_delay: must be more than 0"},
		{"list", map[string]any{"intervals": []time.Duration{}}, "intervals: is an empty list; name at least one interval"},
		{"list", map[string]any{"intervals": many}, "intervals: has 101 intervals; 100 are the most"},
		{"list", map[string]any{"intervals": []time.Duration{0, -1}}, "intervals: interval 2 must be at least 0"},
		{"list", map[string]any{"intervals": "5m"}, "intervals: cannot be a string"},
		{"sneakers", map[string]any{"base": -time.Second}, "base: must be at least 0"},
		{"sneakers", map[string]any{"base": 15.0}, "base: cannot be a float64"},
		{"sneakers", map[string]any{"max_retries": -1}, "max_retries: must be at least 0, not -1"},
		{"linear", map[string]any{"max_retries": 3.0}, "max_retries: cannot be a float64"},
		{"exponential", map[string]any{"base": 0.5}, "base: must be at least 1, not 0.5"},
		{"exponential", map[string]any{"base": math.NaN()}, "base: must be at least 1, not NaN"},
		{"exponential", map[string]any{"base": math.Inf(1)}, "base: must be finite"},
		{"exponential", map[string]any{"base": 2}, "base: cannot be a int"},
	} {
		p, err := retry.New(c.policy, c.settings)
		if p != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s %v: got %v, %v; want %s", c.policy, c.settings, p, err, c.want)
		}
	}
}
