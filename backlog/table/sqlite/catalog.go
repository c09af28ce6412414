package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog/pattern"
	"backlog/backlog/table/db"
)

// Catalog implements db.Server.
func (s *server) Catalog(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	c := &db.Catalog{Name: name}
	if schema != "" && !strings.EqualFold(schema, "main") {
		return nil, db.Problemf("leave it out", "table.schema: an SQLite file has only the schema main, not %s", schema)
	}
	all, err := db.QueryRows(ctx, q, `SELECT type, name, coalesce(sql, '') AS sql FROM sqlite_master
		WHERE tbl_name = ? COLLATE NOCASE AND (type <> 'trigger' OR sql LIKE '%UPDATE%ON%') ORDER BY name`, name)
	if err != nil {
		return nil, err
	}
	var keyed, strict bool
	indexes := make(map[string]string)
	for _, r := range all {
		switch r["type"] {
		case "index":
			indexes[r["name"]] = r["sql"]
		case "trigger":
			c.Triggers = append(c.Triggers, r["name"])
		default:
			c.Name = r["name"]
			c.Kind = db.Relation
			if r["type"] == "view" {
				c.Kind = db.View
			}
			create := strings.ToUpper(r["sql"])
			keyed = strings.Contains(create, "WITHOUT ROWID")
			strict = strings.Contains(create[strings.LastIndex(create, ")")+1:], "STRICT")
		}
	}
	if c.Kind == db.Missing {
		const others = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
		return c, c.SetMissingTable(ctx, q, db.TableSearch{Where: s.path, Setting: "table.name", Query: others})
	}
	if err := cmp.Or(describeColumns(ctx, q, strict, c), describeIndexes(ctx, q, keyed, indexes, c)); err != nil {
		return nil, err
	}
	if err := q.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&c.SchemaVersion); err != nil {
		return nil, err
	}
	var journal string
	if err := q.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err == nil && !strings.EqualFold(journal, "wal") {
		c.Advice = "the journal mode is " + journal + ": readers and writers wait for each other; sqlite3 '" +
			strings.ReplaceAll(s.path, "'", `'\''`) + "' 'PRAGMA journal_mode = WAL'"
	}
	return c, nil
}

// checkPattern matches the beginning of a CHECK constraint, with its name if it has one.
var checkPattern = pattern.Lazily(`(?i)(?:CONSTRAINT\s+("(?:[^"]|"")+"|[\w$]+)\s+)?CHECK\s*\(`)

// Guards implements db.Server. SQLite stores constraints and triggers as the SQL that created them.
func (s *server) Guards(ctx context.Context, q db.Querier, c *db.Catalog) (list []db.Guard, err error) {
	rows, err := db.QueryRows(ctx, q, "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND type IN ('table', 'trigger')", c.Name)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r["type"] == "trigger" {
			list = append(list, db.Guard{Kind: db.Trigger, Name: r["name"], Text: triggerBody(r["sql"])})
			continue
		}
		for _, at := range checkPattern().FindAllStringSubmatchIndex(r["sql"], -1) {
			g := db.Guard{Kind: db.Check, Text: strings.TrimSpace(db.Parenthesized(r["sql"][at[1]-1:]))}
			g.Name = g.Text
			if at[2] >= 0 {
				g.Name = strings.ReplaceAll(strings.Trim(r["sql"][at[2]:at[3]], `"`), `""`, `"`)
			}
			list = append(list, g)
		}
	}
	keys, err := db.QueryRows(ctx, q, "SELECT 'f' AS kind, id, group_concat(\"from\", char(1)) AS columns FROM pragma_foreign_key_list(?) GROUP BY id", c.Name)
	return append(list, db.Guards(keys)...), err
}

// triggerBody returns the condition and the statements of a trigger. It leaves out the head with the
// names of the trigger, its table, and the columns that fire it.
func triggerBody(create string) string {
	at := len(create)
	for _, word := range []string{"WHEN", "BEGIN"} {
		if i := strings.Index(strings.ToUpper(create), word); i >= 0 {
			at = min(at, i)
		}
	}
	return create[at:]
}

