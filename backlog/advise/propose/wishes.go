package propose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/tiers"
)

// Wishes are what an operator asks for.
type Wishes struct {
	CallsPerHour float64       // at most, on average; 0: not said
	Wait         time.Duration // of the recoverable first failures 5 % may wait longer, lost ones included; 0: not said
	Lost         float64       // share of the recoverable first failures at most; less than 0: no more than today
	Fresh        time.Duration // that a new record waits at most; 0: no longer than today

	// margin is by how much less of the recoverable first failures may wait longer, where with 5 % it is
	// not known well enough how long they wait.
	margin float64
}

// none reports whether nothing is wished for.
func (w Wishes) none() bool { return w.CallsPerHour == 0 && w.Wait == 0 && w.Lost < 0 && w.Fresh == 0 }

// A Kind is what a result advises.
type Kind string

// The kinds of results.
const (
	Propose    Kind = "propose"
	Keep       Kind = "keep"       // nothing is better than today by more than noise
	Impossible Kind = "impossible" // the wishes contradict each other, or nothing keeps them
)

// A Proposal is a schedule, or the settings of a policy, with its figures.
type Proposal struct {
	Name    string
	Tiers   []tiers.Tier
	Policy  string // the value of policy as YAML; "": no policy is advised on
	Figures Figures

	drawn []numbers
}

// A Result is what a search has found. The first proposal is today's, the second the one to take. An
// impossible result shows what could be had instead.
type Result struct {
	Kind      Kind
	Reasons   []string
	Proposals []Proposal
}

// A goal is what is asked for.
type goal struct {
	wait float64 // that the share late exceeds at most; +Inf: any
	late float64
	lost float64 // share of the recoverable first failures that are lost at most
	new  float64 // that a new record waits at most
}

// lateShare is the share of the recoverable first failures that may wait longer than asked for.
const lateShare = 0.05

// A choice is what a finder has found.
type choice struct {
	calls    float64 // attempts at one record
	wait     float64 // p95
	proposal func(name string) Proposal
}

// A finder searches among schedules, or among the settings of a policy.
type finder interface {
	// fewestCalls returns the choice with the fewest calls that keeps a goal, nil if nothing keeps it.
	fewestCalls(g goal) *choice

	// shortestWait returns the choice with the shortest wait of those with so many calls at most.
	shortestWait(g goal, mostCalls float64) *choice

	// limits says which limit of a goal without a wait nothing keeps.
	limits(g goal) string

	// fixed says which calls no choice saves, "" if all can be saved.
	fixed() string
}

// An adviser asks a finder for what is wished for.
type adviser struct {
	finder
	perHour float64
	wishes  Wishes
	today   Proposal
	goal    goal // without a wait: the limits that hold anyway
}

// newAdviser returns an adviser. What no wish changes stays as good as today.
func newAdviser(in *Inputs, today Proposal, f finder, w Wishes) *adviser {
	today.Name = "today"
	a := &adviser{finder: f, perHour: in.PerHour, wishes: w, today: today}
	a.goal = goal{
		wait: math.Inf(1),
		late: lateShare - w.margin,
		lost: today.Figures.LostPer1000.Value / 1000,
		new:  today.Figures.NewWait,
	}
	if w.Lost >= 0 {
		a.goal.lost = w.Lost
	}
	if w.Fresh > 0 {
		a.goal.new = w.Fresh.Seconds()
	}
	return a
}

// Search returns the schedules that are best for what is wished for. With a limit of calls alone that is the
// shortest wait, else the fewest calls. Without any wish there are three: one with today's calls, one with
// today's wait, one with half of today's calls. No wish is paid for by what was not said: as few are
// lost as today, and new records wait no longer than today.
func Search(in *Inputs, today *tiers.Schedule, w Wishes) Result {
	return newScheduleAdviser(in, today, w).search()
}

func (a *adviser) search() Result {
	w := a.wishes
	switch {
	case a.perHour <= 0:
		return a.keep("no records are inserted")
	case w.none():
		return a.searchFrontier()
	case w.Wait > 0:
		return a.searchWait()
	case w.CallsPerHour > 0:
		return a.searchCalls()
	}
	c := a.fewestCalls(a.goal)
	if c == nil {
		return a.impossible(a.limits(a.goal))
	}
	return a.decide(c, fewerCalls)
}

