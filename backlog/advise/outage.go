package advise

import (
	"math"
	"slices"
)

// surprising is how many successes the passes of an outage would have had without it: no success at all
// has a chance of exp(-14), less than one in a million.
const surprising = 14

// markOutages finds the outages by the curve, and reports whether they differ from those before.
func (l *learner) markOutages() bool {
	expected := make([]float64, len(l.passes)) // successes of each pass, if there were no outage
	noOutage := make([]bool, len(l.passes))
	l.walk(noOutage, func(i int, lane Lane, c Counts, list []piece) {
		expected[i] += float64(c.Lanes[lane].Tried) * l.curve.chance(list)
	})
	found := make([]bool, len(l.passes))
	copy(found, l.inOutage[:l.since])
	start := l.since // the first pass of the run without a success that is not marked yet
	expectedOfRun := 0.0
	for i := l.since; i < len(l.passes); i++ {
		tried, succeeded := l.passes[i].sums()
		if tried == 0 || l.passes[i].Folded {
			continue
		}
		if succeeded > 0 {
			start = i + 1
			expectedOfRun = 0
			continue
		}
		expectedOfRun += expected[i]
		if expectedOfRun > surprising {
			for j := start; j <= i; j++ {
				found[j] = true
			}
			start = i + 1
		}
	}
	if slices.Equal(found, l.inOutage) {
		return false
	}
	l.inOutage = found
	return true
}

// sums returns the attempts and successes of a pass.
func (p *Pass) sums() (tried, succeeded int) {
	for _, c := range p.Bands {
		for _, t := range c.Lanes {
			tried += t.Tried
			succeeded += t.Succeeded
		}
	}
	return tried, succeeded
}

// chance returns about the chance that an attempt in some pieces succeeds; 0: there are no pieces.
func (c *curve) chance(list []piece) float64 {
	sum := 0.0
	widths := 0.0
	for _, p := range list {
		width := p.high - p.low
		age := p.low + width/2
		hazard := c.hazard(age)
		if !p.first {
			hazard -= c.hazard(max(age-p.waited, 0))
		}
		sum -= width * math.Expm1(-hazard)
		widths += width
	}
	if widths == 0 {
		return 0
	}
	return sum / widths
}

// outages returns the outages that were marked.
func (l *learner) outages() []Outage {
	var list []Outage
	inside := false
	for i, p := range l.passes {
		if inside && !l.inOutage[i] {
			if tried, _ := p.sums(); tried == 0 {
				continue
			}
		}
		if inside {
			list[len(list)-1].To = p.Started
		}
		if l.inOutage[i] {
			if !inside {
				list = append(list, Outage{From: p.Started, To: p.Started})
			}
			list[len(list)-1].Passes++
		}
		inside = l.inOutage[i]
	}
	return list
}
