package table

import (
	"context"
	"database/sql"
	"errors"
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
	Rows []inspect.Row  // without the values that handlers are given, unless the filter asks for them
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
	exprs := len(t.listed(c))
	err = t.db.Within(ctx, func(ctx context.Context) error {
		looked, size := 0, 0
		list = Listing{}
		for _, s := range t.steps(after) {
			most := mostListed - looked + 1
			if f.Cause == nil {
				most = min(most, limit-len(list.Rows)+1)
			}
			var rest []any // only to order by
			if len(c.sets) > 1 {
				rest = slices.Repeat([]any{new(any)}, len(s.order))
			}
			text, args := t.listQuery(c, s, most)
			_, err := db.Scanned(ctx, t.db.Read, t.text.Place(text), args, func(rows *sql.Rows) (none struct{}, err error) {
				if looked == mostListed || len(list.Rows) == limit || size > maxPageBytes {
					return none, errFull
				}
				raw, err := t.scan(rows, exprs, rest...)
				if err != nil {
					return none, err
				}
				looked++
				for _, v := range raw {
					size += sizeOf(v)
				}
				if list.Next = (backlog.Cursor{Segment: s.seg, Key: t.keyOf(raw)}); s.seg == segDated {
					list.Next.Order = raw[t.inserted.at]
				}
				if f.Cause == nil || f.Cause(lastError(raw)) {
					list.Rows = append(list.Rows, t.shownRow(raw, now))
				}
				return none, nil
			})
			if err != nil {
				return err
			}
		}
		list.Next = backlog.Cursor{}
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return list, err
}

// errFull says that there are rows behind the page.
var errFull = errors.New("the page is full")

// A step is what one statement reads of a list.
type step struct {
	seg   int
	order []string // columns
	cond  string
	args  []any
}

// steps returns the steps behind a place: rows with a date, and at last those without, which
// no range of times has.
func (t *layout) steps(after backlog.Cursor) []step {
	at := t.inserted.quoted
	undated := "(" + strings.Join(nonEmpty(at+" IS NULL", t.text.ZeroDate(t.inserted.column)), " OR ") + ")"
	list := []step{{segDated, db.Distinct(append([]string{at}, t.key...)), "NOT " + undated, nil}, {segOldest, t.key, undated, nil}}
	if after.IsZero() {
		return list
	}
	cols, place := append([]string{at}, t.key...), []any{after.Order}
	if after.Segment != segDated {
		list, cols, place = list[1:], t.key, nil
	}
	behind, args := db.KeyRange("<", cols, after.Key, place...)
	if after.Segment == segDated {
		behind, args = at+" <= ? AND "+behind, append(place, args...) // not every planner bounds a range by what follows
	}
	list[0].cond, list[0].args = list[0].cond+" AND "+behind, args
	return list
}

// listQuery returns the query for a step of the choice's sets.
func (t *layout) listQuery(c choice, s step, limit int) (string, []any) {
	return t.text.Union(len(c.sets), s.order, db.NewestFirst, limit, func(i int, rest string) (string, []any) {
		b := c.sets[i]
		from := t.from(slices.Concat(t.where.prefix, b.prefix), t.inserted.quoted)
		exprs, cond := db.Named(t.listed(c)), strings.Join(slices.Concat([]string{b.cond, s.cond}, c.conds), " AND ")
		return fmt.Sprintf("SELECT %s%s FROM %s WHERE %s", exprs, rest, from, cond), slices.Concat(s.args, c.args)
	})
}

// listed returns the expressions of a row of a list.
func (t *layout) listed(c choice) []string {
	if c.Given {
		return t.shown(t.sel.exprs)
	}
	return t.shown(t.sel.needed)
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
