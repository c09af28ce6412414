package table

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// A lane is read in three segments, one after the other: rows whose missing date counts as
// newest, rows with a date, and rows whose missing date counts as oldest.
const (
	newestSegment = iota
	datedSegment
	oldestSegment
)

// Pending implements [backlog.Store].
func (t *Table) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	for _, col := range slices.Compact([]*timeColumn{t.inserted, t.lanes[q.Lane].time}) {
		if err := t.discoverForm(ctx, col, q.Lane); err != nil {
			return backlog.Page{}, err
		}
	}
	segments := t.segments(q)
	for i, seg := range segments {
		s := scanner{t: t, q: q, segment: seg}
		p, err := t.page(ctx, &s)
		for err == nil && s.unknownForm != nil { // most rows decide on the form, not the first one
			col := s.unknownForm
			err = t.discoverForm(ctx, col)
			if err != nil {
				break
			}
			s.acceptsUnknown = col.knownForm() == nil
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

// maxStrays limits how many rows of a lane [Table.Strays] reads.
const maxStrays = 1000

// Strays implements [backlog.StrayFinder]. The values of a form are one range of the index.
// Strays reads what is outside of that range, at the end that no page reaches.
func (t *Table) Strays(ctx context.Context, q backlog.Query) (list []backlog.Unreadable, err error) {
	order := t.lanes[q.Lane].time
	if order.knownForm() == nil {
		return nil, nil
	}
	q.Limit = maxStrays
	q.After = backlog.Cursor{}
	q.Until = backlog.Cursor{}
	ranges := order.knownForm().RangesBefore(q.Since)
	if t.lanes[q.Lane].byWait {
		ranges = order.knownForm().RangesAfter(q.Now)
	}
	scans := t.laneScans(q.Lane)
	if len(scans) == 0 {
		ranges = nil
	}
	for _, r := range ranges {
		text, args := t.pageQuery(q, pageStatement{segment: datedSegment, strayRange: &r}, scans, q.Limit-len(list))
		found, err := t.unreadable(ctx, q, scans, text, args)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	if t.refresh.runs() && q.Lane == backlog.Failed {
		list, err = t.strayDeadlines(ctx, q, list)
	}
	if err == nil && t.hasUnreadable.Swap(false) {
		err = t.relearnForms(ctx)
	}
	return list, err
}

// strayDeadlines adds to the list the running attempts whose deadline is outside of the form,
// so that they are never overdue.
func (t *Table) strayDeadlines(
	ctx context.Context, q backlog.Query, list []backlog.Unreadable,
) ([]backlog.Unreadable, error) {
	tc := t.timeOf(t.refresh.cols[mapping.DeadlineAt])
	ranges := t.writeForm(tc).RangesAfter(q.Now)
	for _, r := range ranges {
		where := allOf(t.refresh.running)
		where.add(t.inRanges(tc, r))
		stray := t.recordsQuery(where, t.selected.bareExprs)
		stray.limit = q.Limit
		text, args := stray.sql()
		found, err := t.unreadable(ctx, q, []laneScan{{}}, text, args)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// unreadable returns the rows of a page query that cannot be read as records.
func (t *Table) unreadable(
	ctx context.Context, q backlog.Query, scans []laneScan, text string, args []any,
) ([]backlog.Unreadable, error) {
	var s scanner
	err := t.db.Do(ctx, func(ctx context.Context) error {
		s = scanner{t: t, q: q, segment: datedSegment, scans: scans, acceptsUnknown: true}
		rows, err := t.db.QueryPrepared(ctx, t.text.Rebind(text), args)
		if err != nil {
			return err
		}
		return s.scan(rows)
	})
	return s.page.Unreadable, err
}

// segments returns the segments of the query's lane that can hold rows between its cursors.
func (t *layout) segments(q backlog.Query) (list []int) {
	o := &t.lanes[q.Lane]
	has := [...]bool{
		newestSegment: o.newest != "",
		datedSegment:  o.time.knownForm() != nil,
		oldestSegment: o.oldest != "" && q.Widest,
	}
	for seg := range has {
		isBefore := !q.After.IsZero() && seg < q.After.Segment
		isBeyond := !q.Until.IsZero() && seg > q.Until.Segment
		if has[seg] && !isBefore && !isBeyond {
			list = append(list, seg)
		}
	}
	return list
}

// missingDate returns the condition of rows without a date of insertion, if the mapping says
// that this means the word: newest, oldest or skip. Otherwise it returns "".
func (t *layout) missingDate(word string) string {
	var or conditions
	if t.inserted.spec.Null == word {
		or.add(t.inserted.quoted+" IS NULL", nil)
	}
	if t.inserted.spec.Zero == word {
		or.add(t.text.ZeroDate(t.inserted.column), nil)
	}
	return or.any()
}

// A pageStatement is what one statement of a page reads of a segment. Within the dated segment
// a page takes two: first the remaining rows with the time of the cursor (ties), then the rows
// of other times. A single range over time and key would do, but SQLite does not search it by
// the key if that is the rowid: each page would read again all rows of that time.
type pageStatement struct {
	segment    int
	ties       bool
	strayRange *timeform.Range // the times to read; nil: the times of the pass
}

// pageStatements returns the statements that read the query's page of the segment.
func pageStatements(q backlog.Query, seg int) []pageStatement {
	if seg == datedSegment && isInSegment(q.After, seg) {
		return []pageStatement{{segment: seg, ties: true}, {segment: seg}}
	}
	return []pageStatement{{segment: seg}}
}

// isInSegment reports whether the cursor is in the segment.
func isInSegment(c backlog.Cursor, seg int) bool { return !c.IsZero() && c.Segment == seg }

// A laneScan is a part of a lane that one query of a UNION ALL reads: the rows in one state
// and one waitClass.
type laneScan struct {
	stateIndex int // index
	waitClass  waitClass
}

// laneScans returns the scans of a lane.
func (t *layout) laneScans(lane backlog.Lane) (list []laneScan) {
	for i, state := range t.states {
		if state.lane == lane {
			list = append(list, t.stateScans(i)...)
		}
	}
	return list
}

// stateScans returns the scans of the state with the index, one for each waitClass of its lane.
func (t *layout) stateScans(index int) (list []laneScan) {
	lane := t.states[index].lane
	for _, class := range t.lanes[lane].classes {
		list = append(list, laneScan{stateIndex: index, waitClass: class})
	}
	return list
}

// pageQuery returns the text and the arguments of a pageStatement. Where there are several
// scans, the index of the state comes after the columns of a page.
func (t *layout) pageQuery(q backlog.Query, p pageStatement, scans []laneScan, limit int) (text string, args []any) {
	order := &t.lanes[q.Lane]
	queries := make([]selectQuery, len(scans))
	for i, x := range scans {
		state := t.states[x.stateIndex]
		columns := aliased(t.rowExprs(p.strayRange == nil))
		if len(scans) > 1 {
			columns = append(columns, strconv.Itoa(x.stateIndex))
		}
		lead := slices.Concat(t.where.indexPrefix, state.indexPrefix)
		if x.waitClass.cond != "" && !x.waitClass.openEnded {
			lead = append(lead, t.policy.count)
		}
		queries[i] = selectQuery{
			columns:         columns,
			from:            t.fromClause(lead, order.time.quoted),
			where:           t.pageConditions(q, p, state, x.waitClass),
			orderBy:         t.orderColumns(q.Lane, p.segment),
			descending:      order.descending,
			limit:           limit,
			limitAsArgument: true,
		}
	}
	return t.union(queries)
}

// orderColumns returns the columns by which a segment is ordered.
func (t *layout) orderColumns(lane backlog.Lane, seg int) []string {
	if seg != datedSegment {
		return t.lanes[lane].undated
	}
	return t.orderBy(t.lanes[lane].time)
}

// orderBy returns the columns of an order by the time, then by the key.
func (t *layout) orderBy(c *timeColumn) []string {
	return lists.Distinct(append([]string{c.quoted}, t.key...))
}

// fromClause returns the FROM clause of a query that an index should answer: an index with the
// lead columns, each equal to one value, and then the order column. The clause has an index
// hint where planners need one.
func (t *layout) fromClause(lead []string, order string) string {
	if t.text.IndexHint == "" || len(lead) == 0 || t.database.NoHints.Load() {
		return t.name
	}
	for _, x := range t.catalog.ServingIndexes(t.names(lead), t.names(append([]string{order}, t.key...))) {
		if x.Name != "" {
			return fmt.Sprintf(t.text.IndexHint, t.name, t.text.Quote(x.Name))
		}
	}
	return t.name
}

// orEqual makes an operator include the bound itself if that says so.
func orEqual(operator string, includes bool) string {
	if includes {
		return operator + "="
	}
	return operator
}

// pageConditions returns the conditions of the rows that a pageStatement reads in a state and
// a waitClass. Strays are read whatever their age and their other times, since nothing is done
// with them but to report them.
func (t *layout) pageConditions(q backlog.Query, p pageStatement, state pendingState, class waitClass) conditions {
	lane := &t.lanes[q.Lane]
	conds := t.recordsWith(state.pageCond)
	conds.add(class.cond, nil)
	if p.strayRange != nil {
		conds.add(t.inRanges(lane.time, *p.strayRange))
		return conds
	}
	conds.add(t.segmentCondition(q, p, class))
	t.addCursors(&conds, q, p)
	if lane.filtersAge {
		conds.add(t.ageFilter(q))
	}
	conds.add(t.eligibleFilter(q.Now))
	conds.add(t.unexpiredFilter(q.Now))
	return conds
}

// eligibleFilter returns the condition of rows that are eligible at the time, and its
// arguments. It is "" if every row is, or while the form of the column is unknown: the scanner
// decides then.
func (t *layout) eligibleFilter(now time.Time) (cond string, args []any) {
	if t.eligible == nil || t.eligible.knownForm() == nil {
		return "", nil
	}
	cond, args = t.beforeCut(t.eligible, t.eligible.knownForm().Until(now))
	return t.orUnreadable(t.eligible, cond, args)
}

// unexpiredFilter returns the condition of rows that have not expired at the time, like
// eligibleFilter.
func (t *layout) unexpiredFilter(now time.Time) (cond string, args []any) {
	if t.expires == nil || t.expires.knownForm() == nil {
		return "", nil
	}
	cond, args = t.fromCut(t.expires, t.expires.knownForm().Since(now))
	return t.orUnreadable(t.expires, cond, args)
}

// segmentCondition returns the condition of the statement's segment, and its arguments. In the
// dated segment that is the age of the pass or, in a lane ordered by waiting, that the wait of
// the class is over.
func (t *layout) segmentCondition(q backlog.Query, p pageStatement, class waitClass) (string, []any) {
	lane := &t.lanes[q.Lane]
	switch {
	case p.segment == oldestSegment:
		return lane.oldest, nil
	case p.segment == newestSegment:
		return lane.newest, nil
	case !lane.byWait:
		return t.fromCut(lane.time, t.writeForm(lane.time).Since(q.Since))
	case !class.dueNow:
		return t.beforeCut(lane.time, t.writeForm(lane.time).Until(q.Now.Add(-class.wait)))
	case !isInSegment(q.After, p.segment):
		return lane.time.quoted + " IS NOT NULL", nil
	}
	return "", nil // the cursor excludes rows without a time
}

// addCursors adds the conditions of rows between the cursors of the query.
func (t *layout) addCursors(conds *conditions, q backlog.Query, p pageStatement) {
	lane := &t.lanes[q.Lane]
	order := lane.time.quoted
	if p.ties {
		conds.add(order+" = ?", []any{q.After.Order})
	}
	if isInSegment(q.After, p.segment) {
		if p.segment == datedSegment && !p.ties {
			conds.add(order+" "+lane.afterOp+" ?", []any{q.After.Order})
		} else {
			conds.add(db.KeyRange(orEqual(lane.afterOp, q.After.Before), t.key, q.After.Key))
		}
	}
	if isInSegment(q.Until, p.segment) {
		op := orEqual(lane.beforeOp, !q.Until.Before)
		if p.segment == datedSegment {
			conds.add(order+" "+lane.beforeOp+"= ?", []any{q.Until.Order}) // some planners need it to bound the range
			conds.add(db.KeyRange(op, slices.Concat([]string{order}, t.key), q.Until.Key, q.Until.Order))
		} else {
			conds.add(db.KeyRange(op, t.key, q.Until.Key))
		}
	}
}

// orUnreadable extends a condition on the time of the column. It also selects rows whose time
// is missing, unless such rows are skipped, and rows whose time is unreadable, which are
// reported.
func (t *layout) orUnreadable(c *timeColumn, cond string, args []any) (string, []any) {
	var or conditions
	or.add(t.unreadableTimes(c))
	or.add(cond, args)
	if c.spec.Null != "skip" {
		or.add(c.quoted+" IS NULL", nil)
	}
	if c.spec.Zero != "skip" {
		or.add(t.text.ZeroDate(c.column), nil)
	}
	return or.any(), or.args
}

// recordsWith returns the conditions of the table's records that meet a further one. Without
// that, "", they are the conditions of every record.
func (t *layout) recordsWith(cond string) conditions {
	conds := allOf(cond, t.where.cond)
	for _, notNull := range t.keyNotNull() {
		conds.add(notNull, nil)
	}
	return conds
}

// keyNotNull returns a condition for each column of the key that can be NULL: a record needs a
// whole key.
func (t *layout) keyNotNull() (list []string) {
	for i, c := range t.keyColumns {
		if !c.NotNull {
			list = append(list, t.key[i]+" IS NOT NULL")
		}
	}
	return list
}

// page reads one page of a segment. Its Next is zero if there was no row.
func (t *Table) page(ctx context.Context, s *scanner) (backlog.Page, error) {
	empty := scanner{t: t, q: s.q, segment: s.segment, scans: t.laneScans(s.q.Lane), acceptsUnknown: s.acceptsUnknown}
	err := t.db.Do(ctx, func(ctx context.Context) error {
		*s = empty
		if len(s.scans) == 0 {
			return nil // the lane has no states
		}
		for _, p := range pageStatements(s.q, s.segment) {
			if s.room() <= 0 || s.unknownForm != nil {
				break
			}
			text, args := t.pageQuery(s.q, p, s.scans, s.room())
			rows, err := t.db.QueryPrepared(ctx, t.text.Rebind(text), args)
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

// ageFilter returns the condition for the ages of the pass, in a lane that is not ordered by
// age.
func (t *layout) ageFilter(q backlog.Query) (string, []any) {
	var or conditions
	or.add(t.missingDate("newest"), nil)
	if q.Widest {
		or.add(t.missingDate("oldest"), nil)
	}
	if form := t.inserted.knownForm(); form != nil {
		or.add(t.fromCut(t.inserted, form.Since(q.Since)))
		or.add(t.inRanges(t.inserted, form.RangesBefore(q.Since)[0]))
		or.add(t.unreadableTimes(t.inserted))
	}
	if len(or.list) == 0 {
		or.add(never, nil) // no row has a date, or the first one came just now
	}
	// The index of the order must be searched, not one of the ages.
	return t.text.WithoutIndex(strings.Join(or.list, " OR ")), or.args
}

// An IndexedQuery is a query that passes or lists send, with the index that should answer it.
type IndexedQuery struct {
	What  string // the lane and the condition, for people
	Query string
	Args  []any

	Equal   []string // names of the columns to which the conditions give one value
	OrderBy []string // names of the columns that order the rows

	IndexColumns []string // quoted, of the proposed index
	IndexWhere   string   // the condition of the proposed index, if it is partial
}

// PassQueries returns the queries of passes that begin now.
//
// Under a policy that counts failures, each waitClass of failed records is a range of one
// index by the count and the time. An open-ended class has several counts, so it needs an index
// of its own to come in order.
func (t *layout) PassQueries(now time.Time) (list []IndexedQuery) {
	for i, state := range t.states {
		var exactCount, openEnded []laneScan
		for _, scan := range t.stateScans(i) {
			switch {
			case scan.waitClass.unexpected:
				continue // no row should be in it, so no index is proposed for it
			case scan.waitClass.openEnded:
				openEnded = append(openEnded, scan)
			default:
				exactCount = append(exactCount, scan)
			}
		}
		for _, scans := range [][]laneScan{exactCount, openEnded} {
			if len(scans) > 0 {
				list = append(list, t.firstPageQuery(state, scans, now))
			}
		}
	}
	if t.refresh.runs() {
		list = append(list, t.overdueIndexedQuery(now))
	}
	return list
}

// firstPageQuery returns the query for the first page that a pass reads by the scans of a state.
// One index answers it, so the scans are all open-ended, or none is.
func (t *layout) firstPageQuery(state pendingState, scans []laneScan, now time.Time) IndexedQuery {
	class := scans[0].waitClass
	where := []string{state.indexCond}
	var equal []string
	switch {
	case class.openEnded:
		where = append(where, class.cond)
	case state.lane == backlog.Failed && t.policy.byCount():
		equal = []string{t.policy.count}
	}
	order := []string{t.lanes[state.lane].time.quoted}
	x := t.indexedQuery(state, where, slices.Concat(equal, order))
	x.Equal = append(x.Equal, t.names(equal)...)
	q := backlog.Query{Lane: state.lane, Now: now, Since: now.Add(-24 * time.Hour), Limit: 1000}
	x.Query, x.Args = t.pageQuery(q, pageStatement{segment: datedSegment}, scans, q.Limit)
	return x
}

// indexedQuery describes a query for the rows in a state that meet the conditions, in the order
// of the columns and the key, and its index. The caller adds Query and Args.
//
// The index begins with the prefixes, though its condition says their values already. Without
// them a planner that has no statistics prefers any index that it can search by a status, and
// sorts.
func (t *layout) indexedQuery(state pendingState, where, orderBy []string) IndexedQuery {
	indexWhere := allOf(where...)
	indexWhere.add(t.where.cond, nil)
	equal := slices.Concat(t.singleValued(t.where), t.singleValued(state.filter))
	orderBy = slices.Concat(orderBy, t.key)
	return IndexedQuery{
		What:         fmt.Sprintf("%s records, %s", state.lane, cmp.Or(state.title, state.cond)),
		Equal:        slices.Sorted(slices.Values(t.names(equal))),
		OrderBy:      t.names(orderBy),
		IndexColumns: lists.Distinct(slices.Concat(t.where.indexPrefix, state.indexPrefix, orderBy)),
		IndexWhere:   indexWhere.all(),
	}
}

// singleValued returns the columns, quoted, that the filter gives one value, as planners see it
// that look for an index in order. PostgreSQL does not take IS NULL for one value.
func (t *layout) singleValued(f filter) (columns []string) {
	takesNull := t.text.EqualFirst // set for the other databases
	for column, value := range f.equal {
		isNull := value == nil
		if !isNull || takesNull {
			columns = append(columns, column)
		}
	}
	return columns
}

// Statements returns the text of every statement that passes send, for people who grant
// rights.
func (t *Table) Statements() []string {
	var list []string
	anyKey := backlog.NewKey(slices.Repeat([]any{""}, len(t.key))...) // texts do not depend on its values
	firstPage := backlog.Cursor{}
	laterPage := backlog.Cursor{Key: anyKey}
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		scans := t.laneScans(lane)
		if len(scans) == 0 {
			continue
		}
		segments := t.segments(backlog.Query{Lane: lane, Widest: true})
		for seg := newestSegment; seg <= oldestSegment; seg++ {
			isRead := seg == datedSegment || slices.Contains(segments, seg)
			if !isRead {
				continue
			}
			for _, after := range []backlog.Cursor{firstPage, laterPage} {
				after.Segment = seg
				q := backlog.Query{Lane: lane, After: after}
				for _, p := range pageStatements(q, seg) {
					text, _ := t.pageQuery(q, p, scans, 1)
					list = append(list, text)
				}
			}
		}
	}
	list = append(list, t.writer.texts()...)
	for _, x := range append(t.writer.targets(time.Time{}), t.snoozeUpdates()...) {
		list = append(list, x.text)
	}
	anyTime := time.Time{}
	for _, x := range t.expiries(anyTime, anyTime) {
		if x.col != nil {
			x.add(t.pastTimes(x.col, x.bound))
		}
		list = append(list, t.expireText(x))
	}
	return lists.Distinct(lists.Map(lists.NonEmpty(list...), t.text.Rebind))
}

// WrittenColumns returns the quoted columns that passes write.
func (t *Table) WrittenColumns() []string {
	clauses := slices.Clone(t.expireSet)
	for _, x := range append(t.writer.targets(time.Time{}), t.snoozeUpdates()...) {
		clauses = append(clauses, x.set...)
	}
	return lists.Distinct(lists.Map(clauses, func(a setClause) string { return a.column }))
}

// ReadColumns returns the quoted columns that the statements of passes name, in the table's
// order.
func (t *Table) ReadColumns() []string {
	all := strings.Join(t.Statements(), "\n")
	isUnread := func(quoted string) bool { return !strings.Contains(all, quoted) }
	return slices.DeleteFunc(lists.Map(t.catalog.ColumnNames(), t.text.Quote), isUnread)
}
