package propose

import (
	"math"
	"slices"
	"time"

	"backlog/tiers"
)

const (
	minute  = time.Minute
	hour    = time.Hour
	longDay = 24 * time.Hour
)

// Intervals and Edges are what people write as every and max_age. A search adds what today's schedule has.
var (
	Intervals = []time.Duration{
		minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
		hour, 2 * hour, 3 * hour, 4 * hour, 6 * hour, 8 * hour, 12 * hour,
		longDay, 2 * longDay, 4 * longDay, 8 * longDay,
	}
	Edges = []time.Duration{
		10 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour, 12 * hour,
		longDay, 2 * longDay, 4 * longDay, 7 * longDay, 14 * longDay, 30 * longDay, 60 * longDay, 90 * longDay,
		180 * longDay, 360 * longDay, 720 * longDay,
	}
)

// MostTiers is how many tiers are proposed at most, unless there are more today.
const MostTiers = 7

// mostTiersOfToday bounds how many tiers are proposed even if there are more today: the search would take too long.
const mostTiersOfToday = 12

// A space has the schedules that are searched: tiers up to the oldest known age, then today's.
type space struct {
	model  *model
	edges  []float64 // seconds, ascending
	every  []float64
	beyond []step      // today's tiers beyond the oldest known age
	cron   []bool      // which of these tick by cron
	most   int         // tiers
	calls  [][]float64 // attempts that fail up to an edge, by interval and edge
}

// newSpace returns the space for inputs and today's schedule.
func newSpace(m *model, today *tiers.Schedule) *space {
	s := &space{model: m}
	edges := slices.Clone(Edges)
	every := slices.Clone(Intervals)
	for _, t := range today.Tiers() {
		if t.Every > 0 {
			every = append(every, t.Every)
		}
		if t.MaxAge.Seconds() > m.oldest {
			s.beyond = append(s.beyond, step{t.MaxAge.Seconds(), meanInterval(t)})
			s.cron = append(s.cron, t.Every == 0)
			continue
		}
		edges = append(edges, t.MaxAge)
	}
	s.every = ascending(every, math.Inf(1))
	s.edges = ascending(edges, m.oldest)
	s.most = min(max(MostTiers, len(today.Tiers())), mostTiersOfToday)
	for _, t := range s.every {
		row := make([]float64, len(s.edges))
		for i, edge := range s.edges {
			row[i] = m.inVain(t, edge)
		}
		s.calls = append(s.calls, row)
	}
	return s
}

// ascending returns durations up to a limit in seconds, each once.
func ascending(list []time.Duration, most float64) (sorted []float64) {
	slices.Sort(list)
	for _, d := range slices.Compact(list) {
		if d.Seconds() <= most {
			sorted = append(sorted, d.Seconds())
		}
	}
	return sorted
}

// meanInterval returns the time from one tick to the next, of a cron tier its mean.
func meanInterval(t tiers.Tier) float64 {
	const sample = 200
	if t.Every > 0 {
		return t.Every.Seconds()
	}
	first := t.Next(time.Unix(int64(start), 0))
	at := first
	for range sample {
		at = t.Next(at)
	}
	return at.Sub(first).Seconds() / sample
}

// follows reports whether a tier with the interval next can follow a tier with the interval every.
func follows(next, every float64) bool { return next > every && math.Mod(next, every) == 0 }

// slowestBeyond is the interval up to which tiers of today beyond the oldest known age may become slower.
const slowestBeyond = day

// tail returns today's tiers beyond the oldest known age, as they follow a tier. They stay what they are, but those
// that tick more often than the tier tick with it: else one tier of today that takes all ages every few
// minutes would leave nothing to search. It returns false if they would tick when the tier
// does not; of cron that is not known, and counts as its mean interval.
func (s *space) tail(last step) ([]step, bool) {
	list := slices.Clone(s.beyond)
	if len(list) > 0 && last.every > max(list[0].every, slowestBeyond) {
		return nil, false
	}
	for i := range list {
		list[i].every = max(list[i].every, last.every)
		apart := !s.cron[i] && math.Mod(list[i].every, last.every) != 0
		narrow := i == 0 && list[i].upto-last.upto < list[i].every
		if apart || narrow {
			return nil, false
		}
	}
	return list, true
}

// following returns how many of today's tiers follow the last searched one, because they tick less often.
func (s *space) following(last step) (n int) {
	for _, t := range s.beyond {
		if t.every > last.every {
			n++
		}
	}
	return n
}

// fixedCalls returns the attempts at one record that today's tiers make beyond the oldest known age.
func (s *space) fixedCalls() float64 {
	m := s.model
	sum := 0.0
	from := m.oldest
	for _, t := range s.beyond {
		sum += m.end * (t.upto - from) / t.every
		from = t.upto
	}
	return sum
}

// A total is what a schedule or a part of it costs for one record: attempts, the share that waits too long, and
// the share that is lost. late and lost are less what is allowed.
type total struct{ calls, late, lost float64 }

func (t total) plus(o total) total { return total{t.calls + o.calls, t.late + o.late, t.lost + o.lost} }

// allowed returns what the first interval allows.
func (s *space) allowed(g goal, first float64) total {
	recoverable := s.model.recoverable(first)
	t := total{lost: g.lost * recoverable}
	if !math.IsInf(g.wait, 1) {
		t.late = g.late*recoverable + s.model.before(first, g.wait)
	}
	return t
}

// ending returns what comes after the last searched tier.
func (s *space) ending(g goal, last step) (total, bool) {
	tail, ok := s.tail(last)
	if !ok {
		return total{}, false
	}
	m := s.model
	all := append([]step{last}, tail...)
	end := all[len(all)-1]
	lost := m.lost(end)
	t := total{calls: 1 - m.end - lost, lost: lost}
	from := last.upto
	for _, step := range tail {
		t.calls += m.inVain(step.every, step.upto) - m.inVain(step.every, from)
		from = step.upto
	}
	if math.IsInf(g.wait, 1) {
		return t, true
	}
	t.late = m.at(end.upto) - m.end
	from = last.upto
	for i, step := range all {
		next := never
		if i+1 < len(all) {
			next = all[i+1].every
		}
		t.late += m.edge(step, next, g.wait)
		if i > 0 {
			t.late += m.late(step.every, step.upto, g.wait) - m.late(step.every, from, g.wait)
			from = step.upto
		}
	}
	return t, true
}

// total returns what a searched schedule costs.
func (s *space) total(g goal, list []step) total {
	m := s.model
	calls, _ := m.calls(list)
	t := total{calls: calls, lost: m.lost(list[len(list)-1])}
	if !math.IsInf(g.wait, 1) {
		t.late = m.longer(list, g.wait) + m.before(list[0].every, g.wait)
	}
	allowed := s.allowed(g, list[0].every)
	return total{t.calls, t.late - allowed.late, t.lost - allowed.lost}
}

// tolerance is by how much a sum may exceed what is allowed.
const tolerance = 1e-9

// allowed reports whether no limit is exceeded.
func (t total) allowed() bool { return t.late <= tolerance && t.lost <= tolerance }
