package table

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// An expiry is a set of rows that are to get the dead status.
type expiry struct {
	branch int
	conds  []string
	col    *timeCol  // whose time they are past; nil: they are out of retries
	bound  time.Time // the least time that is not past
	args   []any     // of conds
	now    time.Time
}

// Expire is the method that [backlog.Store] names.
func (t *Table) Expire(ctx context.Context, now, before time.Time, each func(*backlog.Record) bool) (total int, err error) {
	if t.expireSet == nil {
		return 0, nil
	}
	for _, x := range t.expiries(now, before) {
		if x.col != nil {
			if err := t.discover(ctx, x.col); err != nil {
				return total, err
			}
			if x.col.known() == nil {
				continue // there is no time to be past
			}
			x.args = []any{x.col.known().Exact(x.bound), x.col.earliest()}
		}
		expire := t.expireRows
		if each != nil {
			expire = func(ctx context.Context, x expiry) (int, error) { return t.expireApart(ctx, x, each) }
		}
		n, err := expire(ctx, x)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// expiries are the rows past one of their times, and those out of retries whose
// last failure has not made them dead.
func (t *layout) expiries(now, before time.Time) (list []expiry) {
	for _, x := range []expiry{{col: t.inserted, bound: before}, {col: t.expires, bound: now}} {
		for i, b := range t.branches {
			if x.col != nil {
				conds := append(t.pending(b), x.col.quoted+" < ?", x.col.quoted+" >= ?")
				list = append(list, expiry{branch: i, conds: conds, col: x.col, bound: x.bound, now: now})
			}
		}
	}
	for i, b := range t.branches {
		if b.exhausted != "" {
			b.cond = b.exhausted
			list = append(list, expiry{branch: i, conds: t.pending(b), now: now})
		}
	}
	return list
}

// expireRows writes it with one statement or, where some row refuses, row by
// row, leaving those as they are: they must not keep the others alive.
func (t *Table) expireRows(ctx context.Context, x expiry) (int, error) {
	n, err := t.write(ctx, t.expireText(x.conds), t.expireArgs(x))
	if t.db.Class(err) == db.Refused {
		return t.expireApart(ctx, x, func(*backlog.Record) bool { return true })
	}
	return n, err
}

// write runs a statement in a transaction of its own, and returns the number of its rows.
func (t *Table) write(ctx context.Context, text string, args []any) (int, error) {
	var n int64
	err := t.db.Within(ctx, func(ctx context.Context) error {
		return t.InTx(ctx, func(tx *sql.Tx) (err error) {
			n, err = db.Affected(tx.ExecContext(ctx, t.text.Place(text), args...))
			return err
		})
	})
	return int(n), err
}

func (t *layout) expireText(conds []string) string {
	return "UPDATE " + t.name + " SET " + setText(t.expireSet) + " WHERE " + strings.Join(conds, " AND ")
}

func (t *layout) expireArgs(x expiry) []any { return append(t.timeArgs(t.expireSet, x.now), x.args...) }

// expireApart goes through the rows in groups, in the order of their keys,
// calling each for every one before it is written. Where the database refuses a row,
// or somebody has changed it, that one stays as it is.
func (t *Table) expireApart(ctx context.Context, x expiry, each func(*backlog.Record) bool) (total int, err error) {
	text := t.text.Place(t.expireText(x.conds) + " AND " + t.text.KeyIn(t.key, 1))
	for rows, err := range t.groupsByKey(ctx, x.conds, x.args) {
		if err != nil {
			return total, err
		}
		var records []backlog.Record
		for _, row := range rows {
			rec := t.recordOf(row, x.branch)
			if ctx.Err() != nil || !each(&rec) {
				break // the others are told of the next time
			}
			records = append(records, rec)
		}
		n := 0
		err := t.db.Within(context.WithoutCancel(ctx), func(ctx context.Context) error {
			refused, err := t.rowByRow(ctx, len(records), func(tx *sql.Tx, i int) error {
				n, err := db.Affected(tx.ExecContext(ctx, text, db.Bind(t.expireArgs(x), records[i].Key)...))
				if n == 0 && err == nil {
					return backlog.ErrConflict
				}
				return err
			})
			n = len(records) - len(refused)
			return err
		})
		if err != nil {
			return total, errors.Join(err, ctx.Err())
		}
		if total += n; len(records) < len(rows) {
			break
		}
	}
	return total, ctx.Err()
}
