package table

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// A Filter says which records are meant. The conditions that are given hold together;
// the zero Filter means all that its purpose is about.
type Filter struct {
	Keys   []backlog.Key
	Status string    // the status as text, or "error" or "dead" where the table has no status column
	State  string    // one of [inspect.StatesFor]; "": any that the purpose is about
	Before time.Time // inserted before; zero: at any time

	Ages []time.Duration // of the tiers, ascending, for Band and for the state unreadable
	Band int             // of these, from 1 on, as [inspect.Counts] has them; one more: beyond all; 0: any

	Cause func(lastError string) bool // nil: any; see [Table.HasLastError]
	Limit int                         // of Requeue and Discard; 0: none
	Given bool                        // of List: with the columns that handlers are given
}

// HasLastError reports whether a column has the last error of a record.
func (t *layout) HasLastError() bool { return t.errCol != nil }

// A choice is what a filter means in the table: rows in one of the sets that meet the
// conditions.
type choice struct {
	sets  []branch // of each only what its rows have in common counts
	conds []string
	args  []any
	Filter
}

// choose returns what the filter means at a time.
func (t *layout) choose(f Filter, p inspect.Purpose, now time.Time) (c choice, err error) {
	if p == inspect.Requeued && len(t.requeueSet) == 0 {
		return c, problem("say what a new record has, such as new: {when: …, set: …}", "statuses.new says no way back to new")
	}
	c = choice{sets: t.sets(&f, p), conds: append(nonEmpty(t.where.cond), t.keyed()...), Filter: f}
	if len(c.sets) == 0 && p == inspect.Requeued && f.State == "" {
		return c, problem("", "no record is dead, or failed and told from new ones, in table %s", t.m.Name)
	}
	add := func(cond string, args ...any) { c.conds, c.args = append(c.conds, cond), append(c.args, args...) }
	if f.Status != "" && t.status != "" {
		v, err := t.catalog.Find(t.m.Status, true).Typed(mapping.Value{Text: f.Status})
		if err != nil {
			return c, err
		}
		add(t.status + " = " + t.text.Literal(v))
	}
	if form := t.inserted.known(); !f.Before.IsZero() && form == nil {
		add(never) // no row has a date
	} else if !f.Before.IsZero() {
		add(t.inserted.quoted+" < ? AND "+t.inserted.quoted+" >= ?", form.Exact(f.Before), t.inserted.earliest())
	}
	band, args := t.band(now, f.Ages)
	if f.State == "unreadable" {
		add(band+" = -1", args...)
	}
	if f.Band > 0 {
		add(fmt.Sprintf("%s = %d", band, f.Band-1), args...)
	}
	return c, nil
}

// sets returns the rows that the filter's state and the purpose are about, whatever else
// they must be.
func (t *layout) sets(f *Filter, p inspect.Purpose) (list []branch) {
	wanted := inspect.StatesFor(p, t.refresh != nil)
	switch {
	case t.refresh != nil && p == inspect.Requeued && len(f.Keys) > 0:
		return []branch{{filter: filter{cond: always}}}
	case t.refresh != nil && p == inspect.Requeued && f.Status == "disabled": // whatever the column of statuses says
		wanted, f.Status = []string{"dead"}, ""
	case f.State != "" && f.State != "unreadable":
		wanted = []string{f.State}
	case t.refresh != nil && p == inspect.Listed:
		wanted = []string{"waiting", "running"}
	case t.refresh != nil:
		wanted = []string{"failed", "dead"}
	case p == inspect.Listed:
		wanted = []string{"fresh", "failed"}
	}
	add := func(state, label, cond string, b branch) {
		if b.cond = cond; cond != "" && slices.Contains(wanted, state) && (f.Status == "" || t.status != "" || f.Status == label) {
			list = append(list, b)
		}
	}
	for _, b := range t.branches {
		again, exhausted := t.tried(b)
		add(b.lane.String(), b.label, again, b)
		add("exhausted", b.label, exhausted, b)
	}
	add("dead", "dead", t.dead.cond, branch{filter: t.dead})
	if c := t.refresh; c != nil {
		for _, x := range [][2]string{{"waiting", c.Waiting}, {"running", c.Running}, {"disabled", c.State() + " = 'disabled'"}, {"finished", c.Finished}} {
			add(x[0], "", x[1], branch{})
		}
	}
	return list
}

// tried returns the conditions for the branch's rows that are tried again, and for those
// that are out of retries; "" where there are none.
func (t *layout) tried(b branch) (again, exhausted string) {
	if t.m.Once && b.lane == backlog.Failed {
		return "", b.cond
	}
	return b.cond, b.exhausted
}

// all returns the conditions of the rows in any of the sets.
func (c *choice) all() []string {
	or := never
	for _, b := range c.sets {
		or += " OR " + b.cond
	}
	return append([]string{"(" + or + ")"}, c.conds...)
}

// byKey returns the expressions of [layout.shown] of the rows of the choice in groups of at
// most 100, in the order of their keys.
func (t *Table) byKey(ctx context.Context, c choice, exprs []string) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		cond, args, left := t.text.Unsearched(strings.Join(c.all(), " AND ")), c.args, cmp.Or(c.Limit, math.MaxInt)
		if len(c.Keys) > 0 {
			cond += " AND " + t.text.KeyIn(t.key, len(c.Keys))
		}
		for _, k := range c.Keys {
			args = db.Bind(args, k)
		}
		for rows, err := range t.groupsByKey(ctx, t.shown(exprs), 100, cond, args) {
			rows = slices.DeleteFunc(rows, func(row []any) bool { return c.Cause != nil && !c.Cause(lastError(row)) })
			rows = rows[:min(left, len(rows))]
			if left -= len(rows); !yield(rows, err) || left == 0 {
				return
			}
		}
	}
}

// CountChosen returns how many records Requeue or Discard would write to, and how many of
// them were inserted before a time.
func (t *Table) CountChosen(ctx context.Context, f Filter, p inspect.Purpose, now, before time.Time) (n, old int, err error) {
	c, err := t.choose(f, p, now)
	if err != nil {
		return 0, 0, err
	}
	if f.Cause == nil && f.Limit == 0 && len(f.Keys) == 0 {
		return t.countAll(ctx, c, before)
	}
	for rows, err := range t.byKey(ctx, c, t.sel.needed) {
		if err != nil {
			return n, old, err
		}
		for _, row := range rows {
			if d, _ := t.datesOf(row, now); !d.inserted.IsZero() && d.inserted.Before(before) {
				old++
			}
		}
		n += len(rows)
	}
	return n, old, nil
}

// countAll is CountChosen where the database can judge each row of the choice.
func (t *Table) countAll(ctx context.Context, c choice, before time.Time) (n, old int, err error) {
	isOld, args := never, []any(nil)
	if form := t.inserted.known(); form != nil {
		isOld, args = t.inserted.quoted+" < ? AND "+t.inserted.quoted+" >= ?", []any{form.Exact(before), t.inserted.earliest()}
	}
	text := "SELECT count(*), count(CASE WHEN " + isOld + " THEN 1 END) FROM " + t.name + " WHERE " + strings.Join(c.all(), " AND ")
	err = t.db.One(ctx, text, append(args, c.args...), &n, &old)
	return n, old, err
}
