package table

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table/db"
)

// A Listing is a page of [Table.List].
type Listing struct {
	Rows []inspect.Row  // without the values that handlers are given
	Next backlog.Cursor // the place behind the last row that was looked at; zero: there are no more
}

// mostListed is how many rows a page of List looks at. Where no index serves, each page
// sorts all rows that are meant.
const mostListed = 5000

// List returns at most limit of the rows that the filter means, newest first, from behind a
// place on. There may be more behind a page that is not full, or empty.
func (t *Table) List(ctx context.Context, f Filter, now time.Time, after backlog.Cursor, limit int) (list Listing, err error) {
	if err := t.discover(ctx, t.inserted); err != nil {
		return list, err
	}
	c, err := t.choose(f, inspect.Listed, now)
	if err != nil || len(c.sets) == 0 {
		return list, err
	}
	err = t.db.Within(ctx, func(ctx context.Context) error {
		l := lister{t: t, choice: c, now: now, limit: limit}
		for _, s := range t.steps(after) {
			if err := l.read(ctx, s); err != nil {
				return err
			}
		}
		if list = l.Listing; !l.more {
			list.Next = backlog.Cursor{}
		}
		return nil
	})
	return list, err
}

// A step is what one statement reads of a list.
type step struct {
	seg   int
	conds []string
	args  []any
}

// steps returns the steps behind a place: rows of the very same time, those of other times, and
// at last those without a date, which no range of times has.
func (t *layout) steps(after backlog.Cursor) (list []step) {
	col, zero := t.inserted.quoted, t.text.ZeroDate(t.inserted.column)
	dated, undated := []string{col + " IS NOT NULL"}, []string{strings.Join(nonEmpty(col+" IS NULL", zero), " OR ")}
	if zero != "" {
		dated, undated[0] = append(dated, "NOT ("+zero+")"), "("+undated[0]+")"
	}
	behind, key := db.KeyRange("<", t.key, after.Key)
	switch {
	case after.IsZero():
		list = append(list, step{segDated, dated, nil})
	case after.Segment == segDated:
		list = append(list, step{segDated, []string{col + " = ?", behind}, slices.Concat([]any{after.Order}, key)},
			step{segDated, append(dated, col+" < ?"), []any{after.Order}})
	default:
		return []step{{segOldest, append(undated, behind), key}}
	}
	return append(list, step{segOldest, undated, nil})
}

// listQuery returns the query for a step of the choice's sets.
func (t *layout) listQuery(c choice, s step, limit int) (string, []any) {
	cols := t.key
	if s.seg == segDated {
		cols = db.Distinct(append([]string{t.inserted.quoted}, t.key...))
	}
	return t.text.Union(len(c.sets), cols, db.NewestFirst, limit, func(i int, rest string) (string, []any) {
		b := c.sets[i]
		from := t.from(slices.Concat(t.where.prefix, b.prefix), t.inserted.quoted)
		exprs, cond := db.Named(t.shown(t.sel.needed)), strings.Join(slices.Concat([]string{b.cond}, c.conds, s.conds), " AND ")
		return fmt.Sprintf("SELECT %s%s FROM %s WHERE %s", exprs, rest, from, cond), slices.Concat(c.args, s.args)
	})
}

// ListReadings returns the queries of List, one for each set of rows that an index is to have in
// order.
func (t *layout) ListReadings(f Filter, now time.Time) (list []Reading, err error) {
	c, err := t.choose(f, inspect.Listed, now)
	for _, b := range c.sets {
		one := c
		one.sets = []branch{b}
		r := t.reading(b, []string{b.cond}, []string{t.inserted.quoted})
		r.Query, r.Args = t.listQuery(one, t.steps(backlog.Cursor{})[0], mostListed)
		list = append(list, r)
	}
	return list, err
}

// A lister makes a page of a list.
type lister struct {
	t *Table
	choice
	now   time.Time
	limit int

	Listing
	more   bool // there are rows behind the page
	looked int  // at how many rows
	bytes  int
}

// read adds the rows of a step until the page is full.
func (l *lister) read(ctx context.Context, s step) error {
	if l.more {
		return nil
	}
	t, most := l.t, mostListed-l.looked+1
	if l.Cause == nil {
		most = min(most, l.limit-len(l.Rows)+1)
	}
	text, args := t.listQuery(l.choice, s, most)
	rows, err := t.db.Read.QueryContext(ctx, t.text.Place(text), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var rest []any // only to order by
	names, err := rows.Columns()
	n := len(t.shown(t.sel.needed))
	for range len(names) - n {
		rest = append(rest, new(any))
	}
	for err == nil && rows.Next() {
		if l.more = l.looked == mostListed || len(l.Rows) == l.limit || l.bytes > maxPageBytes; l.more {
			return nil
		}
		var raw []any
		if raw, err = t.scan(rows, n, rest...); err != nil {
			return err
		}
		l.looked++
		for _, v := range raw {
			l.bytes += sizeOf(v)
		}
		l.Next = backlog.Cursor{Segment: s.seg, Key: t.keyOf(raw)}
		if s.seg == segDated {
			l.Next.Order = raw[t.inserted.at]
		}
		if l.Cause == nil || l.Cause(lastError(raw)) {
			l.Rows = append(l.Rows, t.shownRow(raw, l.now))
		}
	}
	if err == nil {
		err = rows.Err()
	}
	return err
}
