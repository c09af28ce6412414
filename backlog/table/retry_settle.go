package table

import (
	"slices"
	"strings"

	"backlog/backlog"
)

// retryAssigns returns what a failure writes for the policy, with room for n
// rows where each has values of its own.
func (t *Table) retryAssigns(b batch, n int) []assign {
	c := t.retry
	if c == nil || b.outcome == backlog.Succeeded {
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
		return append(append(list, assign{col: c.next.quoted, expr: "NULL"}), c.done...)
	}
	return append(append(list, at(c.next.quoted)), c.retrying...)
}

// byKey returns an expression that picks a value of the column for each of n
// keys.
func (t *Table) byKey(n int, c *column) string {
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN " + t.d.cast(c)
	return "CASE" + strings.Repeat(when, n) + " END"
}

// retryValues returns what a failure writes, as the columns have it.
func (t *Table) retryValues(s *backlog.Settlement, ends bool) (list []any) {
	c := t.retry
	count := int64(s.Retry.Count)
	if c.most > 0 {
		count = min(count, c.most) // what waits no longer for that need not be told from it
	}
	list = append(list, count, t.writeForm(c.last).write(s.At))
	if c.next != nil && !ends {
		list = append(list, t.writeForm(c.next).write(s.Retry.Next))
	}
	return list
}

// retryArgs returns the arguments of retryAssigns.
func (t *Table) retryArgs(b batch, rows []*backlog.Settlement, n int) (args []any) {
	if t.retry == nil || b.outcome == backlog.Succeeded {
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
			args = bind(args, rows[i].Record.Key)
			args = append(args, times[i][col])
		}
	}
	return args
}

// differs reports whether the rows have different values to be written.
func (t *Table) differs(b batch, rows []*backlog.Settlement) bool {
	if t.retry == nil || b.outcome == backlog.Succeeded {
		return false
	}
	first := t.retryValues(rows[0], b.ends)
	return slices.ContainsFunc(rows, func(s *backlog.Settlement) bool {
		return !slices.Equal(first, t.retryValues(s, b.ends))
	})
}

// asRead is the condition of the batch's rows, of n keys, that are as they were
// read. Its arguments are the keys and readArgs.
func (t *Table) asRead(b batch, n int) string {
	conds := []string{t.d.keyIn(t.key, n), t.d.guard(t.branches[b.state].cond)}
	if t.counts(b) {
		conds = append(conds, t.d.guard(t.retry.counted(b.count)))
	}
	if t.where != "" {
		conds = append(conds, t.d.guard(t.where))
	}
	return strings.Join(conds, " AND ")
}

// readArgs are those of the condition but for the keys.
func (t *Table) readArgs(b batch) []any {
	if t.counts(b) && b.count > 0 {
		return []any{int64(b.count)}
	}
	return nil
}

// counts reports whether a failure is counted.
func (t *Table) counts(b batch) bool { return t.retry != nil && b.outcome != backlog.Succeeded }
