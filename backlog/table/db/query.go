package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// One reads the only row of a query; where there is none, to stays as it is.
func (db *DB) One(ctx context.Context, text string, args []any, to ...any) error {
	return db.Within(ctx, func(ctx context.Context) error {
		return db.Read.QueryRowContext(ctx, db.Text().Place(text), args...).Scan(to...)
	})
}

// Each returns what scan makes of the rows of a query.
func Each[T any](ctx context.Context, db *DB, text string, args []any, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	err = db.Within(ctx, func(ctx context.Context) (err error) {
		list, err = Scanned(ctx, db.Read, db.Text().Place(text), args, scan)
		return err
	})
	return list, err
}

// ScanValues reads n values of a row, with what else is to be read behind them.
func ScanValues(rows interface{ Scan(to ...any) error }, n int, rest ...any) ([]any, error) {
	row := make([]any, n)
	to := make([]any, n, n+len(rest))
	for i := range row {
		to[i] = &row[i]
	}
	return row, rows.Scan(append(to, rest...)...)
}

// Distinct returns the first of each.
func Distinct(list []string) (once []string) {
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// AsText returns a value as text; NULL is "".
func AsText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}

// AsCount returns a number of failures; NULL is none.
func AsCount(raw any) (int, error) {
	switch v := raw.(type) {
	case nil:
		return 0, nil
	case int64:
		return int(v), nil
	case float64:
		if v == float64(int64(v)) {
			return int(v), nil
		}
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%v is not a number of failures", raw)
}

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
