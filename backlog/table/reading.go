package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// A Reading is a query by which pages are read, and the index that is to answer it.
type Reading struct {
	What    string   // the lane and the condition
	Equal   []string // names of the columns that have one value each
	Order   []string // names of the columns by which the rows come
	Columns []string // quoted, of the index to have
	Where   string   // its condition, where it is partial
	Query   string
	Args    []any
}

// Readings returns the queries of passes that begin now. Of failed records that a policy
// counts, those that wait equally long are a range of one index each; those who have
// failed more often than the curve grows are many numbers of failures, and need an
// index of their own to come in order.
func (t *layout) Readings(now time.Time) (list []Reading) {
	for i, b := range t.branches {
		order := t.orderOf(b.lane).quoted
		conds, columns, equal := []string{b.cond}, []string{order}, []string(nil)
		switch {
		case t.refresh != nil: // one index for both lanes
			b.cond, conds = b.base, []string{b.base}
		case t.followsPolicy(b.lane) && t.retry.next == nil:
			conds, columns, equal = []string{b.base}, []string{t.retry.count, order}, t.names([]string{t.retry.count})
		}
		add := func(terms []term, conds, columns, equal []string) {
			if len(terms) == 0 {
				return
			}
			q := backlog.Query{Lane: b.lane, Now: now, Since: now.Add(-24 * time.Hour), Limit: 1000}
			r := t.reading(b, conds, columns)
			r.Equal = append(r.Equal, equal...)
			r.Query, r.Args = t.pageQuery(q, part{seg: segDated}, terms, q.Limit)
			list = append(list, r)
		}
		var single, many []term
		for _, x := range t.terms(b.lane) {
			switch {
			case x.branch != i || x.class.odd:
			case x.class.many:
				many = append(many, x)
			default:
				single = append(single, x)
			}
		}
		add(single, conds, columns, equal)
		if len(many) > 0 {
			add(many, append(conds, many[0].class.cond), []string{order}, nil)
		}
	}
	if t.refresh != nil && t.refresh.Running != "" {
		list = append(list, t.overdueReading(now))
	}
	return list
}

// reading is the query for the branch's rows that meet the conditions, in the order of the
// columns and then of the key. The index begins with the columns whose value the
// condition says already: a planner without statistics prefers any index that it
// can search by a status, and would then sort.
func (t *layout) reading(b branch, conds, columns []string) Reading {
	var equal []string
	for _, has := range []map[string]any{t.where.equal, b.equal} {
		for name, v := range has {
			if v != nil || t.text.SearchedFirst {
				equal = append(equal, name)
			}
		}
	}
	return Reading{
		What: fmt.Sprintf("%s records, %s", b.lane, b.cond), Equal: slices.Sorted(slices.Values(t.names(equal))),
		Columns: db.Distinct(slices.Concat(t.where.prefix, b.prefix, columns, t.key)),
		Where:   strings.Join(append(slices.Clip(conds), nonEmpty(t.where.cond)...), " AND "),
		Order:   t.names(slices.Concat(columns, t.key)),
	}
}

// Statements returns the text of every statement that passes run, for people
// who want to know before they grant.
func (t *layout) Statements() []string {
	var list []string
	add := func(s string) { list = append(list, nonEmpty(t.text.Place(s))...) }
	place := backlog.Cursor{Key: backlog.NewKey(slices.Repeat([]any{""}, len(t.key))...)}
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		terms := t.terms(lane)
		for seg := segNewest; seg <= segOldest && len(terms) > 0; seg++ {
			if seg != segDated && !slices.Contains(t.segments(backlog.Query{Lane: lane, Widest: true}), seg) {
				continue
			}
			for _, after := range []backlog.Cursor{{}, place} {
				after.Segment = seg
				q := backlog.Query{Lane: lane, After: after}
				for _, p := range partsOf(q, seg) {
					text, _ := t.pageQuery(q, p, terms, 1)
					add(text)
				}
			}
		}
	}
	if t.refresh != nil {
		add(t.recordsText(t.text.KeyIn(t.key, 1), t.text.LockRow, false))
		for _, r := range t.Readings(time.Time{}) {
			add(r.Query)
		}
	}
	for _, x := range t.targets(time.Time{}) {
		add(x.Text)
	}
	if t.expireSet != nil {
		for _, x := range t.expiries(time.Time{}, time.Time{}) {
			add(t.expireText(x.conds))
		}
	}
	return db.Distinct(list)
}

// Written returns the quoted columns that passes write.
func (t *layout) Written() (columns []string) {
	set := slices.Clone(t.expireSet)
	for _, x := range t.targets(time.Time{}) {
		set = append(set, x.set...)
	}
	for _, a := range set {
		columns = append(columns, a.col)
	}
	return db.Distinct(columns)
}

// Read returns the quoted columns that the statements of passes name, in the table's order.
func (t *layout) Read() (columns []string) {
	all := strings.Join(t.Statements(), "\n")
	for _, c := range t.catalog.Columns {
		if name := t.text.Quote(c.Name); strings.Contains(all, name) {
			columns = append(columns, name)
		}
	}
	return columns
}
