package retry_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/retry"
)

const day = 24 * time.Hour

// with returns the settings of a policy, some of them by their keys.
func with(name string, settings map[string]any) retry.Settings {
	s := retry.New(name)
	for key, value := range settings {
		field(s, key).Set(reflect.ValueOf(value))
	}
	return s
}

// field returns the field of the settings with the key.
func field(s retry.Settings, key string) reflect.Value {
	v := reflect.ValueOf(s).Elem()
	for _, f := range keysOf(s) {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name == key {
			return v.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// keysOf returns the fields of the settings that have keys.
func keysOf(s retry.Settings) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeOf(s).Elem()), func(f reflect.StructField) bool { return f.Tag.Get("yaml") == "" })
}

func mustNew(t testing.TB, name string, settings map[string]any) *backlog.Policy {
	t.Helper()
	p, err := retry.Policy(with(name, settings))
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

// curveNames are the policies that count failures.
func curveNames() []string {
	return slices.DeleteFunc(retry.Names(), func(name string) bool { return name == "refresh" })
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
	row("list", map[string]any{"intervals": make([]time.Duration, 100)}, time.Second, 100, 0), // the most there may be
	row("arctan", map[string]any{"max": time.Duration(math.MaxInt64)}, backlog.MaxWait, -1, 0.04, 0.31, 0.68),
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
	for _, name := range curveNames() {
		if !slices.ContainsFunc(curves, func(c series) bool { return c.policy == name }) {
			t.Errorf("%s has no row", name)
		}
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
func TestNew(t *testing.T) {
	var got []string
	for _, name := range retry.Names() {
		s := retry.New(name)
		var settings []string
		for _, f := range keysOf(s) {
			settings = append(settings, fmt.Sprintf("%s=%v", f.Tag.Get("yaml"), reflect.ValueOf(s).Elem().FieldByIndex(f.Index)))
		}
		if k := s.Keeps(); k.Name != name || k.Once != (name == "none") {
			t.Errorf("%s keeps %+v", name, k)
		}
		slices.Sort(settings)
		got = append(got, fmt.Sprintf("%s %v", name, settings))
	}
	const (
		counted  = "columns=[[failures failures] [last_failure last_failure]]"
		attempts = "columns=[[attempts attempts] [updated_at updated_at]]"
		planned  = "columns=[[attempt_count attempt_count] [last_attempt_time last_attempt_time] [next_attempt_time next_attempt_time] [in_retry in_retry]]"
	)
	const refreshed = "columns=[[ refresh_at] [ attempt_no] [ deadline_at] [ attempt_uid] [ started_at] [ disabled] [ disabled_reason] [ failing_since]]"
	want := []string{
		"none []",
		"fibonacci [" + counted + " max_delay=876000h0m0s unit=1m0s]",
		"arctan [" + attempts + " max=24h0m0s max_delay=876000h0m0s]",
		"list [" + counted + " intervals=[0s 1m0s 5m0s 15m0s 30m0s 1h0m0s] max_delay=876000h0m0s]",
		"sneakers [base,seconds=0s " + counted + " max_delay=876000h0m0s max_retries=5]",
		"linear [" + planned + " interval=35s max_delay=876000h0m0s max_retries=3]",
		"exponential [base=2 " + planned + " interval=35s max_delay=876000h0m0s max_retries=3]",
		"refresh [after_last=disable align=true anchor= " + refreshed + " every=0s expr= give_up_after=0s intervals=[0s 1m0s 5m0s 15m0s 30m0s 1h0m0s] reason= rrule={ } schedule= timeout=0s]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, name := range []string{"fibonaci", "", "progressive"} {
		if s := retry.New(name); s != nil {
			t.Errorf("%q: %+v", name, s)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	many := make([]time.Duration, 101)
	for _, c := range []struct {
		policy   string
		settings map[string]any
		want     string
	}{
		{"fibonacci", map[string]any{"unit": time.Duration(0)}, "unit: must be more than 0"},
		{"fibonacci", map[string]any{"unit": -time.Second}, "unit: must be more than 0"},
		{"arctan", map[string]any{"max": time.Duration(0)}, "max: must be more than 0"},
		{"arctan", map[string]any{"max_delay": time.Duration(0)}, "max_delay: must be more than 0"},
		{"list", map[string]any{"intervals": []time.Duration{}}, "intervals: is an empty list; name at least one interval"},
		{"list", map[string]any{"intervals": many}, "intervals: has 101 intervals; 100 are the most"},
		{"exponential", map[string]any{"base": 0.5}, "base: must be at least 1, not 0.5"},
	} {
		p, err := retry.Policy(with(c.policy, c.settings))
		if p != nil || err == nil || err.Error() != c.want {
			t.Errorf("%s %v: got %v, %v; want %s", c.policy, c.settings, p, err, c.want)
		}
	}
}
