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

// policyColumns are the columns in which a policy keeps when a row is due, and what is written to
// them. The zero value is a policy that keeps nothing: age alone decides.
type policyColumns struct {
	rule        *backlog.Rule
	count       string      // the column of the count, quoted; "": nothing is kept
	countColumn *column     // nil: nothing is kept
	lastFailure *timeColumn // nil: the refresh policy, which keeps only the next start
	next        *timeColumn // nil: the wait is computed from the count and the last failure
	classes     []waitClass // of failed records

	failed  []setClause // for a row that failed and is tried again
	dead    []setClause // for a row that failed and is not tried again
	success []setClause
	expired []setClause // for a row that dies without an attempt
	reset   []setClause // for a row that becomes new
}

// A waitClass is the failed records that wait equally long. Those that are due are one range of an
// index, in the order of the lane.
type waitClass struct {
	cond       string // "": every record
	wait       time.Duration
	dueNow     bool // due at any time, without a wait
	unexpected bool // no row should be in this class
	openEnded  bool // the class has several numbers of failures
}

// counts reports whether rows count their attempts or failures.
func (c *policyColumns) counts() bool { return c.countColumn != nil }

// byCount reports whether the count determines how long a row waits.
func (c *policyColumns) byCount() bool { return c.rule != nil && c.rule.Waits != nil }

// givesUp reports whether a row can be out of retries.
func (c *policyColumns) givesUp() bool { return c.rule != nil && c.rule.Retries >= 0 }

// notExhausted returns the condition of rows with retries left, "" if retries are unlimited.
func (c *policyColumns) notExhausted() string {
	if !c.givesUp() {
		return ""
	}
	return c.orNull(fmt.Sprintf("%s <= %d", c.count, c.rule.Retries))
}

// orNull extends a condition on the count to rows without a count.
func (c *policyColumns) orNull(cond string) string {
	if c.countColumn.NotNull {
		return cond
	}
	return "(" + c.count + " IS NULL OR " + cond + ")"
}

// isDue decides exactly whether a row is due. SQL decides it only in the step of the time's form.
func (c *policyColumns) isDue(lane backlog.Lane, m *backlog.Memory, now time.Time) bool {
	at, ok := c.rule.At(lane, m)
	return ok && !at.After(now)
}

// readFailures returns what the row remembers under a policy that counts failures.
func (t *layout) readFailures(row []any) (*backlog.Memory, error) {
	c := &t.policy
	m := new(backlog.Memory)
	var err error
	m.Failures, err = db.AsCount(row[t.selected.memoryAt[0]])
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.count, err)
	}
	m.LastFailure, err = c.lastFailure.timeIn(row)
	if err != nil {
		return m, err
	}
	m.Next, err = c.next.timeIn(row)
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

// countedPolicy resolves the columns of a policy that counts failures.
func (r *resolver) countedPolicy() {
	t := r.t
	m := t.m.Policy
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
	c.lastFailure = r.policyTimeColumn(m.Last)
	// The number of failures is set, not incremented, so that it may be written twice.
	failures := func(s *backlog.Settlement) any { return c.countColumn.CapCount(s.Memory.Failures) }
	lastFailure := func(s *backlog.Settlement) any { return t.writeForm(c.lastFailure).Write(s.At) }
	c.failed = []setClause{
		{column: c.count, valueOf: failures},
		{column: c.lastFailure.quoted, valueOf: lastFailure},
	}
	c.dead = c.failed
	c.reset = []setClause{{column: c.count, expr: "0"}}
	t.memoryColumns = []string{c.count}
	t.readMemory = t.readFailures
	if m.Next != "" {
		r.plannedPolicy(m)
	}
}

// plannedPolicy resolves the further columns of a policy that plans the next attempt.
func (r *resolver) plannedPolicy(m *mapping.PolicyColumns) {
	t := r.t
	c := &t.policy
	c.rule.Waits = nil
	c.next = r.policyTimeColumn(m.Next)
	next := func(s *backlog.Settlement) any { return t.writeForm(c.next).Write(s.Memory.Next) }
	c.expired = []setClause{{column: c.next.quoted, expr: "NULL"}}
	c.failed = append(slices.Clip(c.failed), setClause{column: c.next.quoted, valueOf: next})
	if m.InRetry != "" {
		r.policyColumn(m.InRetry)
		set := func(text string) setClause {
			return r.resolveSetClause("policy", mapping.Assignment{Column: m.InRetry, Value: mapping.Value{Text: text}})
		}
		c.success = []setClause{set("false")}
		c.expired = append(c.expired, set("false"))
		c.failed = append(c.failed, set("true"))
	}
	c.dead = slices.Concat(c.dead, c.expired)
	c.reset = slices.Concat(c.reset, c.expired)
}

// policyTimeColumn resolves a column in which the policy keeps a time.
func (r *resolver) policyTimeColumn(name string) *timeColumn {
	col := r.policyColumn(name)
	tc := r.t.timeOf(col)
	r.t.adoptInsertionZone(tc, col)
	tc.onlyWritten = false // passes read it
	tc.policyTime = true
	if tc == r.t.inserted {
		r.t.Notef("policy: the date of insertion is that of the last failure: each failure makes a record young again, and none grows too old")
	}
	return tc
}

// adoptInsertionZone gives the time column the zone of the date of insertion, unless a setting says
// more about it. An empty column is written in the form of that date, so it must be read in the same
// zone.
func (t *layout) adoptInsertionZone(tc *timeColumn, col *column) {
	isNamed := !tc.onlyWritten
	if isNamed {
		return
	}
	t.setZone(tc, col, t.inserted.zone)
}

