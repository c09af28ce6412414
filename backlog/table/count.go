package table

import (
	"cmp"
	"context"
	"database/sql"
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
		n, _, err := t.countRows(ctx, b, "")
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

// countBranch adds the branch's rows to the bands: one indexed range each.
func (t *Table) countBranch(ctx context.Context, b branch, now time.Time, edges []time.Duration, c *inspect.Counts) error {
	total, _, err := t.countRows(ctx, b, "")
	if err != nil {
		return err
	}
	add := func(band *inspect.Band, cond string, args ...any) error {
		n, oldest, err := t.countRows(ctx, b, cond, args...)
		total -= n
		if len(args) == 0 { // rows without a date
			oldest = time.Time{}
		}
		band.Add(b.lane, n, oldest)
		return err
	}
	if form := t.inserted.known(); form != nil {
		latest := now.Add(futureMost) // of what is believed
		if t.mayBeFuture() {
			latest = timeform.End.Add(-1)
		}
		to := form.Exact(latest.Add(1))
		for i := range len(edges) + 1 {
			band, from := &c.Beyond, t.inserted.earliest()
			if i < len(edges) {
				band, from = &c.Bands[i], form.Exact(now.Add(-edges[i]))
			}
			if err := add(band, t.inserted.quoted+" >= ? AND "+t.inserted.quoted+" < ?", from, to); err != nil {
				return err
			}
			to = from
		}
	}
	if cond := t.missing("newest"); cond != "" && len(edges) > 0 {
		err = add(&c.Bands[0], cond)
	}
	if cond := t.missing("oldest"); err == nil && cond != "" && len(edges) > 0 {
		err = add(&c.Bands[len(edges)-1], cond)
	}
	c.Unreadable += total
	return err
}

// countRows counts the branch's rows that meet the condition, if there is one, and
// finds the oldest date.
func (t *Table) countRows(ctx context.Context, b branch, cond string, args ...any) (n int, oldest time.Time, err error) {
	var first any
	text := "SELECT count(*), min(" + t.text.AsStored(t.inserted.quoted) + ") FROM " + t.name + " WHERE " + strings.Join(append(t.pending(b), nonEmpty(cond)...), " AND ")
	err = t.db.One(ctx, text, args, &n, &first)
	if f := t.inserted.known(); err == nil && f != nil && first != nil {
		oldest, _ = f.Parse(t.d.Value(t.inserted.column, first))
	}
	return n, oldest, err
}

// Keyless counts the rows that no pass can take since a part of their key is
// NULL.
func (t *Table) Keyless(ctx context.Context) (total int, err error) {
	or := t.nullable(" IS NULL")
	for _, b := range t.branches {
		if len(or) == 0 {
			break
		}
		var n int
		conds := append(nonEmpty(b.cond, t.where.cond), "("+strings.Join(or, " OR ")+")")
		if err = t.db.One(ctx, "SELECT count(*) FROM "+t.name+" WHERE "+strings.Join(conds, " AND "), nil, &n); err != nil {
			break
		}
		total += n
	}
	return total, err
}

// Wrong counts the pending rows that have a date which cannot be right, or is
// none, and returns the first reason. It reads every pending row, for as long
// as that takes.
func (t *Table) Wrong(ctx context.Context, now time.Time) (n int, first error, err error) {
	if t.inserted.known() == nil {
		return 0, nil, nil
	}
	for _, b := range t.branches {
		before := n
		text := "SELECT " + t.text.AsStored(t.inserted.quoted) + " FROM " + t.name + " WHERE " + strings.Join(t.pending(b), " AND ")
		err = t.db.Patiently(ctx, func(ctx context.Context) error {
			n = before
			_, err := db.Scanned(ctx, t.db.Read, text, nil, func(rows *sql.Rows) (none struct{}, err error) {
				raw, err := db.ScanValues(rows, 1)
				if v := t.d.Value(t.inserted.column, raw[0]); err == nil && v != nil && !timeform.IsZero(v) {
					if _, wrong := t.inserted.read(v, now, t.mayBeFuture()); wrong != nil {
						n, first = n+1, cmp.Or(first, wrong)
					}
				}
				return none, err
			})
			return err
		})
		if err != nil {
			break
		}
	}
	return n, first, t.db.Wrap(ctx, err)
}
