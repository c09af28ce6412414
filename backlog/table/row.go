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
	"strings"
	"time"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// columns are the columns that a page reads: first those that the
// handler is given, then the others that are needed.
type columns struct {
	exprs   []string
	needed  []string  // likewise, but NULL for what only handlers are given
	columns []*column // that they are of
	key     []int     // where the key's parts stand
	status  int       // likewise; -1: not there
	counted int       // likewise: the number of attempts
	kept    []int     // likewise: the columns of what a row remembers
	names   []string  // of the handler's columns
	changed []int     // those of them that handlers are not always given as they are stored
	told    []string  // expressions that [layout.shown] adds: attempts, last error, state
}

func (t *layout) newColumns() columns {
	s := columns{status: -1, counted: -1}
	at, handlers := make(map[string]int), true
	add := func(quoted string) int {
		i, ok := at[quoted]
		if !ok {
			i = len(s.exprs)
			at[quoted] = i
			c := t.quotedColumn(quoted)
			s.exprs, s.needed = append(s.exprs, cmp.Or(c.ReadExpr, t.text.AsStored(quoted))), append(s.needed, "NULL")
			s.columns = append(s.columns, c)
		}
		if !handlers {
			s.needed[i] = s.exprs[i]
		}
		return i
	}
	for i, c := range t.columns {
		add(t.text.Quote(c.Name))
		s.names = append(s.names, c.Name)
		if c.JSON || c.Class == db.Boolean {
			s.changed = append(s.changed, i)
		}
	}
	handlers = false
	s.kept = lists.Map(t.memory, add)
	s.key = lists.Map(t.key, add)
	if t.status != "" {
		s.status = add(t.status)
	}
	if t.attempts != nil {
		s.counted = add(t.text.Quote(t.attempts.Name))
	}
	for _, tc := range t.times {
		if !tc.written {
			tc.at = add(tc.quoted)
		}
	}
	for _, c := range []*column{t.attempts, t.errCol} {
		expr := "NULL"
		if c != nil {
			expr = cmp.Or(c.ReadExpr, t.text.AsStored(t.text.Quote(c.Name)))
		}
		s.told, s.columns = append(s.told, expr), append(s.columns, c)
	}
	s.told, s.columns = append(s.told, t.standingCase(strconv.Itoa)), append(s.columns, nil)
	return s
}

// quotedColumn returns the column of that quoted name.
func (t *layout) quotedColumn(quoted string) *column {
	i := slices.IndexFunc(t.catalog.Columns, func(c column) bool { return t.text.Quote(c.Name) == quoted })
	return &t.catalog.Columns[i]
}

// names returns the names of quoted columns, each once.
func (t *layout) names(quoted []string) []string {
	return lists.Map(lists.Distinct(quoted), func(q string) string { return t.quotedColumn(q).Name })
}

// Given returns the names of the columns that a handler is given of each
// record, in their order.
func (t *layout) Given() []string { return slices.Clone(t.sel.names) }

// Stored returns what the row with the key has in the quoted columns, as it is stored there. The
// error is [backlog.ErrConflict] where no row has the key.
func (t *Table) Stored(ctx context.Context, tx *sql.Tx, k backlog.Key, columns []string) ([]any, error) {
	text := "SELECT " + strings.Join(columns, ", ") + " FROM " + t.name + " WHERE " + t.text.KeyIn(t.key, 1)
	values, err := db.ScanValues(tx.QueryRowContext(ctx, t.text.Rebind(text), db.AppendKeys(nil, k)...), len(columns))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, backlog.ErrConflict
	}
	for i, v := range values {
		values[i] = t.d.Value(nil, v)
	}
	return values, err
}

// scan reads the first n expressions of [layout.shown], or all of a page, as they are
// stored, with what else is to be read behind them.
func (t *layout) scan(rows interface{ Scan(to ...any) error }, n int, rest ...any) ([]any, error) {
	row, err := db.ScanValues(rows, n, rest...)
	for i, v := range row {
		row[i] = t.value(i, v)
	}
	return row, err
}

// rows returns the first n expressions of [layout.shown], or all of a page, of a query's rows.
func (t *Table) rows(ctx context.Context, text string, args []any, n int) ([][]any, error) {
	return db.QueryScan(ctx, t.db, text, args, func(rows *sql.Rows) ([]any, error) { return t.scan(rows, n) })
}

