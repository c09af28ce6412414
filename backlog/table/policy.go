package table

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// A retryCols is where a policy keeps what a row remembers, and how what is due
// is found there.
type retryCols struct {
	count      string   // quoted
	column     *column  // that it is in
	last, next *timeCol // next nil: a counted policy
	rule       *backlog.Rule
	classes    []retryClass

	countAt int // where the count stands among the columns of a page

	retrying, done []assign // what in_retry becomes
	ended          []assign // of a row that is planned no more
}

// A retryClass is a set of failed records that wait equally long, so that those
// due are a range of an index, in the order of the lane.
type retryClass struct {
	cond string // "" for all
	wait time.Duration
	now  bool // due at any time
	odd  bool // there should be none
	many bool // of more than one number of failures
}

// order is the column by which the failed lane goes.
func (c *retryCols) order() *timeCol { return cmp.Or(c.next, c.last) }

// within is the condition of rows that are not given up, "" if none ever is.
func (c *retryCols) within() string {
	if c.rule.Retries < 0 {
		return ""
	}
	return c.orNone(fmt.Sprintf("%s <= %d", c.count, c.rule.Retries))
}

// orNone is the condition on the count, or NULL.
func (c *retryCols) orNone(cond string) string {
	if c.column.NotNull {
		return cond
	}
	return "(" + c.count + " IS NULL OR " + cond + ")"
}

// counted is the condition of rows that have failed n times. The state alone does not tell that a row has failed
// once more since it was read.
func (c *retryCols) counted(n int) (cond string, args []any) { return c.column.Counted(c.count, n) }

// due is the rule's, for what SQL can only say to the form's step.
func (c *retryCols) due(lane backlog.Lane, m *backlog.Memory, now time.Time) bool {
	at, ok := c.rule.At(lane, m)
	return ok && !at.After(now)
}

// read returns what the row remembers.
func (c *retryCols) read(row []any) (*backlog.Memory, error) {
	m := new(backlog.Memory)
	var err error
	if m.Failures, err = db.AsCount(row[c.countAt]); err != nil {
		return nil, fmt.Errorf("column %s: %w", c.count, err)
	}
	if m.LastFailure, err = c.last.in(row); err == nil {
		m.Next, err = c.next.in(row)
	}
	return m, err
}

// retry resolves the columns of the policy.
func (r *resolver) retry() {
	m := r.t.m.Policy
	if m == nil || r.t.refresh != nil {
		return
	}
	if m.Next == "" && len(m.Waits) == 0 {
		r.refuse("set Waits and Retries of the mapping's Policy to those of the engine's", "policy: the mapping does not say how long a failed record waits")
		return
	}
	count := r.policyColumn(m.Count)
	if count.Class == db.Textual || count.Class == db.Bytes || count.Class == db.Boolean {
		r.refuse("name a column of whole numbers", "policy: column %s is %s, which cannot count failures", count.Name, count.Decl)
	}
	if count.Most > 0 && int64(m.Retries) >= count.Most {
		r.refuse("let it give up earlier, or name a column of larger numbers", "policy: column %s is %s, which cannot count %d failures", count.Name, count.Decl, m.Retries+1)
	}
	c := &retryCols{rule: &backlog.Rule{Retries: m.Retries}, count: r.t.text.Quote(count.Name), column: count}
	c.last = r.policyTime(m.Last)
	if m.Next == "" {
		c.rule.Waits = m.Waits
	} else {
		c.next = r.policyTime(m.Next)
		if m.InRetry != "" {
			r.policyColumn(m.InRetry)
			set := func(text string) []assign {
				return []assign{r.assign("policy", mapping.Assignment{Column: m.InRetry, Value: mapping.Value{Text: text}})}
			}
			c.retrying, c.done = set("true"), set("false")
		}
		c.ended = append([]assign{{col: c.next.quoted, expr: "NULL"}}, c.done...)
	}
	r.t.retry = c
}

