package propose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"backlog/tiers"
)

// Wishes are what an operator asks for.
type Wishes struct {
	CallsPerHour float64       // at most, on average; 0: not said
	Wait         time.Duration // of the recoverable first failures 5 % may wait longer, lost ones included; 0: not said
	Lost         float64       // share of the recoverable first failures at most; less than 0: no more than today
	Fresh        time.Duration // that a new record waits at most; 0: no longer than today
}

// none reports whether nothing is wished for.
func (w Wishes) none() bool { return w.CallsPerHour == 0 && w.Wait == 0 && w.Lost < 0 && w.Fresh == 0 }

// A Kind is what a result advises.
type Kind string

// The kinds of results.
const (
	Propose    Kind = "propose"
	Keep       Kind = "keep"       // today's schedule is as good as any, but for what is noise
	Impossible Kind = "impossible" // the wishes contradict each other, or no schedule keeps them
)

// A Proposal is a schedule with its figures.
type Proposal struct {
	Name     string
	Tiers    []tiers.Tier // of a policy's proposal those of today
	Settings []Setting    // of a policy, as its YAML mapping has them
	Figures  Figures
}

// A Result is what a search has found. The first proposal is today's, the second the one to take, if there is
// one. Those of an impossible result show what could be had instead.
type Result struct {
	Kind      Kind
	Reasons   []string
	Proposals []Proposal
}

// The names of proposals.
const (
	nameToday      = "today"
	nameProposed   = "proposed"
	nameTodayCalls = "today's calls"
	nameTodayWait  = "today's wait"
	nameHalf       = "half the calls"
	nameThatWait   = "with that wait"
	nameThoseCalls = "with these calls"
)

// An adviser searches for what is wished for.
type adviser struct {
	*evaluator
	wishes   Wishes
	schedule *tiers.Schedule
	today    Figures
	space    *space
	limits   goal // without a wait
}

// newAdviser computes today's figures, which are the limits that no wish changes.
func newAdviser(in *Inputs, today *tiers.Schedule, w Wishes) *adviser {
	a := &adviser{evaluator: newEvaluator(in), wishes: w, schedule: today}
	a.today = a.evaluate(today)
	a.space = newSpace(a.main, today)
	a.limits = goal{wait: math.Inf(1), lost: a.today.LostPer1000.Value / 1000, new: a.today.NewWait}
	if w.Lost >= 0 {
		a.limits.lost = w.Lost
	}
	if w.Fresh > 0 {
		a.limits.new = w.Fresh.Seconds()
	}
	return a
}

// Search returns the schedules that are best for what is wished for. With a limit of calls alone that is the
// shortest wait, else the fewest calls. Without any wish there are three: one with today's calls, one with
// today's wait, one with half of today's calls. No wish is paid for by what was not said: as few are
// lost as today, and new records wait no longer than today.
func Search(in *Inputs, today *tiers.Schedule, w Wishes) Result {
	return newAdviser(in, today, w).search()
}

func (a *adviser) search() Result {
	w := a.wishes
	if a.perHour <= 0 {
		return a.keep("no records are inserted")
	}
	switch {
	case w.none():
		return a.three()
	case w.Wait > 0:
		return a.byWait()
	case w.CallsPerHour > 0:
		return a.byCalls()
	}
	path, _, ok := a.space.fewestCalls(a.limits)
	if !ok {
		return a.impossible(a.limitsReason())
	}
	return a.decide(path, fewerCalls)
}

// perRecord returns calls per hour as attempts at one record.
func (a *adviser) perRecord(callsPerHour float64) float64 { return callsPerHour / a.perHour }

// byWait returns the schedule with the fewest calls for a wait.
func (a *adviser) byWait() Result {
	g := a.limits
	g.wait = a.wishes.Wait.Seconds()
	path, cost, ok := a.space.fewestCalls(g)
	if !ok {
		shortest, wait, ok := a.shortestWait(math.Inf(1))
		if !ok {
			return a.impossible(a.limitsReason())
		}
		r := a.impossible(fmt.Sprintf("--wait %s is too short: the shortest that 95 %% do not exceed is %s",
			tiers.FormatDuration(a.wishes.Wait), roundedDuration(wait)))
		r.Proposals = append(r.Proposals, a.proposal("the shortest wait", shortest))
		return r
	}
	if most := a.wishes.CallsPerHour; most > 0 && cost.calls > a.perRecord(most)*(1+tolerance) {
		return a.contradiction(path, cost)
	}
	return a.decide(path, fewerCalls)
}

