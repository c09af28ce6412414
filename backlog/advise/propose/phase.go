package propose

import (
	"math"

	"backlog/backlog/advise"
)

const (
	day         = 24 * 60 * 60.0 // seconds
	slotSeconds = day / advise.SlotsPerDay
)

// A phase is how long it takes from a recovery to the next of the ticks that come at each whole multiple of
// an interval since the Unix epoch in UTC, from 0 to the interval.
type phase struct {
	every float64
	// bins have the chance of each slotSeconds; nil: any time is as likely.
	bins []float64
	// above has for each bin the sum of it and those after it.
	above []float64
	mean  float64
}

// newPhase returns the phase of recoveries that come in a day as slots say. Within a slot any time
// is as likely, and so it is if the interval and a day are no multiples of each other.
func newPhase(slots *advise.Slots, every float64) *phase {
	p := &phase{every: every, mean: every / 2}
	divides := math.Mod(day, every) == 0 || math.Mod(every, day) == 0
	if slots == nil || every <= slotSeconds || math.Mod(every, slotSeconds) != 0 || !divides {
		return p
	}
	n := int(every / slotSeconds)
	p.bins = make([]float64, n)
	days := max(1, n/advise.SlotsPerDay)
	for d := range days {
		for slot, share := range slots {
			p.bins[n-1-(d*advise.SlotsPerDay+slot)%n] += share / float64(days)
		}
	}
	p.above = make([]float64, n+1)
	p.mean = 0
	for b := n - 1; b >= 0; b-- {
		p.above[b] = p.above[b+1] + p.bins[b]
		p.mean += p.bins[b] * (float64(b) + 0.5) * slotSeconds
	}
	return p
}

// longer returns the chance that the next tick comes more than a time later.
func (p *phase) longer(than float64) float64 {
	switch {
	case than <= 0:
		return 1
	case than >= p.every:
		return 0
	case p.bins == nil:
		return 1 - than/p.every
	}
	b := int(than / slotSeconds)
	return p.above[b+1] + p.bins[b]*(float64(b)+1-than/slotSeconds)
}

// beyond returns which part of a bin is longer than a time.
func beyond(bin int, than float64) float64 {
	return min(max(0, float64(bin)+1-than/slotSeconds), 1)
}

// A group has the ages whose recoveries come at the same times of a day.
type group struct {
	low, high float64
	slots     *advise.Slots
	phases    map[float64]*phase // by interval
}

func (g *group) phase(every float64) *phase {
	p := g.phases[every]
	if p == nil {
		p = newPhase(g.slots, every)
		g.phases[every] = p
	}
	return p
}

// newGroups returns the groups of the inputs, from 0 to infinity.
func newGroups(in *Inputs) []*group {
	whole := &group{high: math.Inf(1), phases: make(map[float64]*phase)}
	if in.Slots == nil {
		return []*group{whole}
	}
	var list []*group
	low := 0.0
	for _, edge := range append(advise.Edges[:len(advise.Edges):len(advise.Edges)], in.Oldest) {
		high := min(edge, in.Oldest).Seconds()
		if high <= low {
			continue
		}
		slots := in.Slots((low + high) / 2)
		if last := len(list) - 1; last >= 0 && sameSlots(list[last].slots, slots) {
			list[last].high = high
		} else {
			list = append(list, &group{low: low, high: high, slots: slots, phases: make(map[float64]*phase)})
		}
		low = high
	}
	if len(list) == 0 {
		return []*group{whole}
	}
	list[len(list)-1].high = math.Inf(1)
	return list
}

func sameSlots(a, b *advise.Slots) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
