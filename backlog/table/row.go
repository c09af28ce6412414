package table

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
)

// scanRow reads the columns of the selection as they are stored.
func (t *Table) scanRow(rows *sql.Rows) ([]any, error) {
	row := make([]any, len(t.sel.exprs))
	to := make([]any, len(row))
	for i := range row {
		to[i] = &row[i]
	}
	if err := rows.Scan(to...); err != nil {
		return nil, err
	}
	for i, v := range row {
		row[i] = t.value(i, v)
	}
	return row, nil
}

// rowsByKey returns the next rows that meet the conditions, at most MaxGroup, in
// the order of the keys, behind the last one. An index of the conditions is of
// no use to it: each page would sort all that meets them.
func (t *Table) rowsByKey(ctx context.Context, conds []string, args []any, last backlog.Key) (list [][]any, err error) {
	cond := t.d.guard(strings.Join(conds, " AND "))
	if !last.IsZero() {
		c, a := keyRange(">", t.key, last)
		cond, args = cond+" AND "+c, slices.Concat(args, a)
	}
	rows, err := t.db.read.QueryContext(ctx, t.d.place(fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d",
		t.sel.aliased(), t.name, cond, strings.Join(t.key, ", "), backlog.MaxGroup)), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := t.scanRow(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// recordOf makes a record of a row in the branch that no page is made of. What
// cannot be read of its times is zero.
func (t *Table) recordOf(row []any, branch int) backlog.Record {
	rec := backlog.Record{Key: t.keyOf(row), State: branch, Lane: t.branches[branch].lane, Status: t.branches[branch].label, Names: t.sel.names}
	if t.sel.status >= 0 {
		rec.Status = asText(row[t.sel.status])
	}
	if f, raw := t.inserted.known(), row[t.sel.inserted]; f != nil && raw != nil && !isZeroDate(raw) {
		if at, err := f.parse(raw); err == nil {
			rec.Inserted = at
		}
	}
	if t.retry != nil {
		rec.Retry, _ = t.retry.read(row)
	}
	t.setValues(&rec, row)
	return rec
}

// keyOf returns the key of a row.
func (t *Table) keyOf(row []any) backlog.Key {
	if len(t.sel.key) == 1 {
		return backlog.NewKey(row[t.sel.key[0]])
	}
	parts := make([]any, len(t.sel.key))
	for i, at := range t.sel.key {
		parts[i] = row[at]
	}
	return backlog.NewKey(parts...)
}

// bind adds the parts of the key to the arguments of a statement.
func bind(args []any, k backlog.Key) []any {
	for i := range k.Len() {
		args = append(args, k.Part(i))
	}
	return args
}

// setValues gives the record what handlers see of the row, which it keeps.
func (t *Table) setValues(rec *backlog.Record, row []any) {
	rec.Values = row[:len(t.columns)]
	for i, c := range t.columns {
		row[i] = c.forHandler(row[i])
	}
}