// groupsByKey returns the expressions, a page's or those of [layout.shown], of the rows
// that meet the condition in groups of a size, in the order of the keys. By an index of the
// condition each group would sort all that meets it, so it should be unsearched.
func (t *Table) groupsByKey(ctx context.Context, exprs []string, size int, all string, args []any) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		cond, bound := all, args
		for more := true; more; {
			text := fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", db.SelectList(exprs), t.name, cond, strings.Join(t.key, ", "), size)
			rows, err := t.rows(ctx, text, bound, len(exprs))
			if err == nil && len(rows) == 0 {
				return
			}
			if more = len(rows) == size; more {
				beyond, key := db.KeyRange(">", t.key, t.keyOf(rows[len(rows)-1]))
				cond, bound = all+" AND "+beyond, slices.Concat(args, key)
			}
			more = yield(rows, err) && more
		}
	}
}

// recordOf makes a record of a row in the branch that no page is made of. What
// cannot be read of its times is zero.
func (t *layout) recordOf(row []any, branch int) backlog.Record {
	rec := backlog.Record{Key: t.keyOf(row)}
	rec.Inserted, _ = t.inserted.in(row)
	_ = t.remember(&rec, row)
	t.fill(&rec, row, branch)
	return rec
}

// keyOf returns the key of a row.
func (t *layout) keyOf(row []any) backlog.Key {
	return backlog.NewKey(lists.Map(t.sel.key, func(at int) any { return row[at] })...)
}

// fill gives the record of the branch its state, and what handlers see of the row,
// which it keeps.
func (t *layout) fill(rec *backlog.Record, row []any, branch int) {
	b := &t.branches[branch]
	rec.Origin, rec.Lane, rec.Status, rec.Names, rec.Values = branch, b.lane, b.label, t.sel.names, row[:len(t.columns)]
	if t.sel.status >= 0 {
		rec.Status = db.AsText(row[t.sel.status])
	}
	rec.Attempts = t.attemptsOf(row)
	for _, i := range t.sel.changed {
		row[i] = t.columns[i].ForHandler(row[i])
	}
	for i, v := range rec.Values { // of a record that is to be dead: passes leave such rows alone
		if s, ok := v.(string); ok && !utf8.ValidString(s) && !slices.Contains(t.sel.key, i) {
			row[i] = []byte(s)
		}
	}
}

// attemptsOf returns how many attempts the row counts, -1 where it does not say.
func (t *layout) attemptsOf(row []any) int {
	if t.sel.counted < 0 {
		return -1
	}
	n, err := db.AsCount(row[t.sel.counted])
	if err != nil {
		return -1
	}
	return n
}

// OfEachState returns the pending records of each state that a pass takes first, at most
// so many, of whatever age. It is empty where no outcome can be tried.
func (t *Table) OfEachState(ctx context.Context, most int) (map[string][]backlog.Record, error) {
	list := make(map[string][]backlog.Record)
	for i, b := range t.branches {
		if t.catalog.Engine != "" {
			break
		}
		conds := t.pending(b)
		if t.inserted.spec.Null == "" || t.inserted.spec.Null == "skip" {
			conds.add(t.inserted.quoted+" IS NOT NULL", nil)
		}
		text := "SELECT " + db.SelectList(t.sel.exprs) + " FROM " + t.name + " WHERE " + conds.all() + db.OrderBy(t.lanes[b.lane].ends, t.orderColumns(b.lane, segDated))
		rows, err := t.rows(ctx, text, []any{most}, len(t.sel.exprs))
		if err != nil {
			return nil, err
		}
		list[b.label] = lists.Map(rows, func(row []any) backlog.Record { return t.recordOf(row, i) })
	}
	return list, nil
}

// maxPageBytes ends a page of large payloads early, below a page's share of what
// package backlog allows records in memory.
const maxPageBytes = 4 << 20

// A scanner makes records of rows, until the page is full.
type scanner struct {
	t     *Table
	q     backlog.Query
	seg   int
	terms []term // of the lane
	page  backlog.Page
	count int
	bytes int

	unknown *timeCol // that a row has a time in, though its form is not known: the page is to be read again
	again   bool     // whatever is still unknown
}

// room returns how many rows more the page may have.
func (s *scanner) room() int {
	if s.bytes > maxPageBytes {
		return 0
	}
	return s.q.Limit - s.count
}

func (s *scanner) scan(rows *sql.Rows) error {
	defer rows.Close()
	n := len(s.t.sel.exprs)
	slab := make([]any, min(s.room(), 64)*n)
	to := make([]any, n, n+1)
	b := s.terms[0].branch
	if len(s.terms) > 1 {
		to = append(to, &b)
		for range s.t.orderColumns(s.q.Lane, s.seg) {
			to = append(to, new(any)) // only to order by
		}
	}
	for s.room() > 0 && s.unknown == nil && rows.Next() {
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
		s.row(row, b)
	}
	s.page.More = s.room() <= 0
	return rows.Err()
}

// sizeOf returns how many bytes the values have of those that may have many.
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

