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
	Rows []inspect.Row  // without the values for handlers, unless the filter asks for them
	Next backlog.Cursor // where the next page begins; zero: this is the last page
}

// maxListed limits how many rows a page of List reads, since it may skip many. Without a suitable
// index each page sorts all rows that the filter selects.
const maxListed = 5000

// List returns the rows after the cursor that the filter selects, newest first, at most limit. A
// page may have fewer rows, or none, although more rows follow: see [Listing.Next].
func (t *Table) List(
	ctx context.Context, f Filter, now time.Time, after backlog.Cursor, limit int,
) (list Listing, err error) {
	if err := t.discoverForm(ctx, t.inserted); err != nil {
		return list, err
	}
	c, err := t.selectionOf(f, inspect.Listed, now)
	if err != nil || len(c.states) == 0 {
		return list, err
	}
	exprs := len(t.withDisplay(t.rowExprs(c.WithValues)))
	err = t.db.Do(ctx, func(ctx context.Context) error {
		count := 0
		size := 0
		list = Listing{}
		for _, s := range t.listStatements(after) {
			most := maxListed - count + 1
			if f.Cause == nil {
				most = min(most, limit-len(list.Rows)+1)
			}
			var rest []any // columns that the union only orders by
			if len(c.states) > 1 {
				rest = slices.Repeat([]any{new(any)}, len(s.order))
			}
			text, args := t.listQuery(c, s, most)
			rows, err := t.db.Read.QueryContext(ctx, t.text.Rebind(text), args...)
			if err != nil {
				return err
			}
			defer rows.Close() // a loop that goes on has read all of them, which also closes them
			for rows.Next() {
				if count == maxListed || len(list.Rows) == limit || size > maxPageBytes {
					return nil // this row is on the next page
				}
				raw, err := t.scan(rows, exprs, rest...)
				if err != nil {
					return err
				}
				count++
				size += sizeOf(raw...)
				list.Next = backlog.Cursor{Segment: s.segment, Key: t.keyOf(raw)}
				if s.segment == datedSegment {
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

// A listStatement is what one statement reads of a list.
type listStatement struct {
	segment int
	order   []string // columns
	conditions
}

// listStatements returns the statements that read the list after the cursor: first rows with a
// date of insertion, then rows without one.
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
	if after.Segment != datedSegment {
		list[1].add(db.KeyRange("<", t.key, after.Key))
		return list[1:]
	}
	list[0].add(at+" <= ?", []any{after.Order}) // some planners need it to bound the range
	list[0].add(db.KeyRange("<", append([]string{at}, t.key...), after.Key, after.Order))
	return list
}

// listQuery returns the text and the arguments of a listStatement about the rows of the selection:
// one query for each of their states.
func (t *layout) listQuery(sel selection, stmt listStatement, limit int) (string, []any) {
	columns := aliased(t.withDisplay(t.rowExprs(sel.WithValues)))
	queries := make([]selectQuery, len(sel.states))
	for i, state := range sel.states {
		lead := slices.Concat(t.where.indexPrefix, state.indexPrefix)
		where := allOf(state.cond)
		where.add(stmt.all(), stmt.args)
		where.add(sel.all(), sel.args)
		queries[i] = selectQuery{
			columns:         columns,
			from:            t.fromClause(lead, t.inserted.quoted),
			where:           where,
			orderBy:         stmt.order,
			descending:      true,
			limit:           limit,
			limitAsArgument: true,
		}
	}
	return t.union(queries)
}

// rowExprs returns the expressions of a row, with or without the values that only handlers need.
func (t *layout) rowExprs(withValues bool) []string {
	if withValues {
		return t.selected.exprs
	}
	return t.selected.bareExprs
}

// ListQueries returns the queries of List, one for each state that an index should have in order.
func (t *layout) ListQueries(f Filter, now time.Time) (list []IndexedQuery, err error) {
	c, err := t.selectionOf(f, inspect.Listed, now)
	for _, state := range c.states {
		one := c
		one.states = []pendingState{state}
		x := t.indexedQuery(state, []string{state.cond}, []string{t.inserted.quoted})
		x.Query, x.Args = t.listQuery(one, t.listStatements(backlog.Cursor{})[0], maxListed)
		list = append(list, x)
	}
	return list, err
}

// A Filter selects records. A record must meet all conditions. The zero Filter selects every
// record that the purpose is about, see [inspect.Purpose].
type Filter struct {
	Keys   []backlog.Key
	Status string    // the status as text, or "error" or "dead" where the table has no status column
	State  string    // one of [inspect.Words]; "": any state that the purpose is about
	Before time.Time // inserted before; zero: at any time

	Ages []time.Duration // maximum ages of the tiers, ascending; needed for Band and for the state unreadable
	Band int             // 1 for the first of Ages, len(Ages)+1 for older records; 0: any; see [inspect.Counts]

	Cause      func(lastError string) bool // nil: any; see [Table.HasLastError]
	Limit      int                         // for Requeue and Discard; 0: no limit
	WithValues bool                        // for List: rows have the values for handlers
}

// Words returns the words for the states of the table's rows.
func (t *layout) Words() inspect.Words { return t.words }

// HasLastError reports whether a column has the last error of a record.
func (t *layout) HasLastError() bool { return t.errorColumn != nil }

// A selection is a filter in terms of the table: rows in one of the states that meet the
// conditions.
type selection struct {
	states []pendingState // not only pending ones; only their filters are used
	conditions
	Filter
}

// selectionOf resolves the filter at the time now.
func (t *layout) selectionOf(f Filter, p inspect.Purpose, now time.Time) (c selection, err error) {
	if p == inspect.Requeued && len(t.requeueSet) == 0 {
		return c, problem("say what a new record has, such as new: {when: …, set: …}", "statuses.new says no way back to new")
	}
	c = selection{states: t.statesOf(&f, p), conditions: t.recordsWith(""), Filter: f}
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
		if t.inserted.knownForm() == nil {
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

// statesOf returns the states that the filter and the purpose are about.
func (t *layout) statesOf(f *Filter, p inspect.Purpose) (list []pendingState) {
	wanted := t.words.Meant[p]
	switch {
	case f.State != "" && f.State != "unreadable":
		wanted = []string{f.State}
	case p == inspect.Requeued && len(f.Keys) > 0:
		wanted = t.words.Keyed
	}
	for _, s := range t.namedStates() {
		comparesColumn := t.status != "" // then selectionOf adds the condition
		hasStatus := f.Status == "" || comparesColumn || f.Status == s.status
		if slices.Contains(wanted, s.word) && hasStatus {
			list = append(list, s.pendingState)
		}
	}
	return list
}

// A namedState is the rows that a word of [Filter.State] selects. They need not be pending.
type namedState struct {
	word   string
	status string // what [Filter.Status] calls it, for a table without a status column
	pendingState
}

// namedStates returns the states that rows of the table can be in. Unreadable rows also belong to
// one of them.
func (t *layout) namedStates() (list []namedState) {
	for _, s := range t.states {
		retriedCond, exhaustedCond := t.retryConditions(s)
		retried := s
		retried.cond = retriedCond
		exhausted := s
		exhausted.cond = exhaustedCond
		list = append(list,
			namedState{s.lane.String(), s.label, retried},
			namedState{"exhausted", s.label, exhausted})
	}
	dead := pendingState{filter: t.dead}
	list = append(list, namedState{"dead", "dead", dead})
	for _, s := range t.refresh.states() {
		rows := pendingState{filter: filter{cond: s.cond}}
		list = append(list, namedState{s.word, "", rows})
	}
	hasNoRows := func(s namedState) bool { return s.cond == "" }
	return slices.DeleteFunc(list, hasNoRows)
}

// States returns the words of [Filter.State] for the states that rows of the table can be in.
func (t *layout) States() []string {
	states := t.namedStates()
	hasNoRows := func(word string) bool {
		hasWord := func(s namedState) bool { return s.word == word }
		return word != "unreadable" && !slices.ContainsFunc(states, hasWord)
	}
	return slices.DeleteFunc(slices.Clone(t.words.Named[inspect.Listed]), hasNoRows)
}

// retryConditions returns the conditions of rows in the state that are tried again, and of those
// that are out of retries. A condition is "" if there are no such rows.
func (t *layout) retryConditions(state pendingState) (retried, exhausted string) {
	if t.m.Once && state.lane == backlog.Failed {
		return "", state.cond
	}
	return state.cond, state.exhaustedCond
}

// inAnyState returns the conditions of all rows of the selection.
func (c *selection) inAnyState() conditions {
	or := never
	for _, state := range c.states {
		or += " OR " + state.cond
	}
	return conditions{append([]string{"(" + or + ")"}, c.list...), c.args}
}

// selectedByKey returns the rows of the selection in groups of at most 100, in the order of their
// keys. The rows have the expressions of [layout.withDisplay].
func (t *Table) selectedByKey(ctx context.Context, c selection, exprs []string) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		where := t.unsearched(c.inAnyState())
		if len(c.Keys) > 0 {
			where.add(t.keyIn(c.Keys...))
		}
		remaining := cmp.Or(c.Limit, math.MaxInt)
		hasOtherCause := func(row []any) bool { return c.Cause != nil && !c.Cause(lastError(row)) }
		for rows, err := range t.groupsByKey(ctx, t.withDisplay(exprs), 100, where) {
			rows = slices.DeleteFunc(rows, hasOtherCause)
			rows = rows[:min(remaining, len(rows))]
			remaining -= len(rows)
			if !yield(rows, err) || remaining == 0 {
				return
			}
		}
	}
}

// CountSelected returns how many records Requeue or Discard would change, and how many of them
// were inserted before a time.
func (t *Table) CountSelected(
	ctx context.Context, f Filter, p inspect.Purpose, now, before time.Time,
) (n, old int, err error) {
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

// countSelection is [Table.CountSelected] for a filter that SQL can express completely.
func (t *Table) countSelection(ctx context.Context, c selection, before time.Time) (n, old int, err error) {
	isOld := never
	var oldArgs []any
	if t.inserted.knownForm() != nil {
		isOld, oldArgs = t.pastTimes(t.inserted, before)
	}
	text, args := selectQuery{
		columns: []string{"count(*)", "count(CASE WHEN " + isOld + " THEN 1 END)"}, columnArgs: oldArgs,
		from: t.name, where: c.inAnyState(),
	}.sql()
	err = t.db.QueryOne(ctx, text, args, &n, &old)
	return n, old, err
}

// requeueClauses resolves what makes a record new again.
func (r *resolver) requeueClauses() {
	t := r.t
	s := t.m.New
	if len(s.Values) == 0 && len(s.Set) == 0 {
		for _, c := range s.When {
			s.Set = append(s.Set, mapping.Assignment{Column: c.Column, Value: c.Values[0]})
		}
	}
	earlier := r.err
	set := r.setClauses("statuses.new", s)
	if r.err != earlier {
		r.err = earlier // only `backlog retry` needs it
		return
	}
	also := r.otherClauses(false)
	t.updates[backlog.RowNew] = stateUpdate{status: set, others: also}
	t.requeueSet = onceEach(slices.Concat(set, also, t.policy.reset)) // what new sets comes first
}
