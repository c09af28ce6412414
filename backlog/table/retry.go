package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
)

// A retryCols is where a policy keeps what a row remembers, and how what is due
// is found there.
type retryCols struct {
	count, inRetry string   // quoted; inRetry "": there is none
	nullable       bool     // the count may be NULL
	last, next     *timeCol // next nil: a counted policy
	waits          []time.Duration
	retries        int
	classes        []retryClass

	// Where the columns stand in the selection; nextAt -1: nowhere.
	countAt, lastAt, nextAt int

	retrying, done []assign // what in_retry becomes
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
func (c *retryCols) order() *timeCol {
	if c.next != nil {
		return c.next
	}
	return c.last
}

// orderAt is where that column stands in the selection.
func (c *retryCols) orderAt() int {
	if c.next != nil {
		return c.nextAt
	}
	return c.lastAt
}

// within is the condition of rows that are not given up, "" if none ever is.
func (c *retryCols) within() string {
	if c.retries < 0 {
		return ""
	}
	return c.orNone(fmt.Sprintf("%s <= %d", c.count, c.retries))
}

// orNone is the condition on the count, or NULL.
func (c *retryCols) orNone(cond string) string {
	if !c.nullable {
		return cond
	}
	return "(" + c.count + " IS NULL OR " + cond + ")"
}

// beyond is that of the others.
func (c *retryCols) beyond() string {
	if c.retries < 0 {
		return ""
	}
	return fmt.Sprintf("%s > %d", c.count, c.retries)
}

// due is the policy's, for what SQL can only say to the form's step.
func (c *retryCols) due(r backlog.Retry, now time.Time) bool {
	switch {
	case c.next != nil:
		return !r.Next.After(now)
	case r.Count <= 0 || r.Last.IsZero():
		return true
	}
	return !r.Last.Add(c.waits[min(r.Count, len(c.waits)-1)]).After(now)
}

// read returns what the row remembers.
func (c *retryCols) read(row []any) (r backlog.Retry, err error) {
	if r.Count, err = asCount(row[c.countAt]); err != nil {
		return r, fmt.Errorf("column %s: %w", c.count, err)
	}
	for _, x := range []struct {
		col *timeCol
		at  int
		to  *time.Time
	}{{c.last, c.lastAt, &r.Last}, {c.next, c.nextAt, &r.Next}} {
		if x.col == nil || row[x.at] == nil || isZeroDate(row[x.at]) {
			continue
		}
		if x.col.known() == nil {
			continue // the first of its kind, since the page was asked for
		}
		if *x.to, err = x.col.known().parse(row[x.at]); err != nil {
			return r, fmt.Errorf("column %s: %w", x.col.name, err)
		}
	}
	return r, nil
}

// asCount returns a number of failures; NULL is none.
func asCount(raw any) (int, error) {
	switch v := raw.(type) {
	case nil:
		return 0, nil
	case int64:
		return int(v), nil
	case float64:
		if v == float64(int64(v)) {
			return int(v), nil
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%v is not a number of failures", raw)
}

// retry resolves the columns of the policy.
func (r *resolver) retry() error {
	m := r.m.Retry
	if m == nil {
		return nil
	}
	c := &retryCols{waits: m.Waits, retries: m.Retries}
	count, err := r.policyColumn(m.Count)
	if err != nil {
		return err
	}
	if count.class == classText || count.class == classBlob || count.class == classBoolean {
		return problem("name a column of whole numbers", "policy: column %s is %s, which cannot count failures", count.name, count.decl)
	}
	c.count, c.nullable = r.d.quote(count.name), !count.notNull
	for _, x := range []struct {
		name string
		to   **timeCol
	}{{m.Last, &c.last}, {m.Next, &c.next}} {
		if x.name == "" {
			continue
		}
		col, err := r.policyColumn(x.name)
		if err != nil {
			return err
		}
		*x.to = r.t.timeOf(col)
		(*x.to).written = false
	}
	if m.InRetry != "" {
		col, err := r.policyColumn(m.InRetry)
		if err != nil {
			return err
		}
		c.inRetry = r.d.quote(col.name)
		for text, to := range map[string]*[]assign{"true": &c.retrying, "false": &c.done} {
			a, _, _, err := r.assign("policy", Assignment{Column: col.name, Value: Value{Text: text}})
			if err != nil {
				return err
			}
			*to = []assign{a}
		}
	}
	r.t.retry = c
	return nil
}

// policyColumn is writable for the columns that init can add.
func (r *resolver) policyColumn(name string) (*column, error) {
	if r.cat.find(name, r.d.foldsNames()) == nil {
		return nil, problem("`backlog init` adds it, or name another under columns: of the policy; the columns are: "+r.cat.names(),
			"policy: table %s has no column %q", r.m.Name, name)
	}
	return r.writable("policy", name)
}

// retryLanes makes the lanes those of the policy. Where failed records have no
// status of their own, the number of failures tells them from new ones.
func (r *resolver) retryLanes() {
	t, c := r.t, r.t.retry
	if c == nil {
		return
	}
	same := !t.failedLane
	if same {
		for _, b := range slices.Clone(t.branches) {
			b.lane, b.base = backlog.Failed, b.cond
			b.cond += " AND " + c.count + " > 0"
			t.branches = append(t.branches, b)
		}
		t.failedLane = true
	}
	for i := range t.branches {
		b := &t.branches[i]
		b.base = cmp.Or(b.base, b.cond)
		switch {
		case b.lane == backlog.Failed && c.retries >= 0:
			b.exhausted = b.cond + " AND " + c.beyond()
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
		if c.nullable {
			c.classes = append(c.classes, retryClass{cond: c.count + " IS NULL", now: true})
		}
	}
	last := len(c.waits) - 1
	for n := 1; n < last; n++ {
		c.classes = append(c.classes, retryClass{cond: fmt.Sprintf("%s = %d", c.count, n), wait: c.waits[n]})
	}
	op := ">="
	if last == c.retries {
		op = "=" // no more are within
	}
	c.classes = append(c.classes, retryClass{cond: fmt.Sprintf("%s %s %d", c.count, op, max(last, 1)), wait: c.waits[last], many: op == ">="})
}

// retryQuery is pageQuery for the failed lane of a policy: one statement over
// the classes, each in the order of an index, which the database merges.
func (t *Table) retryQuery(q backlog.Query, p part, limit int) (string, []any) {
	var terms []string
	var args []any
	for i, b := range t.branches {
		if b.lane == backlog.Failed {
			list, a := t.retryTerms(q, p, i, t.retry.classes)
			terms, args = append(terms, list...), append(args, a...)
		}
	}
	return t.merged(terms), append(args, limit)
}

// retryTerms are the parts that one branch has in it.
func (t *Table) retryTerms(q backlog.Query, p part, branch int, classes []retryClass) (terms []string, args []any) {
	for _, c := range classes {
		conds, a := t.retryConditions(q, p, t.branches[branch], c)
		terms = append(terms, fmt.Sprintf("SELECT %s, %d, %s FROM %s WHERE %s", t.sel.aliased(), branch, t.orderColumns(), t.name, conds))
		args = append(args, a...)
	}
	return terms, args
}

// merged returns one statement over the terms, in the order of the lane.
func (t *Table) merged(terms []string) string {
	names := make([]string, len(t.key)+1)
	for i := range names {
		names[i] = t.sel.orderAlias(i)
	}
	return strings.Join(terms, " UNION ALL ") + " ORDER BY " + strings.Join(names, ", ") + " LIMIT ?"
}

// orderColumns are those that the lane is ordered by, as they are: a planner
// does not follow an index by an expression.
func (t *Table) orderColumns() string {
	cols := make([]string, 0, len(t.key)+1)
	for i, c := range append([]string{t.retry.order().quoted}, t.key...) {
		cols = append(cols, c+" AS "+t.sel.orderAlias(i))
	}
	return strings.Join(cols, ", ")
}

func (s *selection) orderAlias(i int) string { return s.prefix + "o" + strconv.Itoa(i) }

func (t *Table) retryConditions(q backlog.Query, p part, b branch, c retryClass) (string, []any) {
	conds := append(t.pending(b), nonEmpty(c.cond)...)
	var args []any
	add := func(cond string, a ...any) { conds, args = append(conds, cond), append(args, a...) }
	order := t.retry.order()
	within := isWithin(q.After, p.seg)
	if p.seg == segDated {
		switch {
		case p.ties:
			add(order.quoted+" = ?", q.After.Order)
		case within:
			add(order.quoted+" > ?", q.After.Order)
		case c.now:
			add(order.quoted + " IS NOT NULL")
		}
		if !c.now {
			add(order.quoted+" <= ?", t.writeForm(order).upper(q.Now.Add(-c.wait)))
		}
	} else {
		add(order.quoted + " IS NULL")
	}
	if within && (p.ties || p.seg != segDated) {
		op := ">"
		if q.After.Before {
			op = ">="
		}
		text, a := keyRange(op, t.key, q.After.Key)
		add(text, a...)
	}
	if isWithin(q.Until, p.seg) {
		op, cols, first := "<=", t.key, []any(nil)
		if q.Until.Before {
			op = "<"
		}
		if p.seg == segDated {
			cols, first = slices.Concat([]string{order.quoted}, t.key), []any{q.Until.Order}
		}
		text, a := keyRange(op, cols, q.Until.Key, first...)
		add(text, a...)
	}
	t.addAge(q, add)
	t.addTimely(q, add)
	return strings.Join(conds, " AND "), args
}

// addAge adds the condition for the pass's ages.
func (t *Table) addAge(q backlog.Query, add func(string, ...any)) {
	var or []string
	var args []any
	if form := t.inserted.known(); form != nil {
		or, args = append(or, t.inserted.quoted+" >= ?"), append(args, t.writeForm(t.inserted).lower(q.Now.Add(-q.MaxAge)))
	}
	if t.hasSegment(segNewest, q.Widest) {
		or = append(or, t.missing("newest"))
	}
	if t.hasSegment(segOldest, q.Widest) {
		or = append(or, t.missing("oldest"))
	}
	if len(or) == 0 {
		or = []string{t.inserted.quoted + " IS NOT NULL"} // none, and so no row
	}
	// The order must come from the index that this has no part in.
	add(t.d.guard(strings.Join(or, " OR ")), args...)
}

// retryAssigns returns what a failure writes for the policy, with room for n
// rows where each has a time of its own.
func (t *Table) retryAssigns(b batch, n int) []assign {
	c := t.retry
	if c == nil || b.outcome == backlog.Succeeded {
		return nil
	}
	at := "?"
	if b.each {
		at = t.byKey(n)
	}
	list := []assign{
		{col: c.count, expr: "CASE WHEN " + c.count + " > 0 THEN " + c.count + " ELSE 0 END + 1"},
		{col: c.last.quoted, expr: at},
	}
	if c.next == nil {
		return list
	}
	if b.ends {
		return append(append(list, assign{col: c.next.quoted, expr: "NULL"}), c.done...)
	}
	return append(append(list, assign{col: c.next.quoted, expr: at}), c.retrying...)
}

// byKey returns an expression that picks a value for each of n keys.
func (t *Table) byKey(n int) string {
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN ?"
	return "CASE" + strings.Repeat(when, n) + " END"
}

// retryTimes returns the times that a failure writes, as the columns have them.
func (t *Table) retryTimes(s *backlog.Settlement, ends bool) (list []any) {
	c := t.retry
	list = append(list, t.written(c.last).write(s.At))
	if c.next != nil && !ends {
		list = append(list, t.written(c.next).write(s.Retry.Next))
	}
	return list
}

// written is writeForm, remembered: what is written now is read later.
func (t *Table) written(c *timeCol) timeForm {
	f := t.writeForm(c)
	if c.known() == nil {
		c.set(f)
	}
	return f
}

// retryArgs returns the arguments of retryAssigns.
func (t *Table) retryArgs(b batch, rows []*backlog.Settlement, n int) (args []any) {
	if t.retry == nil || b.outcome == backlog.Succeeded {
		return nil
	}
	if !b.each {
		return t.retryTimes(rows[0], b.ends)
	}
	times := make([][]any, len(rows))
	for i, s := range rows {
		times[i] = t.retryTimes(s, b.ends)
	}
	for col := range times[0] {
		for i := range n {
			i = min(i, len(rows)-1)
			k := rows[i].Record.Key
			for p := range k.Len() {
				args = append(args, k.Part(p))
			}
			args = append(args, times[i][col])
		}
	}
	return args
}

// differs reports whether the rows have different times to be written.
func (t *Table) differs(b batch, rows []*backlog.Settlement) bool {
	if t.retry == nil || b.outcome == backlog.Succeeded {
		return false
	}
	first := t.retryTimes(rows[0], b.ends)
	return slices.ContainsFunc(rows, func(s *backlog.Settlement) bool {
		return !slices.Equal(first, t.retryTimes(s, b.ends))
	})
}
