package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
)

// A lane is read in three segments: rows whose missing date counts as newest,
// rows with a date, and rows whose missing date counts as oldest.
const (
	segNewest = iota
	segDated
	segOldest
	segEnd
)

// maxPageBytes ends a page early, so that a page of large payloads does not
// fill the memory.
const maxPageBytes = 4 << 20

// A selection is the list of columns that a page reads: first those that the
// handler is given, then the others that are needed.
type selection struct {
	exprs  []string
	key    []int    // where the key's parts stand
	status int      // likewise; -1: not there
	names  []string // of the handler's columns
	// Where the time columns stand; -1: there is none.
	inserted, eligible, expires int
}

func (t *Table) newSelection() selection {
	s := selection{status: -1}
	at := make(map[string]int)
	add := func(quoted string) int {
		i, ok := at[quoted]
		if !ok {
			i = len(s.exprs)
			at[quoted] = i
			s.exprs = append(s.exprs, t.d.raw(quoted))
		}
		return i
	}
	for _, c := range t.columns {
		add(t.d.quote(c.name))
		s.names = append(s.names, c.name)
	}
	for _, k := range t.key {
		s.key = append(s.key, add(k))
	}
	if t.status != "" {
		s.status = add(t.status)
	}
	for _, x := range []struct {
		col *timeCol
		at  *int
	}{{t.inserted, &s.inserted}, {t.eligible, &s.eligible}, {t.expires, &s.expires}} {
		*x.at = -1
		if x.col != nil {
			*x.at = add(x.col.quoted)
		}
	}
	return s
}

// Pending implements backlog.Store.
func (t *Table) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if t.inserted.known() == nil {
		if err := t.discover(ctx); err != nil {
			return backlog.Page{}, err
		}
	}
	first := segNewest
	if !q.After.IsZero() {
		first = q.After.Segment
	}
	last := segOldest
	if !q.Until.IsZero() {
		last = q.Until.Segment
	}
	for seg := first; seg <= last; seg++ {
		if !t.hasSegment(seg, q.Widest) {
			continue
		}
		p, err := t.page(ctx, q, seg)
		if err != nil {
			return backlog.Page{}, err
		}
		if !p.Next.IsZero() {
			for later := seg + 1; later <= last && !p.More; later++ {
				p.More = t.hasSegment(later, q.Widest)
			}
			return p, nil
		}
	}
	return backlog.Page{}, nil
}

// hasSegment reports whether the segment can hold rows.
func (t *Table) hasSegment(seg int, widest bool) bool {
	switch seg {
	case segNewest:
		return t.inserted.null == "newest" || t.inserted.zero == "newest"
	case segOldest:
		return widest && (t.inserted.null == "oldest" || t.inserted.zero == "oldest")
	}
	return t.inserted.known() != nil
}

// zeroDates are the ways in which a zero date is stored, as SQL.
const zeroDates = "(0, '', '0000-00-00', '0000-00-00 00:00:00')"

