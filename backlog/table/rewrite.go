package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A rewriting gives rows another state, in groups: after an error some are written. What
// others change at the same time stays so, and so does what the database refuses.
type rewriting struct {
	place        string // in the file, that says what is written
	set          []setClause
	now          time.Time
	conditions        // that hold of the rows until they are written
	mayStillHold bool // they may hold of them afterwards, too

	groups iter.Seq2[[][]any, error]

	// before is called with every row just before it is written, once it is known that it
	// can be. It returns whether to write the row, and whether to go on with the others.
	// Nil: all are written, and no group is tried first.
	confirm func(row []any) (write, more bool)

	written func(rows [][]any)         // called after they are; may be nil
	refused func(row []any, why error) // called with each that the database refuses
}

// rewrite returns how many rows it has written.
func (t *Table) rewrite(ctx context.Context, x rewriting) (total int, err error) {
	for rows, err := range x.groups {
		if err != nil {
			return total, err
		}
		more := true
		if x.confirm != nil {
			rows, more, err = t.confirmed(ctx, &x, rows)
		}
		if err == nil && len(rows) > 0 {
			rows, err = t.rewriteGroup(context.WithoutCancel(ctx), &x, rows, false)
			if total += len(rows); x.written != nil && len(rows) > 0 {
				x.written(rows)
			}
		}
		if err != nil || !more {
			return total, cmp.Or(err, ctx.Err())
		}
	}
	return total, ctx.Err()
}

// chosenToWrite tries the rows, and returns those that can be written and for which before
// says that they are to be. more is false if the others are to be left as they are.
func (t *Table) confirmed(ctx context.Context, x *rewriting, rows [][]any) (list [][]any, more bool, err error) {
	if t.catalog.Engine == "" && len(rows) > 0 { // else there are no transactions: nothing could be undone
		rows, err = t.rewriteGroup(ctx, x, rows, true)
	}
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		if ctx.Err() != nil {
			return list, false, nil
		}
		write, goesOn := x.confirm(row)
		if write {
			list = append(list, row)
		}
		if !goesOn {
			return list, false, nil
		}
	}
	return list, true, nil
}

// rewriteGroup writes to rows and returns those that are written, or would be if it is a
// trial. It tells of those that the database refuses.
func (t *Table) rewriteGroup(ctx context.Context, x *rewriting, rows [][]any, trial bool) (written [][]any, err error) {
	w := groupWrite{
		rows:  len(rows),
		whole: func(ctx context.Context, tx *sql.Tx) error { return t.rewriteRows(ctx, tx, x, rows) },
		one:   func(ctx context.Context, tx *sql.Tx, i int) error { return t.rewriteRows(ctx, tx, x, rows[i:i+1]) },
		text: func(i int) (string, int) {
			text, args := t.rewriteUpdate(x, rows[i:i+1])
			return text, len(args)
		},
		undo: trial,
	}
	left, err := db.Get(ctx, t.db, func(ctx context.Context) ([]backlog.Unsettled, error) { return t.writeGroup(ctx, w) })
	if err != nil {
		return nil, err
	}
	reasons := make([]error, len(rows))
	for _, u := range left {
		reasons[u.Index] = u.Err
	}
	for i, why := range reasons {
		switch {
		case why == nil:
			written = append(written, rows[i])
		case !errors.Is(why, backlog.ErrConflict):
			x.refused(rows[i], why)
		}
	}
	return written, nil
}

// rewriteUpdate is the statement that writes to rows, with its arguments.
func (t *layout) rewriteUpdate(x *rewriting, rows [][]any) (string, []any) {
	set, values := t.bound(x.set, batch{at: x.now})
	where := t.unwritten(x, rows)
	return t.updateSQL(set, where.all()), append(values, where.args...)
}

// unwritten returns the conditions that the rows meet until they are written.
func (t *layout) unwritten(x *rewriting, rows [][]any) (conds conditions) {
	conds.add(t.text.WithoutIndex(x.all()), x.args)
	conds.add(t.text.KeyIn(t.key, len(rows)), db.AppendKeys(nil, lists.Map(rows, t.keyOf)...))
	return conds
}