// contradiction returns what could be had instead of calls and a wait that contradict each other.
func (a *adviser) contradiction(path []step, cost total) Result {
	most := a.wishes.CallsPerHour
	reason := fmt.Sprintf("--calls %s/h and --wait %s contradict each other: with that wait the fewest calls are %s/h",
		number(most), tiers.FormatDuration(a.wishes.Wait), rounded(cost.calls*a.perHour))
	proposals := []Proposal{a.proposal(nameThatWait, path)}
	if other, wait, ok := a.shortestWait(a.perRecord(most)); ok {
		reason += fmt.Sprintf(", with these calls the shortest wait is %s", roundedDuration(wait))
		proposals = append(proposals, a.proposal(nameThoseCalls, other))
	} else {
		reason += ", and " + a.callsReason()
	}
	r := a.impossible(reason)
	r.Proposals = append(r.Proposals, proposals...)
	return r
}

// byCalls returns the schedule with the shortest wait for a number of calls.
func (a *adviser) byCalls() Result {
	path, _, ok := a.shortestWait(a.perRecord(a.wishes.CallsPerHour))
	if ok {
		return a.decide(path, shorterWait)
	}
	path, _, ok = a.space.fewestCalls(a.limits)
	if !ok {
		return a.impossible(a.limitsReason())
	}
	r := a.impossible(fmt.Sprintf("--calls %s/h are too few: %s", number(a.wishes.CallsPerHour), a.callsReason()))
	r.Proposals = append(r.Proposals, a.proposal("the fewest calls", path))
	return r
}

// callsReason says what the fewest calls are, and what they would be without the other limits.
func (a *adviser) callsReason() string {
	_, cost, ok := a.space.fewestCalls(a.limits)
	if !ok {
		return a.limitsReason()
	}
	text := fmt.Sprintf("%s and %s the fewest are %s/h", a.lostLimit(), a.freshLimit(), rounded(cost.calls*a.perHour))
	_, least, ok := a.space.fewestCalls(goal{wait: math.Inf(1), lost: 1, new: math.Inf(1)})
	if ok && least.calls < cost.calls*(1-tolerance) {
		text += fmt.Sprintf(", without these limits %s/h", rounded(least.calls*a.perHour))
	}
	return text
}

func (a *adviser) lostLimit() string {
	if a.wishes.Lost >= 0 {
		return fmt.Sprintf("with --lost %s", number(a.wishes.Lost))
	}
	return "with no more lost than today"
}

func (a *adviser) freshLimit() string {
	if a.wishes.Fresh > 0 {
		return "--fresh " + tiers.FormatDuration(a.wishes.Fresh)
	}
	return "new records tried as soon as today"
}

// limitsReason says which of the limits without calls and wait no schedule keeps.
func (a *adviser) limitsReason() string {
	if shortest := a.space.every[0]; a.limits.new < shortest {
		return fmt.Sprintf("--fresh %s is too short: the shortest interval is %s", roundedDuration(a.limits.new), roundedDuration(shortest))
	}
	least := math.Inf(1)
	for _, first := range a.space.every {
		if first > a.limits.new {
			break
		}
		for _, edge := range a.space.edges {
			for _, every := range a.space.every {
				if edge >= every && len(a.space.beyond) == 0 {
					least = min(least, a.main.lost(step{edge, every})/a.main.recoverable(first))
				}
			}
		}
	}
	if infinite(least) {
		return "no schedule of the usual ages and intervals has its ticks in common with the tiers of today beyond what is known"
	}
	return fmt.Sprintf("--lost %s is too little: at least %s are lost", number(a.limits.lost), rounded(least))
}

const (
	shortestAsked = 30.0 // seconds
	bisections    = 14
)

