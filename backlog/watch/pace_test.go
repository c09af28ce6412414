package watch_test

import (
	"math"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

func TestPaceOf(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	// pass is the i-th one of every five minutes.
	pass := func(i, attempts int, seconds float64) watch.Pass {
		return watch.Pass{
			Started:  inspect.Stamp(start.Add(time.Duration(i) * 5 * time.Minute)),
			Duration: seconds,
			Report:   backlog.Report{Succeeded: attempts, Complete: true},
			Ages:     []advise.AgeBand{{Fresh: []int{40, 36}, Failed: []int{8, 2}}},
		}
	}
	// rated is a pass in which the handler took two seconds for each record.
	rated := func(p watch.Pass) watch.Pass {
		p.CallTime = 2
		return p
	}
	for _, c := range []struct {
		name   string
		passes []watch.Pass
		before time.Time
		limit  watch.Limit
		want   float64 // seconds of a call
	}{
		{"nothing is known", nil, start, watch.Limit{}, 0},
		{"one at a time", []watch.Pass{pass(0, 40, 80)}, start.Add(time.Hour), watch.Limit{Concurrency: 1}, 2},
		{"without a concurrency", []watch.Pass{pass(0, 40, 80)}, start.Add(time.Hour), watch.Limit{}, 2},
		{"four at a time, the last ones of which idle", []watch.Pass{pass(0, 40, 103.75)}, start.Add(time.Hour), watch.Limit{Concurrency: 4}, 10},
		{"the median", []watch.Pass{pass(0, 40, 80), pass(1, 40, 4000), pass(2, 40, 84)}, start.Add(2 * time.Hour), watch.Limit{}, 2.1},
		{"large passes count", []watch.Pass{pass(0, 40, 80), pass(1, 3, 60), pass(2, 3, 60)}, start.Add(time.Hour), watch.Limit{}, 2},
		{"small ones if there are no others", []watch.Pass{pass(1, 3, 60)}, start.Add(time.Hour), watch.Limit{}, 20},
		{"those of the outage do not", []watch.Pass{pass(0, 40, 80), pass(6, 40, 800)}, start.Add(30 * time.Minute), watch.Limit{}, 2},
		{"slowed down by the rate", []watch.Pass{rated(pass(0, 40, 160))}, start.Add(time.Hour), watch.Limit{Concurrency: 1, Rate: 0.25}, 2},
		{"slower than the rate", []watch.Pass{rated(pass(0, 40, 80))}, start.Add(time.Hour), watch.Limit{Concurrency: 1, Rate: 0.6}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := watch.PaceOf(c.passes, c.before, c.limit)
			if math.Abs(got.CallTime.Seconds()-c.want) > 0.001 {
				t.Errorf("a call takes %v, want %v s", got.CallTime, c.want)
			}
		})
	}
	got := watch.PaceOf([]watch.Pass{pass(0, 44, 88), pass(1, 44, 88), pass(2, 44, 88)}, start.Add(time.Hour), watch.Limit{})
	if math.Abs(got.PerHour-480) > 0.1 || math.Abs(got.Failures-0.1) > 0.001 || math.Abs(got.Recovering-3) > 0.001 {
		t.Errorf("got %+v: 40 records in 5 minutes, of which a tenth fails, and a quarter of these recovers in 5 minutes", got)
	}
}
