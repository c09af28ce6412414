package advise

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// An Estimate is a value with the ends of its 90 % interval.
type Estimate struct{ Value, Low, High float64 }

// A Point is the share of the recoverable first failures that are still broken at an age.
type Point struct {
	Age      time.Duration
	Share    Estimate
	Attempts int // in the band that ends there
}

// An IncompleteBand is not learned from, because many of its attempts come from incomplete passes.
type IncompleteBand struct {
	Band                 int // as in Counts
	Attempts, Incomplete int
}

// An Outage is a time in which no attempt succeeded although many should have.
type Outage struct {
	From, To time.Time // its first pass, and the first one after it
	Passes   int
}

// A Model is what the passes of a table tell of its records. A record is done or broken; G(t) is the
// share of all records that are broken at age t.
type Model struct {
	From, To time.Time // of the passes that are learned from
	Days     float64
	Passes   int

	Records    int // first attempts
	Attempts   int
	Recoveries int // successes of records that have failed before

	Changed    time.Time // the day on which behaviour changed; zero: it did not
	LeftOut    LeftOut
	Retried    int // attempts at fresh records that an earlier pass should have met, or without one
	Incomplete []IncompleteBand

	// FirstFailures is the share of all records whose first attempt fails, and BrokenForGood the share
	// of these that are still broken at the age Oldest.
	FirstFailures Estimate
	BrokenForGood Estimate
	// Oldest is the last edge up to which enough was tried: what recovers later looks the
	// same as what never does (Maller and Zhou 1996). 0: nothing was learned.
	Oldest      time.Duration
	StillBroken []Point // at the edges up to Oldest

	Outages []Outage // oldest first

	PerHour        float64 // records that were new, in the last week
	PerHourBefore  float64 // the same before the last week; 0: there are no such passes
	CallsPerDay    float64 // attempts, those in outages included
	CallsPerSecond float64 // of a pass under way; 0: no pass had enough attempts
	Healing        Healing

	curve    *curve
	drawn    []*curve             // from which the intervals are
	shortest []time.Duration      // by band: after how long at least failed records were tried again; 0: none was
	slots    []*Slots             // by segment of the curve; nil: even
	recovery [SlotsPerDay]float64 // how many recoveries there were in each slot, at any age
}

// Broken returns the share of all records that are broken at an age.
func (m *Model) Broken(age time.Duration) float64 {
	if m.curve == nil {
		return 0
	}
	return m.curve.broken(age.Seconds())
}

// Drawn returns curves that are about as likely as the curve of [Model.Broken]. Their ages are in seconds.
func (m *Model) Drawn() []func(age float64) float64 {
	list := make([]func(age float64) float64, len(m.drawn))
	for i, c := range m.drawn {
		list[i] = c.broken
	}
	return list
}

// Hazard returns at an age the share of the broken records, those that never recover included, that recover
// in an hour.
func (m *Model) Hazard(age time.Duration) float64 {
	if m.curve == nil || age <= 0 {
		return 0
	}
	return m.curve.slope(age.Seconds()) * time.Hour.Seconds()
}

// Unrecovered returns the share of the recoverable first failures that are still broken at an age,
// S(t) = (G(t) - G(A)) / (first failures - G(A)) with A = Oldest.
func (m *Model) Unrecovered(age time.Duration) float64 {
	end := m.Broken(m.Oldest)
	return unrecovered(m.Broken(age), end, m.FirstFailures.Value)
}

// unrecovered returns S(t) by G(t), G(A) and the share of first failures.
func unrecovered(broken, end, failures float64) float64 {
	if failures <= end || broken <= end {
		return 0
	}
	return min(1, (broken-end)/(failures-end))
}

// Fit returns the model of a history.
func Fit(h *History) *Model {
	l := &learner{passes: h.Passes, inOutage: make([]bool, len(h.Passes))}
	m := &Model{LeftOut: h.LeftOut}
	if len(h.Passes) == 0 {
		return m
	}
	l.origin = h.Passes[0].Started
	l.fit()
	for range mostChanges {
		changed, ok := l.change()
		if !ok {
			break
		}
		m.Changed = time.Unix(int64(changed)*int64(day.Seconds()), 0).UTC()
		l.since = slices.IndexFunc(l.passes, func(p Pass) bool { return dayOf(p.Started) >= changed })
		l.fit()
	}
	l.describe(m)
	l.estimate(m)
	return m
}

