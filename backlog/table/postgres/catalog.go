package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"backlog/backlog/table/db"
)

// Catalog implements db.Server. If schema is "", it finds the table as PostgreSQL does, by the
// search_path.
func (s *server) Catalog(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	// parent: other tables inherit from it, and they are not partitions. rule: the name of a rule by
	// which an UPDATE does something else.
	rows, err := db.QueryRows(ctx, q, `SELECT c.oid::text, n.nspname::text AS schema, c.relkind::text AS kind, row_security_active(c.oid)::text AS secured,
			(has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT'))::text AS readable,
			(EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AND c.relkind <> 'p')::text AS parent,
			EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tginitdeferred)::text AS deferred,
			(SELECT min(rulename::text) FROM pg_rewrite WHERE ev_class = c.oid AND c.relkind <> 'v' AND ev_type = '2' AND is_instead AND ev_enabled IN ('O', 'A')) AS rule,
			current_user::text AS role
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = $1 AND CASE WHEN $2 = '' THEN pg_table_is_visible(c.oid) ELSE n.nspname = $2 END`, name, schema)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return s.missing(ctx, q, schema, name)
	}
	r := rows[0]
	kinds := map[string]db.Kind{"r": db.Relation, "p": db.Partitioned, "v": db.View, "m": db.View, "f": db.Relation}
	c := &db.Catalog{
		Kind: kinds[r["kind"]], Name: name, Schema: r["schema"], Unusable: unfit(r, name), HasDeferred: r.Is("deferred"),
		QuotedUser: text.Quote(r["role"]), QuotedName: text.Qualified(r["schema"], name),
	}
	if err := cmp.Or(describeColumns(ctx, q, r["oid"], c), describeIndexes(ctx, q, r["oid"], c)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(c.Columns, func(x db.Column) bool { return x.Time != nil && x.Time.Zone == nil }) {
		if c.SessionZone, err = s.defaultZone(ctx); err != nil {
			return nil, err
		}
	}
	c.Advice = s.advice(ctx, q)
	c.Triggers, err = db.QueryTexts(ctx, q, `SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1::text::oid AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgtype & 16 <> 0
		UNION ALL SELECT rulename::text FROM pg_rewrite WHERE ev_class = $1::text::oid AND ev_type = '2' AND ev_enabled IN ('O', 'A') ORDER BY 1`, r["oid"])
	return c, err
}

// Guards implements db.Server. For a constraint the catalog lists its columns, where 0 is the whole
// row. For a trigger there are its condition, its arguments and the source of its function. Only
// PL/pgSQL is understood; functions in other languages count as reading the whole row.
func (s *server) Guards(ctx context.Context, q db.Querier, c *db.Catalog) ([]db.Guard, error) {
	rows, err := db.QueryRows(ctx, q, `WITH RECURSIVE tables AS (
			SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
			UNION SELECT i.inhrelid FROM pg_inherits i JOIN tables t ON t.oid = i.inhparent)
		SELECT k.contype::text AS kind, k.conname::text AS name, (0 = ANY (k.conkey))::text AS whole, '' AS body,
			array_to_string(ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = k.conrelid AND attnum = ANY (k.conkey)), chr(1)) AS columns
		FROM pg_constraint k JOIN tables t ON t.oid = k.conrelid WHERE k.contype IN ('c', 'f')
		UNION ALL SELECT 't', p.proname::text, (l.lanname <> 'plpgsql')::text, coalesce(substring(pg_get_triggerdef(g.oid) FROM ' WHEN (.*) EXECUTE '), '') || E'\n' || p.prosrc,
			replace(encode(g.tgargs, 'escape'), E'\\000', chr(1))
		FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_language l ON l.oid = p.prolang JOIN tables t ON t.oid = g.tgrelid
		WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND g.tgtype & 16 <> 0`, c.Schema, c.Name)
	return db.Guards(rows), err
}

