package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// Attempt calls f in a transaction with the settlement of the record as a success.
// The transaction begins with a look at the row, which must still be as it was read,
// else the error is backlog.ErrConflict, and stays so for others until the end; then
// comes f, and at last the settlement, unless f has left the row in another state or
// deleted it. at is when that is. One commit ends it, or with undo a rollback; after
// an error nothing of it is done. Errors are the driver's.
func (t *Table) Attempt(ctx context.Context, r *backlog.Record, at func() time.Time, undo bool, f func(tx *sql.Tx) error) error {
	s := &backlog.Settlement{Record: r, Target: backlog.RowSuccess}
	find, key := t.lockText(t.workOf(s))
	lock, err := t.prepared.Prepare(ctx, t.db.Write, t.text.Place(find))
	if err != nil {
		return err
	}
	var settle *db.Statement
	if change := t.update(t.workOf(s)); change.Text != "" {
		if settle, err = t.prepared.Prepare(ctx, t.db.Write, t.text.Place(change.Text)); err != nil {
			return err
		}
	}
	err = t.InTx(ctx, func(tx *sql.Tx) error {
		var one int
		err := lock.QueryRow(ctx, tx, key).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return t.conflict(ctx, tx, s)
		}
		if err == nil {
			err = f(tx)
		}
		if err == nil && settle != nil {
			s.At = at()
			w := t.workOf(s)
			n, wrong := db.Affected(settle.Exec(ctx, tx, t.update(w).Args))
			if wrong != nil {
				return fmt.Errorf("settlement: %w", wrong)
			}
			err = t.kept(ctx, tx, w, n)
		}
		if err == nil && undo {
			err = ErrUndo
		}
		return err
	})
	if errors.As(err, new(commitError)) {
		r.Unsure = true
	}
	return err
}

// lockText returns the statement that finds the row of the work as it was read, and
// keeps others from changing it until the transaction ends.
func (t *layout) lockText(w work) (string, []any) {
	cond, args := t.asRead(w)
	return "SELECT 1 FROM " + t.name + " WHERE " + cond + t.text.LockRow, args
}
