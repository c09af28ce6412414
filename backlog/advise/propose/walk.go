package propose

import (
	"cmp"
	"math"
	"slices"
	"time"

	"backlog/backlog/advise"
	"backlog/tiers"
)

// start is when the first record of a walk is inserted: a Monday, so that the same inputs give the same figures.
var start = float64(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Unix())

const (
	// period is in how long a time the records of a walk are inserted: all ticks of usual schedules
	// repeat after it.
	period = 28 * day

	// mostSteps bounds how many attempts are walked. Of at least leastBirths records all are.
	mostSteps   = 60_000
	mostBirths  = 500
	leastBirths = 32

	// drawnSteps is mostSteps of each drawn curve.
	drawnSteps = 2500
	leastDrawn = 8
	// slotsPerStep is for how many slots the curve of a record takes as long as an attempt.
	slotsPerStep = 8
	walkedRatio  = 0.618033988749895 // successive births are this part of the period apart
)

// A ticker has the ticks of a tier, in seconds of Unix time.
type ticker struct {
	upto          float64
	every, offset float64
	list          []float64 // of a cron tier, ascending
}

// newTickers returns the tickers of a schedule for all ages of the records of a walk.
func newTickers(s *tiers.Schedule) []*ticker {
	var list []*ticker
	for _, t := range s.Tiers() {
		k := &ticker{upto: t.MaxAge.Seconds(), every: t.Every.Seconds(), offset: t.Offset.Seconds()}
		if t.Every == 0 {
			k.list = ticksOf(t, start+period+k.upto)
			k.every = longestGap(k.list)
		}
		list = append(list, k)
	}
	return list
}

// ticksOf returns the ticks of a cron tier from the start to an end.
func ticksOf(t tiers.Tier, end float64) (list []float64) {
	at := time.Unix(int64(start), 0)
	for {
		at = t.Next(at)
		list = append(list, float64(at.Unix()))
		if list[len(list)-1] > end {
			return list
		}
	}
}

func longestGap(list []float64) float64 {
	gap := list[0] - start
	for i := range list[1:] {
		gap = max(gap, list[i+1]-list[i])
	}
	return gap
}

// next returns the first tick after a time.
func (k *ticker) next(after float64) float64 {
	if k.list == nil {
		return (math.Floor((after-k.offset)/k.every)+1)*k.every + k.offset
	}
	i, found := slices.BinarySearch(k.list, after)
	if found {
		i++
	}
	if i == len(k.list) {
		return math.Inf(1)
	}
	return k.list[i]
}

// last returns the last tick up to a time; -Inf: no tick comes before.
func (k *ticker) last(upto float64) float64 {
	if k.list == nil {
		return math.Floor((upto-k.offset)/k.every)*k.every + k.offset
	}
	i, found := slices.BinarySearch(k.list, upto)
	if found {
		return upto
	}
	if i == 0 {
		return math.Inf(-1)
	}
	return k.list[i-1]
}

// nextTick returns the first tick after a time that takes a record; +Inf: no tick does. A tick at the
// moment of insertion is too early, and the greatest age of a tier is inside.
func nextTick(list []*ticker, inserted, after float64) float64 {
	first := math.Inf(1)
	for _, k := range list {
		if after-inserted > k.upto {
			continue
		}
		if at := k.next(after); at-inserted <= k.upto && at < first {
			first = at
		}
	}
	return first
}

// A life has the ages at which a record is tried if it never recovers.
type life struct {
	inserted float64
	ages     []float64
}

// A chain appends the ages at which the n-th record of a walk is tried.
type chain func(ages []float64, n int, inserted float64) []float64

// lives returns the lives of a sample of records, evenly inserted, with about so many attempts at most.
func (e *evaluator) lives(attempts chain, most int) []life {
	var list []life
	steps := 0
	each := 1
	if !e.main.even() {
		each += int(e.main.oldest/slotSeconds) / slotsPerStep
	}
	for n := 0; n < mostBirths && (n < leastBirths || steps < most); n++ {
		_, part := math.Modf(float64(n) * walkedRatio)
		inserted := start + math.Floor(part*period) + 0.5
		ages := attempts(nil, n, inserted)
		list = append(list, life{inserted, ages})
		steps += len(ages) + each
	}
	return list
}

// scheduled returns the chain of a schedule.
func scheduled(list []*ticker) chain {
	return func(ages []float64, _ int, inserted float64) []float64 {
		for at := inserted; ; {
			at = nextTick(list, inserted, at)
			if math.IsInf(at, 1) {
				return ages
			}
			ages = append(ages, at-inserted)
		}
	}
}

