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

// Try implements [backlog.Trier]. It writes the settlement and rolls back, so that the database
// itself checks constraints, triggers, rights and column types.
func (t *Table) Try(ctx context.Context, s backlog.Settlement) error {
	f := t.writer.trying(s)
	if f == nil || !t.canRollBack() {
		return nil
	}
	return t.rollBack(ctx, f)
}

// trying implements [writer]. It tries the longest text of an error that the column takes.
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

// rollBack calls f in a transaction and rolls it back. If the database refuses a write, it
// returns a [*backlog.Refusal].
func (t *Table) rollBack(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	const undo = true
	tryWrite := func(ctx context.Context, tx *sql.Tx) error {
		for _, setting := range t.text.Trial {
			if _, err := tx.ExecContext(ctx, setting); err != nil {
				return err
			}
		}
		return f(ctx, tx)
	}
	err := t.db.Do(ctx, func(ctx context.Context) error {
		return t.inTx(ctx, undo, func(tx *sql.Tx) error { return tryWrite(ctx, tx) })
	})
	isFile := t.db.Write != t.db.Read
	if err != nil && isFile {
		var readOnly *Problem
		if errors.As(t.db.CheckRights(ctx), &readOnly) {
			return &backlog.Refusal{Reach: backlog.EveryRow, Err: readOnly}
		}
	}
	var u *refusedWrite
	if errors.As(err, &u) {
		return t.refusalOf(ctx, u) // after the transaction, which may have had the only connection
	}
	return err
}

// try tries a settlement, in a transaction that the caller rolls back: it locks the row if that
// is as it was read, writes the outcome, and checks the row afterwards.
func (t *Table) try(ctx context.Context, tx *sql.Tx, x batchUpdate, r *backlog.Record) error {
	find, key := t.lockText(x.batch)
	rows, err := db.QueryTexts(ctx, tx, t.text.Rebind(find+t.text.NoWait), key...)
	switch {
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
		return t.refusedByTrigger(statusSettings[x.target], x, t.undoneProblem(statusSettings[x.target]))
	case n > 1:
		return &backlog.Refusal{Reach: backlog.OneRow, Err: t.checkWritten(ctx, tx, x.batch, n)}
	}
	return t.checkState(ctx, tx, x, r.Key)
}

// checkState checks the state of a row that was written. Two statuses that differ as texts can
// be equal to the database, depending on the collation: New and NEW, or texts that differ by
// accents or by spaces at the end.
func (t *Table) checkState(ctx context.Context, tx *sql.Tx, x batchUpdate, key backlog.Key) error {
	row := t.withKey(key)
	row.add(t.where.cond, nil)
	text, args := selectQuery{columns: []string{t.stateIndexExpr(strconv.Itoa)}, from: t.name, where: row}.sql()
	index := len(t.states) // stays so if the row no longer meets table.where
	err := db.OneRow(ctx, tx, t.text.Rebind(text), args...).Scan(&index)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if index >= len(t.states) {
		return nil // it is not pending
	}
	fresh := t.states[index].lane == backlog.Fresh
	state := "in error"
	hint := "write what does not meet the condition of error"
	if fresh {
		state = "new"
		hint = "write what does not meet the condition of new"
	}
	record := "dead record"
	if x.target == backlog.RowSuccess {
		record = "record that succeeded"
	}
	isFinal := t.isFinal(x.target)
	switch {
	case isFinal && len(t.catalog.Triggers) > 0:
		return t.refusedByTrigger(statusSettings[x.target], x, t.undoneProblem(statusSettings[x.target]))
	case isFinal:
		return everyRow(hint, "%s: with %s a %s would still be %s to the database and be tried for ever", statusSettings[x.target], x.shown(t.text), record, state)
	case x.target != backlog.RowError || !fresh || t.OneLane():
	case t.policy.counts():
		return everyRow(hint, "statuses.error: with %s a failed record would still be new to the database and be tried at once", x.shown(t.text))
	default:
		t.Notef("statuses.error is one of statuses.new to the database, with %s: failed records are not told from new ones, and age alone decides when they are tried", x.shown(t.text))
	}
	return nil
}
