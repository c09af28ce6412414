package table

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// A lane is read in three segments: rows whose missing date counts as newest,
// rows with a date, and rows whose missing date counts as oldest.
const (
	segNewest = iota
	segDated
	segOldest
)

// Pending implements backlog.Store.
func (t *Table) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	for _, col := range slices.Compact([]*timeCol{t.inserted, t.lanes[q.Lane].time}) {
		if err := t.discover(ctx, col, q.Lane); err != nil {
			return backlog.Page{}, err
		}
	}
	segments := t.segments(q)
	for i, seg := range segments {
		s := scanner{t: t, q: q, seg: seg}
		p, err := t.page(ctx, &s)
		for err == nil && s.unknown != nil { // its form is that of most rows, not of the first
			col := s.unknown
			if err = t.discover(ctx, col); err != nil {
				break
			}
			s.again = col.known() == nil
			p, err = t.page(ctx, &s)
		}
		if err != nil {
			return backlog.Page{}, err
		}
		if !p.Next.IsZero() {
			p.More = p.More || i+1 < len(segments)
			return p, nil
		}
	}
	return backlog.Page{}, nil
}

// mostStrays is how many rows of a lane [Table.Strays] looks at.
const mostStrays = 1000

// Strays implements [backlog.StrayFinder]. The values of one form are a range of the
// index, and what is outside of it at an end that no page reads is looked for there.
func (t *Table) Strays(ctx context.Context, q backlog.Query) (list []backlog.Unreadable, err error) {
	order := t.lanes[q.Lane].time
	if order.known() == nil {
		return nil, nil
	}
	q.Limit, q.After, q.Until = mostStrays, backlog.Cursor{}, backlog.Cursor{}
	ranges := order.known().RangesBefore(q.Since)
	if t.lanes[q.Lane].byWait {
		ranges = order.known().RangesAfter(q.Now)
	}
	terms := t.terms(q.Lane)
	for _, r := range ranges {
		text, args := t.pageQuery(q, part{seg: segDated, stray: &r}, terms, q.Limit-len(list))
		found, err := t.unreadable(ctx, q, terms, text, args)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	if t.refresh.runs() && q.Lane == backlog.Failed {
		list, err = t.strayDeadlines(ctx, q, list)
	}
	if err == nil && t.misreads.Swap(false) {
		err = t.relearn(ctx)
	}
	return list, err
}

// strayDeadlines adds the running attempts that are never overdue to the list.
func (t *Table) strayDeadlines(ctx context.Context, q backlog.Query, list []backlog.Unreadable) ([]backlog.Unreadable, error) {
	tc := t.timeOf(t.refresh.cols[mapping.DeadlineAt])
	ranges := t.writeForm(tc).RangesAfter(q.Now)
	for _, r := range ranges {
		cond, args := t.within(tc, r)
		text := t.recordsText(t.refresh.running+" AND "+cond, fmt.Sprint(" LIMIT ", q.Limit), false)
		found, err := t.unreadable(ctx, q, []term{{}}, text, args)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// unreadable returns those rows of the query that cannot be records.
func (t *Table) unreadable(ctx context.Context, q backlog.Query, terms []term, text string, args []any) ([]backlog.Unreadable, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	var s scanner
	err := t.db.Do(ctx, func(ctx context.Context) error {
		s = scanner{t: t, q: q, seg: segDated, terms: terms, again: true}
		rows, err := t.prepared.Query(ctx, t.db.Read, t.text.Rebind(text), args)
		if err != nil {
			return err
		}
		return s.scan(rows)
	})
	return s.page.Unreadable, err
}

// segments returns where the query's lane can hold rows, within its cursors.
func (t *layout) segments(q backlog.Query) (list []int) {
	o := &t.lanes[q.Lane]
	has := [...]bool{
		segNewest: o.newest != "",
		segDated:  o.time.known() != nil,
		segOldest: o.oldest != "" && q.Widest,
	}
	for seg := range has {
		if has[seg] && (q.After.IsZero() || seg >= q.After.Segment) && (q.Until.IsZero() || seg <= q.Until.Segment) {
			list = append(list, seg)
		}
	}
	return list
}

// missing returns the condition for rows whose missing date means the word, "" if
// there are none.
func (t *layout) missing(word string) string {
	var or conditions
	if t.inserted.spec.Null == word {
		or.add(t.inserted.quoted+" IS NULL", nil)
	}
	if t.inserted.spec.Zero == word {
		or.add(t.text.ZeroDate(t.inserted.column), nil)
	}
	return or.any()
}

// always and never are conditions that every row meets, and none.
const (
	always = "1 = 1"
	never  = "1 = 0"
)

// A part is what one statement reads of a page: a segment or, behind a place
// within the dated one, the rest of the rows of the very same time and then the
// rows of other times. One range over time and key would say both, but SQLite
// cannot follow it by the key where that is the rowid: each page would go
// through all rows of one time that the pages before it had.
type part struct {
	seg   int
	ties  bool
	stray *timeform.Range // not nil: instead of the dates of the pass, those in there
}

func partsOf(q backlog.Query, seg int) []part {
	if seg == segDated && isWithin(q.After, seg) {
		return []part{{seg: seg, ties: true}, {seg: seg}}
	}
	return []part{{seg: seg}}
}

// isWithin reports whether the cursor is a place in the segment.
func isWithin(c backlog.Cursor, seg int) bool { return !c.IsZero() && c.Segment == seg }

// A term is what one branch has of a lane, or of it one class of the policy.
type term struct {
	branch int
	class  waitClass
}

// terms returns the terms of a lane.
func (t *layout) terms(lane backlog.Lane) (list []term) {
	for i, b := range t.branches {
		if b.lane == lane {
			list = append(list, lists.Map(t.lanes[lane].classes, func(c waitClass) term { return term{i, c} })...)
		}
	}
	return list
}

// pageQuery returns the text and the arguments of one part of a page, with
// limit rows at most.
func (t *layout) pageQuery(q backlog.Query, p part, terms []term, limit int) (text string, args []any) {
	return t.text.Union(len(terms), t.orderColumns(q.Lane, p.seg), t.lanes[q.Lane].ends, limit, func(i int, rest string) (string, []any) {
		x := terms[i]
		b := t.branches[x.branch]
		if rest != "" { // it is one of several
			rest = fmt.Sprintf(", %d%s", x.branch, rest)
		}
		lead := slices.Concat(t.where.prefix, b.prefix)
		if x.class.cond != "" && !x.class.many {
			lead = append(lead, t.policy.count)
		}
		cond, args := t.pageConditions(q, p, b, x.class)
		from := t.from(lead, t.lanes[q.Lane].time.quoted)
		exprs := db.SelectList(t.exprs(p.stray == nil))
		return fmt.Sprintf("SELECT %s%s FROM %s WHERE %s", exprs, rest, from, cond), args
	})
}

// orderColumns returns the columns by which the rows of a segment come. Missing
// dates of insertion are NULL or zero, which makes no difference.
func (t *layout) orderColumns(lane backlog.Lane, seg int) []string {
	if seg != segDated {
		return t.lanes[lane].undated
	}
	return t.orderBy(t.lanes[lane].time)
}

// orderBy returns the columns of an order by the time and then by the key.
func (t *layout) orderBy(c *timeCol) []string {
	return lists.Distinct(append([]string{c.quoted}, t.key...))
}

// from returns the FROM clause of a page query that an index is to answer: by the
// columns of one value each, and then in the order of another. Where planners need
// it, it carries an index hint; else it is the quoted table name.
func (t *layout) from(lead []string, order string) string {
	if t.text.IndexHint == "" || len(lead) == 0 || t.d.NoHints.Load() {
		return t.name
	}
	for _, x := range t.catalog.ServingIndexes(t.names(lead), t.names(append([]string{order}, t.key...))) {
		if x.Name != "" {
			return fmt.Sprintf(t.text.IndexHint, t.name, t.text.Quote(x.Name))
		}
	}
	return t.name
}

// orEqual makes an operator one that takes the place itself, too.
var orEqual = map[bool]string{true: "="}

// pageConditions returns the conditions for the branch's rows of the class, and
// their arguments.
func (t *layout) pageConditions(q backlog.Query, p part, b branch, c waitClass) (string, []any) {
	o := &t.lanes[q.Lane]
	dated := p.seg == segDated
	within := isWithin(q.After, p.seg)
	b.cond = b.page
	conds := t.pending(b)
	conds.add(c.cond, nil)
	order := o.time
	switch {
	case p.stray != nil:
		conds.add(t.within(order, *p.stray))
		return conds.all(), conds.args
	case p.seg == segOldest:
		conds.add(o.oldest, nil)
	case p.seg == segNewest:
		conds.add(o.newest, nil)
	case !o.byWait:
		conds.add(t.fromCut(order, t.writeForm(order).Since(q.Since)))
	case !c.now:
		conds.add(t.belowCut(order, t.writeForm(order).Until(q.Now.Add(-c.wait))))
	case !within:
		conds.add(order.quoted+" IS NOT NULL", nil)
	}
	if p.ties {
		conds.add(order.quoted+" = ?", []any{q.After.Order})
	}
	switch {
	case within && dated && !p.ties:
		conds.add(order.quoted+" "+o.onward+" ?", []any{q.After.Order})
	case within:
		conds.add(db.KeyRange(o.onward+orEqual[q.After.Before], t.key, q.After.Key))
	}
	if isWithin(q.Until, p.seg) {
		op := o.back + orEqual[!q.Until.Before]
		if dated {
			conds.add(order.quoted+" "+o.back+"= ?", []any{q.Until.Order}) // not every planner bounds a range by what follows
			conds.add(db.KeyRange(op, slices.Concat([]string{order.quoted}, t.key), q.Until.Key, q.Until.Order))
		} else {
			conds.add(db.KeyRange(op, t.key, q.Until.Key))
		}
	}
	if o.filters {
		conds.add(t.aged(q))
	}
	// Where no row has a time there yet, those that are read are looked at.
	if c := t.eligible; c != nil && c.known() != nil {
		cond, args := t.belowCut(c, c.known().Until(q.Now))
		conds.add(t.orUnread(c, cond, args))
	}
	if c := t.expires; c != nil && c.known() != nil {
		cond, args := t.fromCut(c, c.known().Since(q.Now))
		conds.add(t.orUnread(c, cond, args))
	}
	return conds.all(), conds.args
}

// orUnread is a condition on the time of the column that lets rows through whose time is
// missing, unless they are skipped, or cannot be read: those are reported.
func (t *layout) orUnread(c *timeCol, cond string, args []any) (string, []any) {
	var or conditions
	or.add(t.misread(c))
	or.add(cond, args)
	if c.spec.Null != "skip" {
		or.add(c.quoted+" IS NULL", nil)
	}
	if c.spec.Zero != "skip" {
		or.add(t.text.ZeroDate(c.column), nil)
	}
	return or.any(), or.args
}

// pending returns the conditions that a row of the branch meets; of the zero one, those of any row.
func (t *layout) pending(b branch) conditions {
	return conditions{list: append(lists.NonEmpty(b.cond, t.where.cond), t.keyed()...)}
}

// keyed returns the condition for each part of the key that may be NULL.
func (t *layout) keyed() (list []string) {
	for i, c := range t.keys {
		if !c.NotNull {
			list = append(list, t.key[i]+" IS NOT NULL")
		}
	}
	return list
}

// page reads one page of a segment. Its Next is zero where there was no row.
func (t *Table) page(ctx context.Context, s *scanner) (backlog.Page, error) {
	empty := scanner{t: t, q: s.q, seg: s.seg, terms: t.terms(s.q.Lane), again: s.again}
	err := t.db.Do(ctx, func(ctx context.Context) error {
		*s = empty
		if len(s.terms) == 0 {
			return nil // no state is in this lane
		}
		for _, p := range partsOf(s.q, s.seg) {
			if s.room() <= 0 || s.unknown != nil {
				break
			}
			text, args := t.pageQuery(s.q, p, s.terms, s.room())
			rows, err := t.prepared.Query(ctx, t.db.Read, t.text.Rebind(text), args)
			if err != nil {
				return err
			}
			if err := s.scan(rows); err != nil {
				return err
			}
		}
		return nil
	})
	return s.page, err
}

// aged is the condition for the pass's ages.
func (t *layout) aged(q backlog.Query) (string, []any) {
	var or conditions
	or.add(t.missing("newest"), nil)
	if q.Widest {
		or.add(t.missing("oldest"), nil)
	}
	if form := t.inserted.known(); form != nil {
		or.add(t.fromCut(t.inserted, form.Since(q.Since)))
		or.add(t.within(t.inserted, form.RangesBefore(q.Since)[0]))
		or.add(t.misread(t.inserted))
	}
	if len(or.list) == 0 {
		or.add(never, nil) // no row has a date, or one just now, which cannot be read yet
	}
	// The order must come from the index that this has no part in.
	return t.text.WithoutIndex(strings.Join(or.list, " OR ")), or.args
}

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
		order := t.lanes[b.lane].time.quoted
		var count []string
		if b.lane == backlog.Failed && t.policy.byCount() {
			count = []string{t.policy.count}
		}
		add := func(terms []term, conds, equal []string) {
			if len(terms) == 0 {
				return
			}
			q := backlog.Query{Lane: b.lane, Now: now, Since: now.Add(-24 * time.Hour), Limit: 1000}
			r := t.reading(b, append([]string{b.index}, conds...), append(slices.Clip(equal), order))
			r.Equal = append(r.Equal, t.names(equal)...)
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
		add(single, nil, count)
		if len(many) > 0 {
			add(many, []string{many[0].class.cond}, nil)
		}
	}
	if t.refresh.runs() {
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
			if v != nil || t.text.EqualFirst {
				equal = append(equal, name)
			}
		}
	}
	return Reading{
		What: fmt.Sprintf("%s records, %s", b.lane, cmp.Or(b.what, b.cond)), Equal: slices.Sorted(slices.Values(t.names(equal))),
		Columns: lists.Distinct(slices.Concat(t.where.prefix, b.prefix, columns, t.key)),
		Where:   strings.Join(append(slices.Clip(conds), lists.NonEmpty(t.where.cond)...), " AND "),
		Order:   t.names(slices.Concat(columns, t.key)),
	}
}

// Statements returns the text of every statement that passes run, for people
// who want to know before they grant.
func (t *Table) Statements() []string {
	var list []string
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
					list = append(list, text)
				}
			}
		}
	}
	list = append(list, t.writer.texts()...)
	for _, x := range t.writer.targets(time.Time{}) {
		list = append(list, x.text)
	}
	for _, x := range t.expiries(time.Time{}, time.Time{}) {
		if x.col != nil {
			x.add(t.past(x.col, x.bound))
		}
		list = append(list, t.expireText(x))
	}
	return lists.Distinct(lists.Map(lists.NonEmpty(list...), t.text.Rebind))
}

// Written returns the quoted columns that passes write.
func (t *Table) Written() []string {
	sets := lists.Map(t.writer.targets(time.Time{}), func(w update) []assign { return w.set })
	return lists.Distinct(lists.Map(slices.Concat(t.expireSet, slices.Concat(sets...)), func(a assign) string { return a.col }))
}

// Read returns the quoted columns that the statements of passes name, in the table's order.
func (t *Table) Read() []string {
	all := strings.Join(t.Statements(), "\n")
	isUnread := func(quoted string) bool { return !strings.Contains(all, quoted) }
	return slices.DeleteFunc(lists.Map(t.catalog.ColumnNames(), t.text.Quote), isUnread)
}
