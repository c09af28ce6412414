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
// deviations; 0: by no more than chance. The variance is what days of the same side have.
func split(days map[int]residual) (at int, z float64) {
	list := make([]int, 0, len(days))
	for d, r := range days {
		if r.variance >= 1 {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	tests := len(list) - 2*leastDays + 1
	for i := leastDays; i <= len(list)-leastDays; i++ {
		t := contrast(days, list[:i], list[i:])
		if t > z {
			z = t
			at = list[i]
		}
	}
	if tests < 1 || 2*float64(tests)*math.Erfc(z/math.Sqrt2) >= chance {
		return 0, 0
	}
	return at, z
}

// contrast returns by how many standard deviations the days before and after differ.
func contrast(days map[int]residual, before, after []int) float64 {
	a := sumOf(days, before)
	b := sumOf(days, after)
	squares := 0.0
	for _, d := range before {
		squares += square(days[d].excess-days[d].variance*a.excess/a.variance) / days[d].variance
	}
	for _, d := range after {
		squares += square(days[d].excess-days[d].variance*b.excess/b.variance) / days[d].variance
	}
	free := float64(len(before) + len(after) - 2)
	spread := squares / free
	t := math.Abs(a.excess/a.variance-b.excess/b.variance) / math.Sqrt(1/a.variance+1/b.variance)
	if spread <= 1 {
		return t
	}
	return normal(t/math.Sqrt(spread), free)
}

func square(x float64) float64 { return x * x }

// normal returns the deviation of a normal distribution that is as rare as t is in Student's (Wallace 1959).
func normal(t, free float64) float64 {
	return (8*free + 1) / (8*free + 3) * math.Sqrt(free*math.Log1p(t*t/free))
}

// sumOf returns the sum of the residuals of some days.
func sumOf(days map[int]residual, list []int) residual {
	var sum residual
	for _, d := range list {
		sum.excess += days[d].excess
		sum.variance += days[d].variance
	}
	return sum
}
