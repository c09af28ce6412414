package table

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// A Filter says which dead and failed records are meant. The conditions
// that are given hold together; the zero Filter means all.
type Filter struct {
	Keys   []backlog.Key
	Status string    // the status as text, or "error" or "dead" where the table has no status column
	Before time.Time // inserted before; zero: at any time
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

// CountRequeue returns how many records Requeue would put back to new.
func (t *Table) CountRequeue(ctx context.Context, filter Filter) (n int, err error) {
	conds, args, err := t.requeued(filter)
	if err != nil {
		return 0, err
	}
	return t.countRows(ctx, conds, args)
}

// Requeue puts the dead and failed records that the filter selects back to new, as if
// they had never been tried, and returns how many. It writes them in groups:
// after an error some are done. A pass that works on one of them meanwhile
// finds it changed and leaves it so.
func (t *Table) Requeue(ctx context.Context, filter Filter, now time.Time) (total int, err error) {
	conds, args, err := t.requeued(filter)
	if err != nil {
		return 0, err
	}
	return t.rewrite(ctx, t.requeueSet, now, conds, args, nil)
}

// requeued returns the conditions for the dead and failed records of the
// filter.
func (t *layout) requeued(filter Filter) (conds []string, args []any, err error) {
	if len(t.requeueSet) == 0 {
		return nil, nil, problem("say what a new record has, such as new: {when: …, set: …}", "statuses.new says no way back to new")
	}
	var or []string
	for _, b := range t.branches {
		if b.lane == backlog.Failed && (filter.Status == "" || t.status != "" || filter.Status == "error") {
			or = append(or, nonEmpty(b.cond, b.exhausted)...)
		}
	}
	if t.dead != "" && (filter.Status == "" || t.status != "" || filter.Status == "dead") {
		or = append(or, t.dead)
	}
	if t.refresh != nil && len(filter.Keys) > 0 {
		or = []string{always} // whatever it is in
	}
	if t.refresh != nil && filter.Status == "disabled" { // whatever the column of statuses says
		or, filter.Status = []string{cmp.Or(t.dead, never)}, ""
	}
	if len(or) == 0 {
		return nil, nil, problem("", "no record is dead, or failed and told from new ones, in table %s", t.m.Name)
	}
	conds = nonEmpty("(("+strings.Join(or, ") OR (")+"))", t.where.cond)
	if filter.Status != "" && t.status != "" {
		v, err := t.catalog.Find(t.m.Status, true).Typed(mapping.Value{Text: filter.Status})
		if err != nil {
			return nil, nil, err
		}
		conds = append(conds, t.status+" = "+t.text.Literal(v))
	}
	if !filter.Before.IsZero() {
		form := t.inserted.known()
		if form == nil {
			return []string{never}, nil, nil // no row has a date
		}
		conds, args = append(conds, t.inserted.quoted+" < ?", t.inserted.quoted+" >= ?"), append(args, form.Exact(filter.Before), t.inserted.earliest())
	}
	if len(filter.Keys) > 0 {
		conds = append(conds, t.text.KeyIn(t.key, len(filter.Keys)))
		for _, k := range filter.Keys {
			args = db.Bind(args, k)
		}
	}
	return conds, args, nil
}
