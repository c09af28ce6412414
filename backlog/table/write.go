package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// A groupWrite says how [Table.writeGroup] writes a group of rows. If one of its functions
// fails, the transaction is rolled back.
type groupWrite struct {
	rows int // their number

	// prepare is called before the transaction begins, since a transaction may take the only
	// connection. It reports whether there is anything to write. Nil: there is.
	prepare func(context.Context) (bool, error)

	// whole writes all rows. It returns [backlog.ErrConflict] if one of them is not as it was
	// read.
	whole func(context.Context, *sql.Tx) error

	// writeRow writes the row with the index. It returns [backlog.ErrConflict] if the row is not
	// as it was read, and a *Problem if the database undoes the write.
	writeRow func(context.Context, *sql.Tx, int) error

	// single returns the statement that writes all rows, if one does and may do so outside of a
	// transaction. It is called after prepare. Nil: none does.
	single func() *batchUpdate

	// text returns the statement that writes the row with the index, and the number of its
	// arguments. It returns "" if the statement depends on what the row has.
	text func(int) (string, int)

	// spares reports whether the engine can do without the row with the index, so that its refusal is
	// never an error of the whole group. Nil: it can do without none.
	spares func(int) bool

	undo bool // roll back at the end: it is a trial
}

// writeGroup writes a group of rows in one transaction, or by one statement that is one. It
// returns the rows that were not written: with [backlog.ErrConflict] if they are not as they were
// read, otherwise with the error by which the database refuses them. After an error nothing is
// written, except that this is unknown after a commitError.
//
// First the group is written as a whole. If that fails, each row is written after a savepoint,
// to find out which rows the database refuses.
func (t *Table) writeGroup(ctx context.Context, w groupWrite) ([]backlog.Unsettled, error) {
	err := t.writeWhole(ctx, &w)
	if !t.mayBeRowError(err) {
		return nil, err
	}
	var unwritten []backlog.Unsettled
	for range 2 { // what was wrong with the statement may be mended before it is planned
		reasons, err := t.writeRows(ctx, &w)
		if err != nil {
			return nil, err
		}
		var doubtful *backlog.Unsettled
		unwritten, doubtful = t.refused(&w, reasons)
		if doubtful == nil {
			break
		}
		text, n := w.text(doubtful.Index)
		if text == "" || t.db.Plan(ctx, t.text.Rebind(text), n) != nil {
			return nil, doubtful.Err
		}
	}
	return unwritten, nil
}

// writeRows writes each row by itself, and returns the reasons of those that are not written.
func (t *Table) writeRows(ctx context.Context, w *groupWrite) (reasons []error, err error) {
	reasons = make([]error, w.rows)
	err = t.writeWithSavepoints(ctx, w, reasons)
	endedTooOften := err == errEndedTransactions
	failedAtCommit := errors.As(err, new(commitError)) && t.mayBeRowError(err)
	if endedTooOften || failedAtCommit {
		err = t.writeOneByOne(ctx, w, reasons)
	}
	if err == nil && slices.Contains(reasons, nil) {
		err = t.writeDoubtful(ctx, w, reasons)
	}
	return reasons, err
}