// policyColumn is [resolver.writable] for a column that init can add.
func (r *resolver) policyColumn(name string) *column {
	if r.t.catalog.Find(name, r.t.text.FoldsNames) == nil {
		r.refuse("`backlog init` adds it, or name another under columns: of the policy; the columns are: "+r.t.catalog.Names(),
			"policy: table %s has no column %q", r.t.m.Name, name)
	}
	return r.writable("policy", name)
}

// lanes adds the conditions of the policy to the states, and sets the orders of the lanes. Where
// failed records have no status of their own, their count distinguishes them from new ones.
func (r *resolver) lanes() {
	t := r.t
	c := &t.policy
	splitByCount := t.OneLane() && c.counts()
	if splitByCount {
		for _, state := range slices.Clone(t.states) {
			state.lane = backlog.Failed
			state.statusCond = state.cond
			state.cond += " AND " + c.count + " > 0"
			t.states = append(t.states, state)
		}
	}
	for i := range t.states {
		state := &t.states[i]
		state.statusCond = cmp.Or(state.statusCond, state.cond)
		switch {
		case state.lane == backlog.Failed && c.givesUp():
			state.guardCond = state.cond
			state.exhaustedCond = fmt.Sprintf("%s AND %s > %d", state.cond, c.count, c.rule.Retries)
			state.cond += " AND " + c.notExhausted()
		case state.lane == backlog.Fresh && splitByCount:
			state.cond += " AND " + c.orNull(c.count+" <= 0")
		}
		state.pageCond = state.cond
		state.indexCond = state.cond
		if state.lane == backlog.Failed && c.byCount() {
			// The waitClass asks for an exact count. A condition that the count is
			// positive would only tempt a planner to read all of them by the count.
			state.pageCond = strings.Join(lists.NonEmpty(state.statusCond, c.notExhausted()), " AND ")
			state.indexCond = state.statusCond
		}
	}
	c.classes = r.classes(splitByCount)
	for l := range t.lanes {
		t.lanes[l] = t.laneOf(backlog.Lane(l))
	}
}

// classes returns the wait classes of the rule. counted means that every failed row counts at least
// one failure.
func (r *resolver) classes(counted bool) (list []waitClass) {
	t := r.t
	c := &t.policy
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
		if n >= last && last != c.rule.Retries { // rows can have more failures
			// A plain comparison would tempt a planner to read all of them by the count.
			x.cond = t.text.WithoutIndex(fmt.Sprintf("%s >= %d", c.count, n))
			x.openEnded = true
		}
		list = append(list, x)
	}
	return list
}

// A laneOrder is the order of the records in a lane, and which of them are due, as far as SQL can
// decide that.
type laneOrder struct {
	time       *timeColumn // orders the records, before the key
	byWait     bool        // the record that has waited longest comes first; false: the newest
	afterOp    string      // compares times and keys after a cursor
	beforeOp   string      // compares those before a cursor
	descending bool
	undated    []string // columns that order records without a time
	newest     string   // condition of records without a time that come first; "": there are none
	oldest     string   // condition of those that come last, in the widest pass
	filtersAge bool     // the ages of a pass are a filter, not a range of the order
	classes    []waitClass
}

// laneOf returns the order of the lane under the policy's rule.
func (t *layout) laneOf(l backlog.Lane) laneOrder {
	c := &t.policy
	if !c.rule.ByWait(l) {
		return laneOrder{
			time:    t.inserted,
			afterOp: "<", beforeOp: ">",
			descending: true,
			undated:    t.key,
			newest:     t.missingDate("newest"),
			oldest:     t.missingDate("oldest"),
			classes:    []waitClass{{}},
		}
	}
	o := laneOrder{
		time:       cmp.Or(c.next, c.lastFailure),
		byWait:     true,
		afterOp:    ">",
		beforeOp:   "<",
		filtersAge: c.rule.Aged(),
		classes:    c.classes,
	}
	o.undated = t.orderBy(o.time)
	if c.rule.Aged() {
		o.newest = o.time.quoted + " IS NULL"
	}
	return o
}

// deadlines resolves the columns of the refresh policy. It comes first, since other steps need the
// columns' times.
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

// attemptLanes makes the lanes of the refresh policy. Both are ordered by the next start. The
// number of attempts decides to which lane a row belongs. Statuses do not matter.
func (r *resolver) attemptLanes() {
	t := r.t
	a := t.refresh
	c := &t.policy
	if a == nil {
		return // a column is missing
	}
	times := make(map[int]*timeColumn)
	for _, i := range attemptTimes {
		col := a.cols[i]
		isMarkOnly := i == mapping.Disabled // passes do not read its times
		if col == nil || isMarkOnly && !a.disabledByTime {
			continue
		}
		tc := t.timeOf(col)
		t.adoptInsertionZone(tc, col)
		tc.policyTime = !isMarkOnly
		if !isMarkOnly {
			tc.onlyWritten = false
		}
		times[i] = tc
	}
	a.form = func(i int) timeform.Form { return t.writeForm(times[i]) }
	c.rule = &backlog.Rule{Retries: -1, Starts: true}
	c.countColumn = a.cols[mapping.AttemptNo]
	c.count = t.text.Quote(c.countColumn.Name)
	c.next = times[mapping.RefreshAt]
	c.reset = []setClause{ // as if the row were saved again
		{column: c.count, expr: "0"},
		{column: c.next.quoted, expr: "?", nowColumn: c.next},
	}
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
	t.states = []pendingState{{lane: backlog.Fresh, label: "new", filter: filter{cond: a.dated}}}
	r.lanes()
	for i := range t.states {
		state := &t.states[i]
		state.indexCond = a.dated // one index for both lanes
		state.title = a.dated
		state.shownCond = a.waiting + strings.TrimPrefix(state.cond, a.dated)
	}
	t.states[1].label = "error"
	t.success = a.finished
	t.dead.cond = a.disabled
}