// value returns what the driver has read of an expression of the selection as
// the store has it.
func (t *layout) value(i int, v any) any { return t.d.Value(t.sel.columns[i], v) }

// row judges one row. What the conditions in SQL can only say to the second is
// judged here exactly.
func (s *scanner) row(row []any, b int) {
	t := s.t
	if s.page.Records == nil {
		s.page.Records = make([]backlog.Record, 0, s.q.Limit)
	}
	n := len(s.page.Records)
	rec := &s.page.Records[:n+1][n] // made in its place: it is large
	*rec = backlog.Record{Key: t.keyOf(row)}
	s.page.Next = backlog.Cursor{Segment: s.seg, Key: rec.Key}
	if s.seg == segDated {
		s.page.Next.Order = row[t.lanes[s.q.Lane].time.at]
	}
	for _, tc := range [...]*timeCol{t.eligible, t.expires} {
		if s.again || tc == nil || tc.known() != nil {
			continue
		}
		if _, missing := tc.missing(row[tc.at]); !missing {
			s.unknown = tc
			return
		}
	}
	d, err := t.datesOf(row, s.q.Now)
	if err == nil {
		err = t.remember(rec, row)
	}
	if err == nil {
		err = t.garbled(row)
	}
	switch {
	case err != nil:
		s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: rec.Key, Err: err})
		return
	case d.skipped != nil, t.inserted.role == insertionTime && !d.inserted.IsZero() && d.inserted.Before(s.q.Since),
		d.eligible.After(s.q.Now), !d.expires.IsZero() && d.expires.Before(s.q.Now):
		return
	case !t.policy.isDue(s.q.Lane, rec.Memory, s.q.Now):
		return
	}
	rec.Inserted, rec.Cursor = d.inserted, s.page.Next
	t.fill(rec, row, b)
	s.page.Records = s.page.Records[:n+1]
}

// dates are what the time columns of a row say. A date is zero where it is missing.
type dates struct {
	inserted, eligible, expires time.Time
	skipped                     *timeCol // whose date is missing, which means that the row is skipped
}

// datesOf reads the dates of a row. The error is the first of those that are none.
func (t *layout) datesOf(row []any, now time.Time) (d dates, err error) {
	to := [...]*time.Time{&d.inserted, &d.eligible, &d.expires}
	for i, tc := range [...]*timeCol{t.inserted, t.eligible, t.expires} {
		if tc == nil {
			continue
		}
		raw, wrong := row[tc.at], error(nil)
		means, missing := tc.missing(raw)
		if !missing && tc.known() == nil { // it is the first of its kind
			wrong = tc.prove([]any{tc.sample(raw)})
		}
		switch {
		case missing && means == "skip" && tc != t.inserted: // whose pages leave such rows out
			d.skipped = tc
		case missing || wrong != nil:
		case tc.role == insertionTime:
			*to[i], wrong = tc.read(raw, now, t.mayBeFuture())
		case tc.role == expiryTime:
			*to[i], wrong = tc.readExpiry(raw)
		default:
			*to[i], wrong = tc.parse(raw)
		}
		err = cmp.Or(err, wrong)
	}
	if err != nil {
		t.misreads.Store(true)
	}
	return d, err
}

// garbled returns why the row cannot be handed to a handler, which is given UTF-8: a text is none.
func (t *layout) garbled(row []any) error {
	for i, v := range row[:len(t.sel.exprs)] {
		if s, ok := v.(string); ok && !utf8.ValidString(s) {
			const most = 48
			return fmt.Errorf("column %s: its text %.*q is no UTF-8; mend it, or leave the column out of table.columns", t.sel.columns[i].Name, most, s)
		}
	}
	return nil
}

// isMisread reports whether one of the row's dates cannot be read.
func (t *layout) isMisread(row []any, now time.Time) bool {
	_, err := t.datesOf(row, now)
	return err != nil
}

// ParseKey returns the key that people write for a row: the bare value, or a
// JSON array of a composite key's. The columns' types decide what it becomes;
// BLOBs are base64. It is an error that the user can mend.
func (t *layout) ParseKey(text string) (backlog.Key, error) { return db.ParseKey(t.keys, text) }

// Find returns the row with the key, and whether there is one. The error is a [*KeyError] where the database
// cannot take the key for one of the table.
func (t *Table) Find(ctx context.Context, k backlog.Key, now time.Time) (row inspect.Row, ok bool, err error) {
	filter := t.text.WithoutIndex(cmp.Or(t.where.cond, always))
	exprs := t.shown(t.sel.exprs)
	text := fmt.Sprintf("SELECT %s, CASE WHEN %s THEN 1 ELSE 0 END FROM %s WHERE %s", db.SelectList(exprs), filter, t.name, t.text.KeyIn(t.key, 1))
	err = t.db.Do(ctx, func(ctx context.Context) error {
		var within int
		raw, err := t.scan(t.db.Read.QueryRowContext(ctx, t.text.Rebind(text), db.AppendKeys(nil, k)...), len(exprs), &within)
		if t.db.Class(err) == db.Refused {
			return db.NotAKey(t.m.Name, t.keys, k)
		}
		if err != nil {
			return err
		}
		row, ok = t.shownRow(raw, now), true
		row.Filtered = within == 0
		return nil
	})
	return row, ok, err
}

