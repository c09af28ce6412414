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
	args   []any
	now    time.Time
}

// Expire is the method that [backlog.Store] names.
func (t *Table) Expire(ctx context.Context, now, before time.Time, each func(*backlog.Record) bool) (total int, err error) {
	if t.expireSet == nil {
		return 0, nil
	}
	list, err := t.expiries(ctx, now, before)
	if err != nil {
		return 0, err
	}
	for _, x := range list {
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
func (t *Table) expiries(ctx context.Context, now, before time.Time) (list []expiry, err error) {
	for _, x := range []struct {
		col   *timeCol
		bound time.Time
	}{{t.inserted, before}, {t.expires, now}} {
		if x.col == nil {
			continue
		}
		if err := t.discover(ctx, x.col); err != nil {
			return nil, err
		}
		if x.col.known() == nil {
			continue // there is no time to be past
		}
		for i, b := range t.branches {
			list = append(list, expiry{i, t.expired(b, x.col), []any{x.col.known().Exact(x.bound), x.col.earliest()}, now})
		}
	}
	for i, b := range t.branches {
		if b.exhausted != "" {
			b.cond = b.exhausted
			list = append(list, expiry{i, t.pending(b), nil, now})
		}
	}
	return list, nil
}

// expired returns the conditions of rows that are past their time.
func (t *layout) expired(b branch, col *timeCol) []string {
	return append(t.pending(b), col.quoted+" < ?", col.quoted+" >= ?")
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
// calling each for every one before it is written.
func (t *Table) expireApart(ctx context.Context, x expiry, each func(*backlog.Record) bool) (total int, err error) {
	var last backlog.Key
	one := t.expireText(x.conds) + " AND " + t.text.KeyIn(t.key, 1)
	for ctx.Err() == nil {
		var records []backlog.Record
		rows, err := t.rowsByKey(ctx, x.conds, x.args, last)
		for _, row := range rows {
			records = append(records, t.recordOf(row, x.branch))
		}
		if err != nil || len(records) == 0 {
			return total, err
		}
		stopped := false
		for i := range records {
			if stopped = ctx.Err() != nil || !each(&records[i]); stopped {
				records = records[:i] // the others are told of the next time
				break
			}
		}
		n, err := t.expireGroup(context.WithoutCancel(ctx), x, one, records)
		if total += n; err != nil || stopped {
			return total, errors.Join(err, ctx.Err())
		}
		last = records[len(records)-1].Key
	}
	return total, ctx.Err()
}

// expireGroup writes the dead status to the records, except where the database
// refuses it or somebody has changed the row, and returns how many got it.
func (t *Table) expireGroup(ctx context.Context, x expiry, text string, records []backlog.Record) (n int, err error) {
	err = t.db.Within(ctx, func(ctx context.Context) error {
		refused, err := t.rowByRow(ctx, len(records), func(tx *sql.Tx, i int) error {
			n, err := db.Affected(tx.ExecContext(ctx, t.text.Place(text), bind(t.expireArgs(x), records[i].Key)...))
			if n == 0 && err == nil {
				return backlog.ErrConflict
			}
			return err
		})
		n = len(records) - len(refused)
		return err
	})
	if err != nil {
		n = 0
	}
	return n, err
}
