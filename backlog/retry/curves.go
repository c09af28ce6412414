package retry

import (
	"math"
	"time"

	"backlog/backlog"
)

// never is for records that are tried once.
func never(int, values) (least, most time.Duration) { return 0, 0 }

// fibonacci is fib(n)·unit with fib(1) = fib(2) = 1: 1 1 2 3 5 8 13 … minutes.
func fibonacci(n int, v values) (least, most time.Duration) {
	wait, next := time.Duration(0), v.duration("unit")
	for ; n > 0 && wait < backlog.MaxWait; n-- {
		wait, next = next, min(wait+next, backlog.MaxWait)
	}
	return wait, wait
}

// arctan is max·(2/π)·atan(n³/15) in whole seconds. With max 24h that is, in
// hours, 1.02 7.49 16.25 20.48 22.18 22.94 23.33 23.55 23.69 23.77 23.83 …
//
// It would come nearer to max for ever. A curve that has an end is looked up in
// the database count by count, so this one ends where less than 1/100,000 of
// max is missing: 1 - (2/π)·atan(100³/15) < 0.00001.
func arctan(n int, v values) (least, most time.Duration) {
	longest := v.duration("max")
	if n >= 100 {
		return longest, longest
	}
	cube := float64(n) * float64(n) * float64(n)
	wait := scaled(longest, 2/math.Pi*math.Atan(cube/15)).Round(time.Second)
	wait = min(wait, longest) // which need not be whole seconds
	return wait, wait
}

var usualIntervals = []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}

// list is the n-th of the intervals; behind the last a record is given up.
func list(n int, v values) (least, most time.Duration) {
	intervals := v["intervals"].([]time.Duration)
	wait := intervals[min(n, len(intervals))-1]
	return wait, wait
}

// sneakers is (base + 15 s)·2^(n+1): 1 2 4 8 16 minutes. The formula, with base
// in seconds, is that of the retry handler of the job runner of this name.
func sneakers(n int, v values) (least, most time.Duration) {
	wait := scaled(v.duration("base")+15*time.Second, math.Exp2(float64(n)+1))
	return wait, wait
}

// linear is always the interval.
func linear(_ int, v values) (least, most time.Duration) {
	wait := v.duration("interval")
	return wait, wait
}

// exponential is anything from base^(n-1)·interval to base^n·interval: 35–70,
// 70–140, 140–280 … seconds. What failed together is not tried together again.
func exponential(n int, v values) (least, most time.Duration) {
	interval, base := v.duration("interval"), v["base"].(float64)
	return scaled(interval, math.Pow(base, float64(n-1))), scaled(interval, math.Pow(base, float64(n)))
}
