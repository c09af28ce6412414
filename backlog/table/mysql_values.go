package table

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tryValues judges what the write sets by the types of the columns.
func (d mysql) tryValues(ctx context.Context, db *sql.DB, t *Table, w trialWrite) error {
	for _, a := range w.assigns {
		c := t.quotedColumn(a.col)
		if n, err := strconv.ParseInt(a.expr, 10, 64); err == nil && c.class == classInteger && !mysqlHolds(c, n) {
			return problem("change it to one that the column can hold", "%s: %d is out of the range of column %s, which is %s", w.setting, n, c.name, c.decl)
		}
		if !strings.HasPrefix(a.expr, "'") {
			continue
		}
		text := strings.ReplaceAll(a.expr[1:len(a.expr)-1], "''", "'")
		if mysqlIs(c, "set") && text != "" {
			labels := mysqlLabels(c.decl)
			for _, part := range strings.Split(text, ",") {
				if !slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, part) }) {
					return problem("change it to one of them", "%s: %q is none of the labels of column %s: %s", w.setting, part, c.name, strings.Join(labels, ", "))
				}
			}
		}
		if err := d.tryCharacters(ctx, db, t, w, c, text, a.expr); err != nil {
			return err
		}
	}
	return nil
}

// tryCharacters is a *Problem if the column's character set lacks one of the
// text's. The server is asked only where that is not known without.
func (d mysql) tryCharacters(ctx context.Context, db *sql.DB, t *Table, w trialWrite, c *column, text, literal string) error {
	if c.holds == nil || !strings.ContainsFunc(text, func(r rune) bool { return !c.holds(r) }) {
		return nil
	}
	var charset string
	err := db.QueryRowContext(ctx, `SELECT character_set_name FROM information_schema.columns
		WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ? AND column_name = ?`, t.m.Schema, t.m.Name, c.name).Scan(&charset)
	if err != nil {
		return err
	}
	var takes bool
	if err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT CONVERT(CONVERT(%s USING %s) USING utf8mb4) = CONVERT(%s USING utf8mb4) COLLATE utf8mb4_bin", literal, charset, literal)).Scan(&takes); err != nil {
		return err
	}
	if !takes {
		return problem("write one of other characters", "%s: %q has characters that column %s does not take, whose character set is %s", w.setting, text, c.name, charset)
	}
	return nil
}

// A mysqlReference is a foreign key with its column, quoted.
type mysqlReference struct {
	reference
	column string
}

func (d mysql) references(ctx context.Context, db *sql.DB, t *Table) (list []mysqlReference, err error) {
	rows, err := db.QueryContext(ctx, `SELECT constraint_name, min(column_name), min(referenced_table_schema), min(referenced_table_name), min(referenced_column_name)
		FROM information_schema.key_column_usage WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ? AND referenced_table_name IS NOT NULL
		GROUP BY constraint_name HAVING count(*) = 1 ORDER BY constraint_name`, t.m.Schema, t.m.Name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r mysqlReference
		var schema string
		if err := rows.Scan(&r.name, &r.column, &schema, &r.to, &r.key); err != nil {
			return nil, err
		}
		r.column, r.to, r.key = d.quote(r.column), d.quote(schema)+"."+d.quote(r.to), d.quote(r.key)
		list = append(list, r)
	}
	return list, rows.Err()
}

// tryReferences is a *Problem if what the write sets is not there where a foreign
// key looks for it.
func (d mysql) tryReferences(ctx context.Context, db *sql.DB, t *Table, w trialWrite, list []mysqlReference) error {
	for _, r := range list {
		i := slices.IndexFunc(w.assigns, func(a assign) bool { return a.col == r.column })
		if i < 0 {
			continue
		}
		a := w.assigns[i]
		if a.time != nil || a.expr == "?" || strings.Contains(a.expr, a.col) {
			continue
		}
		err := t.tryReference(ctx, db, w, a.expr, r.reference, func(err error) bool { return d.classify(err) != classOther })
		if err != nil {
			return err
		}
	}
	return nil
}
