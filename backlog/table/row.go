package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// pageColumns are the columns that a page selects: first those whose values handlers get,
// then the others that passes need. The fields with At hold indexes into exprs.
type pageColumns struct {
	exprs        []string
	bareExprs    []string  // exprs with NULL in place of those that only handlers need
	columns      []*column // of exprs, then of displayExprs; nil: not a single column
	keyAt        []int
	statusAt     int      // -1: there is no status column
	attemptsAt   int      // the number of attempts; -1: it is not counted
	memoryAt     []int    // what a row remembers
	handlerNames []string // of the columns whose values handlers get
	convertedAt  []int    // columns whose values are converted for handlers
	displayExprs []string // what [layout.withDisplay] adds: attempts, last error, state
}

// newPageColumns collects the columns, each once.
func (t *layout) newPageColumns() pageColumns {
	s := pageColumns{statusAt: -1, attemptsAt: -1}
	at := make(map[string]int)
	onlyForHandlers := true
	add := func(quoted string) int {
		i, ok := at[quoted]
		if !ok {
			i = len(s.exprs)
			at[quoted] = i
			c := t.quotedColumn(quoted)
			s.exprs = append(s.exprs, cmp.Or(c.ReadExpr, t.text.AsStored(quoted)))
			s.bareExprs = append(s.bareExprs, "NULL")
			s.columns = append(s.columns, c)
		}
		if !onlyForHandlers {
			s.bareExprs[i] = s.exprs[i]
		}
		return i
	}
	for i, c := range t.columns {
		add(t.text.Quote(c.Name))
		s.handlerNames = append(s.handlerNames, c.Name)
		if c.JSON || c.Class == db.Boolean {
			s.convertedAt = append(s.convertedAt, i)
		}
	}
	onlyForHandlers = false
	s.memoryAt = lists.Map(t.memoryColumns, add)
	s.keyAt = lists.Map(t.key, add)
	if t.status != "" {
		s.statusAt = add(t.status)
	}
	if t.attemptsColumn != nil {
		s.attemptsAt = add(t.text.Quote(t.attemptsColumn.Name))
	}
	for _, tc := range t.times {
		if !tc.onlyWritten {
			tc.at = add(tc.quoted)
		}
	}
	for _, c := range []*column{t.attemptsColumn, t.errorColumn} {
		expr := "NULL"
		if c != nil {
			expr = cmp.Or(c.ReadExpr, t.text.AsStored(t.text.Quote(c.Name)))
		}
		s.displayExprs = append(s.displayExprs, expr)
		s.columns = append(s.columns, c)
	}
	s.displayExprs = append(s.displayExprs, t.stateIndexExpr(strconv.Itoa))
	s.columns = append(s.columns, nil)
	return s
}

// quotedColumn returns the column of that quoted name, which must exist.
func (t *layout) quotedColumn(quoted string) *column {
	i := slices.IndexFunc(t.catalog.Columns, func(c column) bool { return t.text.Quote(c.Name) == quoted })
	return &t.catalog.Columns[i]
}

// names returns the names of quoted columns, each once.
func (t *layout) names(quoted []string) []string {
	return lists.Map(lists.Distinct(quoted), func(q string) string { return t.quotedColumn(q).Name })
}

// HandlerColumns returns the names of the columns whose values handlers get, in their order.
func (t *layout) HandlerColumns() []string { return slices.Clone(t.selected.handlerNames) }

// Stored returns the values of the quoted columns in the row with the key. The error is
// [backlog.ErrConflict] if there is no such row.
func (t *Table) Stored(ctx context.Context, tx *sql.Tx, k backlog.Key, columns []string) ([]any, error) {
	text, args := selectQuery{columns: columns, from: t.name, where: t.withKey(k)}.sql()
	values, err := db.ScanValues(db.OneRow(ctx, tx, t.text.Rebind(text), args...), len(columns))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, backlog.ErrConflict
	}
	for i, v := range values {
		values[i] = t.database.Value(nil, v)
	}
	return values, err
}

// keyIn returns the condition that a row has one of the keys, and its arguments.
func (t *layout) keyIn(keys ...backlog.Key) (cond string, args []any) {
	if len(keys) > 1 && t.bindsKeyArrays() {
		values := lists.Map(keys, func(k backlog.Key) any { return k.Part(0) })
		cond, array := t.text.ValueIn(t.keyColumns[0], values)
		return cond, []any{array}
	}
	return t.text.KeyIn(t.key, len(keys)), db.AppendKeys(nil, keys...)
}

