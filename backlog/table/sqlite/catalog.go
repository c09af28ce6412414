package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog/table/db"
)

// Catalog implements db.Server.
func (s *server) Catalog(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	c := &db.Catalog{Name: name}
	if schema != "" && !strings.EqualFold(schema, "main") {
		return nil, db.Problemf("leave it out", "table.schema: an SQLite file has only the schema main, not %s", schema)
	}
	var kind string
	var create sql.NullString
	err := q.QueryRowContext(ctx, "SELECT type, sql, name FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE", name).Scan(&kind, &create, &c.Name)
	if errors.Is(err, sql.ErrNoRows) {
		const others = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
		return c, c.NoTable(ctx, q, s.path, "table.name", others)
	}
	if err != nil {
		return nil, err
	}
	if c.Kind = db.Relation; kind == "view" {
		c.Kind = db.View
	}
	if err := describeColumns(ctx, q, name, c); err != nil {
		return nil, err
	}
	if err := describeIndexes(ctx, q, name, strings.Contains(strings.ToUpper(create.String), "WITHOUT ROWID"), c); err != nil {
		return nil, err
	}
	var journal string
	if err := q.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err == nil && !strings.EqualFold(journal, "wal") {
		c.Advice = "the journal mode is " + journal + ": readers and writers wait for each other; sqlite3 '" +
			strings.ReplaceAll(s.path, "'", `'\''`) + "' 'PRAGMA journal_mode = WAL'"
	}
	c.Triggers, err = db.Texts(ctx, q, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND sql LIKE '%UPDATE%ON%' ORDER BY name", name)
	return c, err
}

func describeColumns(ctx context.Context, q db.Querier, name string, c *db.Catalog) error {
	rows, err := db.Rows(ctx, q, `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid`, name)
	var pk []string
	for _, r := range rows {
		col := db.Column{Name: r["name"], Decl: r["type"], NotNull: r.Is("notnull"), Generated: r["hidden"] != "0", Zero: db.ZeroAny}
		col.Class, col.Length, col.JSON = affinity(col.Decl)
		if r["pk"] != "0" {
			pk = append(pk, col.Name)
		}
		c.Columns = append(c.Columns, col)
	}
	if len(pk) > 0 {
		c.Uniques = append(c.Uniques, pk)
	}
	if col := c.Find(strings.Join(pk, ","), false); len(pk) == 1 && strings.EqualFold(col.Decl, "INTEGER") {
		col.NotNull = true // the rowid
		c.Implied = pk
	}
	return err
}

func describeIndexes(ctx context.Context, q db.Querier, name string, keyed bool, c *db.Catalog) error {
	if keyed && len(c.Uniques) > 0 { // it is its own primary key
		c.Implied = c.Uniques[0]
	}
	// What an index of another collation calls different can be equal to the column,
	// and so to a condition.
	rows, err := db.Rows(ctx, q, `SELECT l.name, coalesce(m.sql, '') AS cond, coalesce(m.sql, '') NOT LIKE '%COLLATE%' AS sorted,
			l."unique" AND coalesce(m.sql, '') NOT LIKE '%COLLATE%' AS uniq, x.name AS col, x.desc AS down
		FROM pragma_index_list(?) l LEFT JOIN sqlite_master m ON m.type = 'index' AND m.name = l.name, pragma_index_xinfo(l.name) x
		WHERE x.key ORDER BY l.seq, x.seqno`, name)
	for _, r := range rows {
		create := r["cond"]
		if r["cond"] = ""; strings.Contains(strings.ToUpper(create), "WHERE") {
			r["cond"] = create[strings.LastIndex(strings.ToUpper(create), "WHERE")+len("WHERE"):]
		}
	}
	c.AddIndexes(rows)
	return err
}

var lengthPattern = db.Pattern(`\(\s*(\d+)\s*\)`)

// affinity follows the rules by which SQLite gives a column its affinity
// (https://sqlite.org/datatype3.html, 3.1), and knows what people mean by BOOLEAN
// and JSON.
func affinity(decl string) (c db.Class, length int, isJSON bool) {
	d := strings.ToUpper(decl)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(d, w) })
	}
	switch {
	case has("BOOL"):
		return db.Boolean, 0, false
	case has("INT"):
		return db.Integer, 0, false
	case has("CHAR", "CLOB", "TEXT"):
		if m := lengthPattern().FindStringSubmatch(d); m != nil {
			length, _ = strconv.Atoi(m[1])
		}
		return db.Textual, length, has("JSON")
	case has("JSON"):
		return db.Numeric, 0, true
	case has("BLOB"), d == "":
		return db.Any, 0, false
	case has("REAL", "FLOA", "DOUB"):
		return db.Real, 0, false
	}
	return db.Numeric, 0, false
}
