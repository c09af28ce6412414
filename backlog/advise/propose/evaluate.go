package propose

import (
	"slices"
	"time"

	"backlog/backlog/advise"
	"backlog/tiers"
)

// An evaluator computes the figures of many schedules for the same inputs.
type evaluator struct {
	in      *Inputs
	perHour float64
	main    *model
	drawn   []*model
}

func newEvaluator(in *Inputs) *evaluator {
	groups := newGroups(in)
	oldest := in.Oldest.Seconds()
	e := &evaluator{in: in, perHour: in.PerHour, main: newModel(in.Broken, oldest, groups)}
	for _, c := range in.Drawn {
		e.drawn = append(e.drawn, newModel(c, oldest, groups))
	}
	return e
}

// countFirstFailuresOf has the waits of all schedules be of the records that fail at first under one.
func (e *evaluator) countFirstFailuresOf(s *tiers.Schedule) {
	first := meanInterval(s.Tiers()[0])
	e.main.population = first
	for _, m := range e.drawn {
		m.population = first
	}
}

// Evaluate returns the figures of a schedule in the steady state without outages, once records of all ages
// are there. Where ticks come at whole multiples of each other they are in closed form; else the ticks are
// walked for a sample of the times at which records are inserted.
//
// Peak is the tick of all tiers together. Recovery is the worst case: the outage ends just after a tick of the
// narrowest tier that still takes its oldest records at the next one; then the records of the outage
// and the older ones that the tier takes are tried.
func Evaluate(in *Inputs, s *tiers.Schedule) Figures {
	f, _ := newEvaluator(in).evaluate(s)
	return f
}

// evaluate returns the figures of a schedule, and the numbers of each drawn curve.
func (e *evaluator) evaluate(s *tiers.Schedule) (Figures, []numbers) {
	list, ok := stepsOf(s)
	if !ok {
		return e.walkSchedule(s)
	}
	f := figuresOf(e.compute(e.main, list))
	f.Peak = e.perSecond() * e.main.peak(list)
	f.NewWait = list[0].every
	f.Recovery = e.recovery(list)
	var drawn []numbers
	for _, m := range e.drawn {
		drawn = append(drawn, e.compute(m, list))
		clear(m.missed)
	}
	f.estimate(drawn)
	return f, drawn
}

func (e *evaluator) perSecond() float64 { return e.perHour / time.Hour.Seconds() }

// numbers are the figures of one curve.
type numbers struct{ calls, inVain, p50, p95, lost float64 }

// compute returns the numbers of tiers for which the closed form holds.
func (e *evaluator) compute(m *model, list []step) numbers {
	perDay := e.perSecond() * day
	calls, inVain := m.calls(list)
	recoverable := m.recoverable(list[0].every)
	w := waits{
		recoverable: recoverable,
		longest:     longest(list),
		longer:      func(than float64) float64 { return m.longer(list, than) },
		exactness:   waitExactness,
	}
	n := numbers{
		calls:  perDay * calls,
		inVain: perDay * inVain,
		p50:    w.quantile(0.5),
		p95:    w.quantile(0.95),
	}
	if recoverable > 0 {
		n.lost = 1000 * m.lost(list[len(list)-1]) / recoverable
	}
	return n
}

// numbers returns the numbers that figures have come from.
func (f *Figures) numbers() numbers {
	return numbers{f.CallsPerDay.Value, f.InVainPerDay.Value, f.Wait.P50.Value, f.Wait.P95.Value, f.LostPer1000.Value}
}

func figuresOf(n numbers) Figures {
	exact := func(v float64) advise.Estimate { return advise.Estimate{Value: v, Low: v, High: v} }
	return Figures{
		CallsPerDay:  exact(n.calls),
		InVainPerDay: exact(n.inVain),
		Wait:         Waits{P50: exact(n.p50), P95: exact(n.p95)},
		LostPer1000:  exact(n.lost),
	}
}

// estimate sets the intervals by the figures of drawn curves.
func (f *Figures) estimate(drawn []numbers) {
	if len(drawn) == 0 {
		return
	}
	set := func(e *advise.Estimate, of func(numbers) float64) {
		list := make([]float64, len(drawn))
		for i, n := range drawn {
			list[i] = of(n)
		}
		slices.Sort(list)
		n := len(list)
		e.Low = min(e.Value, list[n/20])
		e.High = max(e.Value, list[n-1-n/20])
	}
	set(&f.CallsPerDay, func(n numbers) float64 { return n.calls })
	set(&f.InVainPerDay, func(n numbers) float64 { return n.inVain })
	set(&f.Wait.P50, func(n numbers) float64 { return n.p50 })
	set(&f.Wait.P95, func(n numbers) float64 { return n.p95 })
	set(&f.LostPer1000, func(n numbers) float64 { return n.lost })
}

// recovery returns how long after the longest outage all that it left behind was tried. every is the longest
// time between two ticks of a tier.
func (e *evaluator) recovery(list []step) float64 {
	outage := e.in.LongestOutage.Seconds()
	if outage == 0 {
		return 0
	}
	i := slices.IndexFunc(list, func(t step) bool { return outage+t.every <= t.upto })
	if i < 0 {
		i = len(list) - 1
	}
	wait := list[i].every
	if e.in.CallsPerSecond > 0 {
		upto := max(outage, list[i].upto)
		older := e.main.integral(upto) - e.main.integral(outage)
		wait += e.perSecond() * (outage + older) / e.in.CallsPerSecond
	}
	return wait
}

// longest returns the longest interval.
func longest(list []step) float64 {
	every := 0.0
	for _, t := range list {
		every = max(every, t.every)
	}
	return every
}
