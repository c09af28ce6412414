package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check returns what contradicts the rules, in a fixed order.
func Check(h *History, r Rules) []Violation {
	c := newChecker(h, r)
	for _, key := range c.keys {
		row := c.rows[key]
		c.checkOverlap(row)
		c.checkChanges(row)
		c.checkRepeats(row, row.successes, "success")
		c.checkRepeats(row, row.deaths, "call of on_dead")
		c.checkQuiet(row)
	}
	c.checkRepeatsPerStrike()
	c.checkTicks()
	c.checkTiers()
	return c.found
}

// A row is what happened to one.
type row struct {
	key       string
	calls     []*Call // by their beginning, without those of on_dead
	successes []*Call // by their end
	deaths    []*Call // of on_dead, by their beginning
	changes   []*Change
}

// statusAt returns the status of the row at an instant, empty if it was not there.
func (w *row) statusAt(at time.Time) (status string) {
	for _, c := range w.changes {
		if c.At.After(at) {
			break
		}
		status = c.To
	}
	return status
}

// changedWithin reports whether the status of the row has changed in the span.
func (w *row) changedWithin(s Span) bool {
	return slices.ContainsFunc(w.changes, func(c *Change) bool { return s.contains(c.At) })
}

// calledWithin reports whether a call began in the span.
func (w *row) calledWithin(s Span) bool {
	return slices.ContainsFunc(w.calls, func(c *Call) bool { return s.contains(c.Began) })
}

type checker struct {
	h       *History
	rules   Rules
	rows    map[string]*row
	keys    []string // sorted
	strikes map[int][]*Strike
	repeats map[*Strike]int
	found   []Violation
}

func newChecker(h *History, r Rules) *checker {
	c := &checker{h: h, rules: r, rows: make(map[string]*row), strikes: make(map[int][]*Strike), repeats: make(map[*Strike]int)}
	for i := range h.Calls {
		call := &h.Calls[i]
		w := c.row(call.Key)
		switch {
		case call.OnDead:
			w.deaths = append(w.deaths, call)
		case call.Outcome == "success":
			w.successes = append(w.successes, call)
			w.calls = append(w.calls, call)
		default:
			w.calls = append(w.calls, call)
		}
	}
	for i := range h.Changes {
		w := c.row(h.Changes[i].Key)
		w.changes = append(w.changes, &h.Changes[i])
	}
	for key := range h.Final {
		c.row(key)
	}
	for i := range h.Strikes {
		s := &h.Strikes[i]
		c.strikes[s.PID] = append(c.strikes[s.PID], s)
	}
	for _, list := range c.strikes {
		slices.SortFunc(list, func(a, b *Strike) int { return a.At.Compare(b.At) })
	}
	for key, w := range c.rows {
		c.keys = append(c.keys, key)
		slices.SortFunc(w.calls, func(a, b *Call) int { return a.Began.Compare(b.Began) })
		slices.SortFunc(w.deaths, func(a, b *Call) int { return a.Began.Compare(b.Began) })
		slices.SortFunc(w.successes, func(a, b *Call) int { return a.Ended.Compare(b.Ended) })
	}
	slices.Sort(c.keys)
	return c
}

func (c *checker) row(key string) *row {
	w := c.rows[key]
	if w == nil {
		w = &row{key: key}
		c.rows[key] = w
	}
	return w
}

func (c *checker) report(rule, key, format string, args ...any) {
	c.found = append(c.found, Violation{rule, key, fmt.Sprintf(format, args...)})
}

// checkOverlap holds that calls of a row come one after the other.
func (c *checker) checkOverlap(w *row) {
	var before *Call // the one that was under way for longest
	for _, call := range w.calls {
		if before != nil && call.Began.Before(before.Last()) {
			c.report(Overlap, w.key, "attempt %s of program %d began at %s, %v before the last sign of attempt %s of program %d, which began at %s",
				call.Attempt, call.Program, clock(call.Began), before.Last().Sub(call.Began), before.Attempt, before.Program, clock(before.Began))
		}
		if before == nil || call.Last().After(before.Last()) {
			before = call
		}
	}
}

// checkChanges holds that each change of a row's status has its reason.
func (c *checker) checkChanges(w *row) {
	successes := 0
	var since time.Time // the last change
	for _, x := range w.changes {
		isOutcome := slices.Contains([]string{c.rules.Success, c.rules.Failed, c.rules.Dead}, x.To) && x.From != ""
		if isOutcome && !slices.Contains(c.rules.Pending, x.From) {
			c.report(Overwrite, w.key, "it went from %s to %s at %s", x.From, x.To, clock(x.At))
		}
		by := x.At.Add(c.rules.Slack)
		switch {
		case !isOutcome:
		case x.To == c.rules.Success:
			successes++
			if endedBy(w.successes, by) < successes {
				c.report(Unearned, w.key, "it became %s for the %d. time at %s, and its handler had succeeded %d times", x.To, successes, clock(x.At), endedBy(w.successes, by))
			}
		case x.To == c.rules.Failed:
			if !c.hasFailed(w, Span{since, by}) {
				c.report(Unfailed, w.key, "it became %s at %s, and no handler has failed since %s", x.To, clock(x.At), clock(since))
			}
		case x.To == c.rules.Dead:
			if len(w.deaths) == 0 || w.deaths[0].Began.After(by) {
				c.report(Unnoticed, w.key, "it became %s at %s", x.To, clock(x.At))
			}
		}
		since = x.At
	}
}

