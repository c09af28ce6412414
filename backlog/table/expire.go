package table

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
)

// Expire implements backlog.Expirer.
func (t *Table) Expire(ctx context.Context, now, before time.Time) (int, error) {
	total := 0
	if t.expireSet == nil {
		return total, nil
	}
	for _, x := range []struct {
		col   *timeCol
		bound time.Time
	}{{t.inserted, before}, {t.expires, now}} {
		if x.col == nil {
			continue
		}
		if x.col.known() == nil {
			if err := t.discover(ctx, x.col); err != nil {
				return total, err
			}
		}
		if x.col.known() == nil {
			continue // there is no time to be past
		}
		for _, b := range t.branches {
			n, err := t.expireRows(ctx, expiry{b, x.col, x.bound, now})
			total += n
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// An expiry is the end of a branch's rows whose time in the column is before
// the bound.
type expiry struct {
	branch     branch
	col        *timeCol
	bound, now time.Time
}

// expireRows writes it with one statement or, where some row refuses, row by
// row, leaving those as they are: they must not keep the others alive.
func (t *Table) expireRows(ctx context.Context, x expiry) (int, error) {
	var n int64
	err := t.within(ctx, func(ctx context.Context) error {
		return t.inTx(ctx, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, t.expireText(x.branch, x.col), t.expireArgs(x)...)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
	})
	if t.d.classify(err) == classRefused {
		return t.expireApart(ctx, x)
	}
	return int(n), err
}

func (t *Table) expireText(b branch, col *timeCol) string {
	return "UPDATE " + t.name + " SET " + setText(t.expireSet) + " WHERE " + strings.Join(t.expired(b, col), " AND ")
}

// expired returns the conditions of rows that are past their time.
func (t *Table) expired(b branch, col *timeCol) []string {
	return append(t.pending(b), col.quoted+" < ?", col.quoted+" >= ?")
}

func (t *Table) expireArgs(x expiry) []any {
	var args []any
	for _, a := range t.expireSet {
		if a.time != nil {
			args = append(args, t.writeForm(a.time).write(x.now))
		}
	}
	return append(args, x.col.known().exact(x.bound), x.col.earliest())
}

// expireApart goes through the rows in groups, in the order of their keys.
func (t *Table) expireApart(ctx context.Context, x expiry) (total int, err error) {
	var last backlog.Key
	for {
		var keys []backlog.Key
		var refused map[int]error
		err := t.within(ctx, func(ctx context.Context) (err error) {
			if keys, err = t.expiredKeys(ctx, x, last); err != nil || len(keys) == 0 {
				return err
			}
			one := t.expireText(x.branch, x.col) + " AND " + t.d.keyIn(t.key, 1)
			refused, err = t.rowByRow(ctx, len(keys), func(tx *sql.Tx, i int) error {
				args := t.expireArgs(x)
				for p := range keys[i].Len() {
					args = append(args, keys[i].Part(p))
				}
				res, err := tx.ExecContext(ctx, one, args...)
				if err != nil {
					return err
				}
				if n, err := res.RowsAffected(); n == 0 && err == nil {
					return backlog.ErrConflict
				}
				return err
			})
			return err
		})
		if err != nil || len(keys) == 0 {
			return total, err
		}
		total += len(keys) - len(refused)
		last = keys[len(keys)-1]
	}
}

// expiredKeys returns the next rows that are past their time.
func (t *Table) expiredKeys(ctx context.Context, x expiry, last backlog.Key) ([]backlog.Key, error) {
	conds, args := t.expired(x.branch, x.col), []any{x.col.known().exact(x.bound), x.col.earliest()}
	if !last.IsZero() {
		c, a := keyRange(">", t.key, last)
		conds, args = append(conds, c), append(args, a...)
	}
	rows, err := t.db.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d",
		t.rawKey(), t.name, strings.Join(conds, " AND "), strings.Join(t.key, ", "), backlog.MaxGroup), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []backlog.Key
	for rows.Next() {
		parts := make([]any, len(t.key))
		to := make([]any, len(parts))
		for i := range parts {
			to[i] = &parts[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for i, p := range parts {
			parts[i] = whole(p)
		}
		keys = append(keys, backlog.NewKey(parts...))
	}
	return keys, rows.Err()
}
