package table

import (
	"context"
	"database/sql"
	"errors"
)

// A statement is one that is run again and again.
type statement struct {
	text     string
	prepared *sql.Stmt // nil where the driver itself prepares what comes again
}

func (s *statement) query(ctx context.Context, db *sql.DB, args []any) (*sql.Rows, error) {
	if s.prepared == nil {
		return db.QueryContext(ctx, s.text, args...)
	}
	return s.prepared.QueryContext(ctx, args...)
}

func (s *statement) exec(ctx context.Context, tx *sql.Tx, args []any) (sql.Result, error) {
	if s.prepared == nil {
		return tx.ExecContext(ctx, s.text, args...)
	}
	return tx.StmtContext(ctx, s.prepared).ExecContext(ctx, args...)
}

func (s *statement) queryRow(ctx context.Context, tx *sql.Tx, args []any) *sql.Row {
	if s.prepared == nil {
		return tx.QueryRowContext(ctx, s.text, args...)
	}
	return tx.StmtContext(ctx, s.prepared).QueryRowContext(ctx, args...)
}

func (s *statement) close() error {
	if s.prepared == nil {
		return nil
	}
	return s.prepared.Close()
}

// prepare returns the statement for the text, in which the places of arguments
// are marked as the database does, on db. It may wait for a connection, and so
// must not hold the lock meanwhile.
func (t *Table) prepare(ctx context.Context, db *sql.DB, text string) (*statement, error) {
	t.mu.Lock()
	have := t.statements[text]
	t.mu.Unlock()
	if have != nil {
		return have, nil
	}
	s := &statement{text: text}
	if t.d.prepares() {
		var err error
		if s.prepared, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	have = t.statements[text]
	if have == nil {
		t.statements[text] = s
	}
	t.mu.Unlock()
	if have != nil { // somebody else was as quick
		s.close()
		return have, nil
	}
	return s, nil
}

// preparable returns the error for which the statement cannot be prepared.
func preparable(ctx context.Context, db interface {
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}, text string) error {
	stmt, err := db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	return stmt.Close()
}

// Close lets go of the statements that the table has prepared; the database, or
// the pool that [Use] was given, stays open. Only a program that makes tables
// again and again from one pool needs it. Nothing must use the table at the time
// or afterwards.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, s := range t.statements {
		errs = append(errs, s.close())
	}
	clear(t.statements)
	if t.db.lent {
		errs = append(errs, t.db.Close())
	}
	return errors.Join(errs...)
}
