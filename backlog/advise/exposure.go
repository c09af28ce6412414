package advise

import (
	"math"
	"slices"
	"time"
)

// A piece is a range of ages whose records were tried the same time before.
type piece struct {
	low, high float64 // seconds; ages in (low, high]
	waited    float64 // seconds since the attempt before; without meaning if first
	first     bool    // there was no attempt before that counts
}

// maxPieces bounds the pieces of an exposure.
const maxPieces = 8

// An exposure is what attempts of one band have in common: trials of one chance.
type exposure struct {
	band   int
	lane   Lane
	pieces []piece // the means over its trials
	trials
	days []trials // by day, oldest first

	// share is by how much the rate of each segment counts; hazard is what they add up to: a trial
	// fails with the chance exp(-hazard).
	share  []segmentShare
	hazard float64
}

// trials are attempts, on a day.
type trials struct {
	day              int // since 1970
	tried, succeeded float64
}

// A segmentShare is how long an exposure lasts within a segment of the curve.
type segmentShare struct {
	segment int
	seconds float64
}

// fails returns the chance that a trial fails.
func (e *exposure) fails() float64 { return math.Exp(-e.hazard) }

// add adds the trials of a pass.
func (e *exposure) add(list []piece, t trials) {
	weight := t.tried / (e.tried + t.tried)
	for i, p := range list {
		e.pieces[i].low += weight * (p.low - e.pieces[i].low)
		e.pieces[i].high += weight * (p.high - e.pieces[i].high)
		e.pieces[i].waited += weight * (p.waited - e.pieces[i].waited)
	}
	e.tried += t.tried
	e.succeeded += t.succeeded
	if n := len(e.days); n > 0 && e.days[n-1].day == t.day {
		e.days[n-1].tried += t.tried
		e.days[n-1].succeeded += t.succeeded
		return
	}
	e.days = append(e.days, t)
}

// An exposureKey is the same for trials whose chance is the same.
type exposureKey struct {
	band   int
	lane   Lane
	pieces [maxPieces]roundPiece
}

// A roundPiece is a piece with about 2 percent of tolerance, since ticks are some milliseconds late.
type roundPiece struct {
	low, high, waited int16
	first             bool
}

// keyOf returns the key of the trials of a band.
func keyOf(band int, lane Lane, list []piece) exposureKey {
	round := func(seconds float64) int16 { return int16(math.Round(32 * math.Log2(1+seconds))) }
	k := exposureKey{band: band, lane: lane}
	for i, p := range list {
		k.pieces[i] = roundPiece{round(p.low), round(p.high), round(p.waited), p.first}
	}
	return k
}

// A reach is a pass that tried all records up to an age.
type reach struct{ at, maxAge float64 } // seconds

// A track knows of the passes so far which one tried a record last. Its times are seconds since the
// first pass; before there was such a pass, they are less than 0.
type track struct {
	// reaches has the newest pass last. A pass that another one covers since is not in it: the records
	// that it reached are older than those that any later one reached.
	reaches        []reach
	lastComplete   float64
	lastIncomplete float64
	lastOutage     float64
}

func newTrack() *track { return &track{lastComplete: -1, lastIncomplete: -1, lastOutage: -1} }

// add adds a pass. The failures in an outage are no attempts.
func (t *track) add(p *Pass, at float64, inOutage bool) {
	if p.Complete {
		t.lastComplete = at
	}
	if inOutage {
		t.lastOutage = at
		return
	}
	if !p.Complete {
		t.lastIncomplete = at
		return
	}
	maxAge := p.MaxAge.Seconds()
	n := len(t.reaches)
	for n > 0 && t.reaches[n-1].maxAge-t.reaches[n-1].at <= maxAge-at {
		n--
	}
	t.reaches = append(t.reaches[:n], reach{at, maxAge})
}

// oldFresh is the least share of the time since the last complete pass at which a fresh record counts as
// one that this pass should have met.
const oldFresh = 0.98