// rewriteRows writes to rows with one statement, and finds out why they are as they were. Of
// several rows the error only says that not all are written.
func (t *Table) rewriteRows(ctx context.Context, tx *sql.Tx, x *rewriting, rows [][]any) error {
	all := int64(len(rows))
	text, args := t.rewriteUpdate(x, rows)
	n, err := db.Affected(tx.ExecContext(ctx, t.text.Rebind(text), args...))
	if err != nil || n >= all && (x.mayStillHold || len(t.catalog.Triggers) == 0) {
		return err
	}
	still, err := t.countWhere(ctx, tx, t.unwritten(x, rows))
	switch {
	case err != nil:
		return err
	case still == 0 && n < all:
		return backlog.ErrConflict
	case still == 0 || all == 1 && x.mayStillHold && t.db.CountsChangedOnly: // it had all that is written before
		return nil
	}
	return t.writeUndone(x.place)
}

// An expiry is a set of rows that are to get the dead status.
type expiry struct {
	branch int
	conditions
	col   *timeColumn // whose time they are past, which is no condition yet; nil: they are out of retries
	bound time.Time   // the least time that is not past
}

// mostShown is how many records Expire reads where all die with one statement.
const maxReported = 20

// Expire implements [backlog.Expirer].
func (t *Table) Expire(ctx context.Context, e backlog.Expiry) (total int, err error) {
	for _, x := range t.expiries(e.Now, e.Before) {
		if x.col != nil {
			if err := t.discoverForm(ctx, x.col); err != nil {
				return total, err
			}
			if x.col.known() == nil {
				continue // there is no time to be past
			}
			x.add(t.pastTimes(x.col, x.bound))
		}
		n, done := 0, false
		if e.Dies == nil {
			if n, done, err = t.expireAll(ctx, x, e); err != nil {
				return total, err
			}
		}
		if !done {
			n, err = t.rewrite(ctx, t.expiring(ctx, x, e))
		}
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// expireAll expires the set with one statement. done is false if it must be done by groups:
// some rows are left as they are, or are refused, or hold texts that compare like times.
func (t *Table) expireAll(ctx context.Context, x expiry, e backlog.Expiry) (n int, done bool, err error) {
	rows, err := t.rows(ctx, selectQuery{columns: aliased(t.selected.exprs), from: t.name, where: x.conditions, limit: maxReported})
	if err != nil {
		return 0, false, err
	}
	all := len(rows)
	dying := slices.DeleteFunc(rows, func(row []any) bool { return e.Skips(t.keyOf(row)) || t.isMisread(row, e.Now) })
	if len(dying) == 0 && all < maxReported { // no write, for which it would have to wait for others
		return 0, true, nil
	}
	hasTexts := x.col != nil && len(x.col.known().Misfits()) > 0
	if len(dying) < all || hasTexts || len(t.catalog.Triggers) > 0 { // which may undo it
		return 0, false, nil
	}
	some := lists.Map(dying, func(row []any) backlog.Record { return t.recordOf(row, x.branch) })
	_, values := t.bound(t.expireSet, batch{at: e.Now})
	err = t.db.Do(ctx, func(ctx context.Context) error {
		return t.InTx(ctx, func(tx *sql.Tx) error {
			count, err := db.Affected(tx.ExecContext(ctx, t.text.Rebind(t.expireText(x)), slices.Concat(values, x.args)...))
			n = int(count)
			return err
		})
	})
	if err != nil && t.mayBeOfRow(err) {
		return 0, false, nil
	}
	if err == nil && n > 0 {
		e.Died(some[:min(n, len(some))], n)
	}
	return n, true, err
}

// expiring is how the set is expired by groups.
func (t *Table) expiring(ctx context.Context, x expiry, e backlog.Expiry) rewriting {
	record := func(row []any) backlog.Record { return t.recordOf(slices.Clone(row), x.branch) }
	groups := t.groupsByKey(ctx, t.selected.exprs, backlog.MaxGroup, t.unsearched(x.conditions))
	w := rewriting{
		place: statusSettings[backlog.RowDead], set: t.expireSet, now: e.Now, conditions: x.conditions,
		groups:  excluding(groups, func(row []any) bool { return e.Skips(t.keyOf(row)) || t.isMisread(row, e.Now) }),
		written: func(rows [][]any) { e.Died(lists.Map(rows, record), len(rows)) },
		refused: func(row []any, why error) {
			rec := record(row)
			e.Refused(&rec, why)
		},
	}
	if e.Dies != nil {
		w.confirm = func(row []any) (write, more bool) {
			rec := record(row)
			dies := e.Dies(&rec)
			return dies, dies
		}
	}
	return w
}

// without leaves out the rows for which skips says so.
func excluding(groups iter.Seq2[[][]any, error], skips func([]any) bool) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		for rows, err := range groups {
			if !yield(slices.DeleteFunc(rows, skips), err) {
				return
			}
		}
	}
}

