package propose

import (
	"fmt"
	"math"
	"strings"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
	"backlog/tiers"
)

// An Advice is what an operator gets to know.
type Advice struct {
	Kind     Kind           `json:"advice"`
	Reasons  []string       `json:"reasons"`
	WaitDays *advise.Number `json:"wait_days"` // until enough is known; null: nothing is missing, or it is not known
	Warnings []string       `json:"warnings"`
	Learned  advise.Learned `json:"learned"`

	// Proposals has today's schedule first, unless nothing was learned. The second is the one to use.
	Proposals []Proposal `json:"schedules"`

	Counted float64 `json:"-"` // calls a day that were made

	inputs   *Inputs
	question Question
}

// Wait is the kind of an advice if not enough is known yet.
const Wait Kind = "wait"

// A Question is what an operator has and wants.
type Question struct {
	Schedule *tiers.Schedule
	Settings retry.Settings // of the policy; nil: age alone decides
	Wishes   Wishes
}

// today returns the proposal to change nothing.
func (q *Question) today(in *Inputs) (Proposal, error) {
	p := Proposal{Name: "today", Tiers: q.Schedule.Tiers()}
	if q.Settings == nil {
		p.Figures = Evaluate(in, q.Schedule)
		return p, nil
	}
	policy, err := retry.Policy(q.Settings)
	if err != nil {
		return p, err
	}
	p.Policy = policyYAML(q.Settings)
	p.Figures = EvaluatePolicy(in, q.Schedule, policy)
	return p, nil
}

// search looks for what is best.
func (q *Question) search(in *Inputs) (Result, error) {
	if q.Settings == nil {
		return Search(in, q.Schedule, q.Wishes), nil
	}
	return SearchPolicy(in, q.Schedule, q.Settings, q.Wishes)
}

// InputsOf returns the inputs that a model stands for.
func InputsOf(m *advise.Model) *Inputs {
	in := &Inputs{
		PerHour:        m.PerHour,
		Broken:         func(age float64) float64 { return m.Broken(seconds(age)) },
		Oldest:         m.Oldest,
		LongestOutage:  m.LongestOutage(),
		CallsPerSecond: m.CallsPerSecond,
		Slots:          func(age float64) *advise.Slots { return m.Slots(seconds(age)) },
	}
	for _, drawn := range m.Drawn() {
		in.Drawn = append(in.Drawn, drawn)
	}
	return in
}

// frontier returns what can be had.
func (q *Question) frontier(in *Inputs) []Point {
	if q.Settings == nil {
		return Frontier(in, q.Schedule, q.Wishes)
	}
	list, _ := FrontierPolicy(in, q.Schedule, q.Settings, q.Wishes) // the search has accepted the settings
	return list
}

// Advise returns what a model says about today's schedule or settings, and better ones if there are any. It returns an
// error if the settings are refused.
func Advise(m *advise.Model, q Question) (*Advice, error) {
	a := &Advice{
		Reasons:   []string{},
		Warnings:  warnings(m),
		Learned:   m.Learned(),
		Proposals: []Proposal{},
		Counted:   m.CallsPerDay,
		inputs:    InputsOf(m),
		question:  q,
	}
	missing, days := m.Missing()
	if len(missing) > 0 || m.Healing == advise.HealingByTries {
		if m.Oldest > 0 {
			today, err := q.today(a.inputs)
			if err != nil {
				return nil, err
			}
			a.Proposals = []Proposal{today}
		}
		if len(missing) > 0 {
			a.wait(missing, days)
			return a, nil
		}
		a.Kind = Impossible
		a.Reasons = append(a.Reasons, "each attempt succeeds with the same chance, no matter how long ago the one before was: either tries heal the records, not time, so that no schedule is better, or lines of passes are missing (a file of another machine, a state folder that was lost)")
		return a, nil
	}
	a.Warnings = append(a.Warnings, givenUp(m, q.Schedule)...)
	r, doubt, err := q.searchSurely(a.inputs)
	if err != nil {
		return nil, err
	}
	a.Kind = r.Kind
	a.Reasons = append(a.Reasons, r.Reasons...)
	a.Proposals = r.Proposals
	if doubt.reason != "" {
		a.Reasons = []string{}
		a.wait([]string{doubt.reason}, m.Days*(doubt.factor*doubt.factor-1))
		a.Proposals = a.Proposals[:1]
		return a, nil
	}
	if a.Kind != Propose {
		return a, nil
	}
	if q.Settings == nil {
		a.Warnings = append(a.Warnings, untried(m, r.Proposals[1].Tiers)...)
		a.Warnings = append(a.Warnings, slowedBeyond(m, q.Schedule.Tiers(), r.Proposals[1].Tiers)...)
	}
	if m.Healing == advise.HealingUnknown {
		a.Warnings = append(a.Warnings, "records of one age were always tried after the same time: it is taken for granted that they recover with time, not by being tried")
	}
	return a, nil
}