// callsPerHour writes attempts at one record as calls per hour.
func (a *adviser) callsPerHour(calls float64) string { return rounded(calls*a.perHour) + "/h" }

// mostCalls returns the limit of calls as attempts at one record.
func (a *adviser) mostCalls() float64 { return a.wishes.CallsPerHour / a.perHour * (1 + tolerance) }

// searchWait returns the choice with the fewest calls for a wait.
func (a *adviser) searchWait() Result {
	g := a.goal
	g.wait = a.wishes.Wait.Seconds()
	c := a.fewestCalls(g)
	switch {
	case c == nil:
		shortest := a.shortestWait(a.goal, math.Inf(1))
		if shortest == nil {
			return a.impossible(a.limits(a.goal))
		}
		return a.impossible(fmt.Sprintf("--wait %s is too short: the shortest wait that 95 %% do not exceed is %s",
			tiers.FormatDuration(a.wishes.Wait), roundedDuration(shortest.wait)), shortest.proposal("the shortest wait"))
	case a.wishes.CallsPerHour > 0 && c.calls > a.mostCalls():
		return a.contradiction(c)
	}
	return a.decide(c, fewerCalls)
}

// contradiction returns what could be had instead of calls and a wait that contradict each other.
func (a *adviser) contradiction(thatWait *choice) Result {
	reason := fmt.Sprintf("--calls %s/h and --wait %s contradict each other: with that wait the fewest calls are %s",
		rounded(a.wishes.CallsPerHour), tiers.FormatDuration(a.wishes.Wait), a.callsPerHour(thatWait.calls))
	proposals := []Proposal{thatWait.proposal("with that wait")}
	if c := a.shortestWait(a.goal, a.mostCalls()); c != nil {
		reason += fmt.Sprintf(", with these calls the shortest wait is %s", roundedDuration(c.wait))
		proposals = append(proposals, c.proposal("with these calls"))
	} else {
		reason += "; " + a.fewestReason()
	}
	return a.impossible(reason, proposals...)
}

// searchCalls returns the choice with the shortest wait for a number of calls.
func (a *adviser) searchCalls() Result {
	if c := a.shortestWait(a.goal, a.mostCalls()); c != nil {
		return a.decide(c, shorterWait)
	}
	c := a.fewestCalls(a.goal)
	if c == nil {
		return a.impossible(a.limits(a.goal))
	}
	return a.impossible(fmt.Sprintf("--calls %s/h are too few: %s", rounded(a.wishes.CallsPerHour), a.fewestReason()),
		c.proposal("the fewest calls"))
}

// fewestReason says what the fewest calls are, and what they would be without the other limits.
func (a *adviser) fewestReason() string {
	c := a.fewestCalls(a.goal)
	if c == nil {
		return a.limits(a.goal)
	}
	lost := "with no more lost than today"
	if a.wishes.Lost >= 0 {
		lost = "with --lost " + number(100*a.wishes.Lost) + "%"
	}
	fresh := "new records tried as soon as today"
	if a.wishes.Fresh > 0 {
		fresh = "--fresh " + tiers.FormatDuration(a.wishes.Fresh)
	}
	text := fmt.Sprintf("%s and %s the fewest are %s", lost, fresh, a.callsPerHour(c.calls))
	least := a.fewestCalls(goal{wait: math.Inf(1), lost: 1, new: math.Inf(1)})
	if least != nil && least.calls < c.calls*(1-tolerance) {
		text += ", without these limits " + a.callsPerHour(least.calls)
	}
	return text + a.fixed()
}

func (a *adviser) keep(reason string) Result {
	return Result{Kind: Keep, Reasons: []string{reason}, Proposals: []Proposal{a.today}}
}

func (a *adviser) impossible(reason string, instead ...Proposal) Result {
	return Result{Kind: Impossible, Reasons: []string{reason}, Proposals: append([]Proposal{a.today}, instead...)}
}

// A gain is what a proposal is better in.
type gain int

const (
	fewerCalls gain = iota
	shorterWait
)

// leastGain is the share by which a proposal is better than today at least.
const leastGain = 0.05