// unfit returns why the table cannot be used although it exists.
func unfit(r db.Row, name string) error {
	table := text.Qualified(r["schema"], name)
	role := text.Quote(r["role"])
	switch {
	case !r.Is("readable"):
		return db.Deniedf("GRANT USAGE ON SCHEMA "+text.Quote(r["schema"])+" TO "+role+"; GRANT SELECT ON "+table+" TO "+role, "table %s: the role %s may not read it", name, r["role"])
	case r.Is("secured"):
		return db.Problemf("use a role to which it does not apply, such as the table's owner or ALTER ROLE "+role+" BYPASSRLS",
			"table %s: row level security applies to the role %s: records that it hides would never be processed, without a word", name, r["role"])
	case r.Is("parent"):
		return db.Problemf("name one of the tables that inherit from it, or partition it", "table %s: other tables inherit from it: no key identifies a row of all of them", name)
	case r["rule"] != "":
		return db.Problemf("name the table that the rule writes to, if it does what an UPDATE would, or DROP RULE "+text.Quote(r["rule"])+" ON "+table,
			"table %s: its rule %s does something else instead of an UPDATE: no outcome would be written, and its records would be handled again and again", name, r["rule"])
	}
	return nil
}

// missing returns the catalog of a table that does not exist. It lists the tables that do.
func (s *server) missing(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	searched, err := db.QueryTexts(ctx, q, "SELECT unnest(current_schemas(false))::text")
	c := &db.Catalog{Name: name, Schema: schema}
	if schema != "" {
		searched = []string{schema}
	} else if len(searched) > 0 {
		c.Schema = searched[0]
	}
	in := "schema " + strings.Join(searched, ", ")
	if len(searched) == 0 {
		in = "the search_path, which leads to no schema,"
	}
	if err != nil {
		return nil, err
	}
	return c, c.SetMissingTable(ctx, q, db.TableSearch{
		Where:   in + " of database " + s.config.Database,
		Setting: "table.name and table.schema",
		Query: `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND n.nspname = ANY (string_to_array($1, chr(1))) ORDER BY 1 LIMIT 50`,
		Args: []any{strings.Join(searched, "\x01")},
	})
}

// describeColumns reads the columns. A column of a domain is described by the domain's base type.
func describeColumns(ctx context.Context, q db.Querier, oid string, c *db.Catalog) error {
	rows, err := db.QueryRows(ctx, q, `WITH RECURSIVE base AS (
			SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod, a.attnotnull AS strict FROM pg_attribute a WHERE a.attrelid = $1::text::oid AND a.attnum > 0 AND NOT a.attisdropped
			UNION ALL SELECT b.attnum, t.typbasetype, CASE WHEN b.typmod < 0 THEN t.typtypmod ELSE b.typmod END, b.strict OR t.typnotnull
			FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd')
		SELECT a.attname::text AS name, format_type(b.type, b.typmod) AS decl, t.typname::text AS base, b.strict::text, (a.attgenerated <> '' OR a.attidentity = 'a')::text AS generated,
			CASE WHEN t.typname IN ('varchar', 'bpchar') AND b.typmod > 4 THEN b.typmod - 4 WHEN t.typname IN ('char', 'name') THEN t.typlen - (t.typname = 'name')::int ELSE 0 END AS length,
			CASE WHEN a.atttypid <> b.type THEN format_type(a.atttypid, NULL) END AS domain, (t.typcategory = 'A')::text AS list, (t.typcategory = 'A' OR t.typtype = 'c')::text AS several, (t.typtype = 'e')::text AS enum,
			(SELECT string_agg(enumlabel, chr(1) ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid) AS labels,
			(current_setting('server_encoding') NOT IN ('UTF8', 'SQL_ASCII'))::text AS ascii,
			CASE WHEN n.nspname = 'pg_catalog' THEN format_type(a.atttypid, a.atttypmod)
				WHEN has_schema_privilege(n.oid, 'USAGE') THEN quote_ident(n.nspname) || '.' || quote_ident(own.typname) ELSE '' END AS own,
			(SELECT quote_ident(m.nspname) || '.' || quote_ident(l.collname) FROM pg_collation l JOIN pg_namespace m ON m.oid = l.collnamespace
				WHERE l.oid = a.attcollation AND l.oid <> own.typcollation AND has_schema_privilege(m.oid, 'USAGE')) AS collation
		FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd' JOIN pg_attribute a ON a.attrelid = $1::text::oid AND a.attnum = b.attnum
		JOIN pg_type own ON own.oid = a.atttypid JOIN pg_namespace n ON n.oid = own.typnamespace ORDER BY a.attnum`, oid)
	for _, r := range rows {
		base := r["base"]
		array := r.Is("list")
		col := db.Column{
			Name: r["name"], Decl: r["decl"], Class: cmp.Or(classes[base], db.Textual), MaxLength: r.Int("length"), Domain: r["domain"], NotNull: r.Is("strict"), Generated: r.Is("generated"),
			JSON: base == "json" || base == "jsonb" || array, OnlyBoolean: base == "bool", Time: calendar(r["decl"]), ArgumentExpr: typedArgument(r["own"], r["collation"], array),
			Composite: r.Is("several"),
		}
		if r.Is("ascii") { // the encoding may have more characters, but it is not known which
			col.Accepts = func(r rune) bool { return r < utf8.RuneSelf }
		}
		if high := largest(base); high > 0 {
			col.Min = -high - 1
			col.Max = high
		}
		if base == "int2" {
			col.MaxCount = math.MaxInt16
		}
		switch { // types for times do not hold zero dates
		case col.Time != nil:
		case col.Class == db.Textual:
			col.ZeroCond = db.ZeroText
		case col.Class == db.Integer || col.Class == db.Real:
			col.ZeroCond = db.ZeroNumber
		}
		if array {
			col.ReadExpr = "to_jsonb(" + text.Quote(col.Name) + ")"
		}
		if r.Is("enum") {
			col.Labels = strings.Split(r["labels"], "\x01")
		}
		c.Columns = append(c.Columns, col)
	}
	return err
}

