package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// A groupWrite is how a group of rows is written: see [Table.writeGroup]. What is done in a
// transaction is undone where one of the functions fails.
type groupWrite struct {
	rows int // of the group

	// prepare is called before the transaction begins, since that may have the only
	// connection. It reports whether there is anything to write. Nil: there is.
	prepare func(context.Context) (bool, error)

	// whole writes all rows. It returns [backlog.ErrConflict] where they are not all as
	// they should be.
	whole func(context.Context, *sql.Tx) error

	// one writes the row of that number. It returns [backlog.ErrConflict] where that is
	// no longer as it was read, and a *Problem where the database leaves it as it was.
	one func(context.Context, *sql.Tx, int) error

	// text returns the statement that writes the row of that number, and how many
	// arguments it has; "": it is not known beforehand.
	text func(int) (string, int)

	undo bool // it is a trial, of which nothing stays
}

// writeGroup writes a group in one transaction. It returns the rows that are not written,
// which stay as they were: with [backlog.ErrConflict] where others have changed them, else
// with the reason for which the database refuses them. After an error nothing is written
// or, where it is a commitError, that is unknown.
//
// The group is written as a whole. Only where that cannot be, each row is written behind a
// savepoint, to tell which the database refuses.
func (t *Table) writeGroup(ctx context.Context, w groupWrite) ([]backlog.Unsettled, error) {
	err := t.writeWhole(ctx, &w)
	if !t.mayBeOfRow(err) {
		return nil, err
	}
	reasons := make([]error, w.rows)
	err = t.rowByRow(ctx, &w, reasons)
	if err == errEndedTransactions || errors.As(err, new(commitError)) && t.mayBeOfRow(err) {
		err = t.rowsApart(ctx, &w, reasons)
	}
	if err != nil {
		return nil, err
	}
	return t.refused(ctx, &w, reasons)
}

func (t *Table) writeWhole(ctx context.Context, w *groupWrite) error {
	if w.prepare != nil {
		some, err := w.prepare(ctx)
		if err != nil || !some {
			return err
		}
	}
	return t.inTx(ctx, w.undo, func(tx *sql.Tx) error { return w.whole(ctx, tx) })
}

// isOfRow reports whether the error is about a row, and others can be written.
func (t *Table) isOfRow(err error) bool {
	return errors.Is(err, backlog.ErrConflict) || errors.As(err, new(*Problem)) || t.db.Class(err) == db.Refused
}

// mayBeOfRow reports whether the error is about a row, or may be: the database has answered
// with an error that is known to be of a statement, or not known at all. A trigger can fail in
// every way.
func (t *Table) mayBeOfRow(err error) bool {
	class := t.db.Class(err)
	return t.isOfRow(err) || (class == db.Other || class == db.Denied) && t.db.IsServerError(err)
}

// errLosses says that too many rows have ended the transaction that they were written in.
var errEndedTransactions = errors.New("rows have ended their transaction")

// mostLosses is how often rowByRow begins anew: each time it writes all rows again.
const maxRestarts = 10