// A gap is from an attempt to the next, in a life.
type gap struct {
	life     int
	from, to float64
}

// gapsOf returns the gaps of lives, the longest first.
func gapsOf(list []life) (gaps []gap) {
	for i, l := range list {
		for n := 1; n < len(l.ages); n++ {
			gaps = append(gaps, gap{i, l.ages[n-1], l.ages[n]})
		}
	}
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	return gaps
}

// A walked has the sums over lives, as one curve makes them.
type walked struct {
	curves                            []*curveOf // of each life
	inVain, done, recoverable, missed float64
	gaps                              []gap
	from                              []float64 // the curve at the start of each gap
}

// walk sums up lives and their gaps.
func (m *model) walk(list []life, gaps []gap) *walked {
	w := &walked{gaps: gaps, from: make([]float64, len(gaps))}
	for _, l := range list {
		c := m.curveOf(l.inserted)
		w.curves = append(w.curves, c)
		if len(l.ages) == 0 {
			continue
		}
		for _, age := range l.ages {
			w.inVain += c.at(age)
		}
		last := c.at(l.ages[len(l.ages)-1])
		end := c.at(m.oldest)
		w.done += 1 - last
		w.recoverable += c.at(l.ages[0]) - end
		w.missed += max(0, last-end)
	}
	for i, g := range gaps {
		w.from[i] = w.curves[g.life].at(g.from)
	}
	return w
}

// longer returns how many records wait longer than a time.
func (w *walked) longer(than float64) float64 {
	sum := w.missed
	for i, g := range w.gaps {
		if g.to-g.from <= than {
			break
		}
		sum += w.from[i] - w.curves[g.life].at(g.to-than)
	}
	return sum
}

// quantile returns the time that a share of the waits does not exceed.
func (w *walked) quantile(share float64) float64 {
	// If so few recover in longer gaps, no wait of interest is longer than a gap.
	limit := (1 - share) * w.recoverable
	sum := w.missed
	longest := 0.0
	for i, g := range w.gaps {
		if sum += w.from[i] - w.curves[g.life].at(g.to); sum > limit {
			longest = g.to - g.from
			break
		}
	}
	return waits{w.recoverable, longest, w.longer, walkExactness}.quantile(share)
}

// numbers returns what a walk tells.
func (e *evaluator) numbers(w *walked) numbers {
	n := e.compared(w)
	n.p50 = w.quantile(0.5)
	return n
}

// compared returns the numbers by which schedules are compared: all but the p50.
func (e *evaluator) compared(w *walked) numbers {
	perDay := e.perSecond() * day / float64(len(w.curves))
	n := numbers{
		calls:  perDay * (w.inVain + w.done),
		inVain: perDay * w.inVain,
		p95:    w.quantile(0.95),
	}
	if w.recoverable > 0 {
		n.lost = 1000 * w.missed / w.recoverable
	}
	return n
}

// A curveOf is a curve of the records that are inserted at a time: where recoveries come at some times of a day,
// the hour of the insertion decides at which ages.
type curveOf struct {
	*table
	offset float64   // the age at the first end of a slot
	ends   []float64 // the curve at each end of a slot; nil: the table's
}

func (c *curveOf) at(age float64) float64 {
	if c.ends == nil {
		return c.table.at(age)
	}
	x := (age-c.offset)/slotSeconds + 1
	i := min(max(0, int(x)), len(c.ends)-2)
	return c.ends[i] + (c.ends[i+1]-c.ends[i])*min(x-float64(i), 1)
}

// curveOf returns the curve of records that are inserted at a time.
func (m *model) curveOf(inserted float64) *curveOf {
	if m.even() {
		return &curveOf{table: m.table}
	}
	if c, ok := m.curves[inserted]; ok {
		return c
	}
	c := m.newCurveOf(inserted)
	if m.curves == nil {
		m.curves = make(map[float64]*curveOf)
	}
	m.curves[inserted] = c
	return c
}

// even reports whether recoveries come at any time of a day.
func (m *model) even() bool { return len(m.groups) == 1 && m.groups[0].slots == nil }