const (
	mostChanges = 4
	// mostRefits bounds how often a fit is repeated with the outages that it shows.
	mostRefits = 10
	// mostWeighings bounds how often the ages within the bands are weighed by the curve.
	mostWeighings = 12
	// steady is the change of the hazard at which they need not be weighed again.
	steady = 1e-5
)

// fit fits the curve, leaves out the outages that it shows, and repeats that until nothing changes.
func (l *learner) fit() {
	for range mostRefits {
		l.expose()
		l.fitCurve()
		if !l.markOutages() {
			return
		}
	}
}

// fitCurve fits the curve to the exposures.
func (l *learner) fitCurve() {
	l.curve = newCurve(2 * l.shortest())
	rates := make([]float64, len(l.curve.ends))
	l.curve.set(rates)
	for k := range rates {
		rates[k] = 1 / day.Seconds()
	}
	rates[0] = 1
	succeeded := make([]float64, len(l.exposures))
	for i, e := range l.exposures {
		succeeded[i] = e.succeeded
	}
	for range mostWeighings {
		before := slices.Clone(l.curve.sums)
		for _, e := range l.exposures {
			l.curve.weigh(e)
		}
		rates = maximize(l.exposures, succeeded, rates)
		l.curve.set(rates)
		l.curve.bend(l.exposed())
		change := 0.0
		for k := range len(before) - 1 { // the last one is never reached
			change = max(change, math.Abs(math.Exp(-l.curve.sums[k])-math.Exp(-before[k])))
		}
		if change < steady {
			break
		}
	}
	for _, e := range l.exposures {
		l.curve.weigh(e)
	}
}

// rare is the share of the attempts whose time since the attempt before does not count as the shortest.
const rare = 0.05

// shortest returns the shortest time in seconds after which failed records are tried again.
func (l *learner) shortest() float64 {
	type wait struct{ seconds, tried float64 }
	var list []wait
	all := 0.0
	for _, e := range l.exposures {
		if p := e.pieces[len(e.pieces)-1]; e.lane == Failed && !p.first {
			list = append(list, wait{p.waited, e.tried})
			all += e.tried
		}
	}
	slices.SortFunc(list, func(a, b wait) int { return cmp.Compare(a.seconds, b.seconds) })
	sum := 0.0
	for _, w := range list {
		sum += w.tried
		if sum >= rare*all {
			return w.seconds
		}
	}
	return 0
}

// ShortestTried returns the shortest time after which failed records between two ages were tried again, as far as
// that is learned from; 0: none was.
func (m *Model) ShortestTried(from, to time.Duration) time.Duration {
	shortest := time.Duration(0)
	for band := bandOf(from + 1); band <= bandOf(to) && band < len(m.shortest); band++ {
		if d := m.shortest[band]; d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}

// shortestOfBands returns, for each band, the shortest time after which failed records were tried again.
func (l *learner) shortestOfBands() []time.Duration {
	list := make([]time.Duration, len(Edges)+1)
	for _, e := range l.exposures {
		if e.lane != Failed {
			continue
		}
		for _, p := range e.pieces {
			if waited := secondsOf(p.waited); !p.first && (list[e.band] == 0 || waited < list[e.band]) {
				list[e.band] = waited
			}
		}
	}
	return list
}

// describe sets what was learned from.
func (l *learner) describe(m *Model) {
	first := l.passes[l.since]
	last := l.passes[len(l.passes)-1]
	m.From = first.Started
	m.To = last.Started
	m.Days = m.To.Sub(m.From).Hours() / 24
	m.Passes = len(l.passes) - l.since
	m.Retried = l.retried
	m.Incomplete = l.incomplete
	for i := l.since; i < len(l.passes); i++ {
		switch {
		case l.inOutage[i]:
			m.LeftOut.Outage++
		case l.passes[i].partial():
			m.LeftOut.Incomplete++
		}
	}
	for _, e := range l.exposures {
		m.Attempts += int(e.tried)
		if e.lane == Fresh {
			m.Records += int(e.tried)
		} else {
			m.Recoveries += int(e.succeeded)
		}
	}
	m.Outages = l.outages()
	m.curve = l.curve
	l.count(m)
	l.clock(m)
	m.shortest = l.shortestOfBands()
	m.Healing = l.healing()
}
