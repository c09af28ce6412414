package propose

import (
	"backlog/backlog"
	"backlog/tiers"
)

// What a search of settings is made of.
var (
	SettingsLike = settingsLike
	PolicyYAML   = policyYAML
)

// PolicyEvaluator returns a function that is EvaluatePolicy for the same inputs.
func PolicyEvaluator(in *Inputs, s *tiers.Schedule) func(p *backlog.Policy) Figures {
	f := &policyFinder{evaluator: newEvaluator(in), today: s, tickers: newTickers(s)}
	return func(p *backlog.Policy) Figures {
		figures, _ := f.evaluatePolicy(p)
		return figures
	}
}

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
