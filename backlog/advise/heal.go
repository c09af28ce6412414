package advise

import (
	"math"
	"slices"
)

// Healing says what makes broken records succeed.
type Healing int

const (
	// HealingUnknown means that records of an age were always tried after about the same time, or too
	// few of them after another.
	HealingUnknown Healing = iota
	HealingByTime
	HealingByTries // each attempt has the same chance, no matter how long ago the one before was
)

const (
	// apart is by how much two waits differ that are compared.
	apart = 1.5
	// surely is how many standard deviations refute an explanation, and hardly how many do not.
	surely = 4
	hardly = 2
)

// healing compares two explanations of how records of one age succeed if some of them were tried after a short
// and others after a long wait. If time heals, more of the latter succeed. If tries heal,
// as many do.
func (l *learner) healing() Healing {
	byTime := explanation{chance: func(e *exposure, _ float64) float64 { return 1 - e.fails() }}
	byTries := explanation{chance: func(_ *exposure, mean float64) float64 { return mean }}
	for band := range len(Edges) + 1 {
		list := l.waitsOf(band)
		if !differ(list) {
			continue
		}
		tried := 0.0
		succeeded := 0.0
		for _, e := range list {
			tried += e.tried
			succeeded += e.succeeded
		}
		mean := succeeded / tried
		for _, e := range list {
			difference := (1 - e.fails()) - mean
			byTime.add(e, mean, difference)
			byTries.add(e, mean, difference)
		}
	}
	againstTime := -byTime.deviation()
	againstTries := byTries.deviation()
	switch {
	case againstTries > surely && againstTime < hardly:
		return HealingByTime
	case againstTime > surely && againstTries < hardly:
		return HealingByTries
	}
	return HealingUnknown
}

// waitsOf returns the exposures of the failed lane in a band that have one wait.
func (l *learner) waitsOf(band int) []*exposure {
	var list []*exposure
	for _, e := range l.exposures {
		if e.lane == Failed && e.band == band && len(e.pieces) == 1 && !e.pieces[0].first {
			list = append(list, e)
		}
	}
	return list
}

// differ reports whether enough was tried after waits that are apart.
func differ(list []*exposure) bool {
	tried := 0.0
	sum := 0.0
	for _, e := range list {
		tried += e.tried
		sum += e.tried * math.Log(e.pieces[0].waited)
	}
	middle := math.Exp(sum / tried)
	short := 0.0
	long := 0.0
	for _, e := range list {
		if e.pieces[0].waited < middle {
			short += e.tried
		} else {
			long += e.tried
		}
	}
	if min(short, long) < leastTried {
		return false
	}
	waited := func(e *exposure) float64 { return e.pieces[0].waited }
	least := slices.MinFunc(list, func(a, b *exposure) int { return int(waited(a) - waited(b)) })
	most := slices.MaxFunc(list, func(a, b *exposure) int { return int(waited(a) - waited(b)) })
	return waited(most) >= apart*waited(least)
}

// An explanation gives the chance that an attempt succeeds. It is held against what happened in the direction
// in which another explanation differs.
type explanation struct {
	chance           func(e *exposure, mean float64) float64
	excess, variance float64
}

// add adds the trials of an exposure. difference is by how much the chance by time is above that by tries.
func (x *explanation) add(e *exposure, mean, difference float64) {
	p := x.chance(e, mean)
	x.excess += difference * (e.succeeded - e.tried*p)
	x.variance += difference * difference * e.tried * p * (1 - p)
}

// deviation returns by how many standard deviations what happened differs from the explanation.
func (x *explanation) deviation() float64 {
	if x.variance == 0 {
		return 0
	}
	return x.excess / math.Sqrt(x.variance)
}
