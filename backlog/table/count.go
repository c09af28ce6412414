package table

import (
	"context"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
)

// Count implements backlog.Counter.
func (t *Table) Count(ctx context.Context, now time.Time, edges []time.Duration) (backlog.Counts, error) {
	c := backlog.Counts{ByStatus: make(map[string]int), Bands: make([]backlog.Band, len(edges))}
	if t.inserted.known() == nil {
		if err := t.discover(ctx, t.inserted); err != nil {
			return c, err
		}
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
		n, _, err := t.countRange(ctx, b, nil)
		if err != nil {
			return c, err
		}
		c.Exhausted += n
	}
	return c, nil
}

func (t *Table) countStatuses(ctx context.Context, c *backlog.Counts) error {
	what := t.d.raw(t.status)
	if t.status == "" {
		what = t.stateCase()
	}
	text := "SELECT " + what + ", count(*) FROM " + t.name + prefixed(" WHERE ", t.where) + " GROUP BY 1"
	return t.within(ctx, func(ctx context.Context) error {
		clear(c.ByStatus)
		rows, err := t.db.read.QueryContext(ctx, t.d.place(text))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var status any
			var n int
			if err := rows.Scan(&status, &n); err != nil {
				return err
			}
			name := asText(t.d.value(nil, status))
			if status == nil {
				name = "NULL"
			}
			c.ByStatus[name] += n
		}
		return rows.Err()
	})
}

// stateCase tells the states of a table without a status column.
func (t *Table) stateCase() string {
	var b strings.Builder
	b.WriteString("CASE")
	for _, br := range t.branches {
		fmt.Fprintf(&b, " WHEN %s THEN %s", br.cond, t.d.literal(br.label))
		if br.exhausted != "" {
			fmt.Fprintf(&b, " WHEN %s THEN %s", br.exhausted, t.d.literal(br.label))
		}
	}
	for _, end := range []struct{ cond, label string }{{t.success, "success"}, {t.dead, "dead"}} {
		if end.cond != "" {
			fmt.Fprintf(&b, " WHEN %s THEN '%s'", end.cond, end.label)
		}
	}
	b.WriteString(" ELSE 'other' END")
	return b.String()
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// countBranch adds the branch's rows to the bands: one indexed range each.
func (t *Table) countBranch(ctx context.Context, b branch, now time.Time, edges []time.Duration, c *backlog.Counts) error {
	total, _, err := t.countRange(ctx, b, nil)
	if err != nil {
		return err
	}
	dated := 0
	if form := t.inserted.known(); form != nil {
		for i := range len(edges) + 1 {
			r := ageRange{}
			if i < len(edges) {
				r.from = form.exact(now.Add(-edges[i]))
			} else {
				r.from = t.inserted.earliest()
			}
			if i > 0 {
				r.to = form.exact(now.Add(-edges[i-1]))
			} else {
				r.to = form.exact(t.latest(now).Add(1))
			}
			n, oldest, err := t.countRange(ctx, b, &r)
			if err != nil {
				return err
			}
			dated += n
			band := &c.Beyond
			if i < len(edges) {
				band = &c.Bands[i]
			}
			add(band, b.lane, n, oldest)
		}
	}
	for _, x := range []struct {
		seg  int
		word string
		band int
	}{{segNewest, "newest", 0}, {segOldest, "oldest", len(edges) - 1}} {
		if len(edges) == 0 || !t.hasSegment(x.seg, true) {
			continue
		}
		n, _, err := t.countRange(ctx, b, &ageRange{cond: t.missing(x.word)})
		if err != nil {
			return err
		}
		dated += n
		add(&c.Bands[x.band], b.lane, n, time.Time{})
	}
	c.Unreadable += total - dated
	return nil
}

// latest is the last date of insertion that is believed.
func (t *Table) latest(now time.Time) time.Time {
	if t.mayBeFuture() {
		return endDate.Add(-1)
	}
	return now.Add(futureMost)
}

func add(b *backlog.Band, lane backlog.Lane, n int, oldest time.Time) {
	if lane == backlog.Failed {
		b.Failed += n
	} else {
		b.Fresh += n
	}
	if !oldest.IsZero() && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
		b.Oldest = oldest
	}
}

// An ageRange restricts a count: from (inclusive) to (exclusive), as bounds in
// the column's form, or any condition.
type ageRange struct {
	from, to any
	cond     string
}

// countRange counts the branch's rows, all of them if r is nil, and finds the
// oldest date.
func (t *Table) countRange(ctx context.Context, b branch, r *ageRange) (n int, oldest time.Time, err error) {
	conds := t.pending(b)
	var args []any
	if r != nil {
		if r.cond != "" {
			conds = append(conds, r.cond)
		}
		if r.from != nil {
			conds, args = append(conds, t.inserted.quoted+" >= ?"), append(args, r.from)
		}
		if r.to != nil {
			conds, args = append(conds, t.inserted.quoted+" < ?"), append(args, r.to)
		}
	}
	var first any
	text := "SELECT count(*), min(" + t.d.raw(t.inserted.quoted) + ") FROM " + t.name + " WHERE " + strings.Join(conds, " AND ")
	err = t.within(ctx, func(ctx context.Context) error {
		return t.db.read.QueryRowContext(ctx, t.d.place(text), args...).Scan(&n, &first)
	})
	if f := t.inserted.known(); err == nil && f != nil && first != nil && r != nil && r.from != nil {
		if at, err := f.parse(t.d.value(t.inserted.column(t), first)); err == nil {
			oldest = at
		}
	}
	return n, oldest, err
}

// Keyless counts the rows that no pass can take since a part of their key is
// NULL.
func (t *Table) Keyless(ctx context.Context) (total int, err error) {
	var or []string
	for i, name := range t.m.ID {
		if !t.catalog.find(name, true).notNull {
			or = append(or, t.key[i]+" IS NULL")
		}
	}
	for _, b := range t.branches {
		if len(or) == 0 {
			break
		}
		conds := append(nonEmpty(b.cond, t.where), "("+strings.Join(or, " OR ")+")")
		var n int
		err = t.within(ctx, func(ctx context.Context) error {
			return t.db.read.QueryRowContext(ctx, "SELECT count(*) FROM "+t.name+" WHERE "+strings.Join(conds, " AND ")).Scan(&n)
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// Wrong counts the pending rows that have a date which cannot be right, or is
// none, and returns the first reason. It reads every pending row, for as long
// as that takes.
func (t *Table) Wrong(ctx context.Context, now time.Time) (n int, first error, err error) {
	if t.inserted.known() == nil {
		return 0, nil, nil
	}
	err = t.db.patiently(ctx, func(ctx context.Context) error {
		n, first = 0, nil
		for _, b := range t.branches {
			if err := t.wrongIn(ctx, b, now, &n, &first); err != nil {
				return err
			}
		}
		return nil
	})
	return n, first, t.db.wrap(ctx, err)
}

func (t *Table) wrongIn(ctx context.Context, b branch, now time.Time, n *int, first *error) error {
	rows, err := t.db.read.QueryContext(ctx, "SELECT "+t.d.raw(t.inserted.quoted)+" FROM "+t.name+" WHERE "+strings.Join(t.pending(b), " AND "))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var raw any
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		raw = t.d.value(t.inserted.column(t), raw)
		if raw == nil || isZeroDate(raw) {
			continue
		}
		if _, err := t.inserted.read(raw, now, t.mayBeFuture()); err != nil {
			*n++
			if *first == nil {
				*first = err
			}
		}
	}
	return rows.Err()
}
