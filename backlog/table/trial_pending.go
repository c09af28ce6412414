package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
)

// What a settlement writes can be the same to the database as what is pending,
// though the texts differ: to a collation that takes 'New' for 'NEW', that knows
// no accents, or no spaces at the end. So the database is asked.

// pendingConds are the conditions, as SQL, for rows of the fresh lane and of the
// failed lane by their states alone.
func (t *Table) pendingConds() (fresh, failed string) {
	var conds [2][]string
	for _, b := range t.branches {
		conds[b.lane] = append(conds[b.lane], "("+cmp.Or(b.base, b.cond)+")")
	}
	in := func(lane backlog.Lane) string {
		if len(conds[lane]) == 0 {
			return never
		}
		return strings.Join(append([]string{"(" + strings.Join(conds[lane], " OR ") + ")"}, nonEmpty(t.where)...), " AND ")
	}
	return in(backlog.Fresh), in(backlog.Failed)
}

// yes is 1 where the condition holds and else 0.
func yes(cond string) string { return "CASE WHEN " + cond + " THEN 1 ELSE 0 END" }

// valueIn returns one of the n values that rows of the state have in the column;
// n is 0 where the state does not say.
func (t *Table) valueIn(state int, c *column) (v any, n int) {
	b := t.branches[state]
	if v, ok := b.equal[strings.ToLower(c.name)]; ok {
		return v, 1
	}
	list := slices.Concat(t.m.New.When, t.m.Where)
	if b.lane == backlog.Failed { // whose state may be that of new
		list = slices.Concat(t.m.Error.When, list)
	}
	for _, cond := range list {
		if t.catalog.find(cond.Column, t.d.foldsNames()) != c || !slices.Contains(b.columns, c.name) && !slices.Contains(t.filtered, c.name) {
			continue
		}
		if v, err := c.typed(cond.Values[0]); err == nil {
			return v, len(cond.Values)
		}
	}
	return nil, 0
}

// tryPending has the database judge, as it would the row, what a row of the
// write's state is after the write: one that is made up and, where that is not
// like all others, a few that are there.
func (t *Table) tryPending(ctx context.Context, db *sql.DB, w trialWrite) error {
	fresh, failed := t.pendingConds()
	exprs, args, like := t.after(w, true)
	one := t.sel.alias(0)
	text := "SELECT max(" + yes(fresh) + "), max(" + yes(failed) + ") FROM (SELECT "
	err := t.pendingAfter(ctx, db, w, text+exprs+" FROM (SELECT 1 AS "+one+") AS "+one+" LEFT JOIN "+t.name+" ON "+never+") AS tried", args...)
	if err != nil || like {
		return err
	}
	exprs, args, _ = t.after(w, false)
	text += exprs + " FROM " + t.name + " WHERE " + w.cond
	return t.pendingAfter(ctx, db, w, fmt.Sprint(text, " LIMIT ", trialRows, ") AS tried"), args...)
}

// after returns, as a SELECT of a row has them, what is after the write in the
// columns that tell what is pending, and what is bound to that. Of a row that is
// made up they are all NULL before; like reports whether all others have the
// same there after the write.
func (t *Table) after(w trialWrite, madeUp bool) (exprs string, args []any, like bool) {
	var list []string
	like = true
	for i := range t.catalog.columns {
		c := &t.catalog.columns[i]
		if !slices.Contains(t.filtered, c.name) && !slices.ContainsFunc(t.branches, func(b branch) bool { return slices.Contains(b.columns, c.name) }) {
			continue
		}
		q := t.d.quote(c.name)
		expr, bound, set := w.value(t, c)
		v, n := t.valueIn(w.batch.state, c)
		like = like && (set && !strings.Contains(expr, q) || !set && n == 1)
		if !set && n > 0 && madeUp {
			expr, set = t.d.literal(v), true
		}
		if set {
			// With the type and the collation of the column.
			q, args = "CASE WHEN "+never+" THEN "+q+" ELSE "+expr+" END AS "+q, append(args, bound...)
		}
		list = append(list, q)
	}
	return strings.Join(list, ", "), args, like
}

// value returns what the write sets the column to, and what is bound to that;
// ok is false if it does not set it.
func (w trialWrite) value(t *Table, c *column) (expr string, args []any, ok bool) {
	arg := 0
	for _, a := range w.assigns {
		bound := a.time != nil || a.expr == "?"
		switch {
		case a.expr == a.col: // kept
		case a.col == t.d.quote(c.name) && bound:
			return t.d.cast(c), w.args[arg : arg+1], true
		case a.col == t.d.quote(c.name):
			return a.expr, nil, true
		case bound:
			arg++
		}
	}
	return "", nil, false
}

// pendingAfter runs the query, which says whether a row would be in the fresh or
// in the failed lane after the write, and judges that in the words of the
// configuration, where the values are compared as texts.
func (t *Table) pendingAfter(ctx context.Context, db *sql.DB, w trialWrite, text string, args ...any) error {
	var fresh, failed sql.NullBool
	err := db.QueryRowContext(ctx, t.d.place(text), args...).Scan(&fresh, &failed)
	if err != nil {
		if t.d.classify(err) == classOther && ctx.Err() == nil && !errors.As(t.d.explain(err), new(*Problem)) {
			t.note("whether a record with the outcome of %s would be pending could not be tried: %v", w.setting, err)
			return nil
		}
		return err
	}
	state := "new"
	if !fresh.Bool {
		state = "in error"
	}
	cure := "write what does not meet the condition of " + strings.TrimPrefix(state, "in ")
	switch still := fresh.Bool || failed.Bool; {
	case w.batch.outcome == backlog.Succeeded && still:
		return problem(cure, "statuses.success: with %s a record that succeeded would still be %s to the database and be tried for ever", w.set, state)
	case w.batch.outcome == backlog.Rejected && t.HasDead() && still:
		return problem(cure, "statuses.dead: with %s a dead record would still be %s to the database and be tried for ever", w.set, state)
	case w.batch.outcome != backlog.Errored || !fresh.Bool || !t.toldApart():
	case t.retry != nil:
		return problem(cure, "statuses.error: with %s a failed record would still be new to the database and be tried at once", w.set)
	default:
		t.note("statuses.error is one of statuses.new to the database, with %s: failed records are not told from new ones, and age alone decides when they are tried", w.set)
	}
	return nil
}

// toldApart reports whether the mapping means to tell failed records from new
// ones by their states.
func (t *Table) toldApart() bool {
	for _, b := range t.branches {
		same := func(o branch) bool { return o.lane != b.lane && cmp.Or(o.base, o.cond) == cmp.Or(b.base, b.cond) }
		if slices.ContainsFunc(t.branches, same) {
			return false
		}
	}
	return t.failedLane
}
