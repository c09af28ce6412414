package table

import (
	"context"
	"fmt"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// Count counts the rows at a time, as [inspect.Counts] says.
func (t *Table) Count(ctx context.Context, now time.Time, edges []time.Duration) (c inspect.Counts, err error) {
	c.Bands = make([]inspect.Band, len(edges))
	if err = t.discover(ctx, t.inserted); err != nil {
		return c, err
	}
	status := t.text.AsStored(t.status)
	if t.status == "" {
		status = t.standingCase(t.standingLabel)
	}
	if c.ByStatus, err = t.CountBy(ctx, status); err != nil {
		return c, err
	}
	for _, b := range t.branches {
		again, exhausted := t.tried(b)
		if b.cond = again; again != "" {
			if err := t.countBranch(ctx, b, now, edges, &c); err != nil {
				return c, err
			}
		}
		if b.cond = exhausted; exhausted != "" {
			n := 0
			if err := t.db.One(ctx, "SELECT count(*) FROM "+t.name+" WHERE "+strings.Join(t.pending(b), " AND "), nil, &n); err != nil {
				return c, err
			}
			c.Exhausted += n
		}
	}
	return c, nil
}

// CountBy counts the rows by the values of an expression as text; NULL is "NULL".
func (t *Table) CountBy(ctx context.Context, expr string) (map[string]int, error) {
	groups, err := db.Values(ctx, t.db, "SELECT "+expr+", count(*) FROM "+t.name+prefixed(" WHERE ", t.where.cond)+" GROUP BY 1", nil, 2)
	counts := make(map[string]int)
	for _, g := range groups {
		name := "NULL"
		if g[0] != nil {
			name = db.AsText(t.d.Value(nil, g[0]))
		}
		n, _ := db.AsCount(t.d.Value(nil, g[1]))
		counts[name] += n
	}
	return counts, err
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// band returns an expression for the number of the band that a row's date of insertion is in:
// from 0 on, one more than the last edge's if it is beyond, -1 if it is unreadable.
func (t *layout) band(now time.Time, edges []time.Duration) (expr string, args []any) {
	expr = "CASE WHEN " + never + " THEN -1"
	add := func(band int, cond string, a ...any) {
		expr, args = expr+fmt.Sprintf(" WHEN %s THEN %d", cond, band), append(args, a...)
	}
	if form := t.inserted.known(); form != nil {
		latest := now.Add(futureMost) // of what is believed
		if t.mayBeFuture() {
			latest = timeform.End.Add(-1)
		}
		to := form.Exact(latest.Add(1))
		for i := range len(edges) + 1 {
			from := t.inserted.earliest()
			if i < len(edges) {
				from = form.Exact(now.Add(-edges[i]))
			}
			add(i, t.inserted.quoted+" >= ? AND "+t.inserted.quoted+" < ?", from, to)
			to = from
		}
	}
	for i, means := range []string{"newest", "oldest"} {
		if cond := t.missing(means); cond != "" && len(edges) > 0 {
			add(i*(len(edges)-1), cond)
		}
	}
	return expr + " ELSE -1 END", args
}

// countBranch adds the branch's rows to the bands.
func (t *Table) countBranch(ctx context.Context, b branch, now time.Time, edges []time.Duration, c *inspect.Counts) error {
	number, args := t.band(now, edges)
	date := t.text.AsStored(t.inserted.quoted)
	if zero := t.text.ZeroDate(t.inserted.column); zero != "" {
		date = "CASE WHEN " + zero + " THEN NULL ELSE " + date + " END"
	}
	text := "SELECT " + number + ", count(*), min(" + date + ") FROM " + t.name + " WHERE " + strings.Join(t.pending(b), " AND ") + " GROUP BY 1"
	groups, err := db.Values(ctx, t.db, text, args, 3)
	for _, g := range groups {
		at, _ := db.AsCount(t.d.Value(nil, g[0]))
		n, _ := db.AsCount(t.d.Value(nil, g[1]))
		if at < 0 {
			c.Unreadable += n
			continue
		}
		var oldest time.Time
		if g[2] != nil {
			oldest, _ = t.inserted.known().Parse(t.d.Value(t.inserted.column, g[2]))
		}
		band := &c.Beyond
		if at < len(edges) {
			band = &c.Bands[at]
		}
		band.Add(b.lane, n, oldest)
	}
	return err
}

// Rules returns up to 1,000 rules of rows under the policy refresh, each once.
func (t *Table) Rules(ctx context.Context, column string) (list []string, err error) {
	col := t.text.Quote(t.catalog.Find(column, t.text.FoldsNames).Name)
	text := "SELECT DISTINCT " + col + " FROM " + t.name + " WHERE " + strings.Join(nonEmpty(col+" IS NOT NULL", t.where.cond), " AND ") + " LIMIT 1000"
	rows, err := db.Values(ctx, t.db, text, nil, 1)
	for _, row := range rows {
		list = append(list, db.AsText(t.d.Value(nil, row[0])))
	}
	return list, err
}
