package cmd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"backlog/backlog/simulate"
)

// Whatever is given for a workload is refused or means one that can be
// simulated.
func FuzzWorkload(f *testing.F) {
	f.Add("1000/h", "1%", "98%", "6h+2h", "30d", "2026-01-05T00:00:00Z", "outage=2h", "200ms")
	f.Add("1e3/m,regular", "0.01", "1", "0+1ns", "1m", "0001-01-01T00:00:00Z", "p=30%", "0")
	f.Add("0x1p-1000/d,poisson", "100%", "NaN", "36500d+36500d", "36500d", "9999-12-31T23:59:59Z", "fail", "24h")
	f.Add("Inf/s", "-0%", "+Inf", "+", "-1m", "now", "succeed=", "1d1ns")
	f.Fuzz(func(t *testing.T, arrivals, poison, success, outage, length, from, assume, callTime string) {
		var o SimulateOptions
		flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
		o.AddFlags(flags)
		err := flags.Parse([]string{
			"--seed=1", "--arrivals=" + arrivals, "--poison=" + poison, "--success=" + success, "--outage=" + outage,
			"--for=" + length, "--from=" + from, "--call-time=" + callTime,
		})
		if err != nil {
			return
		}
		if o.CallTime < 0 || o.CallTime > 24*time.Hour {
			t.Errorf("--call-time %q is %v", callTime, o.CallTime)
		}
		w, err := o.parse()
		if err != nil {
			return
		}
		if n := w.PerHour * w.To.Sub(w.From).Hours(); !(n > 0) || n > 20_000_000 || math.IsInf(w.PerHour, 0) {
			t.Errorf("%q are %v an hour", arrivals, w.PerHour)
		}
		sound(t, w)
		if err := w.Assume(assume); err == nil {
			sound(t, w)
		}
	})
}

func sound(t *testing.T, w *simulate.Workload) {
	t.Helper()
	for _, share := range []float64{w.Poison, w.Success} {
		if !(share >= 0 && share <= 1) {
			t.Errorf("a share of %v", share)
		}
	}
	if !w.From.Before(w.To) || w.From.Year() < 1970 || w.To.Year() > 2200 {
		t.Errorf("from %v to %v", w.From, w.To)
	}
	for _, o := range w.Outages {
		if o.From.Before(w.From) || !o.From.Before(o.To) {
			t.Errorf("an outage from %v to %v, in a workload from %v", o.From, o.To, w.From)
		}
	}
}

// Nothing of a list is lost, whatever its brackets.
func FuzzSplitOutside(f *testing.F) {
	f.Add("fibonacci,list: [0, 1m, 5m],other.yaml")
	f.Add("{exponential: {interval: 1m, base: 3}} , arctan")
	f.Add("fibonacci,list: [0, 1m")
	f.Add("],[,,")
	f.Fuzz(func(t *testing.T, list string) {
		rest := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, ",", " ")), "") }
		if items := simulate.SplitOutside(list); rest(strings.Join(items, ",")) != rest(list) {
			t.Errorf("%q is split into %q", list, items)
		}
	})
}
