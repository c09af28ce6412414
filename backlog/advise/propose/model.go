package propose

import (
	"math"
	"time"

	"backlog/tiers"
)

// A step is a tier in seconds.
type step struct{ upto, every float64 }

// A model computes figures in closed form, in the steady state without outages. Records are born evenly, so
// their attempts at the ages of a tier are spread evenly: a record of an age is tried 1/every times a
// second. What it returns counts for one record.
//
// A record that recovers at age r in the tier up to age A waits for the tier's next tick. After s
// seconds it is r+s old; beyond A the tier takes it no more, and it waits for the next tier's first tick after A.
// Since intervals are multiples of each other, that one comes s plus some whole intervals after r.
type model struct {
	*table
	// population is the first interval of the schedule whose first failures wait; 0: of each schedule its own. A
	// schedule that tries new records sooner has more first failures, most of which recover within
	// minutes: their short waits would make any schedule look better.
	population float64
	groups     []*group
	missed     map[missedKey][]float64 // what missedOf has returned
	curves     map[float64]*curveOf    // by when records are inserted
}

func newModel(c Curve, oldest float64, groups []*group) *model {
	return &model{table: newTable(c, oldest), groups: groups}
}

type missedKey struct {
	group *group
	tier  step
}

// missedOf returns for each bin of a phase the share of a group that recovers up to the end of a tier, and whose
// tick comes after it, if ticks come that long after recoveries.
func (m *model) missedOf(g *group, t step, bins int) []float64 {
	key := missedKey{g, t}
	if list, ok := m.missed[key]; ok {
		return list
	}
	list := make([]float64, bins)
	end := m.brokenOf(g, t.upto)
	upper := m.integralOf(g, t.upto)
	for b := range list {
		lower := m.integralOf(g, t.upto-float64(b+1)*slotSeconds)
		list[b] = (upper-lower)/slotSeconds - end
		upper = lower
	}
	if m.missed == nil {
		m.missed = make(map[missedKey][]float64)
	}
	m.missed[key] = list
	return list
}

// brokenOf returns the curve at an age, as if only the records of a group recovered.
func (m *model) brokenOf(g *group, age float64) float64 { return m.at(min(max(age, g.low), g.high)) }

// integralOf returns the integral of brokenOf from 0 to an age.
func (m *model) integralOf(g *group, age float64) float64 {
	if age <= g.low {
		return age * m.at(g.low)
	}
	sum := m.integral(min(age, g.high))
	if g.low > 0 {
		sum += g.low*m.at(g.low) - m.integral(g.low)
	}
	if age > g.high {
		sum += (age - g.high) * m.at(g.high)
	}
	return sum
}

// meanOf returns the mean of brokenOf between two ages.
func (m *model) meanOf(g *group, from, to float64) float64 {
	return (m.integralOf(g, to) - m.integralOf(g, from)) / (to - from)
}

// inVain returns how many attempts fail up to an age if all are an interval apart. If recoveries
// come long before a tick, more of the ticks are before them.
func (m *model) inVain(every, age float64) float64 {
	sum := m.integral(age) / every
	for _, g := range m.groups {
		if g.slots != nil && g.low < age {
			sum += (g.phase(every).mean/every - 0.5) * (m.at(g.low) - m.brokenOf(g, age))
		}
	}
	return sum
}

// late returns the share of records that recover up to an age and whose next tick, if all are an interval apart,
// comes more than a time later.
func (m *model) late(every, age, than float64) float64 {
	sum := 0.0
	for _, g := range m.groups {
		if g.low >= age {
			break
		}
		sum += g.phase(every).longer(than) * (m.at(g.low) - m.brokenOf(g, age))
	}
	return sum
}

