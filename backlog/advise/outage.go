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
	found := make([]bool, len(l.passes))
	copy(found, l.inOutage[:l.since])
	t := newTrack() // as if there was no outage
	start := -1     // the first pass with an attempt of a run without a success
	end := -1       // the last one
	expected := 0.0
	mark := func() {
		if expected > surprising {
			for k := start; k <= end; k++ {
				found[k] = true
			}
		}
		start = -1
		expected = 0
	}
	for i := range l.passes {
		p := &l.passes[i]
		if p.Folded {
			continue
		}
		if i >= l.since {
			tried, succeeded := p.sums()
			switch {
			case succeeded > 0:
				mark()
			case tried > 0:
				if start < 0 {
					start = i
				}
				end = i
				expected += l.expected(t, i)
			}
		}
		t.add(p, l.at(i), false)
	}
	mark()
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

// expected returns about how many attempts of a pass succeed by the curve.
func (l *learner) expected(t *track, i int) float64 {
	p := &l.passes[i]
	now := l.at(i)
	sum := 0.0
	for _, c := range p.Bands {
		low, high := rangeOf(c.Band, p.MaxAge)
		if low >= high || math.IsInf(high, 1) {
			continue
		}
		for lane, tally := range c.Lanes {
			if tally.Tried > 0 {
				list := l.piecesOf(t, p, now, Lane(lane), c)
				sum += float64(tally.Tried) * l.curve.chance(list)
			}
		}
	}
	return sum
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