// bindsKeyArrays reports whether several keys are one argument, so that the condition has the same
// text for any number of them.
func (t *layout) bindsKeyArrays() bool { return t.text.Arrays && len(t.key) == 1 }

// withKey returns the condition of the row with the key.
func (t *layout) withKey(k backlog.Key) (conds conditions) {
	conds.add(t.keyIn(k))
	return conds
}

// scan reads the first n values of a row with the columns of a page or of [layout.withDisplay].
// What comes after them is scanned into rest.
func (t *layout) scan(rows interface{ Scan(to ...any) error }, n int, rest ...any) ([]any, error) {
	row, err := db.ScanValues(rows, n, rest...)
	for i, v := range row {
		row[i] = t.value(i, v)
	}
	return row, err
}

// rows returns the rows of a query with the columns of a page or of [layout.withDisplay].
func (t *Table) rows(ctx context.Context, q selectQuery) ([][]any, error) {
	text, args := q.sql()
	return db.QueryScan(ctx, t.db, text, args, func(rows *sql.Rows) ([]any, error) {
		return t.scan(rows, len(q.columns))
	})
}

// groupsByKey returns the rows that meet the conditions, in the order of their keys and in
// groups of a size. exprs are the columns of a page or of [layout.withDisplay]. The conditions
// should be unsearched: with an index for them, each group would sort all rows that meet them.
func (t *Table) groupsByKey(ctx context.Context, exprs []string, size int, where conditions) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		q := selectQuery{columns: aliased(exprs), from: t.name, where: where, orderBy: t.key, limit: size}
		more := true
		for more {
			rows, err := t.rows(ctx, q)
			if err == nil && len(rows) == 0 {
				return
			}
			more = len(rows) == size
			if more { // before the caller takes rows out
				q.where = where.clone()
				q.where.add(db.KeyRange(">", t.key, t.keyOf(rows[size-1])))
			}
			if !yield(rows, err) {
				return
			}
		}
	}
}

// recordOf returns the record of a row in the state, for other uses than a page. Times that
// cannot be read are zero.
func (t *layout) recordOf(row []any, state int) backlog.Record {
	rec := backlog.Record{Key: t.keyOf(row)}
	rec.Inserted, _ = t.inserted.timeIn(row)
	_ = t.remember(&rec, row)
	t.fill(&rec, row, state)
	return rec
}

// keyOf returns the key of a row.
func (t *layout) keyOf(row []any) backlog.Key {
	return backlog.NewKey(lists.Map(t.selected.keyAt, func(at int) any { return row[at] })...)
}

// fill sets the state of the record and the values for handlers. The record keeps the row.
func (t *layout) fill(rec *backlog.Record, row []any, index int) {
	state := &t.states[index]
	rec.Origin = index
	rec.Lane = state.lane
	rec.Status = state.label
	rec.Names = t.selected.handlerNames
	rec.Values = row[:len(t.columns)]
	if t.selected.statusAt >= 0 {
		rec.Status = db.AsText(row[t.selected.statusAt])
	}
	rec.Attempts = t.attemptsOf(row)
	for _, i := range t.selected.convertedAt {
		row[i] = t.columns[i].ForHandler(row[i])
	}
	// Only a record that becomes dead can have invalid UTF-8: passes skip such rows.
	for i, v := range rec.Values {
		if s, ok := v.(string); ok && !utf8.ValidString(s) && !slices.Contains(t.selected.keyAt, i) {
			row[i] = []byte(s)
		}
	}
}

// attemptsOf returns how many attempts the row counts, -1 if it does not say.
func (t *layout) attemptsOf(row []any) int {
	if t.selected.attemptsAt < 0 {
		return -1
	}
	n, err := db.AsCount(row[t.selected.attemptsAt])
	if err != nil {
		return -1
	}
	return n
}

