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
	"backlog/internal/lists"
)

// A Listing is a page of [Table.List].
type Listing struct {
	Rows []inspect.Row  // without the values that handlers are given, unless the filter asks for them
	Next backlog.Cursor // the place behind the last row that was looked at; zero: there are no more
}

// mostListed is how many rows a page of List looks at. Where no index serves, each page
// sorts all rows that are meant.
const maxListed = 5000

// List returns at most limit of the rows that the filter means, newest first, from behind a
// place on. There may be more behind a page that is not full, or empty.
func (t *Table) List(ctx context.Context, f Filter, now time.Time, after backlog.Cursor, limit int) (list Listing, err error) {
	if err := t.discoverForm(ctx, t.inserted); err != nil {
		return list, err
	}
	c, err := t.selectionOf(f, inspect.Listed, now)
	if err != nil || len(c.states) == 0 {
		return list, err
	}
	exprs := len(t.withDisplay(t.rowExprs(c.Given)))
	err = t.db.Do(ctx, func(ctx context.Context) error {
		looked, size := 0, 0
		list = Listing{}
		for _, s := range t.listStatements(after) {
			most := maxListed - looked + 1
			if f.Cause == nil {
				most = min(most, limit-len(list.Rows)+1)
			}
			var rest []any // only to order by
			if len(c.states) > 1 {
				rest = slices.Repeat([]any{new(any)}, len(s.order))
			}
			text, args := t.listQuery(c, s, most)
			rows, err := t.db.Read.QueryContext(ctx, t.text.Rebind(text), args...)
			if err != nil {
				return err
			}
			defer rows.Close() // before the next step's, where all are read
			for rows.Next() {
				if looked == maxListed || len(list.Rows) == limit || size > maxPageBytes {
					return nil // there are rows behind the page
				}
				raw, err := t.scan(rows, exprs, rest...)
				if err != nil {
					return err
				}
				looked++
				size += sizeOf(raw...)
				if list.Next = (backlog.Cursor{Segment: s.segment, Key: t.keyOf(raw)}); s.segment == datedSegment {
					list.Next.Order = raw[t.inserted.at]
				}
				if f.Cause == nil || f.Cause(lastError(raw)) {
					list.Rows = append(list.Rows, t.displayRow(raw, now))
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		list.Next = backlog.Cursor{}
		return nil
	})
	return list, err
}

// A step is what one statement reads of a list.
type listStatement struct {
	segment int
	order   []string // columns
	conditions
}

// steps returns the steps behind a place: rows with a date, and at last those without, which
// no range of times has.
func (t *layout) listStatements(after backlog.Cursor) []listStatement {
	at := t.inserted.quoted
	undated := "(" + strings.Join(lists.NonEmpty(at+" IS NULL", t.text.ZeroDate(t.inserted.column)), " OR ") + ")"
	list := []listStatement{
		{datedSegment, t.orderBy(t.inserted), conditions{list: []string{"NOT " + undated}}},
		{oldestSegment, t.key, conditions{list: []string{undated}}},
	}
	if after.IsZero() {
		return list
	}
	cols, place := append([]string{at}, t.key...), []any{after.Order}
	if after.Segment != datedSegment {
		list, cols, place = list[1:], t.key, nil
	}
	if after.Segment == datedSegment {
		list[0].add(at+" <= ?", place) // not every planner bounds a range by what follows
	}
	list[0].add(db.KeyRange("<", cols, after.Key, place...))
	return list
}

// listQuery returns the query for a step of the choice's sets.
func (t *layout) listQuery(c selection, s listStatement, limit int) (string, []any) {
	queries := make([]selectQuery, len(c.states))
	for i, b := range c.states {
		where := allOf(b.cond)
		where.add(s.all(), s.args)
		where.add(c.all(), c.args)
		queries[i] = selectQuery{
			columns: aliased(t.withDisplay(t.rowExprs(c.Given))), from: t.fromClause(slices.Concat(t.where.prefix, b.prefix), t.inserted.quoted),
			where: where, orderBy: s.order, descending: true, limit: limit, bindsLimit: true,
		}
	}
	return t.union(queries)
}

// exprs returns the expressions of a row, with those that only handlers are given or without.
func (t *layout) rowExprs(given bool) []string {
	if given {
		return t.selected.exprs
	}
	return t.selected.bareExprs
}

// ListReadings returns the queries of List, one for each set of rows that an index is to have in
// order.
func (t *layout) ListReadings(f Filter, now time.Time) (list []Reading, err error) {
	c, err := t.selectionOf(f, inspect.Listed, now)
	for _, b := range c.states {
		one := c
		one.states = []pendingState{b}
		r := t.readingOf(b, []string{b.cond}, []string{t.inserted.quoted})
		r.Query, r.Args = t.listQuery(one, t.listStatements(backlog.Cursor{})[0], maxListed)
		list = append(list, r)
	}
	return list, err
}

// A Filter says which records are meant. The conditions that are given hold together;
// the zero Filter means all that its purpose is about.
type Filter struct {
	Keys   []backlog.Key
	Status string    // the status as text, or "error" or "dead" where the table has no status column
	State  string    // one of [inspect.Words]; "": any that the purpose is about
	Before time.Time // inserted before; zero: at any time

	Ages []time.Duration // of the tiers, ascending, for Band and for the state unreadable
	Band int             // of these, from 1 on, as [inspect.Counts] has them; one more: beyond all; 0: any

	Cause func(lastError string) bool // nil: any; see [Table.HasLastError]
	Limit int                         // of Requeue and Discard; 0: none
	Given bool                        // of List: with the columns that handlers are given
}

// Words are the states of the table's rows.
func (t *layout) Words() inspect.Words { return t.words }

// HasLastError reports whether a column has the last error of a record.
func (t *layout) HasLastError() bool { return t.errorColumn != nil }

// A choice is what a filter means in the table: rows in one of the sets that meet the
// conditions.
type selection struct {
	states []pendingState // of each only what its rows have in common counts
	conditions
	Filter
}

// choose returns what the filter means at a time.
func (t *layout) selectionOf(f Filter, p inspect.Purpose, now time.Time) (c selection, err error) {
	if p == inspect.Requeued && len(t.requeueSet) == 0 {
		return c, problem("say what a new record has, such as new: {when: …, set: …}", "statuses.new says no way back to new")
	}
	c = selection{states: t.statesOf(&f, p), conditions: t.inState(pendingState{}), Filter: f}
	if len(c.states) == 0 && p == inspect.Requeued && (f.State == "" || f.State == "dead") {
		return c, problem("", "no record is dead, or failed and told from new ones, in table %s", t.m.Name)
	}
	if f.Status != "" && t.status != "" {
		v, err := t.catalog.Find(t.m.Status, true).Convert(mapping.Value{Text: f.Status})
		if err != nil {
			return c, err
		}
		c.add(t.status+" = "+t.text.Literal(v), nil)
	}
	if !f.Before.IsZero() {
		if t.inserted.known() == nil {
			c.add(never, nil) // no row has a date
		} else {
			c.add(t.pastTimes(t.inserted, f.Before))
		}
	}
	band, args := t.bandExpr(now, f.Ages)
	if f.State == "unreadable" {
		c.add(band+" = -1", args)
	}
	if f.Band > 0 {
		c.add(fmt.Sprintf("%s = %d", band, f.Band-1), args)
	}
	return c, nil
}

// sets returns the rows that the filter's state and the purpose are about, whatever else
// they must be.
func (t *layout) statesOf(f *Filter, p inspect.Purpose) (list []pendingState) {
	wanted := t.words.Meant[p]
	switch {
	case f.State != "" && f.State != "unreadable":
		wanted = []string{f.State}
	case p == inspect.Requeued && len(f.Keys) > 0:
		wanted = t.words.Keyed
	}
	for _, x := range t.namedStates() {
		if slices.Contains(wanted, x.word) && (f.Status == "" || t.status != "" || f.Status == x.label) {
			list = append(list, x.pendingState)
		}
	}
	return list
}

// A stateSet is the rows that a filter's word for a state means.
type namedState struct {
	word, label string
	pendingState
}

// stateSets returns the sets that the table can have rows in. The unreadable rows are among
// those of others.
func (t *layout) namedStates() (list []namedState) {
	add := func(state, label, cond string, b pendingState) {
		b.cond = cond
		if cond != "" {
			list = append(list, namedState{state, label, b})
		}
	}
	for _, b := range t.states {
		again, exhausted := t.retryConditions(b)
		add(b.lane.String(), b.label, again, b)
		add("exhausted", b.label, exhausted, b)
	}
	add("dead", "dead", t.dead.cond, pendingState{filter: t.dead})
	for _, x := range t.refresh.states() {
		add(x[0], "", x[1], pendingState{})
	}
	return list
}

// States returns the words of [Filter] for the states that the table can have rows in.
func (t *layout) States() []string {
	sets := t.namedStates()
	return slices.DeleteFunc(slices.Clone(t.words.Named[inspect.Listed]), func(word string) bool {
		isIt := func(x namedState) bool { return x.word == word }
		return word != "unreadable" && !slices.ContainsFunc(sets, isIt)
	})
}

// tried returns the conditions for the branch's rows that are tried again, and for those
// that are out of retries; "" where there are none.
func (t *layout) retryConditions(b pendingState) (again, exhausted string) {
	if t.m.Once && b.lane == backlog.Failed {
		return "", b.cond
	}
	return b.cond, b.exhaustedCond
}

// ofAnySet returns the conditions of the rows in any of the sets.
func (c *selection) inAnyState() conditions {
	or := never
	for _, b := range c.states {
		or += " OR " + b.cond
	}
	return conditions{append([]string{"(" + or + ")"}, c.list...), c.args}
}

// byKey returns the expressions of [layout.shown] of the rows of the choice in groups of at
// most 100, in the order of their keys.
func (t *Table) selectedByKey(ctx context.Context, c selection, exprs []string) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		where := t.unsearched(c.inAnyState())
		if len(c.Keys) > 0 {
			where.add(t.text.KeyIn(t.key, len(c.Keys)), db.AppendKeys(nil, c.Keys...))
		}
		left := cmp.Or(c.Limit, math.MaxInt)
		for rows, err := range t.groupsByKey(ctx, t.withDisplay(exprs), 100, where) {
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
	c, err := t.selectionOf(f, p, now)
	if err != nil {
		return 0, 0, err
	}
	if f.Cause == nil && f.Limit == 0 && len(f.Keys) == 0 {
		return t.countSelection(ctx, c, before)
	}
	for rows, err := range t.selectedByKey(ctx, c, t.selected.bareExprs) {
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
func (t *Table) countSelection(ctx context.Context, c selection, before time.Time) (n, old int, err error) {
	isOld := never
	var oldArgs []any
	if t.inserted.known() != nil {
		isOld, oldArgs = t.pastTimes(t.inserted, before)
	}
	text, args := selectQuery{
		columns: []string{"count(*)", "count(CASE WHEN " + isOld + " THEN 1 END)"}, columnArgs: oldArgs,
		from: t.name, where: c.inAnyState(),
	}.sql()
	err = t.db.QueryOne(ctx, text, args, &n, &old)
	return n, old, err
}

// requeue resolves what puts a record back to new.
func (r *resolver) requeueClauses() {
	t, s := r.t, r.t.m.New
	if len(s.Values) == 0 && len(s.Set) == 0 {
		for _, c := range s.When {
			s.Set = append(s.Set, mapping.Assignment{Column: c.Column, Value: c.Values[0]})
		}
	}
	had := r.err
	set := r.setClauses("statuses.new", s)
	if r.err != had {
		r.err = had // what cannot be written is only in the way of retry
		return
	}
	also := r.otherClauses(false)
	t.updates[backlog.RowNew] = stateUpdate{status: set, others: also}
	t.requeueSet = onceEach(slices.Concat(set, also, t.policy.reset)) // what new sets itself counts
}
