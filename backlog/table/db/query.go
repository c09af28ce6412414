package db

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
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