// rowByRow writes each row behind a savepoint, in one transaction, and sets the reasons of
// those that are not written.
func (t *Table) rowByRow(ctx context.Context, w *groupWrite, reasons []error) error {
	for range maxRestarts {
		lost := false
		err := t.inTx(ctx, w.undo, func(tx *sql.Tx) (err error) {
			for i := range reasons {
				if reasons[i] != nil {
					continue
				}
				if lost, err = t.writeOne(ctx, tx, w, i, &reasons[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || !lost || ctx.Err() != nil {
			return err
		}
	}
	return errEndedTransactions
}

// writeOne writes a row behind a savepoint, or undoes that and sets the reason. lost says
// that a trigger has ended the transaction, as RAISE(ROLLBACK) does: the others have to
// be written anew.
func (t *Table) writeOne(ctx context.Context, tx *sql.Tx, w *groupWrite, i int, reason *error) (lost bool, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return false, err
	}
	err = w.one(ctx, tx, i)
	if err != nil && !t.mayBeOfRow(err) {
		return false, err
	}
	*reason = err
	if err != nil {
		_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT one")
	}
	if err == nil { // else savepoints would lie one in the other
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT one")
	}
	lost = err != nil && *reason != nil && t.db.Class(err) == db.Other
	return lost, err
}

// rowsApart writes each row in a transaction of its own, but for those that have a reason
// already: some constraints speak up only when a transaction is committed.
func (t *Table) rowsApart(ctx context.Context, w *groupWrite, reasons []error) error {
	for i := range reasons {
		if reasons[i] != nil {
			continue
		}
		err := t.inTx(ctx, w.undo, func(tx *sql.Tx) error { return w.one(ctx, tx, i) })
		if err != nil && !t.mayBeOfRow(err) {
			return commitError{err} // rows before this one are written
		}
		reasons[i] = err
	}
	return nil
}

// refused returns the rows that have a reason for not being written. An error that may be
// about a row is about it where the database has taken another one, or understands the
// statement; else nothing is written, and it is the error of the whole.
func (t *Table) refused(ctx context.Context, w *groupWrite, reasons []error) (left []backlog.Unsettled, _ error) {
	var doubtful *backlog.Unsettled
	for i, reason := range reasons {
		if reason == nil {
			continue
		}
		left = append(left, backlog.Unsettled{Index: i, Err: reason})
		if doubtful == nil && !t.isOfRow(reason) {
			doubtful = &backlog.Unsettled{Index: i, Err: reason}
		}
	}
	if doubtful == nil || len(left) < w.rows {
		return left, nil
	}
	text, n := w.text(doubtful.Index)
	if t.db.Class(doubtful.Err) == db.Denied || text == "" || t.db.Plan(ctx, t.text.Rebind(text), n) != nil {
		return nil, doubtful.Err
	}
	return left, nil
}

// settleGroup writes a group of settlements within the time that a statement may take.
// Where a commit has broken, their records are marked as unsure.
func (t *Table) settleGroup(ctx context.Context, group []backlog.Settlement, w groupWrite) ([]backlog.Unsettled, error) {
	if len(group) == 0 {
		return nil, ctx.Err()
	}
	if len(group) > backlog.MaxGroup {
		return nil, fmt.Errorf("a group of %d outcomes, more than %d", len(group), backlog.MaxGroup)
	}
	return db.Get(ctx, t.db, func(ctx context.Context) ([]backlog.Unsettled, error) {
		left, err := t.writeGroup(ctx, w)
		broken := errors.As(err, new(commitError))
		for i := range group {
			if r := group[i].Record; broken || r.Unsure && err == nil && !w.undo {
				r.Unsure = broken
			}
		}
		return left, err
	})
}

// InTx calls f in a transaction that writes, and undoes what f has done when that
// returns an error or panics.
func (t *Table) InTx(ctx context.Context, f func(*sql.Tx) error) error {
	return t.inTx(ctx, false, f)
}

// inTx is InTx, which undoes what f has done in any case where undo says so.
func (t *Table) inTx(ctx context.Context, undo bool, f func(*sql.Tx) error) error {
	conn, err := t.db.Write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := t.db.Begin(ctx, conn)
	if err != nil {
		return err
	}
	defer tx.Rollback()     // after a panic, too, else the connection would wait for it for ever
	if t.catalog.Deferred { // what would object only at the end is to say so at the statement, which belongs to a row
		_, err = tx.ExecContext(ctx, t.text.CheckNow)
	}
	if err == nil {
		err = f(tx)
	}
	if err != nil {
		return err
	}
	if undo {
		return cmp.Or(tx.Rollback(), t.noteWarnings(ctx, conn))
	}
	if err = tx.Commit(); err != nil {
		err = commitError{err}
	}
	return err
}

// A commitError is an error of a commit. Where the connection broke, it is unknown
// whether what came before it is written.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// noteWarnings notes what the rollback before it has left behind.
func (t *Table) noteWarnings(ctx context.Context, conn *sql.Conn) error {
	if t.text.WarningsQuery == "" {
		return nil
	}
	rows, err := db.QueryRows(ctx, conn, t.text.WarningsQuery)
	for _, w := range rows {
		t.Notef("when a trial write was rolled back, the database said: %s", w["message"])
	}
	return err
}
