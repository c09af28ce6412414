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

// A rewriting puts rows into another state, group by group. It leaves rows alone that another
// program changes at the same time, and rows that the database refuses.
type rewriting struct {
	place        string // the setting that says what is written
	set          []setClause
	now          time.Time
	conditions        // rows meet them until they are written
	mayStillHold bool // rows may meet the conditions afterwards, too

	groups iter.Seq2[[][]any, error]

	// confirm is called with each row just before it is written, after a trial has shown that
	// it can be. It returns whether to write the row, and whether to go on with the next one.
	// Nil: all rows are written without a trial.
	confirm func(row []any) (write, more bool)

	written func(rows [][]any)         // called after they are written; may be nil
	refused func(row []any, why error) // called with each row that the database refuses
}

// rewrite writes the rows and returns their number. After an error some groups are written.
func (t *Table) rewrite(ctx context.Context, x rewriting) (total int, err error) {
	for rows, err := range x.groups {
		goOn := true
		if err == nil && x.confirm != nil {
			rows, goOn, err = t.confirmed(ctx, &x, rows)
		}
		if err != nil {
			return total, err
		}
		if len(rows) > 0 {
			written, err := t.rewriteGroup(context.WithoutCancel(ctx), &x, rows, false)
			total += len(written)
			if x.written != nil && len(written) > 0 {
				x.written(written)
			}
			if err != nil {
				return total, err
			}
		}
		if !goOn {
			break
		}
	}
	return total, ctx.Err()
}

