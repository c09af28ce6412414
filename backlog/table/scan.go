package table

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// maxPageBytes ends a page early, so that a page of large payloads does not
// fill the memory.
const maxPageBytes = 4 << 20

// A scanner makes records of rows, until the page is full.
type scanner struct {
	t      *Table
	q      backlog.Query
	seg    int
	limit  int // of rows
	page   backlog.Page
	count  int
	bytes  int
	shown  map[*timeCol][]any // values in columns whose form is not known yet
	cutoff time.Time
}

func (t *Table) newScanner(q backlog.Query, seg int) *scanner {
	s := &scanner{t: t, q: q, seg: seg, limit: q.Limit, cutoff: q.Now.Add(-q.MaxAge)}
	if t.merges(q.Lane) {
		s.limit = min(q.Limit, max(minMerge, int(t.mergeFits.Load())))
	}
	return s
}

// minMerge is how many rows are merged at least.
const minMerge = 20

// merges reports whether the lane's pages are merged from several queries.
// SQLite then reads all of a page before it gives the first row, so that it is
// too late to end one of large payloads early: it is made of as many rows as
// the page before it has shown to fit.
func (t *Table) merges(lane backlog.Lane) bool {
	if t.followsPolicy(lane) {
		return false // the merged rows come one by one
	}
	n := 0
	for _, b := range t.branches {
		if b.lane == lane {
			n++
		}
	}
	return n > 1
}

// learnMerge remembers how many rows fit into a page.
func (s *scanner) learnMerge() {
	switch {
	case s.bytes > maxPageBytes:
		s.t.mergeFits.Store(int64(s.count))
	case s.count == s.limit:
		s.t.mergeFits.Store(int64(2 * s.limit))
	}
}

// room returns how many rows more the page may have.
func (s *scanner) room() int {
	if s.bytes > maxPageBytes {
		return 0
	}
	return s.limit - s.count
}

func (s *scanner) scan(rows *sql.Rows) error {
	n := len(s.t.sel.exprs)
	slab := make([]any, min(s.room(), 64)*n)
	to := make([]any, n, n+1)
	b := slices.IndexFunc(s.t.branches, func(b branch) bool { return b.lane == s.q.Lane })
	if s.t.merges(s.q.Lane) {
		to = append(to, &b)
	}
	if s.t.followsPolicy(s.q.Lane) {
		to = append(to, &b)
		for range len(s.t.key) + 1 {
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
			switch v := v.(type) {
			case string:
				s.bytes += len(v)
				row[i] = s.t.value(i, v) // a number, perhaps
			case []byte:
				s.bytes += len(v)
				row[i] = s.t.value(i, v)
			case nil, int64, bool:
			default:
				row[i] = s.t.value(i, v)
			}
		}
		s.count++
		s.row(row, b)
	}
	s.page.More = s.room() <= 0
	return rows.Err()
}

// value returns what the driver has read of an expression of the selection as
// the store has it.
func (t *Table) value(i int, v any) any { return t.d.value(t.sel.columns[i], v) }

// row judges one row. What the conditions in SQL can only say to the second is
// judged here exactly.
func (s *scanner) row(row []any, b int) {
	t := s.t
	key := t.keyOf(row)
	raw := row[t.sel.inserted]
	s.page.Next = backlog.Cursor{Segment: s.seg, Key: key}
	rec := backlog.Record{Key: key, Lane: s.q.Lane, State: b, Names: t.sel.names, Status: t.branches[b].label}
	policy, dated := t.followsPolicy(s.q.Lane), s.seg == segDated
	if dated {
		s.page.Next.Order = raw
	}
	if policy && dated {
		s.page.Next.Order = row[t.retry.orderAt()]
	}
	if policy {
		dated = raw != nil && !isZeroDate(raw)
	}
	unreadable := func(err error) {
		s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: key, Err: err})
	}
	if dated {
		at, err := t.inserted.read(raw, s.q.Now, t.mayBeFuture())
		if err != nil {
			unreadable(err)
			return
		}
		if at.Before(s.cutoff) {
			return
		}
		rec.Inserted = at
	}
	if ok, err := s.timely(row); err != nil {
		unreadable(err)
		return
	} else if !ok {
		return
	}
	if t.retry != nil {
		var err error
		if rec.Retry, err = t.retry.read(row); err != nil {
			unreadable(err)
			return
		}
		if policy && !t.retry.due(rec.Retry, s.q.Now) {
			return
		}
	}
	if t.sel.status >= 0 {
		rec.Status = asText(row[t.sel.status])
	}
	rec.Cursor = s.page.Next
	t.setValues(&rec, row)
	if s.page.Records == nil {
		s.page.Records = make([]backlog.Record, 0, s.limit)
	}
	s.page.Records = append(s.page.Records, rec)
}

// timely reports whether the row is eligible and not expired.
func (s *scanner) timely(row []any) (bool, error) {
	for _, x := range [...]struct {
		tc *timeCol
		at int
	}{{s.t.eligible, s.t.sel.eligible}, {s.t.expires, s.t.sel.expires}} {
		if x.at < 0 {
			continue
		}
		tc, raw := x.tc, row[x.at]
		if zero := isZeroDate(raw); raw == nil || zero {
			if raw == nil && tc.null == "skip" || zero && tc.zero == "skip" {
				return false, nil
			}
			continue // eligible at once, never expired
		}
		if tc.known() == nil {
			if s.shown == nil {
				s.shown = make(map[*timeCol][]any)
			}
			s.shown[tc] = append(s.shown[tc], tc.sample(s.t, raw))
			continue
		}
		at, err := tc.known().parse(raw)
		if err != nil {
			return false, fmt.Errorf("column %s: %w", tc.name, err)
		}
		if tc == s.t.eligible && at.After(s.q.Now) || tc == s.t.expires && at.Before(s.q.Now) {
			return false, nil
		}
	}
	return true, nil
}

// forHandler returns the value as the handler is given it.
func (c *column) forHandler(v any) any {
	switch x := v.(type) {
	case int64:
		if c.class == classBoolean && (x == 0 || x == 1) {
			return x == 1
		}
	case string:
		if c.json && json.Valid([]byte(x)) {
			return json.RawMessage(x)
		}
		if c.element != "" {
			if list, ok := arrayJSON(x, c.element); ok {
				return list
			}
		}
	}
	return v
}

func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}
