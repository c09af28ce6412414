package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// A Statement is one that is run again and again.
type Statement struct {
	text     string
	prepared *sql.Stmt // nil where the driver itself prepares what comes again
}

func (s *Statement) Query(ctx context.Context, pool *sql.DB, args []any) (*sql.Rows, error) {
	if s.prepared == nil {
		return pool.QueryContext(ctx, s.text, args...)
	}
	return s.prepared.QueryContext(ctx, args...)
}

func (s *Statement) Exec(ctx context.Context, tx *sql.Tx, args []any) (sql.Result, error) {
	if s.prepared == nil {
		return tx.ExecContext(ctx, s.text, args...)
	}
	return tx.StmtContext(ctx, s.prepared).ExecContext(ctx, args...)
}

func (s *Statement) QueryRow(ctx context.Context, tx *sql.Tx, args []any) *sql.Row {
	if s.prepared == nil {
		return tx.QueryRowContext(ctx, s.text, args...)
	}
	return tx.StmtContext(ctx, s.prepared).QueryRowContext(ctx, args...)
}

// Statements are the prepared statements of a pool, by their texts. They may be
// used concurrently.
type Statements struct {
	Plain bool // nothing is to be prepared: the driver does, or must not

	list sync.Map // of *Statement, by their texts
}

// Prepare returns the statement for the text, in which the places of arguments
// are marked as the database does. It may wait for a connection.
func (c *Statements) Prepare(ctx context.Context, pool *sql.DB, text string) (*Statement, error) {
	if have, ok := c.list.Load(text); ok {
		return have.(*Statement), nil
	}
	s := &Statement{text: text}
	if !c.Plain {
		var err error
		if s.prepared, err = pool.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	have, raced := c.list.LoadOrStore(text, s)
	if raced && s.prepared != nil {
		s.prepared.Close()
	}
	return have.(*Statement), nil
}

// Close lets go of all statements.
func (c *Statements) Close() error {
	var errs []error
	for _, s := range c.list.Range {
		if stmt := s.(*Statement).prepared; stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	c.list.Clear()
	return errors.Join(errs...)
}

// Affected returns how many rows a statement has affected.
func Affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
