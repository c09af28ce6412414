package propose

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/retry"
	"backlog/tiers"
)

// planned returns the chain of records that are due again when the policy's wait since their last failure
// has passed. nil: they are due at once.
func planned(list []*ticker, p *backlog.Policy) chain {
	if p == nil {
		return scheduled(list)
	}
	return func(ages []float64, n int, inserted float64) []float64 {
		at := inserted
		for failures := 1; ; failures++ {
			at = nextTick(list, inserted, at)
			if math.IsInf(at, 1) {
				return ages
			}
			ages = append(ages, at-inserted)
			if p.Never || p.GivenUp(failures) {
				return ages
			}
			// A tick at the moment at which the record is due tries it.
			const justBefore = 1e-3
			at = max(at, at+p.Draw(failures, roll(n, failures)).Seconds()-justBefore)
		}
	}
}

// roll returns the random number by which the wait after a failure of the n-th record is drawn.
func roll(n, failures int) float64 {
	return rand.New(rand.NewPCG(uint64(n), uint64(failures))).Float64()
}

// EvaluatePolicy returns the figures of a schedule with a policy, which is not refresh: records that have failed
// are tried by the first tick that reaches their age after the policy's wait. It follows a sample of
// records. Recovery is the longest time between two attempts that begins at an age that the outage
// has made, and what the calls of all that was inserted in it take.
func EvaluatePolicy(in *Inputs, s *tiers.Schedule, p *backlog.Policy) Figures {
	figures, _ := newPolicyFinder(in, s).evaluatePolicy(p)
	return figures
}

// A candidate is settings of a policy.
type candidate struct {
	settings retry.Settings
	policy   *backlog.Policy
	numbers
	exact bool // the numbers come from as many records as a proposal's
}

// A policyFinder searches among settings.
type policyFinder struct {
	*evaluator
	today      *tiers.Schedule
	tickers    []*ticker
	newWait    float64
	candidates []*candidate
}

func newPolicyFinder(in *Inputs, s *tiers.Schedule) *policyFinder {
	return &policyFinder{evaluator: newEvaluator(in), today: s, tickers: newTickers(s), newWait: longestWait(s)}
}

func (f *policyFinder) evaluatePolicy(p *backlog.Policy) (Figures, []numbers) {
	attempts := planned(f.tickers, p)
	sample := f.lives(attempts, mostSteps)
	figures, drawn := f.walkFigures(sample)
	figures.NewWait = f.newWait
	figures.Recovery = f.policyRecovery(sample)
	figures.Peak = f.walkPeak(f.tickers, func(inserted, at float64) (before float64, tried bool) {
		for _, age := range attempts(nil, int(inserted), inserted) {
			if age >= at-inserted {
				return before, age == at-inserted
			}
			before = age
		}
		return before, false
	})
	return figures, drawn
}

// policyRecovery returns how long after the longest outage all that it left behind was tried.
func (f *policyFinder) policyRecovery(sample []life) float64 {
	outage := f.in.LongestOutage.Seconds()
	if outage == 0 {
		return 0
	}
	longest := 0.0
	for _, l := range sample {
		before := 0.0
		for _, age := range l.ages {
			if before > outage {
				break
			}
			longest = max(longest, age-before)
			before = age
		}
	}
	if f.in.CallsPerSecond > 0 {
		longest += f.perSecond() * outage / f.in.CallsPerSecond
	}
	return longest
}

// SearchPolicy is Search for the settings of a policy: fibonacci, linear, exponential or list. The tiers of
// the schedule stay as they are.
func SearchPolicy(in *Inputs, schedule *tiers.Schedule, today retry.Settings, w Wishes) (Result, error) {
	a, err := newPolicyAdviser(in, schedule, today, w)
	if err != nil {
		return Result{}, err
	}
	if len(a.finder.(*policyFinder).candidates) == 0 {
		return a.keep(fmt.Sprintf("no other settings of the policy %s are searched", today.Keeps().Name)), nil
	}
	return a.search(), nil
}

// FrontierPolicy is Frontier for the settings that SearchPolicy searches.
func FrontierPolicy(in *Inputs, schedule *tiers.Schedule, today retry.Settings, w Wishes) ([]Point, error) {
	a, err := newPolicyAdviser(in.withoutDrawn(), schedule, today, w)
	if err != nil {
		return nil, err
	}
	return a.frontier(), nil
}

// newPolicyAdviser compares the settings that are like today's, from small samples.
func newPolicyAdviser(in *Inputs, schedule *tiers.Schedule, today retry.Settings, w Wishes) (*adviser, error) {
	policy, err := retry.Policy(today)
	if err != nil {
		return nil, err
	}
	f := newPolicyFinder(in, schedule)
	all := settingsLike(today)
	if list, ok := today.(*retry.List); ok {
		all = append(all, listsLikeTiers(in, schedule, list)...)
	}
	for _, s := range all {
		// Of the settings in the grid, those that are refused are left out.
		if p, err := retry.Policy(s); err == nil {
			c := &candidate{settings: s, policy: p}
			c.numbers = f.sample(c, quickSteps)
			f.candidates = append(f.candidates, c)
		}
	}
	return newAdviser(in, f.propose("", today, policy), f, w), nil
}