func (m *model) newCurveOf(inserted float64) *curveOf {
	c := &curveOf{table: m.table}
	clock := math.Mod(inserted, day)
	slot := int(clock / slotSeconds)
	c.offset = float64(slot+1)*slotSeconds - clock
	age := 0.0
	broken := m.table.at(0)
	c.ends = append(c.ends, broken)
	g := 0
	for end := c.offset; age < m.oldest; end += slotSeconds {
		for m.groups[g].high <= age {
			g++
		}
		recovered := m.table.at(age) - m.table.at(end)
		if slots := m.groups[g].slots; slots != nil {
			recovered *= slots[slot%advise.SlotsPerDay] * advise.SlotsPerDay
		}
		broken = max(0, broken-recovered)
		c.ends = append(c.ends, broken)
		age = end
		slot++
	}
	return c
}

// walkSchedule returns the figures of any schedule.
func (e *evaluator) walkSchedule(s *tiers.Schedule) (Figures, []numbers) {
	list := newTickers(s)
	f, drawn := e.walkFigures(e.lives(scheduled(list), mostSteps))
	f.NewWait = longestWait(s)
	var steps []step
	for _, k := range list {
		steps = append(steps, step{k.upto, k.every})
	}
	f.Recovery = e.recovery(steps)
	f.Peak = e.walkPeak(list, func(inserted, at float64) (before float64, tried bool) {
		last := math.Inf(-1)
		for _, k := range list {
			last = max(last, k.last(min(at-1, inserted+k.upto)))
		}
		return last - inserted, true
	})
	return f, drawn
}

// walkFigures returns the figures that do not depend on how ticks are made. The intervals come from fewer
// records, as ratios.
func (e *evaluator) walkFigures(list []life) (Figures, []numbers) {
	value := e.numbers(e.main.walk(list, gapsOf(list)))
	f := figuresOf(value)
	steps := 0
	few := 0
	for few < len(list) && (few < leastDrawn || steps < drawnSteps) {
		steps += len(list[few].ages)
		few++
	}
	list = list[:few]
	gaps := gapsOf(list)
	even := &model{table: e.main.table, groups: []*group{{high: math.Inf(1)}}}
	base := e.numbers(even.walk(list, gaps))
	var drawn []numbers
	for _, m := range e.drawn {
		n := e.numbers((&model{table: m.table, groups: even.groups}).walk(list, gaps))
		drawn = append(drawn, numbers{
			calls:  scale(value.calls, n.calls, base.calls),
			inVain: scale(value.inVain, n.inVain, base.inVain),
			p50:    scale(value.p50, n.p50, base.p50),
			p95:    scale(value.p95, n.p95, base.p95),
			lost:   scale(value.lost, n.lost, base.lost),
		})
	}
	f.estimate(drawn)
	return f, drawn
}

// scale returns a value by the ratio of two others; an infinite one stays so.
func scale(value, drawn, base float64) float64 {
	if infinite(drawn) || infinite(value) || base == 0 || infinite(base) {
		return max(value, drawn)
	}
	return value * drawn / base
}

// infinite reports whether a wait has no end.
func infinite(wait float64) bool { return math.IsInf(wait, 1) }

const (
	peakTicks = 2
	peakAges  = 300
)

// walkPeak returns the most calls of some ticks of the widest tier. before returns the age of a record at
// the attempt before, not more than 0 if there was none, and whether the tick tries it.
func (e *evaluator) walkPeak(list []*ticker, before func(inserted, at float64) (age float64, tried bool)) float64 {
	widest := list[len(list)-1]
	most := 0.0
	at := start + widest.upto
	for range peakTicks {
		at = widest.next(at)
		sum := 0.0
		from := 0.0
		for i := range peakAges {
			// Cells grow with age, from a half second to a few hundredths of the widest.
			upto := widest.upto * math.Expm1(float64(i+1)/peakAges*peakSpread) / math.Expm1(peakSpread)
			inserted := at - (from+upto)/2
			if age, tried := before(inserted, at); tried {
				share := 1.0
				if age > 0 {
					share = e.main.at(age)
				}
				sum += share * (upto - from)
			}
			from = upto
		}
		most = max(most, sum)
	}
	return e.perSecond() * most
}

// peakSpread is the logarithm of how much older the oldest cell of walkPeak is than the youngest.
const peakSpread = 12

// longestWait returns the longest time between two ticks of a schedule.
func longestWait(s *tiers.Schedule) float64 {
	const mostTicks = 12_000
	at := time.Unix(int64(start), 0)
	end := at.Add(seconds(2 * period))
	longest := time.Duration(0)
	for n := 0; n < mostTicks && at.Before(end); n++ {
		next := s.Next(at)
		longest = max(longest, next.Sub(at))
		at = next
	}
	return longest.Seconds()
}