// shown returns the expressions of a page with those behind them that people are shown.
func (t *layout) shown(exprs []string) []string { return slices.Concat(exprs, t.sel.told) }

// shownRow returns what people are shown of the values of [layout.shown].
func (t *layout) shownRow(raw []any, now time.Time) inspect.Row {
	raw, told := raw[:len(t.sel.exprs)], raw[len(t.sel.exprs):]
	standing, _ := db.AsCount(told[2])
	row, branch := inspect.Row{State: backlog.RowState(standing - len(t.branches))}, 0
	if standing < len(t.branches) {
		branch, row.State = standing, backlog.RowNew
		if t.branches[branch].lane == backlog.Failed {
			row.State = backlog.RowError
		}
	}
	var d dates
	d, row.Unreadable = t.datesOf(raw, now)
	row.Eligible, row.Expires = d.eligible, d.expires
	if row.Unreadable == nil && d.skipped != nil {
		row.Unreadable = fmt.Errorf("column %s has no date, and such records are to be skipped", d.skipped.name)
	}
	row.Unreadable = cmp.Or(row.Unreadable, t.remember(&row.Record, raw), t.garbled(raw))
	row.NoDate = "skip"
	if means, missing := t.inserted.missing(raw[t.inserted.at]); missing && means != "" {
		row.NoDate = means
	}
	row.NoStatus = t.sel.status >= 0 && raw[t.sel.status] == nil
	row.Record = t.recordOf(raw, branch)
	if t.sel.status < 0 {
		row.Status = row.State.String()
	}
	if n, err := db.AsCount(told[0]); t.attempts != nil && err == nil {
		row.Attempts = &n
	}
	if text := lastError(told); told[1] != nil {
		row.LastError = &text
	}
	return row
}

// lastError returns the text that a row of [layout.shown] ends with, empty if there is none.
func lastError(row []any) string { return db.AsText(row[len(row)-2]) }

// standingCase numbers the states: the branch of a pending row, or one of the
// ends behind them. as is the SQL for a number.
func (t *layout) standingCase(as func(int) string) string {
	expr := "CASE"
	add := func(cond string, number int) {
		if cond != "" {
			expr += " WHEN " + cond + " THEN " + as(number)
		}
	}
	for i, b := range t.branches {
		add(cmp.Or(b.shown, b.cond), i)
		add(b.exhausted, i)
	}
	add(t.success, len(t.branches)+int(backlog.RowSuccess))
	add(t.dead.cond, len(t.branches)+int(backlog.RowDead))
	return expr + " ELSE " + as(len(t.branches)+int(backlog.RowOther)) + " END"
}

// standingLabel is what a table without a status column has for a number of
// standingCase, as SQL.
func (t *layout) standingLabel(n int) string {
	if n < len(t.branches) {
		return t.text.Literal(t.branches[n].label)
	}
	return t.text.Literal(backlog.RowState(n - len(t.branches)).String())
}

// EachPending calls f with every pending row, whatever its age and whether it
// is due, in the order of the keys. f must not keep the record's values.
func (t *Table) EachPending(ctx context.Context, now time.Time, f func(inspect.Row)) error {
	for _, b := range t.branches {
		for rows, err := range t.groupsByKey(ctx, t.shown(t.sel.exprs), backlog.MaxGroup, t.text.WithoutIndex(t.pending(b).all()), nil) {
			if err != nil {
				return err
			}
			for _, raw := range rows {
				f(t.shownRow(raw, now))
			}
		}
	}
	return nil
}

// Rules returns up to 1,000 rules of rows under the policy refresh, each once.
func (t *Table) Rules(ctx context.Context, column string) ([]string, error) {
	col := t.text.Quote(t.catalog.Find(column, t.text.FoldsNames).Name)
	text := "SELECT DISTINCT " + col + " FROM " + t.name + " WHERE " + strings.Join(lists.NonEmpty(col+" IS NOT NULL", t.where.cond), " AND ") + " LIMIT 1000"
	rows, err := db.QueryValues(ctx, t.db, text, nil, 1)
	return lists.Map(rows, func(row []any) string { return db.AsText(t.d.Value(nil, row[0])) }), err
}