// expiries are the rows past one of their times, and those out of retries whose
// last failure has not made them dead. There are none without a dead status.
func (t *layout) expiries(now, before time.Time) (list []expiry) {
	if !t.HasDead() {
		return nil
	}
	for i, b := range t.states {
		for _, x := range []expiry{{col: t.inserted, bound: before}, {col: t.expires, bound: now}} {
			if x.col != nil {
				x.branch = i
				x.conditions = t.inState(b)
				list = append(list, x)
			}
		}
		if b.exhaustedCond != "" {
			b.cond = b.exhaustedCond
			list = append(list, expiry{branch: i, conditions: t.inState(b)})
		}
	}
	return list
}

func (t *layout) expireText(x expiry) string {
	return t.updateSQL(t.expireSet, x.all())
}

// Requeue puts the dead and failed records that the filter means back to new, as if
// they had never been tried, and returns how many. It writes them in groups:
// after an error some are done. A pass that works on one of them at the same time
// finds it changed and leaves it so. refused is called with each that the database refuses.
func (t *Table) Requeue(ctx context.Context, f Filter, now time.Time, refused func(backlog.Key, error)) (int, error) {
	c, err := t.selectionOf(f, inspect.Requeued, now)
	if err != nil {
		return 0, err
	}
	return t.rewrite(ctx, rewriting{
		place: statusSettings[backlog.RowNew], set: t.requeueSet, now: now, conditions: c.inAnyState(),
		mayStillHold: slices.ContainsFunc(c.states, func(b pendingState) bool { return b.cond == always }),
		groups:       t.selectedByKey(ctx, c, t.selected.bareExprs),
		refused:      func(row []any, why error) { refused(t.keyOf(row), why) },
	})
}

// A Discarding is who is called while records are given up. Each function may be nil but
// Refused.
type Discarding struct {
	// Dies is called with every record just before it gets the dead status, once it is known
	// that its row takes that, as far as the database can tell. It returns whether it
	// dies; an error ends the work.
	Dies    func(*inspect.Row) (bool, error)
	Died    func(*inspect.Row)
	Refused func(backlog.Key, error) // by the database; the row stays as it was
}

// Discard likewise gives the pending records that the filter means the dead status. The
// table must have one.
func (t *Table) Discard(ctx context.Context, f Filter, now time.Time, d Discarding) (n int, err error) {
	c, err := t.selectionOf(f, inspect.Discarded, now)
	if err != nil {
		return 0, err
	}
	x := rewriting{
		place: statusSettings[backlog.RowDead], set: t.expireSet, now: now, conditions: c.inAnyState(),
		groups:  t.selectedByKey(ctx, c, t.selected.exprs),
		refused: func(row []any, why error) { d.Refused(t.keyOf(row), why) },
	}
	var wrong error
	if d.Dies != nil {
		x.confirm = func(raw []any) (write, more bool) {
			row := t.displayRow(slices.Clone(raw), now)
			write, wrong = d.Dies(&row)
			return write, wrong == nil
		}
	}
	if d.Died != nil {
		x.written = func(rows [][]any) {
			for _, raw := range rows {
				row := t.displayRow(slices.Clone(raw), now)
				d.Died(&row)
			}
		}
	}
	n, err = t.rewrite(ctx, x)
	return n, cmp.Or(err, wrong)
}
