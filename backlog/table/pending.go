package table

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
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

// Pending implements backlog.Store.
func (t *Table) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if t.inserted.known() == nil {
		if err := t.discover(ctx, t.inserted); err != nil {
			return backlog.Page{}, err
		}
	}
	if t.followsPolicy(q.Lane) && t.retry.order().known() == nil {
		if err := t.discover(ctx, t.retry.order()); err != nil {
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
		if !t.laneHasSegment(q, seg) {
			continue
		}
		p, err := t.page(ctx, q, seg)
		if err != nil {
			return backlog.Page{}, err
		}
		if !p.Next.IsZero() {
			for later := seg + 1; later <= last && !p.More; later++ {
				p.More = t.laneHasSegment(q, later)
			}
			return p, nil
		}
	}
	return backlog.Page{}, nil
}

// followsPolicy reports whether the lane is a policy's, which has two segments
// of its own: rows without the time that orders it, in place of the newest, and
// those with one.
func (t *Table) followsPolicy(lane backlog.Lane) bool {
	return t.retry != nil && lane == backlog.Failed
}

// laneHasSegment reports whether the query's lane has rows in the segment.
func (t *Table) laneHasSegment(q backlog.Query, seg int) bool {
	if !t.followsPolicy(q.Lane) {
		return t.hasSegment(seg, q.Widest)
	}
	return seg == segNewest || seg == segDated && t.retry.order().known() != nil
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

// missing returns the condition for rows whose missing date means the word.
func (t *Table) missing(word string) string {
	var or []string
	if t.inserted.null == word {
		or = append(or, t.inserted.quoted+" IS NULL")
	}
	if t.inserted.zero == word {
		or = append(or, nonEmpty(t.zeroDate(t.inserted))...)
	}
	if len(or) == 0 {
		return never
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// always and never are conditions that every row meets, and none.
const (
	always = "1 = 1"
	never  = "1 = 0"
)

// zeroDate returns the condition for zero dates in the column, "" if it can
// hold none.
func (t *Table) zeroDate(c *timeCol) string { return t.d.zeroDate(c.column(t)) }

// A part is what one statement reads of a page: a segment or, behind a place
// within the dated one, the rest of the rows of the very same time and then
// those of others. One range over time and key would say both, but SQLite
// cannot follow it by the key where that is the rowid: each page would go
// through all rows of one time that the pages before it had.
type part struct {
	seg  int
	ties bool
}

func partsOf(q backlog.Query, seg int) []part {
	if seg == segDated && isWithin(q.After, seg) {
		return []part{{seg, true}, {seg, false}}
	}
	return []part{{seg, false}}
}

// isWithin reports whether the cursor is a place in the segment.
func isWithin(c backlog.Cursor, seg int) bool { return !c.IsZero() && c.Segment == seg }

// pageQuery returns the text and the arguments of one part of a page, with
// limit rows at most.
func (t *Table) pageQuery(q backlog.Query, p part, limit int) (string, []any) {
	if t.followsPolicy(q.Lane) {
		return t.retryQuery(q, p, limit)
	}
	var branches []string
	var args []any
	for i, b := range t.branches {
		if b.lane == q.Lane {
			text, a := t.branchQuery(q, p, i, limit)
			branches, args = append(branches, text), append(args, a...)
		}
	}
	if len(branches) < 2 {
		return strings.Join(branches, ""), args
	}
	for i := range branches {
		branches[i] = fmt.Sprintf("SELECT * FROM (%s) AS %sb%d", branches[i], t.sel.prefix, i)
	}
	key := make([]string, len(t.key))
	for i, at := range t.sel.key {
		key[i] = t.sel.alias(at)
	}
	order := order(p.seg, t.sel.alias(t.sel.inserted), key)
	return strings.Join(branches, " UNION ALL ") + " ORDER BY " + order + " LIMIT ?", append(args, limit)
}

// branchQuery is what one branch has of it.
func (t *Table) branchQuery(q backlog.Query, p part, branch, limit int) (string, []any) {
	cond, args := t.pageConditions(q, p, t.branches[branch])
	exprs := t.sel.aliased()
	if t.merges(q.Lane) {
		exprs += fmt.Sprintf(", %d", branch) // tells the merged rows apart
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT ?",
		exprs, t.d.from(t, slices.Concat(t.lead, t.branches[branch].lead), t.inserted.quoted), cond, order(p.seg, t.inserted.quoted, t.key)), append(args, limit)
}

// order returns the ORDER BY of a segment: newest first.
func order(seg int, inserted string, key []string) string {
	cols := key
	if seg == segDated {
		cols = distinct(append([]string{inserted}, key...))
	}
	return strings.Join(cols, " DESC, ") + " DESC"
}

// distinct returns the first of each: the key of a table may have a column by
// which its rows are ordered or chosen.
func distinct(cols []string) (list []string) {
	for _, c := range cols {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func (t *Table) pageConditions(q backlog.Query, p part, b branch) (string, []any) {
	conds := t.pending(b)
	var args []any
	add := func(cond string, a []any) { conds, args = append(conds, cond), append(args, a...) }
	switch p.seg {
	case segNewest:
		add(t.missing("newest"), nil)
	case segOldest:
		add(t.missing("oldest"), nil)
	default:
		add(t.inserted.quoted+" >= ?", []any{t.writeForm(t.inserted).lower(q.Now.Add(-q.MaxAge))})
	}
	if isWithin(q.After, p.seg) {
		op := "<"
		if q.After.Before {
			op = "<="
		}
		if p.ties {
			add(t.inserted.quoted+" = ?", []any{q.After.Order})
		}
		if p.ties || p.seg != segDated {
			add(keyRange(op, t.key, q.After.Key))
		} else {
			add(t.inserted.quoted+" < ?", []any{q.After.Order})
		}
	}
	if isWithin(q.Until, p.seg) {
		op := ">="
		if q.Until.Before {
			op = ">"
		}
		if p.seg == segDated {
			add(t.inserted.quoted+" >= ?", []any{q.Until.Order}) // not every planner bounds a range by what follows
			add(keyRange(op, slices.Concat([]string{t.inserted.quoted}, t.key), q.Until.Key, q.Until.Order))
		} else {
			add(keyRange(op, t.key, q.Until.Key))
		}
	}
	t.addTimely(q, func(cond string, a ...any) { add(cond, a) })
	return strings.Join(conds, " AND "), args
}

// addTimely adds the conditions for rows that are eligible and not expired.
func (t *Table) addTimely(q backlog.Query, add func(cond string, args ...any)) {
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
		or := []string{x.col.quoted + " " + x.op + " ?"}
		if x.col.null != "skip" {
			or = append(or, x.col.quoted+" IS NULL")
		}
		if x.col.zero != "skip" {
			or = append(or, nonEmpty(t.zeroDate(x.col))...)
		}
		add("("+strings.Join(or, " OR ")+")", x.bound(*x.col.known(), q.Now))
	}
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

// keyRange returns the condition for rows on one side of the key, before which
// other columns may come, and its arguments, the first of which are given.
func keyRange(op string, cols []string, key backlog.Key, first ...any) (string, []any) {
	args := bind(first, key)
	if len(cols) == 1 {
		return cols[0] + " " + op + " ?", args
	}
	marks := strings.Repeat(", ?", len(cols))[2:]
	return "(" + strings.Join(cols, ", ") + ") " + op + " (" + marks + ")", args
}

// page reads one page of a segment. Its Next is zero where there was no row.
func (t *Table) page(ctx context.Context, q backlog.Query, seg int) (backlog.Page, error) {
	var s *scanner
	err := t.within(ctx, func(ctx context.Context) error {
		s = t.newScanner(q, seg)
		for _, p := range partsOf(q, seg) {
			if s.room() <= 0 {
				break
			}
			text, args := t.pageQuery(q, p, s.room())
			if text == "" {
				return nil // no state is in this lane
			}
			if err := t.readPart(ctx, s, text, args); err != nil {
				return err
			}
		}
		s.learnMerge()
		return nil
	})
	if err != nil {
		return backlog.Page{}, err
	}
	for col, raws := range s.shown {
		if err := col.prove(raws); err != nil {
			return backlog.Page{}, err
		}
	}
	if len(s.shown) > 0 {
		return t.page(ctx, q, seg) // its conditions can be judged now
	}
	return s.page, nil
}

func (t *Table) readPart(ctx context.Context, s *scanner, text string, args []any) error {
	stmt, err := t.prepare(ctx, t.db.read, t.d.place(text))
	if err != nil {
		return err
	}
	rows, err := stmt.query(ctx, t.db.read, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := t.sameKey(rows, s.q.Lane); err != nil {
		return err
	}
	return s.scan(rows)
}

// sameKey returns an error if the key has another kind of type than in the lane's
// first page: the table was altered, and what is read of it now could not be
// settled.
func (t *Table) sameKey(rows *sql.Rows, lane backlog.Lane) error {
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	var names []string
	for _, at := range t.sel.key {
		names = append(names, kindOf(types[at].DatabaseTypeName()))
	}
	now := strings.Join(names, ", ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keyTypes[lane] == "" {
		t.keyTypes[lane] = now
	}
	if was := t.keyTypes[lane]; was != now {
		return problem("reload or restart", "table %s is not as it was: its key was %s and is now %s", t.m.Name, was, now)
	}
	return nil
}

// kindOf returns what is common to the types that are compared with each other,
// by the name that the driver has for one of them.
func kindOf(typ string) string {
	switch {
	case strings.Contains(typ, "INT"):
		return "integer"
	case strings.Contains(typ, "CHAR"), strings.Contains(typ, "TEXT"):
		return "text"
	}
	return strings.ToLower(typ)
}