// FirstOfEachState returns the first pending records of each state in the order of passes, by the
// state's label. It ignores ages and returns at most a number of records of each state. It
// returns none if a trial cannot be rolled back.
func (t *Table) FirstOfEachState(ctx context.Context, most int) (map[string][]backlog.Record, error) {
	list := make(map[string][]backlog.Record)
	if !t.canRollBack() {
		return list, nil
	}
	for i, state := range t.states {
		conds := t.recordsWith(state.cond)
		if t.inserted.spec.Null == "" || t.inserted.spec.Null == "skip" {
			conds.add(t.inserted.quoted+" IS NOT NULL", nil)
		}
		rows, err := t.rows(ctx, selectQuery{
			columns:         aliased(t.selected.exprs),
			from:            t.name,
			where:           conds,
			orderBy:         t.orderColumns(state.lane, datedSegment),
			descending:      t.lanes[state.lane].descending,
			limit:           most,
			limitAsArgument: true,
		})
		if err != nil {
			return nil, err
		}
		list[state.label] = lists.Map(rows, func(row []any) backlog.Record { return t.recordOf(row, i) })
	}
	return list, nil
}

// maxPageBytes ends a page of large payloads early. It is less than a page's share of the
// memory that package backlog allows for records.
const maxPageBytes = 4 << 20

// A scanner turns rows into the records of a page, until the page is full.
type scanner struct {
	t       *Table
	q       backlog.Query
	segment int
	scans   []laneScan // of the lane
	page    backlog.Page
	count   int // rows
	bytes   int // of their values

	// unknownForm is set when a row has a time in a column without a known form. Scanning
	// ends, and the page must be read anew once the form is detected. With acceptsUnknown
	// scanning goes on, and each such time is judged alone.
	unknownForm    *timeColumn
	acceptsUnknown bool
}

// room returns how many more rows the page may have.
func (s *scanner) room() int {
	if s.bytes > maxPageBytes {
		return 0
	}
	return s.q.Limit - s.count
}

// scan reads rows until the page is full, and closes them.
func (s *scanner) scan(rows *sql.Rows) error {
	defer rows.Close()
	n := len(s.t.selected.exprs)
	slab := make([]any, min(s.room(), 64)*n)
	to := make([]any, n, n+1)
	stateIndex := s.scans[0].stateIndex
	if len(s.scans) > 1 {
		to = append(to, &stateIndex)
		for range s.t.orderColumns(s.q.Lane, s.segment) {
			to = append(to, new(any)) // the union only orders by it
		}
	}
	for s.room() > 0 && s.unknownForm == nil && rows.Next() {
		if len(slab) < n {
			slab = make([]any, 256*n)
		}
		row := slab[:n:n]
		slab = slab[n:]
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i, v := range row {
			switch v := v.(type) {
			case nil, int64, bool:
				continue
			case string:
				s.bytes += len(v)
			case []byte:
				s.bytes += len(v)
			}
			row[i] = s.t.value(i, v)
		}
		s.count++
		s.addRow(row, stateIndex)
	}
	s.page.More = s.room() <= 0
	return rows.Err()
}

// sizeOf returns how many bytes the texts and blobs among the values have.
func sizeOf(values ...any) (n int) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// value converts the driver's value of the i-th expression to the store's.
func (t *layout) value(i int, v any) any { return t.database.Value(t.selected.columns[i], v) }

// addRow adds a row to the page. It decides exactly what the SQL conditions decide to the
// second.
func (s *scanner) addRow(row []any, stateIndex int) {
	t := s.t
	if s.page.Records == nil {
		s.page.Records = make([]backlog.Record, 0, s.q.Limit)
	}
	n := len(s.page.Records)
	rec := &s.page.Records[:n+1][n] // in place, since a record is large
	*rec = backlog.Record{Key: t.keyOf(row)}
	s.page.Next = backlog.Cursor{Segment: s.segment, Key: rec.Key}
	if s.segment == datedSegment {
		s.page.Next.Order = row[t.lanes[s.q.Lane].time.at]
	}
	for _, tc := range [...]*timeColumn{t.eligible, t.expires} {
		if s.acceptsUnknown || tc == nil || tc.knownForm() != nil {
			continue
		}
		if _, missing := tc.missing(row[tc.at]); !missing {
			s.unknownForm = tc
			return
		}
	}
	d, err := t.datesOf(row, s.q.Now)
	if err == nil {
		err = t.remember(rec, row)
	}
	if err == nil {
		err = t.checkUTF8(row)
	}
	if err != nil {
		s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: rec.Key, Err: err})
		return
	}
	isTooOld := t.inserted.role == insertionTime && !d.inserted.IsZero() && d.inserted.Before(s.q.Since)
	isExpired := !d.expires.IsZero() && d.expires.Before(s.q.Now)
	if d.skipped != nil || isTooOld || isExpired || d.eligible.After(s.q.Now) {
		return
	}
	if !t.policy.isDue(s.q.Lane, rec.Memory, s.q.Now) {
		return
	}
	rec.Inserted = d.inserted
	rec.Cursor = s.page.Next
	t.fill(rec, row, stateIndex)
	s.page.Records = s.page.Records[:n+1]
}