// largest returns the largest number of a type, 0 if that is not below 2^63-1.
func largest(base string) int64 {
	switch base {
	case "int2":
		return math.MaxInt16
	case "int4":
		return math.MaxInt32
	}
	return 0
}

// typedArgument returns an expression that gives an argument the type own. It returns "" if own is "",
// which means that the user may not use the schema of the type, and so cannot name it.
func typedArgument(own, collation string, array bool) string {
	cast := "CAST(? AS " + own + ")"
	switch {
	case own == "":
		return ""
	case collation == "":
		return "(" + cast + ")"
	case array: // a subquery would not do, because ANY (subquery) compares with its rows
		return "(" + cast + " COLLATE " + collation + ")"
	}
	// A collation that comes out of a subquery yields to an explicit one, as the collation of a
	// column does.
	return "(SELECT " + cast + " COLLATE " + collation + ")"
}

// classes are the classes of the types. Columns of other types are written as quoted text.
var classes = map[string]db.Class{
	"bool": db.Boolean, "bytea": db.Bytes,
	"int2": db.Integer, "int4": db.Integer, "int8": db.Integer, "oid": db.Integer,
	"float4": db.Real, "float8": db.Real, "numeric": db.Real,
}

// describeIndexes reads the indexes, the primary key first. An index whose creation failed is not valid.
func describeIndexes(ctx context.Context, q db.Querier, oid string, c *db.Catalog) error {
	rows, err := db.QueryRows(ctx, q, `SELECT c.relname::text AS name, (i.indisunique AND i.indisvalid)::text AS uniq, (NOT i.indisvalid)::text AS hidden, pg_get_expr(i.indpred, i.indrelid) AS cond, a.attname::text AS col,
			(i.indoption[k.n - 1] & 1 = 1)::text AS down, (i.indoption[k.n - 1] IN (0, 3) AND o.opcdefault AND m.amname = 'btree')::text AS sorted
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
		JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n) ON k.n <= i.indnkeyatts
		JOIN pg_opclass o ON o.oid = i.indclass[k.n - 1]
		LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		WHERE i.indrelid = $1::text::oid ORDER BY i.indisprimary DESC, i.indexrelid, k.n`, oid)
	c.AddIndexes(rows)
	return err
}

// advice returns which settings a pooler has kept from the sessions, unless the role has them.
func (s *server) advice(ctx context.Context, q db.Querier) string {
	var role string
	err := q.QueryRowContext(ctx, `SELECT current_user::text WHERE '0' IN (current_setting('statement_timeout'), current_setting('lock_timeout'))
		OR current_setting('row_security')::bool`).Scan(&role)
	if !s.plain.Load() || err != nil {
		return ""
	}
	alter := "ALTER ROLE " + text.Quote(role) + " SET "
	return s.host + " is a pooler that refuses the parameters of a session: statements that only read have no time limit there, " +
		"and a row level security that is introduced later would hide rows without a word; " +
		alter + "statement_timeout = '60s'; " + alter + "lock_timeout = '2s'; " + alter + "row_security = off; " +
		"then let the pooler connect anew (RECONNECT in PgBouncer's console)"
}
