package advise

import (
	"math"
	"slices"
	"sort"
)

// A curve is the share of all records that are broken at an age: G(t) = exp(-(rates[0] + the integral of
// the hazard up to t)). The hazard is linear in each segment.
type curve struct {
	// ends has the end of each segment in seconds. The first is 0: its rate counts once, for the
	// records that were never broken.
	ends  []float64
	rates []float64 // the mean hazard of each segment, per second but for the first
	sums  []float64 // the sum of the hazard up to each end
	// slopes has by how much the hazard grows in a second, as a share of its mean.
	slopes []float64
}

// newCurve returns a curve with one segment for each band, but only one for the ages up to shared.
func newCurve(shared float64) *curve {
	c := &curve{ends: []float64{0}}
	for _, edge := range Edges {
		if edge.Seconds() >= shared {
			c.ends = append(c.ends, edge.Seconds())
		}
	}
	c.ends = append(c.ends, math.Inf(1))
	c.rates = make([]float64, len(c.ends))
	c.sums = make([]float64, len(c.ends))
	c.slopes = make([]float64, len(c.ends))
	return c
}

// set changes the rates.
func (c *curve) set(rates []float64) {
	c.rates = slices.Clone(rates)
	sum := rates[0]
	c.sums[0] = sum
	for k := 1; k < len(c.ends); k++ {
		if rates[k] > 0 {
			sum += rates[k] * (c.ends[k] - c.ends[k-1])
		}
		c.sums[k] = sum
	}
}

// withRates returns a curve of the same segments and slopes with other rates.
func (c *curve) withRates(rates []float64) *curve {
	other := &curve{ends: c.ends, slopes: c.slopes, sums: make([]float64, len(c.ends))}
	other.set(rates)
	return other
}

// segment returns the segment that an age is in.
func (c *curve) segment(age float64) int { return max(1, sort.SearchFloat64s(c.ends, age)) }

// hazard returns the integral of the hazard up to an age, and what counts once.
func (c *curve) hazard(age float64) float64 {
	k := c.segment(age)
	return c.sums[k-1] + c.rates[k]*c.elapsed(k, max(age, 0))
}

// elapsed returns the integral of the hazard from the start of a segment to an age in it, as a multiple of
// its mean. Without a slope these are the seconds.
func (c *curve) elapsed(k int, age float64) float64 {
	x := age - c.ends[k-1]
	if c.slopes[k] == 0 {
		return x
	}
	width := c.ends[k] - c.ends[k-1]
	return x - c.slopes[k]*x*(width-x)/2
}

const (
	// enough is how many events a segment and its neighbors have if its slope is known.
	enough = 30
	// steepest bounds by how much the hazard differs from its mean at the ends of a segment.
	steepest = 0.8
)

// bend sets the slopes by the rates of the neighboring segments, where the smaller difference counts. At
// the first and the last known segment there is one. seconds is how long the segments were exposed.
func (c *curve) bend(seconds []float64) {
	middle := func(k int) float64 { return (c.ends[k-1] + c.ends[k]) / 2 }
	known := func(k int) bool { return k > 0 && k < len(c.ends)-1 && c.rates[k]*seconds[k] >= enough }
	for k := range c.slopes {
		c.slopes[k] = 0
		if !known(k) {
			continue
		}
		var steps []float64
		for _, j := range []int{k - 1, k + 1} {
			if known(j) {
				steps = append(steps, (c.rates[j]-c.rates[k])/(middle(j)-middle(k))/c.rates[k])
			}
		}
		most := 2 * steepest / (c.ends[k] - c.ends[k-1])
		switch {
		case len(steps) == 0 || steps[0]*steps[len(steps)-1] < 0:
		case slices.Max(steps) < 0:
			c.slopes[k] = max(slices.Max(steps), -most)
		default:
			c.slopes[k] = min(slices.Min(steps), most)
		}
	}
}

// slope returns the hazard per second at an age.
func (c *curve) slope(age float64) float64 {
	k := c.segment(age)
	if c.slopes[k] == 0 {
		return c.rates[k]
	}
	return c.rates[k] * (1 + c.slopes[k]*(age-(c.ends[k-1]+c.ends[k])/2))
}

// broken returns the share of all records that are broken at an age.
func (c *curve) broken(age float64) float64 { return math.Exp(-c.hazard(age)) }

// points is how many ages stand for a part of a piece.
const points = 8