// dates are the values of the time columns of a row. A date that is missing is zero.
type dates struct {
	inserted, eligible, expires time.Time
	skipped                     *timeColumn // its date is missing, so that passes skip the row
}

// datesOf reads the dates of a row. The error is about the first unreadable date.
func (t *layout) datesOf(row []any, now time.Time) (d dates, err error) {
	to := [...]*time.Time{&d.inserted, &d.eligible, &d.expires}
	for i, tc := range [...]*timeColumn{t.inserted, t.eligible, t.expires} {
		if tc == nil {
			continue
		}
		raw := row[tc.at]
		var wrong error
		means, missing := tc.missing(raw)
		if !missing && tc.knownForm() == nil { // the first time in this column
			wrong = tc.proveForm([]any{tc.sampled(raw)})
		}
		switch {
		case missing && means == "skip" && tc != t.inserted: // pages have no rows without a date of insertion then
			d.skipped = tc
		case missing || wrong != nil:
		case tc.role == insertionTime:
			*to[i], wrong = tc.readInsertion(raw, now, t.mayBeFuture())
		case tc.role == expiryTime:
			*to[i], wrong = tc.readExpiry(raw)
		default:
			*to[i], wrong = tc.parse(raw)
		}
		err = cmp.Or(err, wrong)
	}
	if err != nil {
		t.hasUnreadable.Store(true)
	}
	return d, err
}

// checkUTF8 returns an error if a text is invalid UTF-8, which handlers cannot get.
func (t *layout) checkUTF8(row []any) error {
	for i, v := range row[:len(t.selected.exprs)] {
		if s, ok := v.(string); ok && !utf8.ValidString(s) {
			const most = 48
			return fmt.Errorf("column %s: its text %.*q is no UTF-8; mend it, or leave the column out of table.columns", t.selected.columns[i].Name, most, s)
		}
	}
	return nil
}

// isMisread reports whether a date of the row is unreadable.
func (t *layout) isMisread(row []any, now time.Time) bool {
	_, err := t.datesOf(row, now)
	return err != nil
}

// ParseKey parses a key as people write it: the bare value, or a JSON array of the values of
// a composite key. Values get the types of the columns, and BLOBs are base64. The error is one
// that the user can mend.
func (t *layout) ParseKey(text string) (backlog.Key, error) { return db.ParseKey(t.keyColumns, text) }

// Find returns the row with the key, and whether there is one. The error is a [*KeyError] if
// the database refuses the key, since no key of the table can look like that.
func (t *Table) Find(ctx context.Context, k backlog.Key, now time.Time) (row inspect.Row, ok bool, err error) {
	filter := t.text.WithoutIndex(cmp.Or(t.where.cond, always))
	exprs := t.withDisplay(t.selected.exprs)
	columns := append(aliased(exprs), "CASE WHEN "+filter+" THEN 1 ELSE 0 END")
	text, args := selectQuery{columns: columns, from: t.name, where: t.withKey(k)}.sql()
	err = t.db.Do(ctx, func(ctx context.Context) error {
		var within int
		raw, err := t.scan(db.OneRow(ctx, t.db.Read, t.text.Rebind(text), args...), len(exprs), &within)
		if t.db.Class(err) == db.Refused {
			return db.NotAKey(t.m.Name, t.keyColumns, k)
		}
		if err != nil {
			return err
		}
		row = t.displayRow(raw, now)
		ok = true
		row.Filtered = within == 0
		return nil
	})
	return row, ok, err
}

// withDisplay adds the expressions for people to the expressions of a page.
func (t *layout) withDisplay(exprs []string) []string {
	return slices.Concat(exprs, t.selected.displayExprs)
}