func endedBy(calls []*Call, at time.Time) (n int) {
	for _, call := range calls {
		if !call.Ended.After(at) {
			n++
		}
	}
	return n
}

// hasFailed reports whether a handler of the row has failed in the span, or one was killed
// that may have had it.
func (c *checker) hasFailed(w *row, s Span) bool {
	for _, call := range w.calls {
		if call.Outcome == "error" && s.contains(call.Ended) {
			return true
		}
	}
	for _, x := range c.h.Strikes {
		if x.What == KillHandler && !x.Until.Before(s.From) && !x.At.After(s.To) {
			return true
		}
	}
	return false
}

// The strikes that the rules tell from others.
const (
	KillHandler = "kill handler" // with all rows that it had
	Term        = "term"         // a clean stop, which excuses nothing
)

// checkRepeats holds that a call was made again only because a process was struck that had
// the outcome, or because the row was put back.
func (c *checker) checkRepeats(w *row, calls []*Call, what string) {
	for i := 1; i < len(calls); i++ {
		before := calls[i-1]
		again := calls[i]
		excuse := c.excuse(before, again)
		switch {
		case excuse != nil:
			c.repeats[excuse]++
		case !w.putBack(c.rules.Pending, Span{before.Began, again.Began}):
			c.report(Repeat, w.key, "attempt %s of program %d repeats at %s the %s of attempt %s of program %d, which ended at %s and was not struck",
				again.Attempt, again.Program, clock(again.Began), what, before.Attempt, before.Program, clock(before.Last()))
		}
	}
}

// excuse returns the strike that has lost the outcome of the call before the other began.
func (c *checker) excuse(before, again *Call) *Strike {
	for _, pid := range []int{before.Program, before.PID} {
		for _, s := range c.strikes[pid] {
			hasEndedBefore := s.Until.Before(before.Began)
			if s.What != Term && !hasEndedBefore && !s.At.After(again.Began) {
				return s
			}
		}
	}
	return nil
}

// putBack reports whether the row became pending again in the span.
func (w *row) putBack(pending []string, s Span) bool {
	return slices.ContainsFunc(w.changes, func(x *Change) bool {
		return x.From != "" && slices.Contains(pending, x.To) && !slices.Contains(pending, x.From) && s.contains(x.At)
	})
}

// checkRepeatsPerStrike holds that no strike has cost too much.
func (c *checker) checkRepeatsPerStrike() {
	for i := range c.h.Strikes {
		s := &c.h.Strikes[i]
		if n := c.repeats[s]; n > c.rules.Repeats {
			c.report(TooMany, "", "%s of process %d at %s made %d calls be repeated, of at most %d", s.What, s.PID, clock(s.At), n, c.rules.Repeats)
		}
	}
}

// checkQuiet holds that a pass which nothing disturbed has tried each row that is pending
// after it.
func (c *checker) checkQuiet(w *row) {
	status := c.h.Final[w.key]
	quiet := c.h.Quiet
	if quiet.To.IsZero() || !slices.Contains(c.rules.Pending, status) {
		return
	}
	if !w.calledWithin(quiet) {
		c.report(Untried, w.key, "it is %s after a whole pass that has not tried it", status)
	}
}

// checkTicks holds that each row which a tick found due was tried, or changed by another
// program.
func (c *checker) checkTicks() {
	for _, tick := range c.h.Ticks {
		var left []string
		for _, key := range c.keys {
			w := c.rows[key]
			inserted, known := c.h.Inserted[key]
			age := tick.At.Sub(inserted)
			isDue := slices.Contains(c.rules.Due, w.statusAt(tick.At.Add(-c.rules.Slack)))
			within := Span{tick.At.Add(-c.rules.Slack), tick.Until}
			if known && isDue && age >= c.rules.Margin && age <= tick.MaxAge-c.rules.Margin && !w.calledWithin(within) && !w.changedWithin(within) {
				left = append(left, key)
			}
		}
		if len(left) > 0 {
			c.report(Missed, "", "the tick of tier %s at %s has left %d due rows untried until %s: %s", tick.Tier, clock(tick.At), len(left), clock(tick.Until), some(left))
		}
	}
}

// checkTiers holds that a row which only a wide tier reaches is called by none of the
// narrower ones.
func (c *checker) checkTiers() {
	ages := make(map[string]time.Duration)
	for _, tick := range c.h.Ticks {
		ages[tick.Tier] = tick.MaxAge
	}
	for i := range c.h.Calls {
		call := &c.h.Calls[i]
		inserted, known := c.h.Inserted[call.Key]
		most, isTier := ages[call.Tier]
		age := call.Began.Sub(inserted)
		if known && isTier && age > most+c.rules.Margin {
			c.report(Misplaced, call.Key, "tier %s has called it at the age of %v", call.Tier, age)
		}
	}
}

// some returns the first keys of a list.
func some(keys []string) string {
	const most = 8
	if len(keys) > most {
		return strings.Join(keys[:most], ", ") + " …"
	}
	return strings.Join(keys, ", ")
}

// clock returns the time of day, as precise as what is compared.
func clock(at time.Time) string { return at.UTC().Format("15:04:05.000000") }
