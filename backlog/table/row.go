package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// columns are the columns that a page reads: first those that the
// handler is given, then the others that are needed.
type columns struct {
	exprs   []string
	needed  []string  // likewise, but NULL for what only handlers are given
	columns []*column // that they are of
	key     []int     // where the key's parts stand
	status  int       // likewise; -1: not there
	refresh []int     // likewise: the columns of the refresh policy
	names   []string  // of the handler's columns
	told    []string  // expressions that [layout.shown] adds: attempts, last error, state
}

func (t *layout) newColumns() columns {
	s := columns{status: -1}
	at, handlers := make(map[string]int), true
	add := func(quoted string) int {
		i, ok := at[quoted]
		if !ok {
			i = len(s.exprs)
			at[quoted] = i
			c := t.quotedColumn(quoted)
			s.exprs, s.needed = append(s.exprs, cmp.Or(c.Expr, t.text.AsStored(quoted))), append(s.needed, "NULL")
			s.columns = append(s.columns, c)
		}
		if !handlers {
			s.needed[i] = s.exprs[i]
		}
		return i
	}
	for _, c := range t.columns {
		add(t.text.Quote(c.Name))
		s.names = append(s.names, c.Name)
	}
	handlers = false
	if t.refresh != nil {
		s.refresh = db.Mapped(t.refresh.Selected, add)
	}
	s.key = db.Mapped(t.key, add)
	if t.status != "" {
		s.status = add(t.status)
	}
	if t.retry != nil {
		t.retry.countAt = add(t.retry.count)
	}
	for _, tc := range t.times {
		if !tc.written {
			tc.at = add(tc.quoted)
		}
	}
	for _, c := range []*column{t.attempts, t.errCol} {
		expr := "NULL"
		if c != nil {
			expr = cmp.Or(c.Expr, t.text.AsStored(t.text.Quote(c.Name)))
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
	return db.Mapped(db.Distinct(quoted), func(q string) string { return t.quotedColumn(q).Name })
}

// Given returns the names of the columns that a handler is given of each
// record, in their order.
func (t *layout) Given() []string { return slices.Clone(t.sel.names) }

// scan reads the first n expressions of [layout.shown], or all of a page, as they are
// stored, with what else is to be read behind them.
func (t *layout) scan(rows interface{ Scan(to ...any) error }, n int, rest ...any) ([]any, error) {
	row, err := db.ScanValues(rows, n, rest...)
	for i, v := range row {
		row[i] = t.value(i, v)
	}
	return row, err
}

// groupsByKey returns the expressions, a page's or those of [layout.shown], of the rows
// that meet the condition in groups of a size, in the order of the keys. By an index of the
// condition each group would sort all that meets it, so it should be unsearched.
func (t *Table) groupsByKey(ctx context.Context, exprs []string, size int, all string, args []any) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		cond, bound := all, args
		for more := true; more; {
			text := fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d", db.Named(exprs), t.name, cond, strings.Join(t.key, ", "), size)
			rows, err := db.Each(ctx, t.db, text, bound, func(rows *sql.Rows) ([]any, error) { return t.scan(rows, len(exprs)) })
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
	if len(t.sel.key) == 1 {
		return backlog.NewKey(row[t.sel.key[0] : t.sel.key[0]+1]...) // without a slice for each
	}
	return backlog.NewKey(db.Mapped(t.sel.key, func(at int) any { return row[at] })...)
}

// fill gives the record of the branch its state, and what handlers see of the row,
// which it keeps.
func (t *layout) fill(rec *backlog.Record, row []any, branch int) {
	b := &t.branches[branch]
	rec.Origin, rec.Lane, rec.Status, rec.Names, rec.Values = branch, b.lane, b.label, t.sel.names, row[:len(t.columns)]
	if t.sel.status >= 0 {
		rec.Status = db.AsText(row[t.sel.status])
	}
	for i, c := range t.columns {
		row[i] = c.ForHandler(row[i])
	}
}

// OfEachState returns the pending record of each state that a pass takes first,
// of whatever age; nil where there is none. It is empty where no outcome can be tried.
func (t *Table) OfEachState(ctx context.Context) (map[string]*backlog.Record, error) {
	list := make(map[string]*backlog.Record)
	for i, b := range t.branches {
		if t.catalog.Engine != "" {
			break
		}
		conds := t.pending(b)
		if t.inserted.spec.Null == "" || t.inserted.spec.Null == "skip" {
			conds = append(conds, t.inserted.quoted+" IS NOT NULL")
		}
		text := "SELECT " + db.Named(t.sel.exprs) + " FROM " + t.name + " WHERE " + strings.Join(conds, " AND ") + db.OrderBy(t.direction(b.lane), t.orderColumns(b.lane, segDated))
		rows, err := db.Each(ctx, t.db, text, []any{1}, func(rows *sql.Rows) ([]any, error) { return t.scan(rows, len(t.sel.exprs)) })
		if err != nil {
			return nil, err
		}
		list[b.label] = nil
		for _, row := range rows {
			r := t.recordOf(row, i)
			list[b.label] = &r
		}
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
	for s.room() > 0 && rows.Next() {
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
			s.bytes += sizeOf(v)
			switch v.(type) {
			case nil, int64, bool:
				continue
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
		s.page.Next.Order = row[t.orderOf(s.q.Lane).at]
	}
	d, err := t.datesOf(row, s.q.Now)
	if err == nil {
		err = t.remember(rec, row)
	}
	switch {
	case err != nil:
		s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: rec.Key, Err: err})
		return
	case t.refresh != nil && rec.Refresh.At.IsZero(): // an empty text or a zero date is no time
		return
	case d.skipped != nil, t.refresh == nil && !d.inserted.IsZero() && d.inserted.Before(s.q.Since),
		d.eligible.After(s.q.Now), !d.expires.IsZero() && d.expires.Before(s.q.Now):
		return
	case t.followsPolicy(s.q.Lane) && !t.retry.due(rec, s.q.Now):
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
		case tc == t.inserted && t.refresh == nil:
			*to[i], wrong = tc.read(raw, now, t.mayBeFuture())
		default:
			*to[i], wrong = tc.parse(raw)
		}
		err = cmp.Or(err, wrong)
	}
	return d, err
}
