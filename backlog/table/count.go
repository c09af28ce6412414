package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// Count counts the rows at a time, as [inspect.Counts] says.
func (t *Table) Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error) {
	c := inspect.Counts{ByStatus: make(map[string]int), Bands: make([]inspect.Band, len(edges))}
	if err := t.discover(ctx, t.inserted); err != nil {
		return c, err
	}
	if err := t.countStatuses(ctx, &c); err != nil {
		return c, err
	}
	for _, b := range t.branches {
		if err := t.countBranch(ctx, b, now, edges, &c); err != nil {
			return c, err
		}
		if b.exhausted == "" {
			continue
		}
		b.cond = b.exhausted
		n, err := t.countRows(ctx, t.pending(b), nil)
		if err != nil {
			return c, err
		}
		c.Exhausted += n
	}
	return c, nil
}

func (t *Table) countStatuses(ctx context.Context, c *inspect.Counts) (err error) {
	if t.status != "" {
		c.ByStatus, err = t.CountBy(ctx, t.text.AsStored(t.status))
		return err
	}
	numbers, err := t.CountBy(ctx, t.standingCase())
	for number, n := range numbers {
		c.ByStatus[t.standingLabel(number)] += n
	}
	return err
}

// CountBy counts the rows by the values of an expression as text; NULL is "NULL".
func (t *Table) CountBy(ctx context.Context, expr string) (map[string]int, error) {
	type group struct {
		value any
		n     int
	}
	groups, err := db.Each(ctx, t.db, "SELECT "+expr+", count(*) FROM "+t.name+prefixed(" WHERE ", t.where.cond)+" GROUP BY 1", nil, func(rows *sql.Rows) (g group, err error) {
		return g, rows.Scan(&g.value, &g.n)
	})
	counts := make(map[string]int)
	for _, g := range groups {
		name := "NULL"
		if g.value != nil {
			name = db.AsText(t.d.Value(nil, g.value))
		}
		counts[name] += g.n
	}
	return counts, err
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// An ageRange is a condition on the date of insertion that puts a row in a band.
type ageRange struct {
	band  int // of the edges; one more: beyond
	cond  string
	args  []any
	dated bool
}

// ages returns the conditions for the bands: a row that meets none is unreadable.
func (t *layout) ages(now time.Time, edges []time.Duration) (list []ageRange) {
	col := t.inserted.quoted
	if form := t.inserted.known(); form != nil {
		latest := now.Add(futureMost) // of what is believed
		if t.mayBeFuture() {
			latest = timeform.End.Add(-1)
		}
		to := form.Exact(latest.Add(1))
		add := func(from any) {
			list = append(list, ageRange{len(list), col + " >= ? AND " + col + " < ?", []any{from, to}, true})
			to = from
		}
		for _, edge := range edges {
			add(form.Exact(now.Add(-edge)))
		}
		add(t.inserted.earliest())
	}
	for i, means := range []string{"newest", "oldest"} {
		if cond := t.missing(means); cond != "" && len(edges) > 0 {
			list = append(list, ageRange{band: i * (len(edges) - 1), cond: cond})
		}
	}
	return list
}

// numbered returns an expression for the place in the list of what a row meets, -1 if it
// meets none.
func numbered(list []ageRange) (expr string, args []any) {
	expr = "CASE WHEN " + never + " THEN -1"
	for i, a := range list {
		expr, args = expr+fmt.Sprintf(" WHEN %s THEN %d", a.cond, i), append(args, a.args...)
	}
	return expr + " ELSE -1 END", args
}

// countBranch adds the branch's rows to the bands.
func (t *Table) countBranch(ctx context.Context, b branch, now time.Time, edges []time.Duration, c *inspect.Counts) error {
	ages := t.ages(now, edges)
	number, args := numbered(ages)
	text := "SELECT " + number + ", count(*), min(" + t.text.AsStored(t.inserted.quoted) + ") FROM " + t.name + " WHERE " + strings.Join(t.pending(b), " AND ") + " GROUP BY 1"
	type group struct {
		at, n  int
		oldest any
	}
	groups, err := db.Each(ctx, t.db, text, args, func(rows *sql.Rows) (g group, err error) { return g, rows.Scan(&g.at, &g.n, &g.oldest) })
	for _, g := range groups {
		if g.at < 0 {
			c.Unreadable += g.n
			continue
		}
		var oldest time.Time
		a, band := ages[g.at], &c.Beyond
		if a.dated {
			oldest, _ = t.inserted.known().Parse(t.d.Value(t.inserted.column, g.oldest))
		}
		if a.band < len(edges) {
			band = &c.Bands[a.band]
		}
		band.Add(b.lane, g.n, oldest)
	}
	return err
}

// Wrong counts the pending rows that have a date which cannot be right, or is none, and
// returns the first reason. It reads every pending row.
func (t *Table) Wrong(ctx context.Context, now time.Time) (n int, first, err error) {
	for _, b := range t.branches {
		text := "SELECT " + t.text.AsStored(t.inserted.quoted) + " FROM " + t.name + " WHERE " + strings.Join(t.pending(b), " AND ")
		_, err = db.Scanned(ctx, t.db.Read, text, nil, func(rows *sql.Rows) (none struct{}, err error) {
			raw, err := db.ScanValues(rows, 1)
			if v := t.d.Value(t.inserted.column, raw[0]); err == nil && v != nil && !timeform.IsZero(v) && t.inserted.known() != nil {
				if _, wrong := t.inserted.read(v, now, t.mayBeFuture()); wrong != nil {
					n, first = n+1, cmp.Or(first, wrong)
				}
			}
			return none, err
		})
		if err != nil {
			break
		}
	}
	return n, first, t.db.Wrap(ctx, err)
}

// Rules returns up to 1,000 rules of rows under the policy refresh, each once.
func (t *Table) Rules(ctx context.Context, column string) ([]string, error) {
	col := t.text.Quote(t.catalog.Find(column, t.text.FoldsNames).Name)
	text := "SELECT DISTINCT " + col + " FROM " + t.name + " WHERE " + strings.Join(nonEmpty(col+" IS NOT NULL", t.where.cond), " AND ") + " LIMIT 1000"
	return db.Each(ctx, t.db, text, nil, func(rows *sql.Rows) (string, error) {
		raw, err := db.ScanValues(rows, 1)
		return db.AsText(t.d.Value(nil, raw[0])), err
	})
}

// countRows counts the rows that meet the conditions.
func (t *Table) countRows(ctx context.Context, conds []string, args []any) (n int, err error) {
	err = t.db.One(ctx, "SELECT count(*) FROM "+t.name+" WHERE "+strings.Join(conds, " AND "), args, &n)
	return n, err
}