// decide returns the choice, unless today keeps all wishes and the gain is noise.
func (a *adviser) decide(c *choice, by gain) Result {
	p := c.proposal("proposed")
	noise := a.isNoise(p, by)
	if by == shorterWait {
		noise = noise && a.isNoise(p, fewerCalls) // as short a wait with fewer calls is better, too
	}
	if a.keepsWishes() && noise {
		r := a.keep(a.keepReason(p.Figures, by))
		r.Reasons = append(r.Reasons, a.hints(c.calls, by)...)
		return r
	}
	r := Result{Kind: Propose, Reasons: []string{a.gainReason(p.Figures)}, Proposals: []Proposal{a.today, p}}
	r.Reasons = append(r.Reasons, a.hints(c.calls, by)...)
	return r
}

const (
	// worthAHint is the share of the calls that a limit of today's costs if it is named.
	worthAHint = 0.2
	lostHint   = 0.02
	freshHint  = 5 * time.Minute
)

// hints returns which limits that nobody asked for cost many calls: that no more are lost than today, and that
// new records are tried as soon as today.
func (a *adviser) hints(calls float64, by gain) (list []string) {
	if by != fewerCalls {
		return nil
	}
	g := a.goal
	if a.wishes.Wait > 0 {
		g.wait = a.wishes.Wait.Seconds()
	}
	add := func(flag string, relaxed goal) {
		if c := a.fewestCalls(relaxed); c != nil && c.calls < calls*(1-worthAHint) {
			list = append(list, fmt.Sprintf("with %s the fewest calls would be %s a day", flag, rounded(c.calls*a.perHour*24)))
		}
	}
	if a.wishes.Lost < 0 && g.lost < lostHint {
		relaxed := g
		relaxed.lost = lostHint
		add(fmt.Sprintf("--lost %s%% instead of today's %s%%", number(100*lostHint), rounded(100*g.lost)), relaxed)
	}
	if a.wishes.Fresh == 0 && g.new < freshHint.Seconds() {
		relaxed := g
		relaxed.new = freshHint.Seconds()
		add(fmt.Sprintf("--fresh %s instead of today's %s", tiers.FormatDuration(freshHint), roundedDuration(g.new)), relaxed)
	}
	return list
}

// keepsWishes reports whether today is what was asked for.
func (a *adviser) keepsWishes() bool {
	f := a.today.Figures
	w := a.wishes
	const exact = 1 + 10*waitExactness
	return (w.CallsPerHour == 0 || f.CallsPerDay.Value <= 24*w.CallsPerHour*exact) &&
		(w.Wait == 0 || f.Wait.P95.Value <= w.Wait.Seconds()*exact) &&
		f.LostPer1000.Value <= 1000*a.goal.lost+tolerance &&
		f.NewWait <= a.goal.new
}

// isNoise reports whether a proposal is not clearly better than today: by less than leastGain, or not in 19
// of 20 of the drawn curves.
func (a *adviser) isNoise(p Proposal, by gain) bool {
	value := func(n numbers) float64 {
		if by == fewerCalls {
			return n.calls
		}
		return n.p95
	}
	before := value(a.today.Figures.numbers())
	after := value(p.Figures.numbers())
	switch {
	case infinite(before):
		return infinite(after)
	case after > before*(1-leastGain):
		return true
	}
	better := 0
	n := min(len(a.today.drawn), len(p.drawn))
	for i := range n {
		if value(p.drawn[i]) < value(a.today.drawn[i]) {
			better++
		}
	}
	return better < n-n/20
}

func (a *adviser) keepReason(best Figures, by gain) string {
	today := a.today.Figures
	if by == fewerCalls {
		return fmt.Sprintf("today there are %s calls a day, at best %s: the difference is no more than noise",
			rounded(today.CallsPerDay.Value), rounded(best.CallsPerDay.Value))
	}
	return fmt.Sprintf("today 95 %% wait up to %s, at best %s: the difference is no more than noise",
		roundedDuration(today.Wait.P95.Value), roundedDuration(best.Wait.P95.Value))
}

// gainReason says what changes: the calls, the wait and the lost ones, as far as they differ.
func (a *adviser) gainReason(f Figures) string {
	today := a.today.Figures
	text := fmt.Sprintf("%s calls a day instead of %s", rounded(f.CallsPerDay.Value), rounded(today.CallsPerDay.Value))
	now := waitText(f.Wait.P95.Value)
	before := waitText(today.Wait.P95.Value)
	if now != before {
		text += fmt.Sprintf("; 95 %% wait %s instead of %s", now, before)
	}
	const worthSaying = 0.5 // of 1,000
	if d := f.LostPer1000.Value - today.LostPer1000.Value; math.Abs(d) >= worthSaying {
		text += fmt.Sprintf("; of 1,000 are lost %s instead of %s", rounded(f.LostPer1000.Value), rounded(today.LostPer1000.Value))
	}
	return text
}

