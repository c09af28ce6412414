package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// policyColumns are where a policy keeps when a row is due, and what is written there. The zero
// policyColumns are those of a policy that keeps nothing, for which age alone decides.
type policyColumns struct {
	rule        *backlog.Rule
	count       string      // quoted; "": nothing is kept
	countColumn *column     // that the count is in
	lastFailure *timeColumn // nil: the policy plans the next time, and keeps nothing else
	next        *timeColumn // nil: the policy works out the wait from the count and the last time
	classes     []waitClass

	failed  []setClause // of a row that is tried again
	dead    []setClause // of a row that is not, after a failure
	success []setClause
	expired []setClause // of a row that dies without an attempt
	reset   []setClause // of a row that becomes new
}

// A waitClass is a set of failed records that wait equally long, so that those
// due are a range of an index, in the order of the lane.
type waitClass struct {
	cond       string // "" for all
	wait       time.Duration
	dueNow     bool // due at any time
	unexpected bool // there should be none
	openEnded  bool // of more than one number of failures
}

// counts reports whether the row says how often it was tried.
func (c *policyColumns) counts() bool { return c.countColumn != nil }

// byCount reports whether the count says how long a row waits.
func (c *policyColumns) byCount() bool { return c.rule != nil && c.rule.Waits != nil }

// givesUp reports whether a row can be out of retries.
func (c *policyColumns) givesUp() bool { return c.rule != nil && c.rule.Retries >= 0 }

// within is the condition of rows that are not given up, "" if none ever is.
func (c *policyColumns) notExhausted() string {
	if !c.givesUp() {
		return ""
	}
	return c.orNull(fmt.Sprintf("%s <= %d", c.count, c.rule.Retries))
}

// orNone is the condition on the count, or NULL.
func (c *policyColumns) orNull(cond string) string {
	if c.countColumn.NotNull {
		return cond
	}
	return "(" + c.count + " IS NULL OR " + cond + ")"
}

// isDue is the rule's word on a row that was read, for what SQL can only say to the form's
// step.
func (c *policyColumns) isDue(lane backlog.Lane, m *backlog.Memory, now time.Time) bool {
	at, ok := c.rule.At(lane, m)
	return ok && !at.After(now)
}

// readFailures returns what the row remembers under a policy that counts failures.
func (t *layout) readFailures(row []any) (*backlog.Memory, error) {
	c := &t.policy
	m := new(backlog.Memory)
	var err error
	if m.Failures, err = db.AsCount(row[t.selected.memoryAt[0]]); err != nil {
		return nil, fmt.Errorf("column %s: %w", c.count, err)
	}
	if m.LastFailure, err = c.lastFailure.timeIn(row); err == nil {
		m.Next, err = c.next.timeIn(row)
	}
	return m, err
}

// readAttempts returns what the row remembers under a policy with deadlines.
func (t *layout) readAttempts(row []any) (*backlog.Memory, error) {
	m, err := t.refresh.read(lists.Map(t.selected.memoryAt, func(at int) any { return row[at] }))
	return &m, err
}

// remember reads what the policy keeps in the row.
func (t *layout) remember(rec *backlog.Record, row []any) (err error) {
	if t.readMemory != nil {
		rec.Memory, err = t.readMemory(row)
	}
	return err
}

// counted resolves the columns of a policy that counts failures.
func (r *resolver) countedPolicy() {
	t, m := r.t, r.t.m.Policy
	if m == nil {
		return
	}
	if m.Next == "" && len(m.Waits) == 0 {
		r.refuse("set Waits and Retries of the mapping's Policy to those of the engine's", "policy: the mapping does not say how long a failed record waits")
		return
	}
	count := r.policyColumn(m.Count)
	if cannotCount(count) {
		r.refuse("name a column of whole numbers", "policy: column %s is %s, which cannot count failures", count.Name, count.Decl)
	}
	if count.MaxCount > 0 && int64(m.Retries) >= count.MaxCount {
		r.refuse("let it give up earlier, or name a column of larger numbers", "policy: column %s is %s, which cannot count %d failures", count.Name, count.Decl, m.Retries+1)
	}
	c := &t.policy
	c.rule = &backlog.Rule{Retries: m.Retries, Waits: m.Waits}
	c.count = t.text.Quote(count.Name)
	c.countColumn = count
	c.lastFailure = r.policyTime(m.Last)
	// A number, not one more: to be written twice must do no harm.
	failures := setClause{column: c.count, valueOf: func(s *backlog.Settlement) any { return c.countColumn.CapCount(s.Memory.Failures) }}
	last := setClause{column: c.lastFailure.quoted, valueOf: func(s *backlog.Settlement) any { return t.writeForm(c.lastFailure).Write(s.At) }}
	c.failed = []setClause{failures, last}
	c.dead = c.failed
	c.reset = []setClause{{column: c.count, expr: "0"}}
	t.memoryColumns = []string{c.count}
	t.readMemory = t.readFailures
	if m.Next != "" {
		r.plannedPolicy(m)
	}
}