// policyTime returns the column in which the policy keeps a time.
func (r *resolver) policyTime(name string) *timeCol {
	col := r.policyColumn(name)
	tc := r.t.timeOf(col)
	if tc.written { // no setting says more about it
		// While it is empty, it is written in the form of the date of
		// insertion, and so must be read in that one's zone.
		r.t.readIn(tc, col, r.t.inserted.zone)
		tc.written = false
	}
	tc.policys = true
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

// retryLanes makes the lanes the policy's. Where failed records have no
// status of their own, the number of failures tells them from new ones.
func (r *resolver) retryLanes() {
	t, c := r.t, r.t.retry
	if c == nil {
		return
	}
	same := t.OneLane()
	if same {
		for _, b := range slices.Clone(t.branches) {
			b.lane, b.base = backlog.Failed, b.cond
			b.cond += " AND " + c.count + " > 0"
			t.branches = append(t.branches, b)
		}
	}
	for i := range t.branches {
		b := &t.branches[i]
		b.base = cmp.Or(b.base, b.cond)
		switch {
		case b.lane == backlog.Failed && c.rule.Retries >= 0:
			b.guard, b.exhausted = b.cond, fmt.Sprintf("%s AND %s > %d", b.cond, c.count, c.rule.Retries)
			b.cond += " AND " + c.within()
		case b.lane == backlog.Fresh && same:
			b.cond += " AND " + c.orNone(c.count+" <= 0")
		}
	}
	if c.next != nil {
		c.classes = []retryClass{{}}
		return
	}
	if !same {
		c.classes = []retryClass{{cond: c.count + " = 0", now: true}, {cond: c.count + " < 0", now: true, odd: true}}
		if !c.column.NotNull {
			c.classes = append(c.classes, retryClass{cond: c.count + " IS NULL", now: true})
		}
	}
	last := len(c.rule.Waits) - 1
	for n := 1; n <= max(last, 1); n++ {
		x := retryClass{cond: fmt.Sprintf("%s = %d", c.count, n), wait: c.rule.Waits[min(n, last)]}
		if n >= last && last != c.rule.Retries { // more are within
			// As a plain comparison it would tempt a planner to go through all
			// of them by the count.
			x.cond, x.many = t.text.Unsearched(fmt.Sprintf("%s >= %d", c.count, n)), true
		}
		c.classes = append(c.classes, x)
	}
}

// refresh finds the columns of the refresh policy, before others are given their times.
func (r *resolver) refresh() {
	policy := r.t.m.Policy
	if policy == nil || policy.Refresh == nil {
		return
	}
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
		r.t.writer = attemptWriter{r.t}
	}
}

// refreshLanes makes the lanes of the policy: both go by the next start, and the number
// of attempts tells them apart. Statuses do not matter to it.
func (r *resolver) refreshLanes() {
	t, c := r.t, r.t.refresh
	forms := make(map[int]*timeCol)
	for _, i := range append(slices.Clone(attemptTimes), mapping.Disabled) {
		if col := c.column(i); col != nil && (i != mapping.Disabled || c.disabledAt) {
			forms[i] = t.timeOf(col)
			forms[i].policys = i != mapping.Disabled
			if forms[i].written { // no setting says more about it
				t.readIn(forms[i], col, t.inserted.zone)
				forms[i].written = i == mapping.Disabled
			}
		}
	}
	c.form = func(i int) timeform.Form { return t.writeForm(forms[i]) }
	count, next := c.column(mapping.AttemptNo), forms[mapping.RefreshAt]
	t.retry = &retryCols{count: r.t.text.Quote(count.Name), column: count, next: next, rule: &backlog.Rule{Retries: -1, Starts: true}}
	t.retry.ended = []assign{{col: next.quoted, expr: "?", time: next}} // of a row that is saved again
	for _, i := range []int{mapping.DeadlineAt, mapping.AttemptUID, mapping.DisabledReason, mapping.FailingSince, mapping.Disabled} {
		if c.column(i) != nil {
			t.retry.ended = append(t.retry.ended, assign{col: c.quoted(i), expr: map[bool]string{false: "NULL", true: c.enabled}[i == mapping.Disabled]})
		}
	}
	t.branches = []branch{{lane: backlog.Fresh, label: "new", filter: filter{cond: c.waiting}}}
	r.retryLanes()
	t.branches[1].label = "error"
	t.success, t.dead.cond = c.finished, c.disabled
}

// remember reads what the policy keeps in the row.
func (t *layout) remember(rec *backlog.Record, row []any) (err error) {
	switch {
	case t.refresh != nil:
		values := db.Mapped(t.sel.refresh, func(at int) any { return row[at] })
		rec.Memory = new(backlog.Memory)
		*rec.Memory, err = t.refresh.read(values)
	case t.retry != nil:
		rec.Memory, err = t.retry.read(row)
	}
	return err
}
