package propose

import "backlog/tiers"

// SearchUpTo is Search among schedules with so many tiers at most.
func SearchUpTo(most int, in *Inputs, today *tiers.Schedule, w Wishes) Result {
	a := newScheduleAdviser(in, today, w)
	a.finder.(*tierFinder).space.most = most
	return a.search()
}

// Evaluator returns a function that is Evaluate for the same inputs.
func Evaluator(in *Inputs) func(s *tiers.Schedule) Figures {
	e := newEvaluator(in)
	return func(s *tiers.Schedule) Figures {
		f, _ := e.evaluate(s)
		return f
	}
}
