package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog"
)

// A Server is a kind of database, or one database of that kind. The variable Dialect of a
// dialect's package only knows its kind; [Server.Open] returns a Server that is connected. All
// methods may be called concurrently.
type Server interface {
	// Text returns how the kind of database writes SQL.
	Text() *Text
	// Open opens the database at the URL, or the one that o.Existing leads to, and verifies
	// that it can be reached. What a person has to resolve is a *Problem.
	Open(ctx context.Context, url string, o Options) (*DB, error)
	// Catalog describes a table. If there is no such table, the catalog is of the kind Missing,
	// Unusable names the tables that exist, and Schema is where the table would be created.
	Catalog(ctx context.Context, q Querier, schema, name string) (*Catalog, error)
	// Guards returns the constraints and triggers that can refuse an UPDATE of the table, as
	// far as the user may see them. [Fault.Name] refers to one of them.
	Guards(ctx context.Context, q Querier, c *Catalog) ([]Guard, error)
	// Begin begins a transaction that writes.
	Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error)
	// WholeUpdate returns a statement that runs an UPDATE outside of a transaction, and fails
	// unless that writes as many rows as says an argument behind its own. It returns "" if
	// the server has no such statement, or if a write needs the settings of Begin.
	WholeUpdate(update string) string
	// MayWrite returns a *Problem if nothing can be written to the database. It changes
	// nothing.
	MayWrite(ctx context.Context, conn *sql.Conn) error
	// Value converts a value of the driver to what the column stores: nil, bool, int64,
	// float64, string or []byte. A nil column has an unknown type.
	Value(c *Column, v any) any
	// Classify returns what an error means that the database sent, or by which the driver says
	// in its own way that the connection is broken. For other errors it returns a zero Fault.
	Classify(err error) Fault
	// Lock acquires a lock of the table. If another process has it, Lock returns
	// backlog.ErrLocked, or a *backlog.Rival if that process has other marks.
	Lock(ctx context.Context, c *Catalog, l LockName) (backlog.Lock, error)
	// Rival compares the marks of the lock's holder with the marks of l.Work. It returns nil if they
	// agree, if there are no marks to compare, or if the lock is free.
	Rival(ctx context.Context, q Querier, c *Catalog, l LockName) (*backlog.Rival, error)
}

// A Querier runs queries: a pool or a connection.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ScanAll runs a query and returns what scan makes of each of its rows.
func ScanAll[T any](ctx context.Context, q Querier, query string, args []any, scan func(*sql.Rows) (T, error)) (list []T, err error) {
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

// QueryTexts runs a query and returns the first column of its rows.
func QueryTexts(ctx context.Context, q Querier, query string, args ...any) ([]string, error) {
	return ScanAll(ctx, q, query, args, func(rows *sql.Rows) (s string, err error) {
		err = rows.Scan(&s)
		return s, err
	})
}

// A Row is a row as texts, by the names of its columns in lower case. NULL is "".
type Row map[string]string

// Is reports whether the column says yes, in the way of any of the databases.
func (r Row) Is(column string) bool {
	return slices.Contains([]string{"1", "true", "YES", "ON"}, r[column])
}

// Int returns the column as a whole number, 0 if it is not one.
func (r Row) Int(column string) int {
	n, _ := strconv.Atoi(r[column])
	return n
}

// QueryRows runs a query and returns its rows.
func QueryRows(ctx context.Context, q Querier, query string, args ...any) ([]Row, error) {
	return ScanAll(ctx, q, query, args, func(rows *sql.Rows) (Row, error) {
		names, _ := rows.Columns() // fails only if the rows are closed, which ScanValues reports
		values, err := ScanValues(rows, len(names))
		row := make(Row)
		for i, name := range names {
			row[strings.ToLower(name)] = AsText(values[i])
		}
		return row, err
	})
}

// QueryOne runs a query and scans its only row into to. If there is no row, to is unchanged.
func (db *DB) QueryOne(ctx context.Context, text string, args []any, to ...any) error {
	return db.Do(ctx, func(ctx context.Context) error {
		return OneRow(ctx, db.Read, db.Text().Rebind(text), args...).Scan(to...)
	})
}

// QueryScan runs a query and returns what scan makes of each of its rows.
func QueryScan[T any](ctx context.Context, db *DB, text string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	return Get(ctx, db, func(ctx context.Context) ([]T, error) {
		return ScanAll(ctx, db.Read, db.Text().Rebind(text), args, scan)
	})
}

// ScanValues scans the next n values of a row and returns them. It scans further ones into rest.
func ScanValues(rows scanner, n int, rest ...any) ([]any, error) {
	return scanN[any](rows, n, rest...)
}

// A scanner is a row that can be read: of [OneRow], or an *sql.Row or *sql.Rows.
type scanner interface{ Scan(to ...any) error }

// A oneRow is the only row of a query.
type oneRow struct {
	ctx  context.Context
	q    Querier
	text string
	args []any
}

// OneRow returns the only row of a query, which is run when the row is scanned. Unlike an *sql.Row, it
// reads the whole answer before it closes it: the driver of MySQL closes rows without regard to ctx, and
// would wait for ever for the end of an answer on a connection that has fallen silent.
func OneRow(ctx context.Context, q Querier, text string, args ...any) interface{ Scan(to ...any) error } {
	return oneRow{ctx, q, text, args}
}

// Scan implements scanner.
func (r oneRow) Scan(to ...any) error {
	rows, err := r.q.QueryContext(r.ctx, r.text, r.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(to...); err != nil {
		return err
	}
	rows.Next() // reads the end of the answer
	return cmp.Or(rows.Err(), rows.Close())
}

// scanN is [ScanValues] for values of one type.
func scanN[T any](rows scanner, n int, rest ...any) ([]T, error) {
	row := make([]T, n)
	to := make([]any, n, n+len(rest))
	for i := range row {
		to[i] = &row[i]
	}
	return row, rows.Scan(append(to, rest...)...)
}

// QueryValues runs a query and returns n values of each of its rows, as the driver reads them.
func QueryValues(ctx context.Context, db *DB, text string, args []any, n int) ([][]any, error) {
	return QueryScan(ctx, db, text, args, func(rows *sql.Rows) ([]any, error) { return ScanValues(rows, n) })
}

// Prefixed returns s with the prefix, or "" if s is empty.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// AsText returns a driver's value as text; NULL is "".
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

// AsCount returns the value of a column that counts failures; NULL is 0.
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

// Affected returns how many rows a statement affected.
func Affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