// quickSteps is mostSteps of settings that are only compared.
const quickSteps = 3000

// sample returns the numbers of a candidate from so many steps.
func (f *policyFinder) sample(c *candidate, steps int) numbers {
	list := f.lives(planned(f.tickers, c.policy), steps)
	return f.compared(f.main.walk(list, gapsOf(list)))
}

func (f *policyFinder) propose(name string, s retry.Settings, p *backlog.Policy) Proposal {
	figures, drawn := f.evaluatePolicy(p)
	return Proposal{Name: name, Tiers: f.today.Tiers(), Policy: policyYAML(s), Figures: figures, drawn: drawn}
}

// best returns the candidate that is kept and has the least value. Only the best are computed exactly.
func (f *policyFinder) best(kept func(numbers) bool, value func(numbers) float64) *choice {
	for {
		var best *candidate
		for _, c := range f.candidates {
			if kept(c.numbers) && (best == nil || value(c.numbers) < value(best.numbers)) {
				best = c
			}
		}
		switch {
		case best == nil:
			return nil
		case best.exact:
			return &choice{
				calls:    best.calls / f.perHour / 24,
				wait:     best.p95,
				proposal: func(name string) Proposal { return f.propose(name, best.settings, best.policy) },
			}
		}
		best.numbers = f.sample(best, mostSteps)
		best.exact = true
	}
}

// keeps reports whether numbers keep a goal.
func (f *policyFinder) keeps(n numbers, g goal) bool {
	return f.newWait <= g.new && n.lost <= 1000*(g.lost+tolerance) && n.p95 <= g.wait
}

// fewestCalls implements finder.
func (f *policyFinder) fewestCalls(g goal) *choice {
	return f.best(func(n numbers) bool { return f.keeps(n, g) }, func(n numbers) float64 { return n.calls })
}

// shortestWait implements finder. Of equal waits that with the fewest calls is taken.
func (f *policyFinder) shortestWait(g goal, mostCalls float64) *choice {
	most := mostCalls * f.perHour * 24
	within := func(n numbers) bool { return f.keeps(n, g) && n.calls <= most }
	shortest := f.best(within, func(n numbers) float64 { return n.p95 })
	if shortest == nil {
		return nil
	}
	g.wait = shortest.wait * (1 + waitExactness)
	return f.best(within, func(n numbers) float64 { return n.calls })
}

// fixed implements finder.
func (f *policyFinder) fixed() string { return "" }

// limits implements finder.
func (f *policyFinder) limits(g goal) string {
	if f.newWait > g.new {
		return fmt.Sprintf("--fresh %s is too short: the tiers tick every %s, which no policy changes", roundedDuration(g.new), roundedDuration(f.newWait))
	}
	least := math.Inf(1)
	for _, c := range f.candidates {
		least = min(least, c.lost/1000)
	}
	return fmt.Sprintf("--lost %s%% is too little: at least %s%% are lost", number(100*g.lost), rounded(100*least))
}

// What people write as settings, in addition to Intervals.
var (
	bases   = []float64{1.5, 2, 3}
	retries = []int{3, 5, 10, 20, 50, 100}
	delays  = []time.Duration{hour, 6 * hour, longDay, backlog.MaxWait}

	// steps of lists; each is waited some times.
	listSteps   = []time.Duration{minute, 5 * minute, 15 * minute, hour, 4 * hour, 12 * hour, longDay, 4 * longDay}
	listRepeats = []int{1, 2, 3, 6, 12}
)

// longestFirst is the longest first wait of settings that are searched.
const longestFirst = 12 * hour

// settingsLike returns the settings to search for a policy, beginning with today's.
func settingsLike(today retry.Settings) (list []retry.Settings) {
	switch s := today.(type) {
	case *retry.Fibonacci:
		for _, unit := range with(s.Unit, firstWaits()) {
			for _, delay := range with(s.MaxDelay, delays) {
				c := *s
				c.Unit = unit
				c.MaxDelay = delay
				list = append(list, &c)
			}
		}
	case *retry.Linear:
		for _, interval := range with(s.Interval, Intervals) {
			for _, n := range with(s.MaxRetries, append(slices.Clone(retries), 200, 500, 1000)) {
				c := *s
				c.Interval = interval
				c.MaxRetries = n
				list = append(list, &c)
			}
		}
	case *retry.Exponential:
		for _, interval := range with(s.Interval, firstWaits()) {
			for _, base := range with(s.Base, bases) {
				list = append(list, exponentials(s, interval, base)...)
			}
		}
	case *retry.List:
		for _, intervals := range append([][]time.Duration{s.Intervals}, lists()...) {
			c := *s
			c.Intervals = intervals
			list = append(list, &c)
		}
	}
	return list
}

