package table

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// A batch is the part of a group that one statement settles: the same state
// was read, the same is to be written.
type batch struct {
	state  int
	target backlog.RowState
	text   string // of the error, where a column holds it
	ends   bool   // it is not tried again
	each   bool   // the rows have different values to be written for the policy
	count  int    // of failures as they were read, where one is added to them
}

// A work is a batch with its rows.
type work struct {
	batch
	rows []*backlog.Settlement
}

// works divides the group into batches.
func (t *layout) works(group []backlog.Settlement) []work {
	var list []work
	place := make(map[batch]int)
	at := 0
	for i := range group {
		if b := t.batchOf(&group[i]); i == 0 || b != list[at].batch { // most have the one of the row before
			known, ok := place[b]
			if at = known; !ok {
				at = len(list)
				place[b] = at
				list = append(list, work{batch: b})
			}
		}
		list[at].rows = append(list[at].rows, &group[i])
	}
	for i := range list {
		list[i].each = t.differs(list[i].batch, list[i].rows)
	}
	return list
}

func (t *layout) batchOf(s *backlog.Settlement) batch {
	b := batch{state: s.Record.Origin, target: s.Target}
	if t.counts(b) {
		b.count = s.Record.Failures.Count
	}
	b.ends = b.target == backlog.RowDead && (t.HasDead() || s.Failures.Next.IsZero())
	if c := t.actions[b.target].errCol; c != nil {
		b.text = c.Fit(s.Error)
	}
	return b
}

// assignments returns what the settlement of the batch writes but for the
// error and the policy's columns. The status is left alone where the rows have
// it already.
func (t *layout) assignments(b batch) []assign {
	a := t.actions[b.target]
	list := a.status
	if t.holds(b.state, a) {
		list = nil
	}
	also, policy := a.also, t.retryAssigns(b, 1)
	if len(policy) > 0 {
		also = slices.DeleteFunc(slices.Clone(also), func(x assign) bool {
			return slices.ContainsFunc(policy, func(y assign) bool { return x.col == y.col })
		})
	}
	return slices.Concat(list, also)
}

// holds reports whether rows in the state have the action's status already.
func (t *layout) holds(state int, a action) bool {
	for _, x := range a.status {
		have, ok := t.branches[state].equal[x.col]
		if !x.fixed || !ok || have != x.value { // now, or one more: always a change
			return false
		}
	}
	return true
}

// sizes of prepared updates: keys are filled up to the next one, so that a
// group of any size uses one of a few statements.
var sizes = [...]int{1, 10, 50, backlog.MaxGroup / 2, backlog.MaxGroup}

func roundUp(n int) int {
	i, _ := slices.BinarySearch(sizes[:], n)
	return sizes[i]
}

// updateArgs returns the arguments of the batch's statement for roundUp(len(rows))
// keys; the last key fills the places that are left.
func (t *layout) updateArgs(w work, at time.Time) []any {
	n := roundUp(len(w.rows))
	args := append(make([]any, 0, n*len(t.key)+5), t.setArgs(w, at)...)
	for i := range n {
		args = db.Bind(args, w.rows[min(i, len(w.rows)-1)].Record.Key)
	}
	return append(args, t.readArgs(w.batch)...)
}

// setArgs returns the arguments of the SET clause.
func (t *layout) setArgs(w work, at time.Time) []any {
	args := t.timeArgs(t.assignments(w.batch), at)
	if t.actions[w.target].errCol != nil {
		args = append(args, w.text)
	}
	return append(args, t.retryArgs(w.batch, w.rows, roundUp(len(w.rows)))...)
}

// timeArgs returns the arguments of the times among the assignments.
func (t *layout) timeArgs(set []assign, at time.Time) (args []any) {
	for _, a := range set {
		if a.time != nil {
			args = append(args, t.writeForm(a.time).Write(at))
		}
	}
	return args
}