// missing returns the condition for rows whose missing date means the word.
func (t *Table) missing(word string) string {
	var or []string
	if t.inserted.null == word {
		or = append(or, t.inserted.quoted+" IS NULL")
	}
	if t.inserted.zero == word {
		or = append(or, t.inserted.quoted+" IN "+zeroDates)
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// pageQuery returns the text and the arguments of one page.
func (t *Table) pageQuery(q backlog.Query, seg int) (string, []any) {
	var parts []string
	var args []any
	for i, b := range t.branches {
		if b.lane == q.Lane {
			text, a := t.branchQuery(q, seg, i)
			parts, args = append(parts, text), append(args, a...)
		}
	}
	if len(parts) < 2 {
		return strings.Join(parts, ""), args
	}
	for i := range parts {
		parts[i] = "SELECT * FROM (" + parts[i] + ")"
	}
	key := make([]string, len(t.key))
	for i, at := range t.sel.key {
		key[i] = alias(at)
	}
	order := t.order(seg, alias(t.sel.inserted), key)
	return strings.Join(parts, " UNION ALL ") + " ORDER BY " + order + " LIMIT ?", append(args, q.Limit)
}

// branchQuery is the part of a page that one branch has.
func (t *Table) branchQuery(q backlog.Query, seg, branch int) (string, []any) {
	cond, args := t.pageConditions(q, seg, t.branches[branch])
	return fmt.Sprintf("SELECT %s, %d FROM %s WHERE %s ORDER BY %s LIMIT ?",
		t.aliased(), branch, t.name, cond, t.order(seg, t.inserted.quoted, t.key)), append(args, q.Limit)
}

func alias(i int) string { return fmt.Sprintf("c%d", i) }

func (t *Table) aliased() string {
	list := make([]string, len(t.sel.exprs))
	for i, e := range t.sel.exprs {
		list[i] = e + " AS " + alias(i)
	}
	return strings.Join(list, ", ")
}

// order returns the ORDER BY of a segment: newest first.
func (t *Table) order(seg int, inserted string, key []string) string {
	cols := key
	if seg == segDated {
		cols = append([]string{inserted}, key...)
	}
	return strings.Join(cols, " DESC, ") + " DESC"
}

func (t *Table) pageConditions(q backlog.Query, seg int, b branch) (string, []any) {
	conds := t.pending(b)
	var args []any
	switch seg {
	case segNewest:
		conds = append(conds, t.missing("newest"))
	case segOldest:
		conds = append(conds, t.missing("oldest"))
	default:
		conds = append(conds, t.inserted.quoted+" >= ?")
		args = append(args, t.writeForm(t.inserted).lower(q.Now.Add(-q.MaxAge)))
	}
	if !q.After.IsZero() && q.After.Segment == seg {
		op := "<"
		if q.After.Before {
			op = "<="
		}
		c, a := t.beyond(op, seg, q.After)
		conds, args = append(conds, c), append(args, a...)
	}
	if !q.Until.IsZero() && q.Until.Segment == seg {
		op := ">="
		if q.Until.Before {
			op = ">"
		}
		c, a := t.beyond(op, seg, q.Until)
		conds, args = append(conds, c), append(args, a...)
	}
	for _, x := range []struct {
		col   *timeCol
		op    string
		bound func(timeForm, time.Time) any
	}{
		{t.eligible, "<=", timeForm.upper},
		{t.expires, ">=", timeForm.lower},
	} {
		if x.col == nil || x.col.known() == nil {
			continue // no row has a time there yet; those read are looked at
		}
		conds = append(conds, fmt.Sprintf("(%s IS NULL OR %s %s ? OR %s IN %s)", x.col.quoted, x.col.quoted, x.op, x.col.quoted, zeroDates))
		args = append(args, x.bound(*x.col.known(), q.Now))
	}
	return strings.Join(conds, " AND "), args
}

// pending returns the conditions that a row of the branch meets.
func (t *Table) pending(b branch) []string {
	conds := []string{b.cond}
	if t.where != "" {
		conds = append(conds, t.where)
	}
	for i, name := range t.m.ID {
		if c := t.catalog.find(name, true); !c.notNull {
			conds = append(conds, t.key[i]+" IS NOT NULL")
		}
	}
	return conds
}

// beyond returns the condition for rows on one side of the cursor.
func (t *Table) beyond(op string, seg int, c backlog.Cursor) (string, []any) {
	cols := t.key
	var args []any
	if seg == segDated {
		cols = append([]string{t.inserted.quoted}, cols...)
		args = append(args, c.Order)
	}
	for i := range c.Key.Len() {
		args = append(args, c.Key.Part(i))
	}
	if len(cols) == 1 {
		return cols[0] + " " + op + " ?", args
	}
	marks := strings.Repeat(", ?", len(cols))[2:]
	return "(" + strings.Join(cols, ", ") + ") " + op + " (" + marks + ")", args
}

// page reads one page of a segment. Its Next is zero where there was no row.
func (t *Table) page(ctx context.Context, q backlog.Query, seg int) (p backlog.Page, err error) {
	text, args := t.pageQuery(q, seg)
	if text == "" {
		return p, nil
	}
	var shown map[*timeCol][]any
	err = t.within(ctx, func(ctx context.Context) error {
		p = backlog.Page{}
		stmt, err := t.prepare(ctx, t.db.read, text)
		if err != nil {
			return err
		}
		rows, err := stmt.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		s := &scanner{t: t, q: q, seg: seg, page: &p}
		if err := s.scan(rows); err != nil {
			return err
		}
		shown = s.shown
		return rows.Err()
	})
	if err != nil {
		return backlog.Page{}, err
	}
	for col, raws := range shown {
		if err := col.learn(raws); err != nil {
			return backlog.Page{}, err
		}
	}
	if len(shown) > 0 {
		return t.page(ctx, q, seg) // its conditions can be judged now
	}
	return p, nil
}

// A scanner makes records of rows.
type scanner struct {
	t     *Table
	q     backlog.Query
	seg   int
	page  *backlog.Page
	bytes int
	shown map[*timeCol][]any // values in columns whose form is not known yet
}

func (s *scanner) scan(rows *sql.Rows) error {
	n := len(s.t.sel.exprs)
	slab := make([]any, min(s.q.Limit, 64)*n)
	to := make([]any, n+1)
	var b int64
	to[n] = &b
	for count := 1; rows.Next(); count++ {
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
		s.row(row, int(b))
		for _, v := range row {
			switch v := v.(type) {
			case string:
				s.bytes += len(v)
			case []byte:
				s.bytes += len(v)
			case json.RawMessage:
				s.bytes += len(v)
			}
		}
		if count >= s.q.Limit || s.bytes > maxPageBytes {
			s.page.More = true
			return nil
		}
	}
	return nil
}

// row judges one row. What the conditions in SQL can only say to the second is
// judged here exactly.
func (s *scanner) row(row []any, b int) {
	t := s.t
	var key backlog.Key
	if len(t.sel.key) == 1 {
		key = backlog.NewKey(row[t.sel.key[0]])
	} else {
		parts := make([]any, len(t.sel.key))
		for i, at := range t.sel.key {
			parts[i] = row[at]
		}
		key = backlog.NewKey(parts...)
	}
	raw := row[t.sel.inserted]
	s.page.Next = backlog.Cursor{Segment: s.seg, Key: key}
	rec := backlog.Record{Key: key, Lane: s.q.Lane, State: b, Names: t.sel.names, Status: t.branches[b].label}
	if s.seg == segDated {
		s.page.Next.Order = raw
		at, err := t.inserted.read(raw, s.q.Now, t.mayBeFuture())
		if err != nil {
			s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: key, Err: err})
			return
		}
		if at.Before(s.q.Now.Add(-s.q.MaxAge)) {
			return
		}
		rec.Inserted = at
	}
	ok, err := s.timely(row)
	if err != nil {
		s.page.Unreadable = append(s.page.Unreadable, backlog.Unreadable{Key: key, Err: err})
		return
	}
	if !ok {
		return
	}
	if t.sel.status >= 0 {
		rec.Status = asText(row[t.sel.status])
	}
	rec.Cursor = s.page.Next
	rec.Values = row[:len(t.columns)]
	for i, c := range t.columns {
		row[i] = c.forHandler(row[i])
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
		if raw == nil || isZeroDate(raw) {
			continue
		}
		if tc.known() == nil {
			if s.shown == nil {
				s.shown = make(map[*timeCol][]any)
			}
			s.shown[tc] = append(s.shown[tc], raw)
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

// prepare returns the prepared statement for the text on db.
func (t *Table) prepare(ctx context.Context, db *sql.DB, text string) (*sql.Stmt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.statements[text]; s != nil {
		return s, nil
	}
	s, err := db.PrepareContext(ctx, text)
	if err == nil {
		t.statements[text] = s
	}
	return s, err
}
