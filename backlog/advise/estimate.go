package advise

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	draws      = 200
	leastTried = 100 // attempts up to whose last band a curve is known
	fewEvents  = 5   // successes of a band, below which half a success more is drawn
)

// estimate sets the shares of the model and their intervals.
func (l *learner) estimate(m *Model) {
	attempts := l.attempts()
	last := l.lastBand(attempts)
	if last < 0 {
		return
	}
	m.Oldest = Edges[last]
	if widest := l.widest(); widest > 0 {
		m.Oldest = min(m.Oldest, widest)
	}
	ages := slices.Clone(Edges[:last+1])
	ages[last] = m.Oldest
	points := make([][]float64, len(ages)) // what was drawn for each age
	var failures, forGood []float64
	value := l.figures(l.curve, m.Oldest)
	random := rand.New(rand.NewPCG(1976, 1978))
	spread := l.spread()
	start := l.startOfDraws()
	for range draws {
		drawn := l.curve.withRates(maximize(l.exposures, l.draw(random, spread), start))
		m.drawn = append(m.drawn, drawn)
		f := l.figures(drawn, m.Oldest)
		failures = append(failures, f.failures)
		forGood = append(forGood, f.forGood())
		for i, age := range ages {
			points[i] = append(points[i], unrecovered(drawn.broken(age.Seconds()), f.end, f.failures))
		}
	}
	m.FirstFailures = interval(value.failures, failures)
	m.BrokenForGood = interval(value.forGood(), forGood)
	for i, age := range ages {
		share := interval(unrecovered(l.curve.broken(age.Seconds()), value.end, value.failures), points[i])
		m.StillBroken = append(m.StillBroken, Point{Age: age, Share: share, Attempts: attempts[i]})
	}
}

// attempts returns how many attempts of each band are learned from.
func (l *learner) attempts() []int {
	list := make([]int, len(Edges)+1)
	for _, e := range l.exposures {
		list[e.band] += int(e.tried)
	}
	return list
}

const (
	// emptiedBy is the share of the broken records that a band leaves at most if it is known although it has few
	// attempts: there are few because hardly a record is still broken.
	emptiedBy  = 0.5
	leastOfFew = 10 // attempts of such a band
)

// lastBand returns the last band with enough attempts, if all younger ages were exposed; -1: no band has.
func (l *learner) lastBand(attempts []int) int {
	exposed := l.exposed()
	last := -1
	for band, edge := range Edges {
		if exposed[l.curve.segment(edge.Seconds())] == 0 {
			break
		}
		emptied := last >= 0 && last == band-1 && attempts[band] >= leastOfFew &&
			l.curve.broken(edge.Seconds()) <= emptiedBy*l.curve.broken(Edges[last].Seconds())
		if attempts[band] >= leastTried || emptied {
			last = band
		}
	}
	return last
}

// exposed returns the sum of the trials' shares of each segment.
func (l *learner) exposed() []float64 {
	sums := make([]float64, len(l.curve.ends))
	for _, e := range l.exposures {
		for _, s := range e.share {
			sums[s.segment] += e.tried * s.seconds
		}
	}
	return sums
}

// widest returns the largest age of a pass; 0: it is not known, since all passes are folded.
func (l *learner) widest() (maxAge time.Duration) {
	for _, p := range l.passes[l.since:] {
		maxAge = max(maxAge, p.MaxAge)
	}
	return maxAge
}

// figures are what a model says in three numbers.
type figures struct {
	failures float64 // the share of first attempts that fail
	end      float64 // G(A)
}

func (f figures) forGood() float64 {
	if f.failures <= 0 {
		return 0
	}
	return min(1, f.end/f.failures)
}

// figures returns the figures of a curve, which may be drawn.
func (l *learner) figures(c *curve, oldest time.Duration) figures {
	tried := 0.0
	failed := 0.0
	for _, e := range l.exposures {
		if e.lane != Fresh {
			continue
		}
		hazard := 0.0
		for _, s := range e.share {
			hazard += s.seconds * c.rates[s.segment]
		}
		tried += e.tried
		failed += e.tried * math.Exp(-hazard)
	}
	f := figures{failures: c.broken(0), end: c.broken(oldest.Seconds())}
	if tried > 0 {
		f.failures = failed / tried
	}
	return f
}