// fresh returns the ages between low and high at which a fresh record was not there in the last complete
// pass; nil: none is known, or that pass should have met it, so it was retried, or inserted with an old date.
func (t *track) fresh(now, low, high float64) []piece {
	if t.lastComplete < 0 || low >= oldFresh*(now-t.lastComplete) {
		return nil
	}
	return []piece{{low: low, high: min(high, now-t.lastComplete), first: true}}
}

// mostUnknown is the share of a band's width that may be unknown.
const mostUnknown = 1.0 / 8

// failed returns the pieces of the ages between low and high, by the passes that tried these records
// last; nil: that is not known.
func (t *track) failed(now, low, high float64) []piece {
	if len(t.reaches) == 0 {
		return nil
	}
	var list []piece
	newest := t.reaches[len(t.reaches)-1]
	frontier := max(low, now-newest.at)
	if t.lastOutage > newest.at && t.lastIncomplete <= newest.at {
		// Born since the last pass that counts, and tried in an outage only.
		born := piece{low: max(low, now-t.lastOutage), high: min(high, now-newest.at), first: true}
		if born.low < born.high {
			list = append(list, born)
		}
	}
	for i := len(t.reaches) - 1; i >= 0 && frontier < high; i-- {
		waited := now - t.reaches[i].at
		end := min(high, t.reaches[i].maxAge+waited)
		if end > frontier {
			list = join(list, piece{low: frontier, high: end, waited: waited}, (high-low)/8)
			frontier = end
		}
	}
	if frontier < high-mostUnknown*(high-low) {
		return nil
	}
	return list
}

// join adds a piece. Where the last one is narrow, they become one.
func join(list []piece, p piece, narrow float64) []piece {
	n := len(list) - 1
	if n < 0 || list[n].first || list[n].high-list[n].low >= narrow && n+1 < maxPieces {
		return append(list, p)
	}
	before := list[n].high - list[n].low
	after := p.high - p.low
	list[n].waited = (before*list[n].waited + after*p.waited) / (before + after)
	list[n].high = p.high
	return list
}

// rangeOf returns the ages in seconds of the records of a band that a pass can try.
func rangeOf(band int, maxAge time.Duration) (low, high float64) {
	high = math.Inf(1)
	if band > 0 {
		low = Edges[band-1].Seconds()
	}
	if band < len(Edges) {
		high = Edges[band].Seconds()
	}
	if maxAge > 0 {
		high = min(high, maxAge.Seconds())
	}
	return low, high
}

// A learner holds what is learned from the passes of a history, in some rounds.
type learner struct {
	passes   []Pass
	origin   time.Time // the start of the first pass
	inOutage []bool    // by pass
	since    int       // the first pass that is learned from

	exposures  []*exposure
	byKey      map[exposureKey]*exposure
	retried    int // attempts at fresh records that an earlier pass should have met, or without one
	incomplete []IncompleteBand
	curve      *curve
}

// at returns when a pass started, in seconds since the first.
func (l *learner) at(i int) float64 { return l.passes[i].Started.Sub(l.origin).Seconds() }

// dayOf returns the day of a time, in days since 1970.
func dayOf(t time.Time) int { return int(math.Floor(float64(t.Unix()) / day.Seconds())) }

// mostIncomplete is the share of the attempts of a band that may come from incomplete passes.
const mostIncomplete = 0.1

// incompleteBands returns which bands are not learned from, because too many of their attempts come from
// incomplete passes, whose records are not drawn at random.
func (l *learner) incompleteBands() []bool {
	all := make([]int, len(Edges)+1)
	partly := make([]int, len(Edges)+1)
	for i := l.since; i < len(l.passes); i++ {
		if l.inOutage[i] {
			continue
		}
		for _, c := range l.passes[i].Bands {
			tried := c.Lanes[Fresh].Tried + c.Lanes[Failed].Tried
			all[c.Band] += tried
			if l.passes[i].partial() {
				partly[c.Band] += tried
			}
		}
	}
	excluded := make([]bool, len(Edges)+1)
	l.incomplete = nil
	for i, n := range all {
		excluded[i] = float64(partly[i]) > mostIncomplete*float64(n)
		if excluded[i] {
			l.incomplete = append(l.incomplete, IncompleteBand{Band: i, Attempts: n, Incomplete: partly[i]})
		}
	}
	return excluded
}