// early returns the part of late that recovers before the first attempt, and so never fails.
func (m *model) early(every, than float64) float64 {
	if than >= every {
		return 0
	}
	sum := 0.0
	for _, g := range m.groups {
		if g.low >= every {
			break
		}
		p := g.phase(every)
		if p.bins == nil {
			sum += ((every-than)*m.at(g.low) - m.integralOf(g, every-than)) / every
			continue
		}
		for b, share := range p.bins {
			s := float64(b) * slotSeconds
			if part := beyond(b, than); part > 0 && share > 0 {
				sum += share * part * (m.at(g.low) - m.meanOf(g, max(0, every-s-slotSeconds), every-s))
			}
		}
	}
	return sum
}

// never is the interval of the tier after the last one.
var never = math.Inf(1)

// edge returns by how much late is too small, because a tier ends at an age: a record that recovers
// shortly before it waits for a tick of the next interval.
func (m *model) edge(t step, next, than float64) float64 {
	sum := 0.0
	for _, g := range m.groups {
		if g.low >= t.upto {
			break
		}
		if g.high <= t.upto-t.every || m.brokenOf(g, t.upto-t.every) <= m.brokenOf(g, t.upto) {
			continue
		}
		p := g.phase(t.every)
		if p.bins == nil {
			sum += m.evenEdge(g, t, next, than)
			continue
		}
		sum += m.slotEdge(g, t, next, than)
	}
	return sum
}

// evenEdge is edge of a group where any time until the next tick is as likely.
func (m *model) evenEdge(g *group, t step, next, than float64) float64 {
	end := m.brokenOf(g, t.upto)
	// missed is the share that recovers up to t.upto, and whose tick comes after it, of those with ticks
	// between two times later.
	missed := func(from, to float64) float64 {
		return (m.integralOf(g, t.upto-from) - m.integralOf(g, t.upto-to) - end*(to-from)) / t.every
	}
	if math.IsInf(next, 1) {
		return missed(0, min(than, t.every))
	}
	intervals := next / t.every
	whole := math.Floor(than / t.every)
	rest := than - whole*t.every
	// The tick of the next tier comes s plus k intervals later, k < intervals.
	sum := missed(0, rest)*max(0, intervals-whole-1) + missed(rest, t.every)*max(0, intervals-whole)
	sum /= intervals
	if than < t.every {
		sum -= missed(than, t.every)
	}
	return sum
}

// slotEdge is edge of a group whose next tick is more likely at some times than at others.
func (m *model) slotEdge(g *group, t step, next, than float64) float64 {
	p := g.phase(t.every)
	missed := m.missedOf(g, t, len(p.bins))
	sum := 0.0
	for b := int(min(than/slotSeconds, float64(len(p.bins)))); b < len(p.bins); b++ {
		sum -= p.bins[b] * beyond(b, than) * missed[b]
	}
	if math.IsInf(next, 1) {
		for b, share := range p.bins {
			sum += share * missed[b]
		}
		return sum
	}
	q := g.phase(next)
	if q.bins != nil {
		for b := int(min(than/slotSeconds, float64(len(q.bins)))); b < len(q.bins); b++ {
			sum += q.bins[b] * beyond(b, than) * missed[b%len(missed)]
		}
		return sum
	}
	intervals := max(1, int(next/t.every))
	for b, share := range p.bins {
		longer := 0.0
		for k := range intervals {
			longer += beyond(b+k*len(p.bins), than)
		}
		sum += share * missed[b] * longer / float64(intervals)
	}
	return sum
}

// recoverable returns the share of records that wait: their first attempt fails, and they recover by the oldest age.
func (m *model) recoverable(first float64) float64 { return m.at(0) - m.end - m.before(first, 0) }

// before returns the part of late, for a first interval, of the records that recover before the first attempt that
// counts.
func (m *model) before(first, than float64) float64 {
	if m.population == 0 || m.population == first {
		return m.early(first, than)
	}
	// The phases of the two intervals are taken as independent.
	return m.early(m.population, 0) * max(0, 1-than/first)
}