// writeDoubtful writes the rows that were refused for a doubtful reason once more, in transactions of
// their own. The database has accepted another row, perhaps because what was wrong was mended in between.
func (t *Table) writeDoubtful(ctx context.Context, w *groupWrite, reasons []error) error {
	for i, reason := range reasons {
		if !t.isDoubtful(w, i, reason) {
			continue
		}
		if err := t.writeAlone(ctx, w, i, &reasons[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeWhole writes all rows of the group, or none.
func (t *Table) writeWhole(ctx context.Context, w *groupWrite) error {
	if w.prepare != nil {
		isNeeded, err := w.prepare(ctx)
		if err != nil || !isNeeded {
			return err
		}
	}
	if w.single != nil && !w.undo {
		if x := w.single(); x != nil {
			if text := t.db.WholeUpdate(x.text); text != "" {
				return t.writeSingle(ctx, text, x)
			}
		}
	}
	return t.inTx(ctx, w.undo, func(tx *sql.Tx) error { return w.whole(ctx, tx) })
}

// writeSingle writes all rows of the batch by the statement of [db.Server.WholeUpdate], which
// saves two round trips to the server. The database refuses it if one of the rows is not as it
// was read.
func (t *Table) writeSingle(ctx context.Context, text string, x *batchUpdate) error {
	conn, err := t.db.Write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, t.text.Rebind(text), append(x.args, len(x.rows))...)
	if err != nil && !t.db.IsServerError(err) { // the connection may have broken after the commit
		err = commitError{err}
	}
	return err
}

// isRowError reports whether the error is about one row, so that other rows can be written.
func (t *Table) isRowError(err error) bool {
	return errors.Is(err, backlog.ErrConflict) || errors.As(err, new(*Problem)) || t.db.Class(err) == db.Refused
}

// mayBeRowError reports whether the error can be about one row. This includes errors of the
// database that have no known class, and denials: a trigger can fail with any error.
func (t *Table) mayBeRowError(err error) bool {
	if t.isRowError(err) {
		return true
	}
	class := t.db.Class(err)
	return (class == db.Other || class == db.Denied) && t.db.IsServerError(err)
}

// errEndedTransactions means that too many rows have ended the transaction that wrote them.
var errEndedTransactions = errors.New("rows have ended their transaction")

// maxRestarts limits how often writeWithSavepoints begins anew. Each time it writes all rows again.
const maxRestarts = 10

// writeWithSavepoints writes each row after a savepoint, in one transaction. It sets reasons[i] if
// the i-th row is not written, and skips rows that have a reason already.
func (t *Table) writeWithSavepoints(ctx context.Context, w *groupWrite, reasons []error) error {
	for range maxRestarts {
		ended := false
		err := t.inTx(ctx, w.undo, func(tx *sql.Tx) (err error) {
			for i := range reasons {
				alreadyRefused := reasons[i] != nil
				if alreadyRefused {
					continue
				}
				ended, err = t.writeAfterSavepoint(ctx, tx, w, i, &reasons[i])
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || !ended || ctx.Err() != nil {
			return err
		}
	}
	return errEndedTransactions
}

// writeAfterSavepoint writes the i-th row after a savepoint. If the row is refused, it rolls back to
// the savepoint and sets the reason. ended reports that a trigger has ended the transaction, as
// RAISE(ROLLBACK) does, so that the other rows must be written anew.
func (t *Table) writeAfterSavepoint(
	ctx context.Context, tx *sql.Tx, w *groupWrite, i int, reason *error,
) (ended bool, err error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return false, err
	}
	err = w.writeRow(ctx, tx, i)
	if err != nil && !t.mayBeRowError(err) {
		return false, err
	}
	*reason = err
	if err != nil {
		_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT one")
	}
	if err == nil { // so that savepoints do not nest
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT one")
	}
	ended = err != nil && *reason != nil && t.db.Class(err) == db.Other
	return ended, err
}

// writeOneByOne writes each row in a transaction of its own, since some constraints are checked
// only at the commit. It sets reasons[i] if the i-th row is not written, and skips rows that have a
// reason already.
func (t *Table) writeOneByOne(ctx context.Context, w *groupWrite, reasons []error) error {
	for i := range reasons {
		alreadyRefused := reasons[i] != nil
		if alreadyRefused {
			continue
		}
		if err := t.writeAlone(ctx, w, i, &reasons[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeAlone writes the i-th row in a transaction of its own, and sets the reason: nil if the row is
// written. It returns an error that is about no row.
func (t *Table) writeAlone(ctx context.Context, w *groupWrite, i int, reason *error) error {
	err := t.inTx(ctx, w.undo, func(tx *sql.Tx) error { return w.writeRow(ctx, tx, i) })
	if err != nil && !t.mayBeRowError(err) {
		return commitError{err} // other rows are written
	}
	*reason = err
	return nil
}

// isDoubtful reports whether the reason for which the i-th row is not written may be about the row or
// about the statement.
func (t *Table) isDoubtful(w *groupWrite, i int, reason error) bool {
	isSpared := w.spares != nil && w.spares(i)
	return reason != nil && !t.isRowError(reason) && !isSpared
}

// refused returns the rows that have a reason for not being written, and one of them if the
// reason is doubtful. A doubtful reason is about the row if the database has accepted another
// row, or if it can plan the statement. Otherwise it is the error of the whole group.
func (t *Table) refused(w *groupWrite, reasons []error) (unwritten []backlog.Unsettled, doubtful *backlog.Unsettled) {
	for i, reason := range reasons {
		if reason == nil {
			continue
		}
		unwritten = append(unwritten, backlog.Unsettled{Index: i, Err: reason})
		if doubtful == nil && t.isDoubtful(w, i, reason) {
			doubtful = &backlog.Unsettled{Index: i, Err: reason}
		}
	}
	if len(unwritten) < w.rows {
		doubtful = nil
	}
	return unwritten, doubtful
}

// settleGroup writes a group of settlements, within the time limit of a statement. It marks
// their records as unsure if the commit fails, and as sure after a later success.
func (t *Table) settleGroup(
	ctx context.Context, group []backlog.Settlement, w groupWrite,
) ([]backlog.Unsettled, error) {
	if len(group) == 0 {
		return nil, ctx.Err()
	}
	if len(group) > backlog.MaxGroup {
		return nil, fmt.Errorf("a group of %d outcomes, more than %d", len(group), backlog.MaxGroup)
	}
	return db.Get(ctx, t.db, func(ctx context.Context) ([]backlog.Unsettled, error) {
		unsettled, err := t.writeGroup(ctx, w)
		isUnknown := errors.As(err, new(commitError))
		isCertain := err == nil && !w.undo
		for i := range group {
			r := group[i].Record
			switch {
			case isUnknown:
				r.Unsure = true
			case r.Unsure && isCertain:
				r.Unsure = false
			}
		}
		return unsettled, err
	})
}

// InTx calls f in a transaction that writes, and commits. It rolls back if f returns an error
// or panics.
func (t *Table) InTx(ctx context.Context, f func(*sql.Tx) error) error {
	return t.inTx(ctx, false, f)
}

// inTx is [Table.InTx], which always rolls back if undo is set.
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
	defer tx.Rollback()        // after a panic, too: otherwise the connection would never be released
	if t.catalog.HasDeferred { // an error at the statement belongs to a row, one at the commit does not
		_, err = tx.ExecContext(ctx, t.text.CheckConstraintsNow)
	}
	if err == nil {
		err = f(tx)
	}
	if err != nil {
		return err
	}
	if undo {
		if err := tx.Rollback(); err != nil {
			return err
		}
		return t.noteWarnings(ctx, conn) // of MySQL, about what the rollback left behind
	}
	if err = tx.Commit(); err != nil {
		err = commitError{err}
	}
	return err
}

// A commitError is an error of a commit. If the connection broke, it is unknown whether the
// transaction was committed.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// noteWarnings notes what the database warns of after the rollback of a trial.
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
