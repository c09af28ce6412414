package table

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// trialRows is how many rows of each state the writes are tried on. A CHECK
// can depend on other columns: one row that refuses is not every row.
const trialRows = 3

// try builds the table anew in memory, copies a few rows and does there what
// settlements would do here. That finds what no catalogue tells: a CHECK that
// refuses a status, a strict type.
func (d sqlite) try(ctx context.Context, db *sql.DB, t *Table, writes []trialWrite) error {
	var create string
	if err := db.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", t.m.Name).Scan(&create); err != nil {
		return err
	}
	lab, err := sql.Open(sqliteDriver, ":memory:")
	if err != nil {
		return err
	}
	defer lab.Close()
	lab.SetMaxOpenConns(1)
	if _, err := lab.ExecContext(ctx, create); err != nil {
		t.note("whether %s takes the statuses could not be tried on a copy: %v", t.m.Name, err)
		return nil
	}
	for _, w := range writes {
		if err := d.tryOne(ctx, db, lab, t, w); err != nil {
			return err
		}
	}
	return nil
}

// tryOne fails if no row takes the write, and notes it if some do not.
func (d sqlite) tryOne(ctx context.Context, db, lab *sql.DB, t *Table, w trialWrite) error {
	rows, err := d.copyRows(ctx, db, t, w.cond)
	if err != nil {
		return err
	}
	w.inState = true
	if len(rows) == 0 {
		if _, _, err := d.tryRows(ctx, lab, t, w, d.madeUp(t, w)); err != nil {
			return err
		}
	}
	refused, reason, err := d.tryRows(ctx, lab, t, w, rows)
	if err != nil || refused == 0 && len(rows) > 0 {
		return err
	}
	if refused == len(rows) {
		// Others tell whether it is the rows or the state.
		others, err := d.copyRows(ctx, db, t, "("+w.cond+") IS NOT TRUE")
		if err != nil {
			return err
		}
		real := len(rows) + len(others)
		w.inState = false
		if real == 0 {
			others = d.madeUp(t, w)
		}
		n, first, err := d.tryRows(ctx, lab, t, w, others)
		if err != nil {
			return err
		}
		if reason == nil {
			reason = first
		}
		switch {
		case n == len(others) && reason != nil:
			return problem("change it to one that the table takes", "%s: table %s does not take %s: %v", w.setting, t.m.Name, w.set, reason)
		case refused == 0:
			return nil // it is for no row yet
		}
	}
	t.note("%s: some rows of %s do not take %s: %v", w.setting, t.m.Name, w.set, reason)
	return nil
}

// tryRows returns how many of the rows refuse the write, and the first reason.
func (d sqlite) tryRows(ctx context.Context, lab *sql.DB, t *Table, w trialWrite, rows [][]any) (refused int, reason, err error) {
	for _, row := range rows {
		err := d.tryRow(ctx, lab, t, w, row)
		switch {
		case err == nil:
		case d.classify(err) != classRefused:
			return 0, nil, err
		case reason == nil:
			reason = err
			fallthrough
		default:
			refused++
		}
	}
	return refused, reason, nil
}

// madeUp returns rows for an empty table that are in the write's state, one of
// zeros and one of NULLs where these are allowed: a constraint on other columns
// may like the one or the other.
func (d sqlite) madeUp(t *Table, w trialWrite) [][]any {
	var zeros, nulls []any
	for _, c := range d.stored(t) {
		var zero any = int64(0)
		switch {
		case strings.Contains(strings.ToUpper(c.decl), "BLOB"):
			zero = []byte{}
		case c.class == classText || c.class == classAny:
			zero = ""
		}
		null := zero
		if !c.notNull {
			null = nil
		}
		if v, n := t.valueIn(w.batch.state, c); n > 0 {
			zero, null = v, v
		}
		zeros, nulls = append(zeros, zero), append(nulls, null)
	}
	return [][]any{zeros, nulls}
}

// stored returns the columns that can be inserted.
func (d sqlite) stored(t *Table) []*column {
	var list []*column
	for i := range t.catalog.columns {
		if c := &t.catalog.columns[i]; !c.generated {
			list = append(list, c)
		}
	}
	return list
}

func (d sqlite) columnList(t *Table, raw bool) string {
	var names []string
	for _, c := range d.stored(t) {
		name := d.quote(c.name)
		if raw {
			name = d.raw(name)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func (d sqlite) copyRows(ctx context.Context, db *sql.DB, t *Table, where string) ([][]any, error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s LIMIT %d", d.columnList(t, true), t.name, where, trialRows))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list [][]any
	for rows.Next() {
		row := make([]any, len(d.stored(t)))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for i, v := range row {
			row[i] = d.value(nil, v)
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// tryRow writes to one row alone in the copy. A row that the table would not
// take even unchanged says nothing.
func (d sqlite) tryRow(ctx context.Context, lab *sql.DB, t *Table, w trialWrite, row []any) error {
	table := d.quote(t.m.Name)
	marks := strings.Repeat(", ?", len(row))[2:]
	for _, s := range []struct {
		text string
		args []any
	}{
		{"PRAGMA ignore_check_constraints = ON", nil},
		{"DELETE FROM " + table, nil},
		{fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, d.columnList(t, false), marks), row},
		{"PRAGMA ignore_check_constraints = OFF", nil},
		{fmt.Sprintf("UPDATE %s SET %s = %s", table, t.key[0], t.key[0]), nil},
	} {
		if _, err := lab.ExecContext(ctx, s.text, s.args...); err != nil {
			if d.classify(err) == classRefused {
				return nil
			}
			return err
		}
	}
	if _, err := lab.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET %s", table, w.set), w.args...); err != nil || !w.inState {
		return err
	}
	fresh, failed := t.pendingConds()
	return t.pendingAfter(ctx, lab, w, fmt.Sprintf("SELECT max(%s), max(%s) FROM %s", yes(fresh), yes(failed), table))
}

// mayWrite proves that the file and its folder can be written to.
func (d sqlite) mayWrite(ctx context.Context, db *sql.DB) error {
	return sqliteMayWrite(ctx, d, db, d.path, "give this user the right to write the file, and to create others in its folder")
}

// sqliteMayWrite writes what is there already and undoes it, in a transaction of
// the dialect's. That takes the lock and begins a journal, for which the folder
// must be writable too; the database file is not touched.
func sqliteMayWrite(ctx context.Context, d dialect, db *sql.DB, path, cure string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := d.begin(ctx, conn)
	if err == nil {
		defer tx.Rollback()
		var version int64
		if err = tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		}
	}
	if code, ok := codeOf(err); ok {
		switch code & 0xff {
		case 3, 8, 14: // PERM READONLY CANTOPEN
			return problem(cure, "the database %s cannot be written to: %v", path, err)
		}
	}
	return err
}
