package table

import (
	"cmp"
	"context"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
)

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
