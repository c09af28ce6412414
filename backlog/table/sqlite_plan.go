package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// plan explains a page's query. The index to have serves condition, range and
// order at once; then a page reads just its rows.
func (d sqlite) plan(ctx context.Context, db *sql.DB, t *Table, b branch, query string, args []any) (x explanation, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return x, err
	}
	defer conn.Close()
	// This comes first, on the same connection: reading makes it notice that
	// somebody has created an index, explaining does not.
	indexes, err := d.indexesOf(ctx, conn, t.m.Name)
	if err != nil {
		return x, err
	}
	rows, err := conn.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return x, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return x, err
		}
		joins := !strings.HasPrefix(detail, "SEARCH ") && !strings.HasPrefix(detail, "SCAN ") && !strings.HasPrefix(detail, "USE ")
		if !joins && !slices.Contains(x.steps, detail) {
			x.steps = append(x.steps, detail)
		}
	}
	if err := rows.Err(); err != nil {
		return x, err
	}
	for _, s := range x.steps {
		var index sqliteIndex // that of the key, unless it is another
		i := slices.IndexFunc(indexes, func(i sqliteIndex) bool { return i.serves(s) })
		if i >= 0 {
			index = indexes[i]
			if !slices.Contains(x.indexes, index.name) {
				x.indexes = append(x.indexes, index.name)
			}
		}
		switch {
		case strings.HasPrefix(s, "USE TEMP B-TREE"):
			x.bad = cmp.Or(x.bad, "every page sorts all that is pending")
		case i < 0 && strings.HasPrefix(s, "SCAN "):
			x.bad = "every page reads the whole table"
			return x, nil
		default:
			x.bad = cmp.Or(x.bad, index.flaw(s, b, t.filtered))
		}
	}
	return x, nil
}

// A sqliteIndex is an index as a plan speaks of it.
type sqliteIndex struct {
	name  string
	where string // its condition, in small letters; "" if it has none
}

// indexesOf returns the table's indexes, the longest name first: plans do not
// quote names, and one may begin like another.
func (sqlite) indexesOf(ctx context.Context, conn *sql.Conn, table string) ([]sqliteIndex, error) {
	rows, err := conn.QueryContext(ctx, "SELECT name, coalesce(sql, '') FROM sqlite_master WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE ORDER BY length(name) DESC", table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []sqliteIndex
	for rows.Next() {
		var x sqliteIndex
		var text string
		if err := rows.Scan(&x.name, &text); err != nil {
			return nil, err
		}
		text = strings.ToLower(text)
		if i := strings.LastIndex(text, "where"); i >= 0 {
			x.where = text[i:]
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

// serves reports whether the step of a plan uses the index.
func (x sqliteIndex) serves(step string) bool {
	_, rest, ok := strings.Cut(step, "INDEX "+x.name)
	return ok && (rest == "" || strings.HasPrefix(rest, " ("))
}

// flaw says why the index makes the step read more than the branch's rows: it
// must tell each column of the conditions, by its own condition or as one of
// the columns that it is searched by.
func (x sqliteIndex) flaw(step string, b branch, filtered []string) string {
	tells := func(column string) bool {
		return strings.Contains(x.where, strings.ToLower(column)) ||
			strings.Contains(step, "("+column+"=?") || strings.Contains(step, " AND "+column+"=?")
	}
	for _, column := range b.columns {
		if !tells(column) {
			return "every page reads rows of every status"
		}
	}
	for _, column := range filtered {
		if !tells(column) {
			return fmt.Sprintf("every page reads rows that table.where leaves out by %s", column)
		}
	}
	return ""
}

// indexName numbers the name until it is free, or that of the very same index:
// another configuration for the same table, or an earlier one, has others.
func (d sqlite) indexName(ctx context.Context, db *sql.DB, wanted string, create func(string) string) (string, error) {
	for n, name := 2, wanted; ; n++ {
		has, err := texts(ctx, db, "SELECT coalesce(sql, '') FROM sqlite_master WHERE name = ? COLLATE NOCASE", name)
		if err != nil || len(has) == 0 || has[0] == strings.Replace(create(name), " IF NOT EXISTS", "", 1) {
			return name, err
		}
		name = fmt.Sprintf("%s_v%d", wanted, n)
	}
}
