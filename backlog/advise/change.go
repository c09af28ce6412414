package advise

import (
	"math"
	"slices"
)

const (
	leastDays = 3    // on each side of a change
	chance    = 0.01 // of finding a change where there is no change, over all days
)

// change returns the day since which records fail or recover otherwise than before. On each day, the successes
// that the curve expects of the day's exposures are compared with what happened (the log-rank
// test for grouped data, on exposures): attempts alone would change with the tiers.
func (l *learner) change() (day int, changed bool) {
	best := 0.0
	for _, lane := range []Lane{Fresh, Failed} {
		at, z := split(l.residuals(func(e *exposure) bool { return e.lane == lane }))
		if z > best {
			best = z
			day = at
		}
	}
	return day, best > 0
}

// split returns the day from which on the residuals differ most from those before, and by how many standard
// deviations; 0: by no more than chance.
func split(list []residual) (day int, z float64) {
	list = slices.DeleteFunc(list, func(r residual) bool { return r.variance < 1 })
	tests := len(list) - 2*leastDays + 1
	for i := leastDays; i <= len(list)-leastDays; i++ {
		if t := contrast(list[:i], list[i:]); t > z {
			z = t
			day = list[i].day
		}
	}
	if 2*float64(tests)*math.Erfc(z/math.Sqrt2) >= chance {
		return 0, 0
	}
	return day, z
}

// contrast returns by how many standard deviations the days before and after differ. The variance is that by
// chance, or the one between the days of either side if that is more.
func contrast(before, after []residual) float64 {
	squares := 0.0
	excess := 0.0
	variance := 0.0
	for _, side := range [][]residual{before, after} {
		var sum residual
		for _, r := range side {
			sum.excess += r.excess
			sum.variance += r.variance
		}
		mean := sum.excess / sum.variance
		for _, r := range side {
			squares += square(r.excess-r.variance*mean) / r.variance
		}
		excess = mean - excess
		variance += 1 / sum.variance
	}
	free := float64(len(before) + len(after) - 2)
	t := math.Abs(excess) / math.Sqrt(variance)
	if squares <= free {
		return t
	}
	return normal(t/math.Sqrt(squares/free), free)
}

func square(x float64) float64 { return x * x }

// normal returns the deviation of a normal distribution that is as rare as t is in Student's (Wallace 1959).
func normal(t, free float64) float64 {
	return (8*free + 1) / (8*free + 3) * math.Sqrt(free*math.Log1p(t*t/free))
}