// confirmed tries the rows and asks x.confirm. It returns the rows to write, and whether to go on
// with the next group.
func (t *Table) confirmed(ctx context.Context, x *rewriting, rows [][]any) (list [][]any, more bool, err error) {
	if t.canRollBack() && len(rows) > 0 {
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

// rewriteGroup writes the rows and returns those that were written. It calls x.refused with
// those that the database refuses. A trial is rolled back.
func (t *Table) rewriteGroup(
	ctx context.Context, x *rewriting, rows [][]any, trial bool,
) (written [][]any, err error) {
	w := groupWrite{
		rows:  len(rows),
		whole: func(ctx context.Context, tx *sql.Tx) error { return t.rewriteRows(ctx, tx, x, rows) },
		writeRow: func(ctx context.Context, tx *sql.Tx, i int) error {
			return t.rewriteRows(ctx, tx, x, rows[i:i+1])
		},
		text: func(i int) (string, int) {
			text, args := t.rewriteUpdate(x, rows[i:i+1])
			return text, len(args)
		},
		undo: trial,
	}
	unwritten, err := db.Get(ctx, t.db, func(ctx context.Context) ([]backlog.Unsettled, error) {
		return t.writeGroup(ctx, w)
	})
	if err != nil {
		return nil, err
	}
	reasons := make([]error, len(rows))
	for _, u := range unwritten {
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

// rewriteUpdate returns the statement that writes the rows, and its arguments.
func (t *layout) rewriteUpdate(x *rewriting, rows [][]any) (string, []any) {
	set, values := t.bound(x.set, batch{at: x.now})
	where := t.unwritten(x, rows)
	return t.updateSQL(set, where.all()), append(values, where.args...)
}

// unwritten returns the conditions that the rows meet until they are written.
func (t *layout) unwritten(x *rewriting, rows [][]any) (conds conditions) {
	conds.add(t.text.WithoutIndex(x.all()), x.args)
	conds.add(t.keyIn(lists.Map(rows, t.keyOf)...))
	return conds
}

// rewriteRows writes the rows with one statement. The error is [backlog.ErrConflict] if a row no
// longer meets the conditions, and a *Problem if the database undoes the write.
func (t *Table) rewriteRows(ctx context.Context, tx *sql.Tx, x *rewriting, rows [][]any) error {
	all := int64(len(rows))
	text, args := t.rewriteUpdate(x, rows)
	n, err := db.Affected(tx.ExecContext(ctx, t.text.Rebind(text), args...))
	if err != nil {
		return err
	}
	canCheck := !x.mayStillHold && len(t.catalog.Triggers) > 0
	if n >= all && !canCheck {
		return nil
	}
	still, err := t.countWhere(ctx, tx, t.unwritten(x, rows))
	hadIt := all == 1 && x.mayStillHold && t.db.CountsChangedOnly // nothing had to be changed
	switch {
	case err != nil:
		return err
	case still == 0 && n < all:
		return backlog.ErrConflict
	case still == 0 || hadIt:
		return nil
	}
	return t.undoneProblem(x.place)
}

// An expiry is a set of pending rows that get the dead status.
type expiry struct {
	state int // the index of their state
	conditions
	col   *timeColumn // the time that has passed, which is not yet a condition; nil: they are out of retries
	bound time.Time   // times before it have passed
}

// maxReported limits how many records Expire reports if all die with one statement.
const maxReported = 20

// Expire implements [backlog.Expirer].
func (t *Table) Expire(ctx context.Context, e backlog.Expiry) (total int, err error) {
	for _, x := range t.expiries(e.Now, e.Before) {
		if x.col != nil {
			if err := t.discoverForm(ctx, x.col); err != nil {
				return total, err
			}
			if x.col.knownForm() == nil {
				continue // no row has a time in this column
			}
			x.add(t.pastTimes(x.col, x.bound))
		}
		n, err := t.expire(ctx, x, e)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// expire gives the rows of the set the dead status, with one statement if possible, and returns
// their number.
func (t *Table) expire(ctx context.Context, x expiry, e backlog.Expiry) (int, error) {
	if e.BeforeDeath == nil {
		n, done, err := t.expireAll(ctx, x, e)
		if err != nil {
			return 0, err
		}
		if done {
			return n, nil
		}
	}
	return t.rewrite(ctx, t.expiring(ctx, x, e))
}

// expireAll expires the set with one statement. done is false if it must be done by groups,
// because some rows must be left alone or are refused, or because the column holds texts that
// only look like times.
func (t *Table) expireAll(ctx context.Context, x expiry, e backlog.Expiry) (n int, done bool, err error) {
	rows, err := t.rows(ctx, selectQuery{
		columns: aliased(t.selected.exprs), from: t.name, where: x.conditions, limit: maxReported,
	})
	if err != nil {
		return 0, false, err
	}
	all := len(rows)
	dying := slices.DeleteFunc(rows, func(row []any) bool { return e.Skips(t.keyOf(row)) || t.isMisread(row, e.Now) })
	if len(dying) == 0 && all < maxReported { // no need to wait for a lock
		return 0, true, nil
	}
	hasTexts := x.col != nil && len(x.col.knownForm().Misfits()) > 0
	canBeUndone := len(t.catalog.Triggers) > 0
	if len(dying) < all || hasTexts || canBeUndone {
		return 0, false, nil
	}
	some := lists.Map(dying, func(row []any) backlog.Record { return t.recordOf(row, x.state) })
	_, values := t.bound(t.expireSet, batch{at: e.Now})
	args := slices.Concat(values, x.args)
	err = t.db.Do(ctx, func(ctx context.Context) error {
		return t.InTx(ctx, func(tx *sql.Tx) error {
			count, err := db.Affected(tx.ExecContext(ctx, t.text.Rebind(t.expireText(x)), args...))
			n = int(count)
			return err
		})
	})
	if err != nil && t.mayBeRowError(err) {
		return 0, false, nil
	}
	if err == nil && n > 0 {
		e.Died(some[:min(n, len(some))], n)
	}
	return n, true, err
}

// expiring returns how the set is expired by groups.
func (t *Table) expiring(ctx context.Context, x expiry, e backlog.Expiry) rewriting {
	record := func(row []any) backlog.Record { return t.recordOf(slices.Clone(row), x.state) }
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
	if e.BeforeDeath != nil {
		w.confirm = func(row []any) (write, more bool) {
			rec := record(row)
			goOn := e.BeforeDeath(&rec)
			return goOn, goOn
		}
	}
	return w
}

// excluding removes the rows for which skips returns true.
func excluding(groups iter.Seq2[[][]any, error], skips func([]any) bool) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		for rows, err := range groups {
			if !yield(slices.DeleteFunc(rows, skips), err) {
				return
			}
		}
	}
}

// expiries returns the sets of pending rows that are too old, expired, or out of retries. It
// returns none without a dead status.
func (t *layout) expiries(now, before time.Time) (list []expiry) {
	if !t.HasDead() {
		return nil
	}
	for i, state := range t.states {
		for _, x := range []expiry{{col: t.inserted, bound: before}, {col: t.expires, bound: now}} {
			if x.col != nil {
				x.state = i
				x.conditions = t.recordsWith(state.cond)
				list = append(list, x)
			}
		}
		if state.exhaustedCond != "" {
			list = append(list, expiry{state: i, conditions: t.recordsWith(state.exhaustedCond)})
		}
	}
	return list
}

// expireText returns the statement that expires the whole set.
func (t *layout) expireText(x expiry) string {
	return t.updateSQL(t.expireSet, x.all())
}

// Requeue makes the dead and failed records that the filter selects new, as if they had never
// been tried, and returns their number. It writes them in groups: after an error some are
// requeued. If a pass is handling one of them, the outcome is not written. refused is called
// with each record that the database refuses to change.
func (t *Table) Requeue(ctx context.Context, f Filter, now time.Time, refused func(backlog.Key, error)) (int, error) {
	c, err := t.selectionOf(f, inspect.Requeued, now)
	if err != nil {
		return 0, err
	}
	return t.rewrite(ctx, rewriting{
		place: statusSettings[backlog.RowNew], set: t.requeueSet, now: now, conditions: c.inAnyState(),
		mayStillHold: slices.ContainsFunc(c.states, func(state pendingState) bool { return state.cond == always }),
		groups:       t.selectedByKey(ctx, c, t.selected.bareExprs),
		refused:      func(row []any, why error) { refused(t.keyOf(row), why) },
	})
}

// A Discarding is what [Table.Discard] calls. Every function except Refused may be nil.
type Discarding struct {
	// BeforeDeath is called with each record just before it gets the dead status, after a trial has
	// shown that the row takes it. It returns whether that record dies. An error ends Discard.
	BeforeDeath func(*inspect.Row) (dies bool, err error)

	// Died is called with each record that got the dead status.
	Died func(*inspect.Row)

	// Refused is called with each record that the database refuses to change.
	Refused func(backlog.Key, error)
}

// Discard gives the pending records that the filter selects the dead status, and returns their
// number. It writes them in groups: after an error some are discarded. The table must have a
// dead status.
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
	var deathErr error
	if d.BeforeDeath != nil {
		x.confirm = func(raw []any) (write, more bool) {
			row := t.displayRow(slices.Clone(raw), now)
			write, deathErr = d.BeforeDeath(&row)
			return write, deathErr == nil
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
	return n, cmp.Or(err, deathErr)
}