// updateText returns the statement for n keys, "" if there is nothing to
// write, and what it sets.
func (t *layout) updateText(b batch, n int) (string, []assign) {
	set := t.assignments(b)
	if c := t.actions[b.target].errCol; c != nil {
		set = append(set, assign{col: t.text.Quote(c.Name), expr: "?"})
	}
	set = append(set, t.retryAssigns(b, n)...)
	if len(set) == 0 {
		return "", nil
	}
	return "UPDATE " + t.name + " SET " + setText(set) + " WHERE " + t.asRead(b, n), set
}

func nonEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func setText(set []assign) string {
	list := make([]string, len(set))
	for i, a := range set {
		list[i] = a.col + " = " + a.expr
	}
	return strings.Join(list, ", ")
}

// retryAssigns returns what a failure writes for the policy, with room for n
// rows where each has values of its own.
func (t *layout) retryAssigns(b batch, n int) []assign {
	c := t.retry
	if c == nil || b.target == backlog.RowSuccess {
		return nil
	}
	at := func(col string) assign {
		if b.each {
			return assign{col: col, expr: t.byKey(n, t.quotedColumn(col))}
		}
		return assign{col: col, expr: "?"}
	}
	// A number, not one more: to be written twice must do no harm.
	list := []assign{at(c.count), at(c.last.quoted)}
	if c.next == nil {
		return list
	}
	if b.ends {
		return append(list, c.ended...)
	}
	return append(append(list, at(c.next.quoted)), c.retrying...)
}

// byKey returns an expression that picks a value of the column for each of n
// keys.
func (t *layout) byKey(n int, c *column) string {
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN " + t.text.Cast(c)
	return "CASE" + strings.Repeat(when, n) + " END"
}

// retryValues returns what a failure writes, as the columns have it.
func (t *layout) retryValues(s *backlog.Settlement, ends bool) (list []any) {
	c := t.retry
	count := int64(s.Failures.Count)
	if c.most > 0 {
		count = min(count, c.most) // what waits no longer for that need not be told from it
	}
	list = append(list, count, t.writeForm(c.last).Write(s.At))
	if c.next != nil && !ends {
		list = append(list, t.writeForm(c.next).Write(s.Failures.Next))
	}
	return list
}

// retryArgs returns the arguments of retryAssigns.
func (t *layout) retryArgs(b batch, rows []*backlog.Settlement, n int) (args []any) {
	if t.retry == nil || b.target == backlog.RowSuccess {
		return nil
	}
	if !b.each {
		return t.retryValues(rows[0], b.ends)
	}
	times := make([][]any, len(rows))
	for i, s := range rows {
		times[i] = t.retryValues(s, b.ends)
	}
	for col := range times[0] {
		for i := range n {
			i = min(i, len(rows)-1)
			args = db.Bind(args, rows[i].Record.Key)
			args = append(args, times[i][col])
		}
	}
	return args
}

// differs reports whether the rows have different values to be written.
func (t *layout) differs(b batch, rows []*backlog.Settlement) bool {
	if t.retry == nil || b.target == backlog.RowSuccess {
		return false
	}
	first := t.retryValues(rows[0], b.ends)
	return slices.ContainsFunc(rows, func(s *backlog.Settlement) bool {
		return !slices.Equal(first, t.retryValues(s, b.ends))
	})
}

// asRead is the condition of the batch's rows, of n keys, that are as they were
// read. Its arguments are the keys and readArgs.
func (t *layout) asRead(b batch, n int) string {
	conds := []string{t.text.KeyIn(t.key, n), t.text.Unsearched(cmp.Or(t.branches[b.state].guard, t.branches[b.state].cond))}
	if t.counts(b) {
		conds = append(conds, t.text.Unsearched(t.retry.counted(b.count)))
	}
	if t.where.cond != "" {
		conds = append(conds, t.text.Unsearched(t.where.cond))
	}
	return strings.Join(conds, " AND ")
}

// readArgs returns the arguments of asRead behind the keys.
func (t *layout) readArgs(b batch) []any {
	if t.counts(b) && b.count > 0 {
		return []any{int64(b.count)}
	}
	return nil
}

// counts reports whether a failure is counted.
func (t *layout) counts(b batch) bool { return t.retry != nil && b.target != backlog.RowSuccess }
