package table

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// ParseKey returns the key that people write for a row: the bare value, or a
// JSON array of a composite key's. The columns' types decide what it becomes;
// BLOBs are base64. It is an error that the user can mend.
func (t *layout) ParseKey(text string) (backlog.Key, error) { return db.ParseKey(t.keys, text) }

// Find returns the row with the key, and whether there is one. The error is a [*KeyError] where the database
// cannot take the key for one of the table.
func (t *Table) Find(ctx context.Context, k backlog.Key, now time.Time) (row inspect.Row, ok bool, err error) {
	filter := t.text.Unsearched(cmp.Or(t.where.cond, always))
	exprs := t.shown(t.sel.exprs)
	text := fmt.Sprintf("SELECT %s, CASE WHEN %s THEN 1 ELSE 0 END FROM %s WHERE %s", db.Named(exprs), filter, t.name, t.text.KeyIn(t.key, 1))
	err = t.db.Within(ctx, func(ctx context.Context) error {
		var within int
		raw, err := t.scan(t.db.Read.QueryRowContext(ctx, t.text.Place(text), db.Bind(nil, k)...), len(exprs), &within)
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
	row.Unreadable = cmp.Or(row.Unreadable, t.remember(&row.Record, raw))
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
		add(b.cond, i)
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
		for rows, err := range t.groupsByKey(ctx, t.shown(t.sel.exprs), backlog.MaxGroup, t.text.Unsearched(strings.Join(t.pending(b), " AND ")), nil) {
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
	groups, err := db.Values(ctx, t.db, "SELECT "+expr+", count(*) FROM "+t.name+db.Prefixed(" WHERE ", t.where.cond)+" GROUP BY 1", nil, 2)
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
func (t *Table) Rules(ctx context.Context, column string) ([]string, error) {
	col := t.text.Quote(t.catalog.Find(column, t.text.FoldsNames).Name)
	text := "SELECT DISTINCT " + col + " FROM " + t.name + " WHERE " + strings.Join(db.NonEmpty(col+" IS NOT NULL", t.where.cond), " AND ") + " LIMIT 1000"
	rows, err := db.Values(ctx, t.db, text, nil, 1)
	return db.Mapped(rows, func(row []any) string { return db.AsText(t.d.Value(nil, row[0])) }), err
}
