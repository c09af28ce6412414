package table

import (
	"cmp"
	"database/sql"
	"time"

	"backlog/backlog"
)

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
	shown map[*timeCol][]any // values in columns whose form is not known yet
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

// sizeOf returns how many bytes a value has that may have many.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
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
	for _, tc := range d.unknown {
		s.shown[tc] = append(s.shown[tc], tc.sample(row[tc.at]))
	}
	rec.Inserted, rec.Cursor = d.inserted, s.page.Next
	t.fill(rec, row, b)
	s.page.Records = s.page.Records[:n+1]
}

// dates are what the time columns of a row say. A date is zero where it is missing
// or in a form that is not known yet.
type dates struct {
	inserted, eligible, expires time.Time
	skipped                     *timeCol   // whose date is missing, which means that the row is skipped
	unknown                     []*timeCol // which show the first date
}

// datesOf reads the dates of a row. The error is the first of those that are none.
func (t *layout) datesOf(row []any, now time.Time) (d dates, err error) {
	var at [3]time.Time
	for i, tc := range [...]*timeCol{t.inserted, t.eligible, t.expires} {
		if tc == nil {
			continue
		}
		raw, wrong := row[tc.at], error(nil)
		switch means, missing := tc.missing(raw); {
		case missing && means == "skip" && tc != t.inserted: // whose pages leave such rows out
			d.skipped = tc
		case missing:
		case tc.known() == nil:
			d.unknown = append(d.unknown, tc)
		case tc == t.inserted && t.refresh == nil:
			at[i], wrong = tc.read(raw, now, t.mayBeFuture())
		default:
			at[i], wrong = tc.parse(raw)
		}
		err = cmp.Or(err, wrong)
	}
	d.inserted, d.eligible, d.expires = at[0], at[1], at[2]
	return d, err
}
