package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"backlog/backlog"
)

// An undoneError says that a row is as it was, though the database has taken
// the statement that writes its outcome.
type undoneError struct {
	problem *Problem
	all     bool // it is no matter of the row
}

func (e *undoneError) Error() string { return e.problem.Error() }
func (e *undoneError) Unwrap() error { return e.problem }

// IsUndone reports whether the error, for which an outcome was not written, says
// that none would be: what is written to the table is undone. Whatever record
// were handed out would be handled again and again.
func IsUndone(err error) bool {
	e := (*undoneError)(nil)
	return errors.As(err, &e) && e.all
}

// undone is the error for a row of the batch that is still as it was read.
func (t *Table) undone(b batch) error {
	by := "a trigger or a rule of the database"
	if len(t.catalog.triggers) > 0 {
		by = "a trigger: " + strings.Join(t.catalog.triggers, ", ")
	}
	return &undoneError{problem: &Problem{
		What: fmt.Sprintf("%s is undone: a row of table %s is as it was after it was written, which is the work of %s", settings[b.outcome], t.m.Name, by),
		Cure: "change that, then restart or reload: records would be handled again and again",
	}}
}

// maxUndone is how many rows one after the other must have been left as they
// were to say so of the table, where others have kept what was written.
const maxUndone = 10

// judge tells from the rows so far whether those of the group that are left as
// they were are no exceptions.
func (t *Table) judge(refused map[int]error, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range n {
		e := (*undoneError)(nil)
		switch err := refused[i]; {
		case err == nil:
			t.keeps, t.undoneRows = true, 0
		case errors.As(err, &e):
			t.undoneRows++
			e.all = !t.keeps || t.undoneRows >= maxUndone
		}
	}
}

// confirm returns the error for a row of which the update of its outcome has
// found n.
func (t *Table) confirm(ctx context.Context, tx *sql.Tx, s *backlog.Settlement, n int64) error {
	w := work{batch: t.batchOf(s), rows: []*backlog.Settlement{s}}
	switch {
	case n > 1:
		return fmt.Errorf("table %s has %d rows with the key %v: nothing was written", t.m.Name, n, s.Record.Key)
	case n == 1:
		return t.kept(ctx, tx, w, n)
	}
	if ours, err := t.written(ctx, tx, s); ours || err != nil {
		return err
	}
	if before, err := t.asBefore(ctx, tx, w); err != nil {
		return err
	} else if before == 0 {
		return backlog.ErrConflict
	}
	// Somebody else may have put it back just now.
	n, err := t.settleRow(ctx, tx, s)
	if n == 0 && err == nil {
		return t.undone(w.batch)
	}
	return err
}

// kept returns an error if the row is as it was after it was written, or was not
// found to be written.
func (t *Table) kept(ctx context.Context, tx *sql.Tx, w work, found int64) (err error) {
	var stays bool
	if found > 0 {
		stays, err = t.stays(ctx, tx, w)
	} else {
		var n int
		n, err = t.asBefore(ctx, tx, w)
		stays = n > 0
	}
	if err == nil && stays {
		err = t.undone(w.batch)
	}
	return err
}

// leaves reports whether rows of the batch are not pending any more when it is
// written.
func (t *Table) leaves(b batch) bool {
	ends := b.outcome == backlog.Succeeded || b.outcome == backlog.Rejected && t.HasDead()
	return ends && !t.holds(b.state, t.actions[b.outcome])
}

// stays reports, where a trigger could see to it, whether any of the rows of a
// batch that has just been written is still in the state that was read.
func (t *Table) stays(ctx context.Context, tx *sql.Tx, w work) (bool, error) {
	if len(t.catalog.triggers) == 0 || !t.leaves(w.batch) {
		return false, nil
	}
	b := w.batch
	b.outcome = backlog.Succeeded // of which no number of failures is a part
	n, err := t.asBefore(ctx, tx, work{b, w.rows})
	return n > 0, err
}

// asBefore returns how many rows are as they were read.
func (t *Table) asBefore(ctx context.Context, tx *sql.Tx, w work) (n int, err error) {
	var args []any
	places := roundUp(len(w.rows))
	for i := range places {
		args = bind(args, w.rows[min(i, len(w.rows)-1)].Record.Key)
	}
	text := t.d.place("SELECT count(*) FROM " + t.name + " WHERE " + t.asRead(w.batch, places))
	err = tx.QueryRowContext(ctx, text, append(args, t.readArgs(w.batch)...)...).Scan(&n)
	return n, err
}