// group returns the index of the exposures whose days are compared with each other.
func (e *exposure) group() int {
	if e.lane == Fresh {
		return 0
	}
	return 1 + e.band
}

const groups = 27

// A residual is how many successes a day had beyond those expected, and the variance of that by chance.
type residual struct {
	day              int
	excess, variance float64
}

// residuals returns the residuals of each day of the exposures that are chosen, oldest first.
func (l *learner) residuals(chosen func(*exposure) bool) []residual {
	days := make(map[int]residual)
	for _, e := range l.exposures {
		if !chosen(e) {
			continue
		}
		fails := e.fails()
		for _, d := range e.days {
			r := days[d.day]
			r.day = d.day
			r.excess += d.succeeded - d.tried*(1-fails)
			r.variance += d.tried * fails * (1 - fails)
			days[d.day] = r
		}
	}
	return slices.SortedFunc(maps.Values(days), func(a, b residual) int { return cmp.Compare(a.day, b.day) })
}

// spread returns, for each group, by how much its days differ more than by chance: the ratio of the standard
// deviations, at least 1.
func (l *learner) spread() []float64 {
	list := make([]float64, groups)
	for g := range list {
		squares := 0.0
		variance := 0.0
		for _, r := range l.residuals(func(e *exposure) bool { return e.group() == g }) {
			squares += r.excess * r.excess
			variance += r.variance
		}
		list[g] = 1
		if variance >= 1 {
			list[g] = math.Sqrt(max(1, squares/variance))
		}
	}
	return list
}

// startOfDraws returns rates from which each fit of drawn successes can start: none is 0.
func (l *learner) startOfDraws() []float64 {
	rates := slices.Clone(l.curve.rates)
	for k, seconds := range l.exposed() {
		if seconds > 0 {
			rates[k] = max(rates[k], 0.5/seconds)
		}
	}
	return rates
}

// draw draws the successes of each exposure by the curve.
func (l *learner) draw(random *rand.Rand, spread []float64) []float64 {
	tried := make([]float64, groups)
	succeeded := make([]float64, groups)
	for _, e := range l.exposures {
		tried[e.group()] += e.tried
		succeeded[e.group()] += e.succeeded
	}
	list := make([]float64, len(l.exposures))
	for i, e := range l.exposures {
		g := e.group()
		mean := e.tried * (1 - e.fails())
		if g > 0 && succeeded[g] < fewEvents {
			mean += 0.5 * e.tried / tried[g]
		}
		mean = min(mean, e.tried)
		drawn := binomial(random, e.tried, mean/e.tried)
		list[i] = min(max(0, mean+spread[g]*(drawn-mean)), e.tried)
	}
	return list
}

// mostCounted is the variance up to which successes are drawn one by one.
const mostCounted = 30

// binomial draws how many of n trials succeed, each with the chance p.
func binomial(random *rand.Rand, n, p float64) float64 {
	if p > 0.5 {
		return n - binomial(random, n, 1-p)
	}
	if p <= 0 {
		return 0
	}
	if variance := n * p * (1 - p); variance > mostCounted {
		return min(max(0, math.Round(n*p+math.Sqrt(variance)*random.NormFloat64())), n)
	}
	// The trials up to each success are geometrically distributed.
	count := 0.0
	log := math.Log1p(-p)
	at := 0.0
	for {
		at += 1 + math.Floor(-random.ExpFloat64()/log)
		if at > n {
			return count
		}
		count++
	}
}

// interval returns a value with the 90 % interval of what was drawn.
func interval(value float64, drawn []float64) Estimate {
	slices.Sort(drawn)
	n := len(drawn)
	low := drawn[n/20]
	high := drawn[n-1-n/20]
	return Estimate{Value: value, Low: min(value, low), High: max(value, high)}
}