// weigh sets the share and the hazard of an exposure by the curve. Records are inserted evenly, so of the ages a
// of an exposure, G(a - waited) is how many are tried and G(a) how many fail: the chance of a failure
// is exp(-hazard) = sum of G(a) / sum of G(a - waited), and the time in each segment is the mean over
// those that fail.
func (c *curve) weigh(e *exposure) {
	shares := make([]float64, len(c.ends))
	base := c.base(e)
	tried := 0.0
	failed := 0.0
	for _, p := range e.pieces {
		low := p.low
		for _, end := range append(c.breaks(p), p.high) {
			width := (end - low) / points
			for i := range points {
				age := low + (float64(i)+0.5)*width
				from := max(age-p.waited, 0)
				before := c.hazard(from)
				weight := width * math.Exp(base-c.hazard(age))
				if p.first {
					from = 0
					before = 0
					shares[0] += weight
				}
				tried += width * math.Exp(base-before)
				failed += weight
				c.share(shares, from, age, weight)
			}
			low = end
		}
	}
	failed = max(failed, tried*math.Exp(-mostHazard))
	mean := 0.0 // hazard; the mean chance has another
	for k, s := range shares {
		mean += s / failed * c.rates[k]
	}
	e.hazard = mean
	if mean > negligible {
		e.hazard = math.Log(tried / failed)
	}
	scale := 1 / failed
	if mean > 0 {
		scale *= e.hazard / mean
	}
	e.share = e.share[:0]
	for k, s := range shares {
		if s > 0 {
			e.share = append(e.share, segmentShare{k, s * scale})
		}
	}
}

const (
	// mostHazard bounds the hazard of an exposure, whose trials may all have succeeded.
	mostHazard = 50
	// negligible is a hazard for which the logarithm of the chance is not exact enough.
	negligible = 1e-9
)

// base returns the hazard before the first attempt of an exposure, which keeps what is summed from vanishing.
func (c *curve) base(e *exposure) float64 {
	p := e.pieces[0]
	if p.first {
		return 0
	}
	return c.hazard(max(p.low-p.waited, 0))
}

// share adds the time between two ages to the segments it is in.
func (c *curve) share(shares []float64, from, to, weight float64) {
	for k := c.segment(to); k > 0 && c.ends[k] > from; k-- {
		shares[k] += weight * (c.elapsed(k, min(to, c.ends[k])) - c.elapsed(k, max(from, c.ends[k-1])))
	}
}

// breaks returns the ages within a piece at which the attempt before was at the end of a segment.
func (c *curve) breaks(p piece) []float64 {
	var list []float64
	if p.first {
		return nil
	}
	for _, end := range c.ends {
		if age := end + p.waited; p.low < age && age < p.high {
			list = append(list, age)
		}
	}
	return list
}

const (
	mostRounds = 500
	// exactness is the change of the number of events at which a fit has ended.
	exactness = 1e-2
)

// maximize returns the rates at which the successes of the exposures are most likely, beginning at the rates
// given, which are more than 0. An attempt meets events of each segment as a Poisson process with the
// segment's rate, and it succeeds if there was one: this is the likelihood of grouped survival data
// (Prentice and Gloeckler 1978). A round of EM (Turnbull 1976) shares each success out among the segments:
//
//	rate[k] = sum of succeeded * share[k] * rate[k] / (1 - exp(-hazard)) / sum of tried * share[k]
func maximize(list []*exposure, succeeded, rates []float64) []float64 {
	rates = slices.Clone(rates)
	seconds := make([]float64, len(rates))
	for _, e := range list {
		for _, s := range e.share {
			seconds[s.segment] += e.tried * s.seconds
		}
	}
	events := make([]float64, len(rates))
	for range mostRounds {
		clear(events)
		for i, e := range list {
			if succeeded[i] == 0 {
				continue
			}
			hazard := 0.0
			for _, s := range e.share {
				hazard += s.seconds * rates[s.segment]
			}
			each := succeeded[i] / -math.Expm1(-hazard)
			for _, s := range e.share {
				events[s.segment] += each * s.seconds * rates[s.segment]
			}
		}
		change := 0.0
		for k, n := range events {
			rate := 0.0
			if seconds[k] > 0 {
				rate = n / seconds[k]
			}
			change = max(change, math.Abs(rate-rates[k])*seconds[k])
			rates[k] = rate
		}
		if change < exactness {
			break
		}
	}
	return rates
}
