package db

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backlog/backlog"
)

// A Server is one database of a kind. The zero one of a dialect's package only
// knows its kind; Open returns one with a connection. All methods may be called
// concurrently.
type Server interface {
	// Text is how the kind writes SQL.
	Text() *Text
	// Open returns the database that the URL names, or to which the program's own
	// connections lead, which it has reached. What a person has to mend is a *Problem.
	Open(ctx context.Context, url string, o Options) (*DB, error)
	// Catalog reads what the database knows. A table that is not there is of the
	// kind Missing, and Wrong says what is; the schema is where it would be made.
	Catalog(ctx context.Context, q Querier, schema, name string) (*Catalog, error)
	// Guards reads the constraints and triggers of the table that judge an UPDATE, as far
	// as the user may see them. [Fault.Name] names one of them.
	Guards(ctx context.Context, q Querier, c *Catalog) ([]Guard, error)
	// Begin begins a transaction that writes.
	Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error)
	// MayWrite is a *Problem if nothing can be written to the database. It changes
	// nothing.
	MayWrite(ctx context.Context, conn *sql.Conn) error
	// Value returns what the driver has read from the column as it is stored:
	// nil, bool, int64, float64, string or []byte. A nil column is of no known
	// type.
	Value(c *Column, v any) any
	// Error says what the database has said by an error, or what the driver alone calls
	// a broken connection. A zero Fault leaves the error to DB.
	Error(err error) Fault
	// Lock takes the lock of the table, or returns backlog.ErrLocked: a
	// *backlog.Rival if its holder has other marks.
	Lock(ctx context.Context, c *Catalog, l LockName) (backlog.Lock, error)
	// Rival compares the marks with those of who holds the lock. It is nil where nobody
	// does, or without marks.
	Rival(ctx context.Context, q Querier, c *Catalog, l LockName) (*backlog.Rival, error)
}

// A Querier is a pool or one connection.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Scanned returns what scan makes of the rows of a query.
func Scanned[T any](ctx context.Context, q Querier, query string, args []any, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// Texts returns the first column of a query's rows.
func Texts(ctx context.Context, q Querier, query string, args ...any) ([]string, error) {
	return Scanned(ctx, q, query, args, func(rows *sql.Rows) (s string, err error) {
		err = rows.Scan(&s)
		return s, err
	})
}

// A Row is a row as text, by the names of its columns in small letters.
type Row map[string]string

// Is reports whether the column says yes.
func (r Row) Is(column string) bool {
	return slices.Contains([]string{"1", "true", "YES", "ON"}, r[column])
}

// Int returns the column's whole number, 0 if it has none.
func (r Row) Int(column string) int {
	n, _ := strconv.Atoi(r[column])
	return n
}

// Rows returns the rows of a query.
func Rows(ctx context.Context, q Querier, query string, args ...any) ([]Row, error) {
	return Scanned(ctx, q, query, args, func(rows *sql.Rows) (Row, error) {
		names, _ := rows.Columns() // of rows that are closed it has none, and Scan says why
		values, err := ScanValues(rows, len(names))
		row := make(Row)
		for i, name := range names {
			row[strings.ToLower(name)] = AsText(values[i])
		}
		return row, err
	})
}

// One reads the only row of a query; where there is none, to stays as it is.
func (db *DB) One(ctx context.Context, text string, args []any, to ...any) error {
	return db.Within(ctx, func(ctx context.Context) error {
		return db.Read.QueryRowContext(ctx, db.Text().Place(text), args...).Scan(to...)
	})
}

// Each returns what scan makes of the rows of a query.
func Each[T any](ctx context.Context, db *DB, text string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	return Get(ctx, db, func(ctx context.Context) ([]T, error) {
		return Scanned(ctx, db.Read, db.Text().Place(text), args, scan)
	})
}

// ScanValues reads n values of a row, with what else is to be read behind them.
func ScanValues(rows scanner, n int, rest ...any) ([]any, error) {
	return scanEach[any](rows, n, rest...)
}

// A scanner is one row, or the rows of a query.
type scanner interface{ Scan(to ...any) error }

// scanEach is [ScanValues] for values of one type.
func scanEach[T any](rows scanner, n int, rest ...any) ([]T, error) {
	row := make([]T, n)
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

// Mapped returns what f makes of each.
func Mapped[From, To any](list []From, f func(From) To) []To {
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// NonEmpty returns the texts that are not empty.
func NonEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// Prefixed returns the text behind the prefix, "" if it is empty.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
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