// describeColumns reads the columns. It uses a PRAGMA because the table-valued function takes three
// times as long.
func describeColumns(ctx context.Context, q db.Querier, strict bool, c *db.Catalog) error {
	rows, err := db.QueryRows(ctx, q, "PRAGMA table_xinfo("+text.Quote(c.Name)+")")
	rows = slices.DeleteFunc(rows, func(r db.Row) bool { return r["hidden"] == "1" })
	var pk []string
	for _, r := range rows {
		decl := strings.ToUpper(r["type"])
		col := db.Column{
			Name: r["name"], Decl: r["type"], NotNull: r.Is("notnull"), Generated: r["hidden"] != "0",
			JSON: strings.Contains(decl, "JSON"), ZeroCond: db.ZeroAny, ArgumentExpr: typedArgument(decl, strict),
		}
		if decl != "" {
			col.Class = valueOf(classes, decl)
		}
		if col.Class == db.Textual {
			_, rest, _ := strings.Cut(decl, "(")
			length, _, _ := strings.Cut(rest, ")")
			n, _ := strconv.ParseUint(strings.TrimSpace(length), 10, 31)
			col.MaxLength = int(n)
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
		col.NotNull = true // it is the rowid
		c.IndexSuffix = pk
	}
	return err
}

// describeIndexes reads the indexes. texts are the statements that created them, by name; indexes that
// SQLite creates for constraints have none. keyed says that the table is WITHOUT ROWID.
func describeIndexes(ctx context.Context, q db.Querier, keyed bool, texts map[string]string, c *db.Catalog) error {
	if keyed && len(c.Uniques) > 0 { // the table is stored in the order of its primary key
		c.IndexSuffix = c.Uniques[0]
	}
	list, err := db.QueryRows(ctx, q, "PRAGMA index_list("+text.Quote(c.Name)+")")
	var all []db.Row
	for _, x := range list {
		columns, wrong := db.QueryRows(ctx, q, "PRAGMA index_xinfo("+text.Quote(x["name"])+")")
		err = cmp.Or(err, wrong)
		create := strings.ToUpper(texts[x["name"]])
		var cond string
		if i := strings.LastIndex(create, "WHERE"); i >= 0 {
			cond = texts[x["name"]][i+len("WHERE"):]
		}
		// An index of another collation may hold as different values what the column, and so a
		// condition, takes for equal.
		sorted := !strings.Contains(create, "COLLATE")
		for _, r := range columns {
			if r.Is("key") {
				uniq := strconv.FormatBool(sorted && x.Is("unique"))
				all = append(all, db.Row{
					"name": x["name"], "cond": cond, "sorted": strconv.FormatBool(sorted), "uniq": uniq, "col": r["name"], "down": r["desc"],
				})
			}
		}
	}
	c.AddIndexes(all)
	return err
}

// A meaning is the meaning of a declared type that contains one of the words.
type meaning[T any] struct {
	value T
	words []string
}

// affinities are the affinities of columns, in the order in which SQLite looks for the words
// (https://sqlite.org/datatype3.html, 3.1). A BLOB has none.
var affinities = []meaning[string]{
	{"INTEGER", []string{"INT"}}, {"TEXT", []string{"CHAR", "CLOB", "TEXT"}}, {"", []string{"BLOB"}},
	{"REAL", []string{"REAL", "FLOA", "DOUB"}}, {"NUMERIC", []string{""}},
}

// classes follow the affinities. In addition people mean something by BOOLEAN and JSON.
var classes = []meaning[db.Class]{
	{db.Boolean, []string{"BOOL"}}, {db.Integer, []string{"INT"}}, {db.Textual, []string{"CHAR", "CLOB", "TEXT"}},
	{db.Numeric, []string{"JSON"}}, {db.Any, []string{"BLOB"}}, {db.Real, []string{"REAL", "FLOA", "DOUB"}}, {db.Numeric, []string{""}},
}

// valueOf returns the first of the meanings that applies to a declared type in capitals. The last of
// them must apply to every type.
func valueOf[T any](list []meaning[T], decl string) T {
	has := func(word string) bool { return strings.Contains(decl, word) }
	i := slices.IndexFunc(list, func(m meaning[T]) bool { return slices.ContainsFunc(m.words, has) })
	return list[i].value
}

// typedArgument returns an expression that gives an argument the affinity of a type, but does not convert
// its value. In a compound subquery the last SELECT determines the affinity. The expression cannot
// have the collation of a column: an explicit collation would win over other columns' collations. It
// returns "" if the column has no affinity.
func typedArgument(decl string, strict bool) string {
	affinity := valueOf(affinities, decl)
	if affinity == "" || decl == "" || decl == "ANY" && strict {
		return ""
	}
	return "(SELECT ? UNION ALL SELECT CAST(NULL AS " + affinity + ") WHERE 0)"
}