// planned resolves the further columns of a policy that plans the next time.
func (r *resolver) plannedPolicy(m *mapping.PolicyColumns) {
	t, c := r.t, &r.t.policy
	c.rule.Waits = nil
	c.next = r.policyTime(m.Next)
	next := setClause{column: c.next.quoted, valueOf: func(s *backlog.Settlement) any { return t.writeForm(c.next).Write(s.Memory.Next) }}
	c.expired = []setClause{{column: c.next.quoted, expr: "NULL"}}
	c.failed = append(slices.Clip(c.failed), next)
	if m.InRetry != "" {
		r.policyColumn(m.InRetry)
		set := func(text string) setClause {
			return r.setClause("policy", mapping.Assignment{Column: m.InRetry, Value: mapping.Value{Text: text}})
		}
		c.success = []setClause{set("false")}
		c.expired = append(c.expired, set("false"))
		c.failed = append(c.failed, set("true"))
	}
	c.dead = slices.Concat(c.dead, c.expired)
	c.reset = slices.Concat(c.reset, c.expired)
}

// policyTime returns the column in which the policy keeps a time.
func (r *resolver) policyTime(name string) *timeColumn {
	col := r.policyColumn(name)
	tc := r.t.timeOf(col)
	if tc.written { // no setting says more about it
		// While it is empty, it is written in the form of the date of
		// insertion, and so must be read in that one's zone.
		r.t.setZone(tc, col, r.t.inserted.zone)
		tc.written = false
	}
	tc.policyTime = true
	if tc == r.t.inserted {
		r.t.Notef("policy: the date of insertion is that of the last failure: each failure makes a record young again, and none grows too old")
	}
	return tc
}

// policyColumn is writable for the columns that init can add.
func (r *resolver) policyColumn(name string) *column {
	if r.t.catalog.Find(name, r.t.text.FoldsNames) == nil {
		r.refuse("`backlog init` adds it, or name another under columns: of the policy; the columns are: "+r.t.catalog.Names(),
			"policy: table %s has no column %q", r.t.m.Name, name)
	}
	return r.writable("policy", name)
}

// lanes makes the lanes the policy's. Where failed records have no status of their own, what
// the policy counts tells them from new ones.
func (r *resolver) lanes() {
	t, c := r.t, &r.t.policy
	same := t.OneLane() && c.counts()
	if same {
		for _, b := range slices.Clone(t.states) {
			b.lane = backlog.Failed
			b.statusCond = b.cond
			b.cond += " AND " + c.count + " > 0"
			t.states = append(t.states, b)
		}
	}
	for i := range t.states {
		b := &t.states[i]
		b.statusCond = cmp.Or(b.statusCond, b.cond)
		switch {
		case b.lane == backlog.Failed && c.givesUp():
			b.guardCond = b.cond
			b.exhaustedCond = fmt.Sprintf("%s AND %s > %d", b.cond, c.count, c.rule.Retries)
			b.cond += " AND " + c.notExhausted()
		case b.lane == backlog.Fresh && same:
			b.cond += " AND " + c.orNull(c.count+" <= 0")
		}
		b.pageCond = b.cond
		b.indexCond = b.cond
		if b.lane == backlog.Failed && c.byCount() {
			// The class says how many failures there are, exactly; that there are
			// some would only tempt a planner to go through all of them by the count.
			b.pageCond = strings.Join(lists.NonEmpty(b.statusCond, c.notExhausted()), " AND ")
			b.indexCond = b.statusCond
		}
	}
	c.classes = r.classes(same)
	for l := range t.lanes {
		t.lanes[l] = t.laneOf(backlog.Lane(l))
	}
}

// classes returns those of the rule. counted says that each row of the failed lane counts at
// least one failure.
func (r *resolver) classes(counted bool) (list []waitClass) {
	t, c := r.t, &r.t.policy
	if !c.byCount() {
		return []waitClass{{}}
	}
	if !counted {
		list = []waitClass{{cond: c.count + " = 0", dueNow: true}, {cond: c.count + " < 0", dueNow: true, unexpected: true}}
		if !c.countColumn.NotNull {
			list = append(list, waitClass{cond: c.count + " IS NULL", dueNow: true})
		}
	}
	last := len(c.rule.Waits) - 1
	for n := 1; n <= max(last, 1); n++ {
		x := waitClass{cond: fmt.Sprintf("%s = %d", c.count, n), wait: c.rule.Waits[min(n, last)]}
		if n >= last && last != c.rule.Retries { // more are within
			// As a plain comparison it would tempt a planner to go through all
			// of them by the count.
			x.cond = t.text.WithoutIndex(fmt.Sprintf("%s >= %d", c.count, n))
			x.openEnded = true
		}
		list = append(list, x)
	}
	return list
}