// lost returns the share of records that recover by the oldest age, but after the last attempt.
func (m *model) lost(last step) float64 {
	return m.at(last.upto) - m.end + m.edge(last, never, math.MaxFloat64)
}

// calls returns the attempts at a record, and those that fail.
func (m *model) calls(list []step) (all, inVain float64) {
	from := 0.0
	for _, t := range list {
		inVain += m.inVain(t.every, t.upto) - m.inVain(t.every, from)
		from = t.upto
	}
	return inVain + 1 - m.end - m.lost(list[len(list)-1]), inVain
}

// longer returns the share of records whose first attempt fails, and that wait longer than a time
// although they could succeed.
func (m *model) longer(list []step, than float64) float64 {
	sum := m.at(list[len(list)-1].upto) - m.end - m.before(list[0].every, than)
	from := 0.0
	for i, t := range list {
		next := never
		if i+1 < len(list) {
			next = list[i+1].every
		}
		sum += m.late(t.every, t.upto, than) - m.late(t.every, from, than) + m.edge(t, next, than)
		from = t.upto
	}
	return sum
}

// peak returns for how many seconds of insertions the tick of all tiers makes attempts. A record was tried before
// at the last tick of its tier or, near the lower edge, of the tier before.
func (m *model) peak(list []step) float64 {
	sum := list[0].every + m.integral(list[0].upto-list[0].every)
	for i, t := range list[1:] {
		before := list[i]
		younger := m.integral(before.upto)
		sum += t.every / before.every * (younger - m.integral(before.upto-before.every))
		sum += m.integral(t.upto-t.every) - younger
	}
	return sum
}

// A waits has the share of the records that wait longer than a time, which never grows.
type waits struct {
	recoverable float64 // the share that waits at all
	longest     float64 // no wait is longer but for the lost ones
	longer      func(than float64) float64
	exactness   float64 // up to which share of a wait it is of interest
}

// quantile returns the time that a share of the waits does not exceed; +Inf: too many are lost.
func (w waits) quantile(share float64) float64 {
	if w.recoverable <= 0 {
		return 0
	}
	excess := func(than float64) float64 { return w.longer(than) - (1-share)*w.recoverable }
	above := excess(w.longest)
	if above > 0 {
		return math.Inf(1)
	}
	low := 0.0
	high := w.longest
	below := share * w.recoverable // all wait longer than 0
	for range mostRounds {
		if high-low <= w.exactness*(high+1) {
			break
		}
		middle := (low + high) / 2
		switch {
		case high > 16*(low+1):
			middle = math.Sqrt((low + 1) * high) // first the order of magnitude
		case below > above:
			middle = low + (high-low)*min(max(0.02, below/(below-above)), 0.98)
		}
		// The end that stays counts half, so that it moves, too (the Illinois method).
		if e := excess(middle); e > 0 {
			low = middle
			below = e
			above /= 2
		} else {
			high = middle
			above = e
			below /= 2
		}
	}
	return high
}

// mostRounds bounds how often a quantile is bracketed more closely.
const mostRounds = 60

// Waits are computed up to this share of them.
const (
	waitExactness = 1e-4
	walkExactness = 1e-3 // of a sample of records
)

// stepsOf returns the tiers of a schedule in seconds, and whether the closed form holds for them: ticks come at
// each whole multiple of an interval, intervals are multiples of those before, and no tier is narrower
// than its interval.
func stepsOf(s *tiers.Schedule) ([]step, bool) {
	var list []step
	var before tiers.Tier
	for _, t := range s.Tiers() {
		width := t.MaxAge - before.MaxAge
		if t.Every == 0 || t.Offset != 0 || width < t.Every || before.Every > 0 && t.Every%before.Every != 0 {
			return nil, false
		}
		list = append(list, step{t.MaxAge.Seconds(), t.Every.Seconds()})
		before = t
	}
	return list, true
}

func seconds(d float64) time.Duration { return time.Duration(d * float64(time.Second)) }
