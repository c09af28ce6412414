package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backlog/backlog/table/db"
)

// Catalog implements db.Server.
func (s *server) Catalog(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	c := &db.Catalog{Name: name}
	if schema != "" && !strings.EqualFold(schema, "main") {
		return nil, db.Problemf("leave it out", "table.schema: an SQLite file has only the schema main, not %s", schema)
	}
	var kind, create string
	err := q.QueryRowContext(ctx, "SELECT type, coalesce(sql, ''), name FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE", name).Scan(&kind, &create, &c.Name)
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
	keyed := strings.Contains(strings.ToUpper(create), "WITHOUT ROWID")
	if err := cmp.Or(describeColumns(ctx, q, name, c), describeIndexes(ctx, q, name, keyed, c)); err != nil {
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
		decl := strings.ToUpper(col.Decl)
		has := func(word string) bool { return strings.Contains(decl, word) }
		if i := slices.IndexFunc(classes, func(x affinity) bool { return slices.ContainsFunc(x.words, has) }); decl != "" {
			col.Class = classes[i].class
		}
		col.JSON = has("JSON")
		if m := lengthPattern().FindStringSubmatch(decl); m != nil && col.Class == db.Textual {
			col.Length, _ = strconv.Atoi(m[1])
		}
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

var lengthPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\(\s*(\d+)\s*\)`) })

type affinity struct {
	class db.Class
	words []string
}

// classes are what the words in a declared type mean, in the order in which SQLite looks
// for them to give a column its affinity (https://sqlite.org/datatype3.html, 3.1), with
// what people mean by BOOLEAN and JSON.
var classes = []affinity{
	{db.Boolean, []string{"BOOL"}}, {db.Integer, []string{"INT"}}, {db.Textual, []string{"CHAR", "CLOB", "TEXT"}},
	{db.Numeric, []string{"JSON"}}, {db.Any, []string{"BLOB"}}, {db.Real, []string{"REAL", "FLOA", "DOUB"}}, {db.Numeric, []string{""}},
}
