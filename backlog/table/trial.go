package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// Try implements [backlog.Trier]: the settlement is written with its own statement
// and rolled back, so that the database itself judges constraints, triggers,
// rights and what the columns hold.
func (t *Table) Try(ctx context.Context, s backlog.Settlement) error {
	f := t.writer.trying(s)
	if f == nil || t.catalog.Engine != "" { // which has no transactions: nothing could be rolled back
		return nil
	}
	return t.undone(ctx, f)
}

// trying implements [writer]. The error's text is as long as its column is.
func (t batchWriter) trying(s backlog.Settlement) func(context.Context, *sql.Tx) error {
	if c := t.errorColumn; c != nil {
		if n := cmp.Or(c.MaxLength, c.MaxBytes); n > 0 {
			s.Error = strings.Repeat("x", min(n, 64<<10))
		}
	}
	x := t.rowUpdate(&s)
	if x.text == "" {
		return nil
	}
	return func(ctx context.Context, tx *sql.Tx) error { return t.try(ctx, tx, x, s.Record) }
}

// texts implements [writer].
func (t batchWriter) texts() []string { return nil }

// undone calls f in a transaction that is undone. What the database has refused in it is
// returned as a [*backlog.Refusal].
func (t *Table) undone(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	err := t.db.Do(ctx, func(ctx context.Context) error {
		return t.inTx(ctx, true, func(tx *sql.Tx) error {
			for _, text := range t.text.Trial {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return f(ctx, tx)
		})
	})
	if p := (*Problem)(nil); err != nil && t.db.Write != t.db.Read && errors.As(t.db.CheckRights(ctx), &p) {
		return &backlog.Refusal{Reach: backlog.EveryRow, Err: p} // it is a file, which cannot be opened to be written to
	}
	var u *refusedWrite
	if errors.As(err, &u) {
		return t.refusalOf(ctx, u) // the transaction has ended: it may have the only connection
	}
	return err
}

// try tries the settlement in a transaction that its caller undoes: the row is
// locked as it was read, the outcome written, and the row judged as it stands then.
func (t *Table) try(ctx context.Context, tx *sql.Tx, x batchUpdate, r *backlog.Record) error {
	find, key := t.lockText(x.batch)
	switch rows, err := db.QueryTexts(ctx, tx, t.text.Rebind(find+t.text.NoWait), key...); {
	case t.db.Class(err) == db.Busy && t.text.NoWait != "":
		return fmt.Errorf("%w: row %v", backlog.ErrLocked, r.Key)
	case err != nil:
		return t.refusedWrite(statusSettings[x.target], x, err)
	case len(rows) == 0:
		return backlog.ErrConflict
	}
	n, err := db.Affected(tx.ExecContext(ctx, t.text.Rebind(x.text), x.args...))
	switch {
	case err != nil:
		return t.refusedWrite(statusSettings[x.target], x, err)
	case n == 0:
		return t.undoneWrite(statusSettings[x.target], x, t.writeUndone(statusSettings[x.target]))
	case n > 1:
		return &backlog.Refusal{Reach: backlog.OneRow, Err: t.checkWritten(ctx, tx, x.batch, n)}
	}
	return t.stillPending(ctx, tx, x, r.Key)
}

// stillPending judges the row as the write has left it. The texts of two statuses
// can differ and be the same to the database: to a collation that takes 'New' for
// 'NEW', that knows no accents, or no spaces at the end.
func (t *Table) stillPending(ctx context.Context, tx *sql.Tx, x batchUpdate, key backlog.Key) error {
	row := t.withKey(key)
	row.add(t.where.cond, nil)
	text, args := selectQuery{columns: []string{t.stateIndexExpr(strconv.Itoa)}, from: t.name, where: row}.sql()
	standing := len(t.states) // of a row that the filter leaves out
	err := tx.QueryRowContext(ctx, t.text.Rebind(text), args...).Scan(&standing)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if standing >= len(t.states) {
		return nil
	}
	fresh := t.states[standing].lane == backlog.Fresh
	state := map[bool]string{true: "new", false: "in error"}[fresh]
	hint := "write what does not meet the condition of " + strings.TrimPrefix(state, "in ")
	record := map[backlog.RowState]string{backlog.RowSuccess: "record that succeeded", backlog.RowDead: "dead record"}[x.target]
	switch ends := x.target == backlog.RowSuccess || x.target == backlog.RowDead && t.HasDead(); {
	case ends && len(t.catalog.Triggers) > 0:
		return t.undoneWrite(statusSettings[x.target], x, t.writeUndone(statusSettings[x.target]))
	case ends:
		return everyRow(hint, "%s: with %s a %s would still be %s to the database and be tried for ever", statusSettings[x.target], x.shown(t.text), record, state)
	case x.target != backlog.RowError || !fresh || t.OneLane():
	case t.policy.counts():
		return everyRow(hint, "statuses.error: with %s a failed record would still be new to the database and be tried at once", x.shown(t.text))
	default:
		t.Notef("statuses.error is one of statuses.new to the database, with %s: failed records are not told from new ones, and age alone decides when they are tried", x.shown(t.text))
	}
	return nil
}