// expose makes the exposures of the passes.
func (l *learner) expose() {
	l.exposures = nil
	l.byKey = make(map[exposureKey]*exposure)
	l.retried = 0
	excluded := l.incompleteBands()
	l.walk(l.inOutage, func(i int, lane Lane, c Counts, list []piece) {
		p := &l.passes[i]
		tally := c.Lanes[lane]
		switch {
		case l.inOutage[i] || p.partial() || excluded[c.Band]:
		case list != nil:
			n := trials{day: dayOf(p.Started), tried: float64(tally.Tried), succeeded: float64(tally.Succeeded)}
			l.exposureOf(c.Band, lane, list).add(list, n)
		case lane == Fresh:
			l.retried += tally.Tried
		}
	})
}

// partial reports whether the pass did not look at every record.
func (p *Pass) partial() bool { return !p.Complete && !p.Folded }

// walk calls visit with the attempts of each lane of each band that are learned from, and the pieces of their
// ages; nil: these are not known. What is attempted in an outage does not count for the passes after it.
func (l *learner) walk(inOutage []bool, visit func(i int, lane Lane, c Counts, list []piece)) {
	t := newTrack()
	for i := range l.passes {
		p := &l.passes[i]
		for _, c := range p.Bands {
			low, high := rangeOf(c.Band, p.MaxAge)
			if i < l.since || low >= high || math.IsInf(high, 1) {
				continue
			}
			for lane, tally := range c.Lanes {
				if tally.Tried > 0 {
					visit(i, Lane(lane), c, l.piecesOf(t, i, Lane(lane), c))
				}
			}
		}
		if !p.Folded {
			t.add(p, l.at(i), inOutage[i])
		}
	}
}

// piecesOf returns the pieces of the trials of a band in a pass; nil: they are not known.
func (l *learner) piecesOf(t *track, i int, lane Lane, c Counts) []piece {
	p := &l.passes[i]
	now := l.at(i)
	low, high := rangeOf(c.Band, p.MaxAge)
	if lane == Failed && c.Waited >= 0 {
		waited := c.Waited / float64(c.Lanes[Failed].Tried)
		if !p.Folded && t.lastOutage >= 0 && t.lastOutage > now-1.5*waited {
			return nil // the attempt before was in an outage
		}
		return []piece{around(c, low, high, waited)}
	}
	switch {
	case p.Folded && lane == Fresh:
		return []piece{{low: low, high: high, first: true}}
	case p.Folded:
		return nil
	case lane == Fresh:
		return t.fresh(now, low, high)
	}
	return t.failed(now, low, high)
}

// wide is by how much ages differ from their mean, if it is known.
const wide = 0.05

// around returns the piece of the ages near the mean age of a band, if it is known. Under a policy the
// attempts of a band come at about the same age.
func around(c Counts, low, high, waited float64) piece {
	p := piece{low: low, high: high, waited: waited}
	if age := c.Aged / float64(c.Lanes[Failed].Tried); low < age && age < high {
		margin := min(wide*age, age-low, high-age)
		p.low = age - margin
		p.high = age + margin
	}
	return p
}

// exposureOf returns the exposure that trials belong to.
func (l *learner) exposureOf(band int, lane Lane, list []piece) *exposure {
	key := keyOf(band, lane, list)
	e := l.byKey[key]
	if e == nil {
		e = &exposure{band: band, lane: lane, pieces: slices.Clone(list)}
		l.byKey[key] = e
		l.exposures = append(l.exposures, e)
	}
	return e
}
