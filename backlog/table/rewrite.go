package table

import (
	"cmp"
	"context"
	"database/sql"
	"iter"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// An expiry is a set of rows that are to get the dead status.
type expiry struct {
	branch int
	conds  []string
	col    *timeCol  // whose time they are past; nil: they are out of retries
	bound  time.Time // the least time that is not past
	args   []any     // of conds
}

// Expire is the method that [backlog.Store] names.
func (t *Table) Expire(ctx context.Context, now, before time.Time, each func(*backlog.Record) bool) (total int, err error) {
	if !t.HasDead() {
		return 0, nil
	}
	_, values := t.bound(t.expireSet, work{at: now})
	for _, x := range t.expiries(now, before) {
		if x.col != nil {
			if err := t.discover(ctx, x.col); err != nil {
				return total, err
			}
			if x.col.known() == nil {
				continue // there is no time to be past
			}
			x.args = []any{x.col.known().Exact(x.bound), x.col.earliest()}
		}
		tell := func(row []any) (dies, more bool) {
			rec := t.recordOf(row, x.branch)
			dies = each == nil || each(&rec)
			return dies, dies
		}
		n, err := 0, error(nil)
		if each == nil {
			n, err = t.write(ctx, t.expireText(x.conds), slices.Concat(values, x.args))
		}
		if each != nil || t.db.Class(err) == db.Refused { // by some row, which must not keep the others alive
			n, err = t.rewrite(ctx, t.expireSet, now, t.groupsByKey(ctx, t.sel.exprs, backlog.MaxGroup, t.text.Unsearched(strings.Join(x.conds, " AND ")), x.args), x.conds, x.args, tell)
		}
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// expiries are the rows past one of their times, and those out of retries whose
// last failure has not made them dead.
func (t *layout) expiries(now, before time.Time) (list []expiry) {
	for i, b := range t.branches {
		for _, x := range []expiry{{col: t.inserted, bound: before}, {col: t.expires, bound: now}} {
			if x.col != nil {
				x.branch, x.conds = i, append(t.pending(b), x.col.quoted+" < ?", x.col.quoted+" >= ?")
				list = append(list, x)
			}
		}
		if b.exhausted != "" {
			b.cond = b.exhausted
			list = append(list, expiry{branch: i, conds: t.pending(b)})
		}
	}
	return list
}

// write runs a statement in a transaction of its own, and returns the number of its rows.
func (t *Table) write(ctx context.Context, text string, args []any) (int, error) {
	var n int64
	err := t.db.Within(ctx, func(ctx context.Context) error {
		return t.InTx(ctx, func(tx *sql.Tx) (err error) {
			n, err = db.Affected(tx.ExecContext(ctx, t.text.Place(text), args...))
			return err
		})
	})
	return int(n), err
}

func (t *layout) expireText(conds []string) string {
	return "UPDATE " + t.name + " SET " + setText(t.expireSet) + " WHERE " + strings.Join(conds, " AND ")
}

// rewrite writes to the rows, which meet the conditions, in their groups: after an error
// some are written. each, if not nil, is called with every row just before, and
// returns whether to write it and whether to go on with the others; rows that the database refuses
// are then left as they are, too. What somebody has changed meanwhile stays so.
func (t *Table) rewrite(
	ctx context.Context, set []assign, now time.Time, groups iter.Seq2[[][]any, error], conds []string, args []any,
	each func([]any) (write, more bool),
) (total int, err error) {
	wctx := ctx
	if each != nil {
		wctx = context.WithoutCancel(ctx)
	}
	_, values := t.bound(set, work{at: now})
	write := func(rows [][]any) (int, error) {
		all := db.Bind(slices.Concat(values, args), db.Mapped(rows, t.keyOf)...)
		cond := t.text.Unsearched(strings.Join(conds, " AND ")) + " AND " + t.text.KeyIn(t.key, len(rows))
		return t.write(wctx, "UPDATE "+t.name+" SET "+setText(set)+" WHERE "+cond, all)
	}
	for rows, err := range groups {
		if err != nil {
			return total, err
		}
		more := true
		told := slices.DeleteFunc(rows, func(row []any) bool {
			dies := each == nil
			if more = more && (dies || ctx.Err() == nil); more && !dies {
				dies, more = each(row)
			}
			return !dies
		})
		var n int
		if len(told) > 0 {
			n, err = write(told)
		}
		if each != nil && t.db.Class(err) == db.Refused {
			err = nil
			for i := range told {
				one, wrong := write(told[i : i+1])
				if n += one; t.db.Class(wrong) != db.Refused {
					err = cmp.Or(err, wrong)
				}
			}
		}
		if total += n; err != nil || !more {
			return total, cmp.Or(err, ctx.Err())
		}
	}
	return total, ctx.Err()
}

// requeue resolves what puts a record back to new.
func (r *resolver) requeue() {
	t, s := r.t, r.t.m.New
	if len(s.Values) == 0 && len(s.Set) == 0 {
		for _, c := range s.When {
			s.Set = append(s.Set, mapping.Assignment{Column: c.Column, Value: c.Values[0]})
		}
	}
	had := r.err
	set := r.assigns("statuses.new", s)
	if r.err != had {
		r.err = had // what cannot be written is only in the way of retry
		return
	}
	also := r.touched(false)
	t.actions[backlog.RowNew] = action{status: set, also: also}
	t.requeueSet = slices.Concat(set, also)
	if c := t.retry; c != nil {
		t.requeueSet = append(append(t.requeueSet, assign{col: c.count, expr: "0"}), c.ended...)
	}
	t.requeueSet = onceEach(t.requeueSet) // what new sets itself counts
}

// Requeue puts the dead and failed records that the filter means back to new, as if
// they had never been tried, and returns how many. It writes them in groups:
// after an error some are done. A pass that works on one of them meanwhile
// finds it changed and leaves it so.
func (t *Table) Requeue(ctx context.Context, f Filter, now time.Time) (int, error) {
	c, err := t.choose(f, inspect.Requeued, now)
	if err != nil {
		return 0, err
	}
	return t.rewrite(ctx, t.requeueSet, now, t.byKey(ctx, c, t.sel.needed), c.all(), c.args, nil)
}

// Discard likewise gives the pending records that the filter means the dead status. each is
// called with every one just before and returns whether it dies; an error ends the work. The
// table must have a dead status.
func (t *Table) Discard(ctx context.Context, f Filter, now time.Time, each func(*inspect.Row) (bool, error)) (n int, err error) {
	c, err := t.choose(f, inspect.Discarded, now)
	if err != nil {
		return 0, err
	}
	var wrong error
	tell := func(raw []any) (dies, more bool) {
		row := t.shownRow(raw, now)
		dies, wrong = each(&row)
		return dies, wrong == nil
	}
	n, err = t.rewrite(ctx, t.expireSet, now, t.byKey(ctx, c, t.sel.exprs), c.all(), c.args, tell)
	return n, cmp.Or(err, wrong)
}
