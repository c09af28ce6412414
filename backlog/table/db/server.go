package db

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

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
	// Begin begins a transaction that writes.
	Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error)
	// MayWrite is a *Problem if nothing can be written to the database. It changes
	// nothing.
	MayWrite(ctx context.Context, pool *sql.DB) error
	// Value returns what the driver has read from the column as it is stored:
	// nil, bool, int64, float64, string or []byte. A nil column is of no known
	// type.
	Value(c *Column, v any) any
	// Error says what the database has said by an error, or what the driver alone calls
	// a broken connection. A zero Fault leaves the error to DB.
	Error(err error) Fault
	// Lock takes the named lock of the table, or returns backlog.ErrLocked.
	Lock(ctx context.Context, c *Catalog, name string) (backlog.Lock, error)
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
		names, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		values, err := ScanValues(rows, len(names))
		row := make(Row)
		for i, name := range names {
			row[strings.ToLower(name)] = AsText(values[i])
		}
		return row, err
	})
}