// Sentence returns the advice in one sentence.
func (a *Advice) Sentence() string {
	switch a.Kind {
	case Propose:
		return "There is a better schedule than today's. With " + a.Reasons[0] + "."
	case Keep:
		return "Today's schedule is as good as any."
	case Wait:
		return "Not enough is known yet for advice: " + a.Reasons[0] + "."
	}
	return "There is no advice: " + a.Reasons[0] + "."
}

// wait says that not enough is known yet.
func (a *Advice) wait(reasons []string, days float64) {
	a.Kind = Wait
	a.Reasons = append(a.Reasons, reasons...)
	if !math.IsInf(days, 1) {
		a.WaitDays = new(advise.Number(math.Ceil(days)))
	}
}

const (
	widest      = 2    // the factor between the ends of an interval up to which a figure is known
	widestShare = 0.05 // the same of shares, as a difference
)

// A doubt is a figure that is not known well enough.
type doubt struct {
	reason string  // "": no doubt
	factor float64 // by how much its interval is too wide
}

// doubtOf returns the doubt about the figures of a proposal.
func doubtOf(f Figures) doubt {
	for _, x := range []struct {
		name  string
		value advise.Estimate
		text  func(float64) string
	}{
		{"the calls a day are", f.CallsPerDay, rounded},
		{"the wait of 95 % is", f.Wait.P95, roundedDuration},
	} {
		low := max(x.value.Low, 1)
		if x.value.High > widest*low {
			return doubt{
				reason: fmt.Sprintf("%s known only to be between %s and %s", x.name, x.text(x.value.Low), x.text(x.value.High)),
				factor: min(math.Log(x.value.High/low)/math.Log(widest), mostFactor),
			}
		}
	}
	if width := (f.LostPer1000.High - f.LostPer1000.Low) / 1000; width > widestShare {
		return doubt{
			reason: fmt.Sprintf("how many of 1,000 are lost is known only to be between %.0f and %.0f", f.LostPer1000.Low, f.LostPer1000.High),
			factor: width / widestShare,
		}
	}
	return doubt{}
}

// margins are what is tried for [Wishes.margin], in this order.
var margins = []float64{0, 0.01, 0.02, 0.03}

// searchSurely looks for what is best and known well enough. Where just about 5 % wait longer, a few records decide
// whether the wait of 95 % comes from one tier or from the next: then fewer are allowed to wait longer.
func (q Question) searchSurely(in *Inputs) (r Result, first doubt, err error) {
	for _, margin := range margins {
		q.Wishes.margin = margin
		found, err := q.search(in)
		if err != nil {
			return found, doubt{}, err
		}
		proposed := found.Kind == Propose
		if margin == 0 {
			r = found
			if !proposed {
				return r, doubt{}, nil
			}
			first = doubtOf(found.Proposals[1].Figures)
		}
		if proposed && doubtOf(found.Proposals[1].Figures).reason == "" {
			if margin > 0 {
				found.Reasons = append(found.Reasons, fmt.Sprintf("with it %.0f %% do not wait longer than asked for: with 95 %% %s", 100*(1-lateShare+margin), first.reason))
			}
			return found, doubt{}, nil
		}
	}
	return r, first, nil
}

// mostFactor bounds how much longer an operator has to wait: an interval may have no end.
const mostFactor = 10

// moreTraffic is by which factor the records of the last week differ from those before if a warning says so.
const moreTraffic = 1.5

// concentrated is the share of the recoveries that come in three hours of a day if a warning says so.
const concentrated = 0.5