// waitText writes up to how long a wait is.
func waitText(wait float64) string {
	if infinite(wait) {
		return roundedDuration(wait)
	}
	return "up to " + roundedDuration(wait)
}

// searchFrontier returns three choices that cannot be better in one figure without being worse in the other.
func (a *adviser) searchFrontier() Result {
	r := Result{Kind: Propose, Proposals: []Proposal{a.today}}
	noise := true
	add := func(name string, c *choice, by gain) {
		if c == nil {
			return
		}
		p := c.proposal(name)
		noise = noise && a.isNoise(p, by)
		r.Proposals = append(r.Proposals, p)
		r.Reasons = append(r.Reasons, name+": "+a.gainReason(p.Figures))
	}
	// The first is the one to use: with it, no record waits longer and nobody is called more often.
	g := a.goal
	g.wait = a.today.Figures.Wait.P95.Value * (1 + leastGain) // exactly the same wait may cost many calls
	add("today's wait", a.fewestCalls(g), fewerCalls)
	calls := a.today.Figures.CallsPerDay.Value / 24 / a.perHour
	add("today's calls", a.shortestWait(a.goal, calls*(1+tolerance)), shorterWait)
	if noise {
		return a.keep("no other has today's calls and a shorter wait, or today's wait and fewer calls, by more than noise")
	}
	half := "half the calls"
	if c := a.shortestWait(a.goal, calls/2*(1+tolerance)); c != nil {
		add(half, c, fewerCalls)
	} else {
		r.Reasons = append(r.Reasons, half+" cannot be had: "+a.fewestReason())
	}
	return r
}

// A Point is what is on the frontier: nothing has fewer calls and as short a wait.
type Point struct {
	CallsPerDay float64
	WaitP95     float64 // seconds
}

const frontierPoints = 24

// Frontier returns the calls and the waits of schedules that are each the best of their wait, the shortest wait
// first. All keep the limits of lost ones and of new records.
func Frontier(in *Inputs, today *tiers.Schedule, w Wishes) []Point {
	return newScheduleAdviser(in.withoutDrawn(), today, w).frontier()
}

// withoutDrawn returns the inputs without the curves that only intervals need.
func (in *Inputs) withoutDrawn() *Inputs {
	copied := *in
	copied.Drawn = nil
	return &copied
}

func (a *adviser) frontier() (list []Point) {
	if a.perHour <= 0 {
		return nil
	}
	shortest := math.Log(shortestAsked)
	longest := math.Log(Intervals[len(Intervals)-1].Seconds())
	for i := range frontierPoints {
		g := a.goal
		g.wait = math.Exp(shortest + (longest-shortest)*float64(i)/(frontierPoints-1))
		c := a.fewestCalls(g)
		if c == nil || infinite(c.wait) {
			continue
		}
		p := Point{c.calls * a.perHour * 24, c.wait}
		if len(list) == 0 || p.CallsPerDay < list[len(list)-1].CallsPerDay*(1-tolerance) {
			list = append(list, p)
		}
	}
	return list
}

const (
	shortestAsked = 30.0 // seconds
	bisections    = 14
)

// shortest returns the shortest wait up to the longest one with which something is within a limit; +Inf: none is.
func shortest(longest float64, within func(wait float64) bool) float64 {
	if !within(longest) {
		return math.Inf(1)
	}
	low := math.Log(shortestAsked)
	high := math.Log(longest)
	for range bisections {
		middle := (low + high) / 2
		if within(math.Exp(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Exp(high)
}

// rounded writes a number with three digits at least.
func rounded(x float64) string {
	if x >= 1000 {
		return inspect.Thousands(int(math.Round(x)))
	}
	if x >= 100 || x <= 0 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	digits := int(math.Floor(math.Log10(x)))
	text := strconv.FormatFloat(x, 'f', 2-digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// number writes a number as it was given.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// roundedDuration writes seconds as a duration of two units at most.
func roundedDuration(s float64) string {
	if infinite(s) {
		return "for ever"
	}
	unit := time.Second
	switch {
	case s >= day:
		unit = time.Hour
	case s >= 600:
		unit = time.Minute
	}
	return tiers.FormatDuration(seconds(s).Round(unit))
}
