package propose

import (
	"fmt"
	"math"
	"slices"

	"backlog/tiers"
)

// A tierFinder searches among schedules.
type tierFinder struct {
	*evaluator
	today *tiers.Schedule
	space *space
}

func newScheduleAdviser(in *Inputs, today *tiers.Schedule, w Wishes) *adviser {
	f := &tierFinder{evaluator: newEvaluator(in), today: today}
	f.countFirstFailuresOf(today)
	f.space = newSpace(f.main, today)
	return newAdviser(in, f.propose("", today), f, w)
}

func (f *tierFinder) propose(name string, s *tiers.Schedule) Proposal {
	figures, drawn := f.evaluate(s)
	return Proposal{Name: name, Tiers: s.Tiers(), Figures: figures, drawn: drawn}
}

// choice returns what was searched as a choice.
func (f *tierFinder) choice(path []step) *choice {
	if path == nil {
		return nil
	}
	n := f.compute(f.main, path)
	return &choice{
		calls:    n.calls / f.perHour / 24,
		wait:     n.p95,
		proposal: func(name string) Proposal { return f.propose(name, f.schedule(path)) },
	}
}

// fewestCalls implements finder.
func (f *tierFinder) fewestCalls(g goal) *choice {
	path, _ := f.space.fewestCalls(g)
	return f.choice(path)
}

// shortestWait implements finder.
func (f *tierFinder) shortestWait(g goal, mostCalls float64) *choice {
	if _, cost := f.space.fewestCalls(g); cost.calls > mostCalls || math.IsInf(cost.calls, 1) {
		return nil
	}
	longest := slices.Max(f.space.every)
	for _, t := range f.space.beyond {
		longest = max(longest, t.every)
	}
	g.wait = shortest(longest, func(wait float64) bool {
		tried := g
		tried.wait = wait
		return f.space.within(tried, mostCalls)
	})
	return f.fewestCalls(g)
}

// fixed implements finder.
func (f *tierFinder) fixed() string {
	calls := f.space.fixedCalls() * f.perHour
	if calls == 0 {
		return ""
	}
	return fmt.Sprintf("; today's tiers make %s/h of them at records older than %s, of which nothing is known",
		rounded(calls), tiers.FormatDuration(f.in.Oldest))
}

// limits implements finder.
func (f *tierFinder) limits(g goal) string {
	s := f.space
	if shortest := s.every[0]; g.new < shortest {
		return fmt.Sprintf("--fresh %s is too short: the shortest interval is %s", roundedDuration(g.new), roundedDuration(shortest))
	}
	least := math.Inf(1)
	for _, first := range s.every {
		if first > g.new || len(s.beyond) > 0 {
			break
		}
		for _, edge := range s.edges {
			if edge >= first {
				least = min(least, s.model.lost(step{edge, first})/s.model.recoverable(first))
			}
		}
	}
	if infinite(least) {
		return "no schedule of the usual ages and intervals ticks together with today's tiers beyond what is known"
	}
	return fmt.Sprintf("--lost %s%% is too little: at least %s%% are lost", number(100*g.lost), rounded(100*least))
}

// schedule returns searched tiers as a schedule. Tiers of today stay what they are, also in name.
func (f *tierFinder) schedule(path []step) *tiers.Schedule {
	s := new(tiers.Schedule)
	for _, p := range path {
		t := tiers.Tier{MaxAge: seconds(p.upto), Every: seconds(p.every)}
		if old, ok := f.today.ByMaxAge(t.MaxAge); ok {
			t.Name = old.Name
			beyond := t.MaxAge > f.in.Oldest
			if beyond && meanInterval(old) == p.every {
				t = old
			}
		}
		if _, err := s.Add(t); err != nil {
			t.Name = "" // a name of today that a tier before has by its age
			s.Add(t)
		}
	}
	return s
}