// warnings returns what should be known of a model before it is believed.
func warnings(m *advise.Model) []string {
	list := []string{}
	add := func(format string, values ...any) { list = append(list, fmt.Sprintf(format, values...)) }
	if !m.Changed.IsZero() {
		add("behaviour changed on about %s: only the passes since then count", m.Changed.Format(time.DateOnly))
	}
	left := m.LeftOut
	for _, x := range []struct {
		n    int
		what string // of one
		are  string // of several
	}{
		{left.NoAges, "pass was written by a version that did not count by age", "passes were written by a version that did not count by age"},
		{left.Unreadable, "line cannot be read", "lines cannot be read"},
		{left.OtherTable, "pass is of another table than the newest", "passes are of another table than the newest"},
		{left.Clock, "pass is out of order, since the clock was set", "passes are out of order, since the clock was set"},
		{left.Incomplete, "pass did not try all its records (max_records, abort_after or a stop)", "passes did not try all their records (max_records, abort_after or a stop)"},
	} {
		switch {
		case x.n == 1:
			add("1 %s: nothing is learned from it", x.what)
		case x.n > 1:
			add("%s %s: nothing is learned from them", inspect.Thousands(x.n), x.are)
		}
	}
	if len(m.Incomplete) > 0 {
		var ages []string
		for _, b := range m.Incomplete {
			ages = append(ages, edgeOf(b.Band))
		}
		add("nothing is learned from the ages up to %s: more than a tenth of their attempts come from passes that did not try all their records", strings.Join(ages, ", "))
	}
	if m.PerHour > 0 && (m.PerHour > moreTraffic*m.PerHourBefore || m.PerHourBefore > moreTraffic*m.PerHour) && m.PerHourBefore > 0 {
		add("in the last week %s records a day came in, before that %s: the figures are for as many as in the last week", rounded(24*m.PerHour), rounded(24*m.PerHourBefore))
	}
	if m.Retried > 0 {
		add("%d records were first tried by the first pass that is known, or later than an earlier pass should have met them, as after a retry by hand or with an old date: nothing is learned from them", m.Retried)
	}
	if hour, share := m.BusiestHours(); m.Recoveries >= advise.LeastRecoveries && share > concentrated {
		add("%.0f %% of the recoveries come between %02d:00 and %02d:00 UTC: a tier with `cron` that ticks after these hours, in its own `timezone`, may be better than any with `every`", 100*share, hour, (hour+3)%24)
	}
	return list
}

const (
	// manyGivenUp is the share of the first failures that are still broken when the schedule ends above which
	// it would be worth to know what becomes of them.
	manyGivenUp = 0.05
	// triedOn is how often and how much longer they would be tried to find out.
	triedOnEvery  = 24 * time.Hour
	triedOnFactor = 4
)

// givenUp returns a warning if many records are still broken when the last tier ends: those that recover
// later are lost, and nothing tells how many they are.
func givenUp(m *advise.Model, s *tiers.Schedule) []string {
	last := s.Widest().MaxAge
	share := m.BrokenForGood.Value
	if m.Oldest < last || share < manyGivenUp {
		return nil
	}
	longer := triedOnFactor * last
	every := max(triedOnEvery, s.Widest().Every)
	calls := m.PerHour * 24 * m.Broken(m.Oldest) * (longer - last).Hours() / every.Hours()
	return []string{fmt.Sprintf("%.0f %% of the first failures are given up at %s while they are still broken, and nothing tells how many of them would recover: a last tier {max_age: %s, every: %s} would show that, for at most %s calls a day more",
		100*share, tiers.FormatDuration(last), tiers.FormatDuration(longer), tiers.FormatDuration(every), rounded(calls))}
}

// edgeOf returns the upper edge of a band.
func edgeOf(band int) string {
	if band >= len(advise.Edges) {
		return "any"
	}
	return tiers.FormatDuration(advise.Edges[band])
}

// slowedBeyond returns a warning if records of ages of which nothing is known would be tried less often than today.
func slowedBeyond(m *advise.Model, today, proposed []tiers.Tier) []string {
	every := func(list []tiers.Tier) float64 {
		for _, t := range list {
			if t.MaxAge > m.Oldest {
				return meanInterval(t)
			}
		}
		return 0
	}
	before := every(today)
	after := every(proposed)
	if before == 0 || after <= before {
		return nil
	}
	return []string{fmt.Sprintf("records older than %s, of which nothing is known, would be tried every %s instead of every %s",
		tiers.FormatDuration(m.Oldest), roundedDuration(after), roundedDuration(before))}
}

// muchShorter is the share of an interval that was tried below which a shorter one is new.
const muchShorter = 0.9

// untried returns a warning for each tier that ticks more often than anything was tried at its ages.
func untried(m *advise.Model, list []tiers.Tier) []string {
	var warnings []string
	from := time.Duration(0)
	for _, t := range list {
		tried := m.ShortestTried(max(from, t.Every), min(t.MaxAge, m.Oldest))
		if t.Cron == "" && tried > 0 && float64(t.Every) < muchShorter*float64(tried) {
			warnings = append(warnings, fmt.Sprintf("tier %s ticks every %s, but between %s and %s nothing was tried more often than every %s: what happens in between is not known",
				strings.TrimSpace(t.Name), tiers.FormatDuration(t.Every), tiers.FormatDuration(from), tiers.FormatDuration(t.MaxAge), roundedDuration(tried.Seconds())))
		}
		from = t.MaxAge
	}
	return warnings
}
