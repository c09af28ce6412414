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
	Name    string   // of the index that init makes
	Equal   []string // names of the columns that have one value each
	Order   []string // names of the columns by which the rows come
	Columns []string // quoted, of the index to have
	Where   string   // its condition, where it is partial
	Told    []string // names of the columns in that
	Query   string
	Args    []any
}

// Readings returns the queries of passes that begin now.
func (t *layout) Readings(now time.Time) (list []Reading) {
	for i, b := range t.branches {
		q := backlog.Query{Lane: b.lane, Now: now, Since: now.Add(-24 * time.Hour), Limit: 1000}
		if t.followsPolicy(b.lane) {
			list = append(list, t.retryReadings(q, i)...)
			continue
		}
		name := fmt.Sprintf("%s_backlog_%s", t.m.Name, b.lane)
		if i > 0 && t.branches[i-1].lane == b.lane {
			name = fmt.Sprintf("%s_%d", name, i)
		}
		r := t.reading(b, name, []string{b.cond}, []string{t.inserted.quoted})
		r.Query, r.Args = t.pageQuery(q, part{seg: segDated}, []term{{branch: i}}, q.Limit)
		list = append(list, r)
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
func (t *layout) reading(b branch, name string, conds, columns []string) Reading {
	r := Reading{
		What: fmt.Sprintf("%s records, %s", b.lane, b.cond), Name: name, Equal: t.equalColumns(b), Told: slices.Concat(t.where.columns, b.columns),
		Columns: db.Distinct(slices.Concat(t.where.prefix, b.prefix, columns, t.key)),
		Where:   strings.Join(append(slices.Clip(conds), nonEmpty(t.where.cond)...), " AND "),
	}
	for _, quoted := range db.Distinct(slices.Concat(columns, t.key)) {
		r.Order = append(r.Order, t.quotedColumn(quoted).Name)
	}
	return r
}

// retryReadings are the queries for the failed lane of a branch.
// Records that wait equally long are a range of one index each; those who have
// failed more often than the curve grows are many numbers of failures, and need an
// index of their own to come in order.
func (t *layout) retryReadings(q backlog.Query, i int) (list []Reading) {
	b, c := t.branches[i], t.retry
	name := t.m.Name + "_backlog_retry"
	if i > 0 && t.followsPolicy(t.branches[i-1].lane) {
		name = fmt.Sprintf("%s_%d", name, i)
	}
	add := func(classes []retryClass, name string, conds []string, equal []string, columns ...string) {
		if len(classes) == 0 {
			return
		}
		var terms []term
		for _, x := range classes {
			terms = append(terms, term{i, x})
		}
		r := t.reading(b, name, conds, columns)
		r.Equal = append(r.Equal, equal...)
		r.Query, r.Args = t.pageQuery(q, part{seg: segDated}, terms, q.Limit)
		list = append(list, r)
	}
	if t.refresh != nil { // one index for both lanes
		name, b.cond = t.m.Name+"_backlog_refresh", b.base
	}
	if c.next != nil {
		add(c.classes, name, []string{b.cond}, nil, c.next.quoted)
		return list
	}
	var single, many []retryClass
	for _, x := range c.classes {
		switch {
		case x.odd:
		case x.many:
			many = append(many, x)
		default:
			single = append(single, x)
		}
	}
	add(single, name, []string{b.base}, []string{t.quotedColumn(c.count).Name}, c.count, c.last.quoted)
	if len(many) > 0 {
		add(many, name+"_max", []string{b.base, many[0].cond}, nil, c.last.quoted)
	}
	return list
}

// equalColumns returns the names of the columns with one value in the conditions
// of the branch and of the table.
func (t *layout) equalColumns(b branch) (names []string) {
	for _, equal := range []map[string]any{t.where.equal, b.equal} {
		for name, v := range equal {
			if v != nil || t.text.SearchedFirst {
				names = append(names, t.quotedColumn(name).Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
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
		for _, x := range t.refreshTargets(time.Time{}) {
			add(x.text)
		}
		for _, r := range t.Readings(time.Time{}) {
			add(r.Query)
		}
		return db.Distinct(list)
	}
	for i := range t.branches {
		for _, o := range []backlog.RowState{backlog.RowSuccess, backlog.RowError, backlog.RowDead} {
			for _, failures := range []int{0, 1} { // as a policy counts them
				text, _ := t.updateText(batch{state: i, target: o, count: failures}, 1)
				add(text)
			}
		}
	}
	if t.expireSet != nil {
		for _, x := range t.expiries(time.Time{}, time.Time{}) {
			add(t.expireText(x.conds))
		}
	}
	return db.Distinct(list)
}

// Rights returns the quoted columns that passes write and, in brackets, those that
// they read, nothing if the handler is given all there are.
func (t *layout) Rights() (written []string, read string) {
	var set []assign
	for _, x := range t.targets(time.Time{}) {
		set = append(set, x.set...)
	}
	for _, a := range onceEach(append(set, t.expireSet...)) {
		written = append(written, a.col)
	}
	if t.m.Columns == nil {
		return written, ""
	}
	conditions := []string{t.where.cond, t.success, t.dead}
	for _, b := range t.branches {
		conditions = append(conditions, b.cond)
	}
	named := slices.Clone(written)
	for _, c := range t.sel.columns {
		named = append(named, t.text.Quote(c.Name))
	}
	var names []string
	for i := range t.catalog.Columns {
		name := t.text.Quote(t.catalog.Columns[i].Name)
		if slices.Contains(named, name) || slices.ContainsFunc(conditions, func(c string) bool { return strings.Contains(c, name) }) {
			names = append(names, name)
		}
	}
	return written, " (" + strings.Join(names, ", ") + ")"
}
