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
// was read, the same is to be reached.
type batch struct {
	state  int
	target backlog.RowState
	ends   bool // it is not tried again
	count  int  // of failures as they were read, where one is added to them
}

// A work is a batch with its rows, settled at a time.
type work struct {
	batch
	rows []*backlog.Settlement
	at   time.Time
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
				list = append(list, work{batch: b, at: group[len(group)-1].At})
			}
		}
		list[at].rows = append(list[at].rows, &group[i])
	}
	return list
}

func (t *layout) batchOf(s *backlog.Settlement) batch {
	b := batch{state: s.Record.Origin, target: s.Target}
	if t.counts(b) {
		b.count = s.Record.Failures.Count
	}
	b.ends = b.target == backlog.RowDead && (t.HasDead() || s.Failures.Next.IsZero())
	return b
}

// workOf is the settlement of a single row.
func (t *layout) workOf(s *backlog.Settlement) work {
	return work{t.batchOf(s), []*backlog.Settlement{s}, s.At}
}

// assignments returns what the settlement of the batch writes. The status is left
// alone where the rows have it already.
func (t *layout) assignments(b batch) []assign {
	a := t.actions[b.target]
	list := a.status
	if t.holds(b.state, a) {
		list = nil
	}
	if c := t.retry; c != nil && b.target != backlog.RowSuccess {
		// A number, not one more: to be written twice must do no harm.
		count := func(s *backlog.Settlement) any { return c.column.AtMost(s.Failures.Count) }
		last := func(s *backlog.Settlement) any { return t.writeForm(c.last).Write(s.At) }
		list = append(slices.Clip(list), assign{col: c.count, of: count}, assign{col: c.last.quoted, of: last})
		if c.next != nil && b.ends {
			list = append(list, c.ended...)
		} else if c.next != nil {
			next := func(s *backlog.Settlement) any { return t.writeForm(c.next).Write(s.Failures.Next) }
			list = append(append(list, assign{col: c.next.quoted, of: next}), c.retrying...)
		}
	}
	return onceEach(slices.Concat(list, a.also))
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

// padded returns the rows with the last one again and again, as many as a statement has
// places for.
func (w work) padded() []*backlog.Settlement {
	i, _ := slices.BinarySearch(sizes[:], len(w.rows))
	last := w.rows[len(w.rows)-1:]
	return append(slices.Clip(w.rows), slices.Repeat(last, sizes[i]-len(w.rows))...)
}

// A Write is a statement that writes an outcome to its rows.
type Write struct {
	work
	Text string // "": nothing changes
	Args []any  // first of what it sets, then of which rows
	set  []assign
}

// update returns the statement that settles the work.
func (t *layout) update(w work) Write {
	set, args := t.bound(t.assignments(w.batch), w)
	if len(set) == 0 {
		return Write{work: w}
	}
	cond, keys := t.asRead(w)
	return Write{w, "UPDATE " + t.name + " SET " + setText(set) + " WHERE " + cond, append(args, keys...), set}
}

// bound returns the assignments to the work's rows, and their arguments.
func (t *layout) bound(list []assign, w work) (set []assign, args []any) {
	for _, a := range list {
		switch {
		case a.time != nil:
			args = append(args, t.writeForm(a.time).Write(w.at))
		case a.of != nil:
			a.expr, args = t.perRow(a, w.padded(), args)
		}
		set = append(set, a)
	}
	return set, args
}

// perRow returns the expression for what is assigned to the rows, and adds its arguments:
// the value that they have in common, or else one that it picks by the key.
func (t *layout) perRow(a assign, rows []*backlog.Settlement, args []any) (string, []any) {
	values := make([]any, len(rows))
	for i, s := range rows {
		values[i] = a.of(s)
	}
	if !slices.ContainsFunc(values, func(v any) bool { return v != values[0] }) {
		return "?", append(args, values[0])
	}
	for i, s := range rows {
		args = append(db.Bind(args, s.Record.Key), values[i])
	}
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN " + t.text.Cast(t.quotedColumn(a.col))
	return "CASE" + strings.Repeat(when, len(rows)) + " END", args
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

// asRead is the condition of the rows that are as they were read, with its arguments.
func (t *layout) asRead(w work) (cond string, args []any) {
	rows, b := w.padded(), t.branches[w.state]
	args = make([]any, 0, len(rows)*len(t.key)+1)
	for _, s := range rows {
		args = db.Bind(args, s.Record.Key)
	}
	conds := []string{t.text.KeyIn(t.key, len(rows)), t.text.Unsearched(cmp.Or(b.guard, b.cond))}
	if t.counts(w.batch) {
		conds = append(conds, t.text.Unsearched(t.retry.counted(w.count)))
		if w.count > 0 {
			args = append(args, int64(w.count))
		}
	}
	if t.where.cond != "" {
		conds = append(conds, t.text.Unsearched(t.where.cond))
	}
	return strings.Join(conds, " AND "), args
}

// counts reports whether a failure is counted.
func (t *layout) counts(b batch) bool { return t.retry != nil && b.target != backlog.RowSuccess }