// displayRow returns what people are shown of a row with the columns of [layout.withDisplay].
func (t *layout) displayRow(values []any, now time.Time) inspect.Row {
	raw := values[:len(t.selected.exprs)]
	display := values[len(t.selected.exprs):]
	stateIndex, _ := db.AsCount(display[2])
	origin := 0 // the record of a row that is not pending passes for one in the first state
	row := inspect.Row{State: backlog.RowState(stateIndex - len(t.states))}
	if stateIndex < len(t.states) {
		origin = stateIndex
		row.State = backlog.RowNew
		if t.states[origin].lane == backlog.Failed {
			row.State = backlog.RowError
		}
	}
	var d dates
	d, row.Unreadable = t.datesOf(raw, now)
	row.Eligible = d.eligible
	row.Expires = d.expires
	if row.Unreadable == nil && d.skipped != nil {
		row.Unreadable = fmt.Errorf("column %s has no date, and such records are to be skipped", d.skipped.name)
	}
	row.Unreadable = cmp.Or(row.Unreadable, t.remember(&row.Record, raw), t.checkUTF8(raw))
	row.NoDate = "skip"
	if means, missing := t.inserted.missing(raw[t.inserted.at]); missing && means != "" {
		row.NoDate = means
	}
	row.NoStatus = t.selected.statusAt >= 0 && raw[t.selected.statusAt] == nil
	row.Record = t.recordOf(raw, origin)
	if t.selected.statusAt < 0 {
		row.Status = row.State.String()
	}
	if n, err := db.AsCount(display[0]); err == nil && t.attemptsColumn != nil {
		row.Attempts = &n
	}
	if display[1] != nil {
		row.LastError = new(lastError(display))
	}
	return row
}

// lastError returns the last error in a row of [layout.withDisplay], which is "" without one.
func lastError(row []any) string { return db.AsText(row[len(row)-2]) }

// stateIndexExpr returns an SQL expression for the state of a row. Its value is as(index): the
// index of a pending state, or len(t.states) plus the [backlog.RowState] of another one.
func (t *layout) stateIndexExpr(as func(int) string) string {
	expr := "CASE"
	add := func(cond string, number int) {
		if cond != "" {
			expr += " WHEN " + cond + " THEN " + as(number)
		}
	}
	for i, state := range t.states {
		add(cmp.Or(state.shownCond, state.cond), i)
		add(state.exhaustedCond, i)
	}
	add(t.success, len(t.states)+int(backlog.RowSuccess))
	add(t.dead.cond, len(t.states)+int(backlog.RowDead))
	return expr + " ELSE " + as(len(t.states)+int(backlog.RowOther)) + " END"
}

// stateLabel returns the name of the state with that index, as an SQL literal. It stands for
// the status in a table without a status column.
func (t *layout) stateLabel(n int) string {
	if n < len(t.states) {
		return t.text.Literal(t.states[n].label)
	}
	return t.text.Literal(backlog.RowState(n - len(t.states)).String())
}

// EachPending calls f with every pending row, whatever its age and whether it is due. The
// rows of each state come in the order of their keys. f must not keep the record's values.
func (t *Table) EachPending(ctx context.Context, now time.Time, f func(inspect.Row)) error {
	exprs := t.withDisplay(t.selected.exprs)
	for _, state := range t.states {
		for rows, err := range t.groupsByKey(ctx, exprs, backlog.MaxGroup, t.unsearched(t.recordsWith(state.cond))) {
			if err != nil {
				return err
			}
			for _, raw := range rows {
				f(t.displayRow(raw, now))
			}
		}
	}
	return nil
}

// Rules returns up to 1,000 distinct recurrence rules of rows, for the refresh policy.
func (t *Table) Rules(ctx context.Context, column string) ([]string, error) {
	col := t.text.Quote(t.catalog.Find(column, t.text.FoldsNames).Name)
	text, args := selectQuery{
		columns: []string{"DISTINCT " + col}, from: t.name, where: allOf(col+" IS NOT NULL", t.where.cond), limit: 1000,
	}.sql()
	rows, err := db.QueryValues(ctx, t.db, text, args, 1)
	return lists.Map(rows, func(row []any) string { return db.AsText(t.database.Value(nil, row[0])) }), err
}