// shortestWait returns the schedule whose p95 is the shortest with so many attempts at a record.
func (a *adviser) shortestWait(mostCalls float64) (path []step, wait float64, ok bool) {
	mostCalls *= 1 + tolerance
	within := func(wait float64) bool {
		g := a.limits
		g.wait = wait
		return a.space.within(g, mostCalls)
	}
	g := a.limits
	path, cost, ok := a.space.fewestCalls(g)
	if !ok || cost.calls > mostCalls {
		return nil, 0, false
	}
	longest := slices.Max(a.space.every)
	for _, t := range a.space.beyond {
		longest = max(longest, t.every)
	}
	low := math.Log(shortestAsked)
	high := math.Log(longest)
	if !within(longest) {
		return path, math.Inf(1), true
	}
	for range bisections {
		middle := (low + high) / 2
		if within(math.Exp(middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	g.wait = math.Exp(high)
	path, _, _ = a.space.fewestCalls(g)
	return path, a.compute(a.main, path).p95, true
}

// proposal returns the proposal of searched tiers.
func (a *adviser) proposal(name string, path []step) Proposal {
	s := a.toSchedule(path)
	return Proposal{Name: name, Tiers: s.Tiers(), Figures: a.evaluate(s)}
}

// toSchedule returns searched tiers as a schedule. Tiers of today stay what they are, also in name.
func (a *adviser) toSchedule(path []step) *tiers.Schedule {
	s := new(tiers.Schedule)
	for _, p := range path {
		t := tiers.Tier{MaxAge: seconds(p.upto), Every: seconds(p.every)}
		if old, ok := a.schedule.ByMaxAge(t.MaxAge); ok {
			t.Name = old.Name
			beyond := t.MaxAge > a.in.Oldest
			if old.Every == t.Every || beyond && old.Every == 0 && meanInterval(old) == p.every {
				t = old
			}
		}
		if _, err := s.Add(t); err != nil {
			t.Name = "" // a name of today that another tier has by its age
			s.Add(t)
		}
	}
	return s
}

func (a *adviser) todayProposal() Proposal {
	return Proposal{Name: nameToday, Tiers: a.schedule.Tiers(), Figures: a.today}
}

func (a *adviser) keep(reasons ...string) Result {
	return Result{Kind: Keep, Reasons: reasons, Proposals: []Proposal{a.todayProposal()}}
}

func (a *adviser) impossible(reason string) Result {
	return Result{Kind: Impossible, Reasons: []string{reason}, Proposals: []Proposal{a.todayProposal()}}
}

// A gain is what a proposal is better in.
type gain int

const (
	fewerCalls gain = iota
	shorterWait
)

func (g gain) of(n numbers) float64 {
	if g == fewerCalls {
		return n.calls
	}
	return n.p95
}

// leastGain is the share by which a proposal is better than today's schedule at least.
const leastGain = 0.05

// decide returns the proposal, unless today's schedule keeps all wishes and the gain is noise.
func (a *adviser) decide(path []step, by gain) Result {
	p := a.proposal(nameProposed, path)
	noise := a.isNoise(path, p.Figures, by)
	if by == shorterWait {
		noise = noise && a.isNoise(path, p.Figures, fewerCalls)
	}
	if a.keepsWishes() && noise {
		return a.keep(a.keepReason(p.Figures, by))
	}
	return Result{Kind: Propose, Reasons: []string{a.gainReason(p.Figures)}, Proposals: []Proposal{a.todayProposal(), p}}
}

// keepsWishes reports whether today's schedule is what was asked for.
func (a *adviser) keepsWishes() bool {
	f := a.today
	w := a.wishes
	const exact = 1 + 10*waitExactness
	return (w.CallsPerHour == 0 || f.CallsPerDay.Value <= 24*w.CallsPerHour*exact) &&
		(w.Wait == 0 || f.Wait.P95.Value <= w.Wait.Seconds()*exact) &&
		f.LostPer1000.Value <= 1000*a.limits.lost+tolerance &&
		f.NewWait <= a.limits.new
}

func valueOf(f Figures, by gain) (value, low float64) {
	if by == fewerCalls {
		return f.CallsPerDay.Value, f.CallsPerDay.Low
	}
	return f.Wait.P95.Value, f.Wait.P95.Low
}

// isNoise reports whether a proposal is not clearly better than today's schedule: by less than leastGain, or not by
// more than 19 of 20 drawn curves agree on.
func (a *adviser) isNoise(path []step, proposed Figures, by gain) bool {
	before, low := valueOf(a.today, by)
	after, _ := valueOf(proposed, by)
	if infinite(before) {
		return infinite(after)
	}
	if after > before*(1-leastGain) {
		return true
	}
	list, ok := stepsOf(a.schedule)
	if !ok {
		return after >= low
	}
	var gains []float64
	for _, m := range a.drawn {
		gains = append(gains, by.of(a.compute(m, list))-by.of(a.compute(m, path)))
	}
	slices.Sort(gains)
	return len(gains) > 0 && !(gains[len(gains)/20] > 0)
}

func (a *adviser) keepReason(best Figures, by gain) string {
	if by == fewerCalls {
		return fmt.Sprintf("today's schedule makes %s calls a day, the best one %s: that is no more than noise",
			rounded(a.today.CallsPerDay.Value), rounded(best.CallsPerDay.Value))
	}
	return fmt.Sprintf("with today's schedule 95 %% wait up to %s, with the best one %s: that is no more than noise",
		roundedDuration(a.today.Wait.P95.Value), roundedDuration(best.Wait.P95.Value))
}

func (a *adviser) gainReason(f Figures) string {
	return fmt.Sprintf("%s calls a day instead of %s; 95 %% wait up to %s instead of %s",
		rounded(f.CallsPerDay.Value), rounded(a.today.CallsPerDay.Value),
		roundedDuration(f.Wait.P95.Value), roundedDuration(a.today.Wait.P95.Value))
}

// three returns three schedules of the frontier.
func (a *adviser) three() Result {
	r := Result{Kind: Propose, Proposals: []Proposal{a.todayProposal()}}
	calls := a.today.CallsPerDay.Value / 24
	noise := true
	add := func(name string, path []step, by gain) {
		p := a.proposal(name, path)
		noise = noise && a.isNoise(path, p.Figures, by)
		r.Reasons = append(r.Reasons, name+": "+a.gainReason(p.Figures))
		r.Proposals = append(r.Proposals, p)
	}
	g := a.limits
	g.wait = a.today.Wait.P95.Value * (1 + waitExactness)
	if path, _, ok := a.space.fewestCalls(g); ok { // the first is the one to use: nobody waits longer, nobody is called more
		add(nameTodayWait, path, fewerCalls)
	}
	if path, _, ok := a.shortestWait(a.perRecord(calls)); ok {
		add(nameTodayCalls, path, shorterWait)
	}
	if noise {
		return a.keep("no other schedule has the calls of today's and a shorter wait, or its wait and fewer calls, by more than noise")
	}
	if path, _, ok := a.shortestWait(a.perRecord(calls / 2)); ok {
		p := a.proposal(nameHalf, path)
		r.Reasons = append(r.Reasons, nameHalf+": "+a.gainReason(p.Figures))
		r.Proposals = append(r.Proposals, p)
	} else {
		r.Reasons = append(r.Reasons, nameHalf+" cannot be had: "+a.callsReason())
	}
	return r
}

// A Point is a schedule of the frontier: no other one has fewer calls and as short a wait.
type Point struct {
	CallsPerDay float64
	WaitP95     float64 // seconds; +Inf: more than 5 % are lost
}

const frontierPoints = 24

// Frontier returns the points of the schedules that keep the limits of lost ones and of new records, the shortest
// wait first.
func Frontier(in *Inputs, today *tiers.Schedule, w Wishes) []Point {
	in = &Inputs{PerHour: in.PerHour, Broken: in.Broken, Oldest: in.Oldest, Slots: in.Slots}
	a := newAdviser(in, today, w)
	var list []Point
	longest := math.Log(slices.Max(a.space.every))
	least := math.Log(shortestAsked)
	for i := range frontierPoints {
		g := a.limits
		g.wait = math.Exp(least + (longest-least)*float64(i)/(frontierPoints-1))
		path, _, ok := a.space.fewestCalls(g)
		if !ok {
			continue
		}
		n := a.compute(a.main, path)
		p := Point{n.calls, n.p95}
		if len(list) == 0 || p.CallsPerDay < list[len(list)-1].CallsPerDay*(1-tolerance) {
			list = append(list, p)
		}
	}
	return list
}

// rounded writes a number with three digits at most.
func rounded(x float64) string {
	if x >= 100 || x == 0 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	digits := int(math.Floor(math.Log10(x)))
	return strconv.FormatFloat(x, 'f', max(0, 2-digits), 64)
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

// A Setting is a setting of a policy and its value as YAML.
type Setting struct{ Key, Value string }