// exponentials returns the settings with an interval and a base.
func exponentials(s *retry.Exponential, interval time.Duration, base float64) (list []retry.Settings) {
	for _, n := range with(s.MaxRetries, retries) {
		for _, delay := range with(s.MaxDelay, delays) {
			c := *s
			c.Interval = interval
			c.Base = base
			c.MaxRetries = n
			c.MaxDelay = delay
			list = append(list, &c)
		}
	}
	return list
}

// firstWaits returns the intervals that are waited first.
func firstWaits() []time.Duration {
	return slices.DeleteFunc(slices.Clone(Intervals), func(d time.Duration) bool { return d > longestFirst })
}

// with returns a list that begins with what is there today.
func with[T cmp.Ordered](today T, list []T) []T {
	return append([]T{today}, slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x == today })...)
}

// longestList is the most intervals of a list.
const longestList = 100

// likenesses is how many schedules of tiers are made into lists.
const likenesses = 24

// listsLikeTiers returns lists that wait as the best schedules of tiers would have records wait, for waits from the
// first interval of the schedule on.
func listsLikeTiers(in *Inputs, s *tiers.Schedule, today *retry.List) (all []retry.Settings) {
	a := newScheduleAdviser(in.withoutDrawn(), s, Wishes{Lost: 1})
	f := a.finder.(*tierFinder)
	shortest := math.Log(meanInterval(s.Tiers()[0]))
	longest := math.Log(Intervals[len(Intervals)-1].Seconds())
	for i := range likenesses {
		g := a.goal
		g.wait = math.Exp(shortest + (longest-shortest)*float64(i)/(likenesses-1))
		for _, lost := range []float64{0, 0.001, 0.01, 0.05} {
			g.lost = lost
			path, _ := f.space.fewestCalls(g)
			if list := waitsOf(path); len(list) > 0 && len(list) <= longestList {
				c := *today
				c.Intervals = list
				all = append(all, &c)
			}
		}
	}
	return all
}

// waitsOf returns the waits of a record that tiers try until it is too old.
func waitsOf(path []step) (list []time.Duration) {
	if len(path) == 0 {
		return nil
	}
	age := path[0].every
	for _, t := range path {
		for ; age+t.every <= t.upto && len(list) <= longestList; age += t.every {
			list = append(list, seconds(t.every))
		}
	}
	return list
}

// lists returns lists of intervals that grow, each waited as often as the others, the last one perhaps more often.
func lists() (all [][]time.Duration) {
	for first := range listSteps {
		for last := first; last < len(listSteps); last++ {
			for _, repeat := range listRepeats {
				for _, more := range listRepeats {
					var list []time.Duration
					for _, step := range listSteps[first : last+1] {
						list = append(list, slices.Repeat([]time.Duration{step}, repeat)...)
					}
					if more > 1 {
						list = append(list, slices.Repeat(listSteps[last:last+1], repeat*(more-1))...)
					}
					if len(list) <= longestList {
						all = append(all, list)
					}
				}
			}
		}
	}
	return all
}

// policyYAML returns settings as the value of policy.
func policyYAML(s retry.Settings) string {
	keeps := s.Keeps()
	var fields []string
	add := func(key, value string) { fields = append(fields, key+": "+value) }
	delay := time.Duration(backlog.MaxWait)
	switch s := s.(type) {
	case *retry.Fibonacci:
		add("unit", tiers.FormatDuration(s.Unit))
		delay = s.MaxDelay
	case *retry.Linear:
		add("interval", tiers.FormatDuration(s.Interval))
		add("max_retries", fmt.Sprint(s.MaxRetries))
		delay = s.MaxDelay
	case *retry.Exponential:
		add("interval", tiers.FormatDuration(s.Interval))
		add("base", number(s.Base))
		add("max_retries", fmt.Sprint(s.MaxRetries))
		delay = s.MaxDelay
	case *retry.List:
		var list []string
		for _, d := range s.Intervals {
			list = append(list, tiers.FormatDuration(d))
		}
		add("intervals", "["+strings.Join(list, ", ")+"]")
		delay = s.MaxDelay
	}
	if delay < backlog.MaxWait {
		add("max_delay", tiers.FormatDuration(delay))
	}
	var columns []string
	for _, c := range keeps.Columns {
		name := c[0]
		usual := c[1]
		if name != usual {
			columns = append(columns, usual+": "+plain(name))
		}
	}
	if len(columns) > 0 {
		add("columns", "{"+strings.Join(columns, ", ")+"}")
	}
	return fmt.Sprintf("{%s: {%s}}", keeps.Name, strings.Join(fields, ", "))
}

// plain writes a name as YAML, in quotes unless it cannot be anything else.
func plain(name string) string {
	special := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }
	if strings.Contains(name, "_") && !strings.ContainsFunc(name, special) {
		return name
	}
	return strconv.Quote(name)
}