// A laneOrder is how the records of a lane come, and which of them are due, as far as SQL can
// say it.
type laneOrder struct {
	time       *timeColumn // by which they come, before the key
	byWait     bool        // they come by how long they have waited, the longest first; else the newest first
	afterOp    string      // the operator for times and keys behind a place
	beforeOp   string      // and before one
	descending bool
	undated    []string // the columns by which those come that have no time
	newest     string   // the condition of those of these that come first; "": there are none
	oldest     string   // of those that come last, in the widest pass
	filtersAge bool     // a filter keeps to the pass's ages, which the order does not
	classes    []waitClass
}

// laneOf returns the order of the lane under the policy's rule.
func (t *layout) laneOf(l backlog.Lane) laneOrder {
	c := &t.policy
	if !c.rule.ByWait(l) {
		return laneOrder{
			time: t.inserted, afterOp: "<", beforeOp: ">", descending: true, undated: t.key,
			newest: t.missingDate("newest"), oldest: t.missingDate("oldest"), classes: []waitClass{{}},
		}
	}
	o := laneOrder{time: cmp.Or(c.next, c.lastFailure), byWait: true, afterOp: ">", beforeOp: "<", filtersAge: c.rule.Aged(), classes: c.classes}
	o.undated = t.orderBy(o.time)
	if c.rule.Aged() {
		o.newest = o.time.quoted + " IS NULL"
	}
	return o
}

// deadlines finds the columns of a policy with deadlines, before others are given their times.
func (r *resolver) deadlines() {
	policy := r.t.m.Policy
	var cols [attemptColumnCount]*column
	for i := range mapping.RefreshColumns {
		name, named := policy.RefreshColumn(i)
		if named || i <= mapping.AttemptNo || r.t.catalog.Find(name, r.t.text.FoldsNames) != nil {
			cols[i] = r.policyColumn(name)
		}
	}
	if policy.Rule != "" {
		cols[ruleColumn] = r.column("policy.refresh.rrule", policy.Rule)
	}
	if r.err == nil {
		r.t.refresh, r.err = newAttemptColumns(r.t.text, cols)
	}
}

// attemptLanes makes the lanes of the policy: both go by the next start, and the number
// of attempts tells them apart. Statuses do not matter to it.
func (r *resolver) attemptLanes() {
	t, a, c := r.t, r.t.refresh, &r.t.policy
	if a == nil {
		return // a column is missing
	}
	forms := make(map[int]*timeColumn)
	for _, i := range attemptTimes {
		if col := a.cols[i]; col != nil && (i != mapping.Disabled || a.disabledByTime) {
			forms[i] = t.timeOf(col)
			forms[i].policyTime = i != mapping.Disabled
			if forms[i].written { // no setting says more about it
				t.setZone(forms[i], col, t.inserted.zone)
				forms[i].written = i == mapping.Disabled
			}
		}
	}
	a.form = func(i int) timeform.Form { return t.writeForm(forms[i]) }
	c.rule = &backlog.Rule{Retries: -1, Starts: true}
	c.countColumn = a.cols[mapping.AttemptNo]
	c.count = t.text.Quote(c.countColumn.Name)
	c.next = forms[mapping.RefreshAt]
	c.reset = []setClause{{column: c.count, expr: "0"}, {column: c.next.quoted, expr: "?", now: c.next}} // of a row that is saved again
	for _, i := range []int{mapping.DeadlineAt, mapping.AttemptUID, mapping.DisabledReason, mapping.FailingSince} {
		if a.cols[i] != nil {
			c.reset = append(c.reset, setClause{column: a.quoted(i), expr: "NULL"})
		}
	}
	if a.cols[mapping.Disabled] != nil {
		c.reset = append(c.reset, setClause{column: a.quoted(mapping.Disabled), expr: a.enabledSQL})
	}
	t.memoryColumns = a.selected
	t.readMemory = t.readAttempts
	t.formSource = c.next
	t.inserted.role = otherTime
	t.words = inspect.AttemptWords
	t.guard = startGuard
	if a.cols[mapping.AttemptUID] != nil {
		t.guard = uidGuard
	}
	t.states = []pendingState{{lane: backlog.Fresh, label: "new", filter: filter{cond: a.waiting}}}
	r.lanes()
	for i := range t.states {
		b := &t.states[i]
		b.indexCond = a.waiting // one for both lanes
		b.title = a.waiting
		b.shownCond = a.planned + strings.TrimPrefix(b.cond, a.waiting)
	}
	t.states[1].label = "error"
	t.success = a.finished
	t.dead.cond = a.disabled
}
