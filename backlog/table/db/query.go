package db

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
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

// Values returns n values of each row of a query, as the driver has them.
func Values(ctx context.Context, db *DB, text string, args []any, n int) ([][]any, error) {
	return Each(ctx, db, text, args, func(rows *sql.Rows) ([]any, error) { return ScanValues(rows, n) })
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
	}
	if f, ok := ParseDecimal(AsText(raw)); ok && f == float64(int(f)) {
		return int(f), nil
	}
	return 0, fmt.Errorf("%v is not a number of failures", raw)
}

// Statements are statements that are run again and again on a pool. They may be used
// concurrently.
type Statements struct {
	Plain bool // nothing is to be prepared: the driver does, or must not

	list sync.Map // of *sql.Stmt, by their texts
}

// Prepare prepares the statement, in which the places of arguments are marked as the database
// does, unless it is. It may wait for a connection.
func (c *Statements) Prepare(ctx context.Context, pool *sql.DB, text string) error {
	if _, ok := c.list.Load(text); ok || c.Plain {
		return nil
	}
	stmt, err := pool.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	if _, raced := c.list.LoadOrStore(text, stmt); raced {
		stmt.Close()
	}
	return nil
}

// Query runs the statement, prepared, on the pool.
func (c *Statements) Query(ctx context.Context, pool *sql.DB, text string, args []any) (*sql.Rows, error) {
	if err := c.Prepare(ctx, pool, text); err != nil {
		return nil, err
	}
	if stmt, ok := c.list.Load(text); ok {
		return stmt.(*sql.Stmt).QueryContext(ctx, args...)
	}
	return pool.QueryContext(ctx, text, args...)
}

// QueryRow runs the statement in a transaction, as it was prepared if it was.
func (c *Statements) QueryRow(ctx context.Context, tx *sql.Tx, text string, args []any) *sql.Row {
	if stmt, ok := c.list.Load(text); ok {
		return tx.StmtContext(ctx, stmt.(*sql.Stmt)).QueryRowContext(ctx, args...)
	}
	return tx.QueryRowContext(ctx, text, args...)
}

// Exec likewise returns how many rows the statement has affected.
func (c *Statements) Exec(ctx context.Context, tx *sql.Tx, text string, args []any) (int64, error) {
	if stmt, ok := c.list.Load(text); ok {
		return Affected(tx.StmtContext(ctx, stmt.(*sql.Stmt)).ExecContext(ctx, args...))
	}
	return Affected(tx.ExecContext(ctx, text, args...))
}

// Affected returns how many rows a statement has affected.
func Affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
