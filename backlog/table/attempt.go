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
	b := batch{state: r.Origin, target: backlog.RowSuccess}
	lock, err := t.prepared.Prepare(ctx, t.db.Write, t.text.Place(t.lockText(b)))
	if err != nil {
		return err
	}
	var settle *db.Statement
	if text, _ := t.updateText(b, 1); text != "" {
		if settle, err = t.prepared.Prepare(ctx, t.db.Write, t.text.Place(text)); err != nil {
			return err
		}
	}
	return t.InTx(ctx, func(tx *sql.Tx) error {
		var one int
		err := lock.QueryRow(ctx, tx, db.Bind(nil, r.Key)).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return backlog.ErrConflict
		}
		if err == nil {
			err = f(tx)
		}
		if err == nil && settle != nil {
			s := &backlog.Settlement{Record: r, Target: backlog.RowSuccess, At: at()}
			w, n := work{t.batchOf(s), []*backlog.Settlement{s}}, int64(0)
			if n, err = db.Affected(settle.Exec(ctx, tx, t.updateArgs(w, s.At))); err != nil {
				return fmt.Errorf("settlement: %w", err)
			}
			err = t.kept(ctx, tx, w, n)
		}
		if err == nil && undo {
			err = ErrUndo
		}
		return err
	})
}

// lockText returns the statement that finds a row of the batch as it was read,
// and keeps others from changing it until the transaction ends.
func (t *layout) lockText(b batch) string {
	return "SELECT 1 FROM " + t.name + " WHERE " + t.asRead(b, 1) + t.text.LockRow
}
