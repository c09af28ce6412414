package table

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
)

// A postgresRelation is a table, or what else can be read like one.
type postgresRelation struct {
	oid          int64
	schema, kind string
	secured      bool // row level security applies to this role
	readable     bool
	parent       bool // other tables inherit from it, other than partitions
	deferred     bool
	rule         string // by which an UPDATE does something else; "" if there is none
	role         string
}

// describe: a schema that is not named is looked up as the database does it.
func (d postgres) describe(ctx context.Context, db *sql.DB, schema, name string) (*catalog, error) {
	r, err := d.relation(ctx, db, schema, name)
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{"r": "table", "p": "partitioned", "v": "view", "m": "view", "f": "foreign"}
	cat := &catalog{kind: kinds[r.kind], schema: r.schema, wrong: d.unfit(r, name)}
	if r.deferred {
		d.deferred.Store(true)
	}
	if err := d.describeColumns(ctx, db, r.oid, cat); err != nil {
		return nil, err
	}
	if err := d.describeIndexes(ctx, db, r.oid, cat); err != nil {
		return nil, err
	}
	cat.triggers, err = texts(ctx, db, `SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgtype & 16 <> 0
		UNION ALL SELECT rulename::text FROM pg_rewrite WHERE ev_class = $1 AND ev_type = '2' AND ev_enabled IN ('O', 'A') ORDER BY 1`, r.oid)
	return cat, err
}

func (d postgres) relation(ctx context.Context, db querier, schema, name string) (r postgresRelation, err error) {
	where, args := "c.relname = $1 AND pg_table_is_visible(c.oid)", []any{name}
	if schema != "" {
		where, args = "c.relname = $1 AND n.nspname = $2", append(args, schema)
	}
	err = db.QueryRowContext(ctx, `SELECT c.oid::bigint, n.nspname::text, c.relkind::text, row_security_active(c.oid),
			has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT'),
			EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AND c.relkind <> 'p',
			EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tginitdeferred),
			coalesce((SELECT min(rulename::text) FROM pg_rewrite WHERE ev_class = c.oid AND c.relkind <> 'v' AND ev_type = '2' AND is_instead AND ev_enabled IN ('O', 'A')), ''), current_user::text
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND `+where, args...).
		Scan(&r.oid, &r.schema, &r.kind, &r.secured, &r.readable, &r.parent, &r.deferred, &r.rule, &r.role)
	if errors.Is(err, sql.ErrNoRows) {
		return r, d.noTable(ctx, db, schema, name)
	}
	return r, err
}

// unfit returns why no record of the table may be handed out, though it is
// there.
func (d postgres) unfit(r postgresRelation, name string) error {
	table, role := d.quote(r.schema)+"."+d.quote(name), d.quote(r.role)
	switch {
	case !r.readable:
		return problem("GRANT USAGE ON SCHEMA "+d.quote(r.schema)+" TO "+role+"; GRANT SELECT ON "+table+" TO "+role, "table %s: the role %s may not read it", name, r.role)
	case r.secured:
		return problem("use a role to which it does not apply, such as the table's owner or ALTER ROLE "+role+" BYPASSRLS",
			"table %s: row level security applies to the role %s: records that it hides would never be processed, without a word", name, r.role)
	case r.parent:
		return problem("name one of the tables that inherit from it, or partition it", "table %s: other tables inherit from it: no key identifies a row of all of them", name)
	case r.rule != "":
		return problem("name the table that the rule writes to, if it does what an UPDATE would, or DROP RULE "+d.quote(r.rule)+" ON "+table,
			"table %s: its rule %s does something else instead of an UPDATE: no outcome would be written, and its records would be handled again and again", name, r.rule)
	}
	return nil
}

// noTable says what is there. It looks where the table was looked for.
func (d postgres) noTable(ctx context.Context, db querier, schema, name string) error {
	searched, err := texts(ctx, db, "SELECT unnest(current_schemas(false))::text")
	if schema != "" {
		searched = []string{schema}
	}
	if err != nil {
		return err
	}
	have, err := texts(ctx, db, `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND n.nspname = ANY (string_to_array($1, chr(1))) ORDER BY 1 LIMIT 50`, strings.Join(searched, "\x01"))
	if err != nil {
		return err
	}
	if len(searched) == 0 {
		return problem("correct search_path in the URL or for the role, or set table.schema", "table %s is looked for in no schema: database %s has none of those in the search_path", name, d.config.Database)
	}
	where := "schema " + strings.Join(searched, ", ")
	list := "there are no tables"
	if len(have) > 0 {
		list = "the tables are: " + strings.Join(have, ", ")
	}
	return problem("set table.name and table.schema, or let `backlog init` create it; "+list, "there is no table %s in %s of database %s", name, where, d.config.Database)
}

// describeColumns describes columns of a domain by the type that it is over.
func (d postgres) describeColumns(ctx context.Context, db *sql.DB, oid int64, cat *catalog) error {
	rows, err := db.QueryContext(ctx, `WITH RECURSIVE base AS (
			SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod, a.attnotnull AS strict FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
			UNION ALL SELECT b.attnum, t.typbasetype, CASE WHEN b.typmod < 0 THEN t.typtypmod ELSE b.typmod END, b.strict OR t.typnotnull
			FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd')
		SELECT a.attname::text, format_type(b.type, b.typmod), t.typname::text, t.typtype::text, b.strict, a.attgenerated <> '' OR a.attidentity = 'a',
			CASE WHEN t.typname IN ('varchar', 'bpchar') AND b.typmod > 4 THEN b.typmod - 4 WHEN t.typname IN ('char', 'name') THEN t.typlen - (t.typname = 'name')::int ELSE 0 END,
			coalesce((SELECT e.typname::text FROM pg_type e WHERE e.oid = t.typelem AND t.typcategory = 'A'), ''),
			coalesce((SELECT string_agg(enumlabel, chr(1) ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid), ''),
			current_setting('server_encoding') NOT IN ('UTF8', 'SQL_ASCII')
		FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd' JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = b.attnum ORDER BY a.attnum`, oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		var base, kind, labels string
		var ascii bool // which other characters it takes is not known
		if err := rows.Scan(&c.name, &c.decl, &base, &kind, &c.notNull, &c.generated, &c.length, &c.element, &labels, &ascii); err != nil {
			return err
		}
		if ascii {
			c.holds = isASCII
		}
		c.class, c.bits = postgresClass(base), map[string]int{"int2": 16, "int4": 32}[base]
		if base == "int2" {
			c.most = math.MaxInt16
		}
		c.json = base == "json" || base == "jsonb"
		if kind == "e" {
			c.labels = strings.Split(labels, "\x01")
		}
		cat.columns = append(cat.columns, c)
	}
	return rows.Err()
}

// postgresClass: whatever is not said here is written as text, in quotes.
func postgresClass(base string) class {
	switch base {
	case "bool":
		return classBoolean
	case "int2", "int4", "int8", "oid":
		return classInteger
	case "float4", "float8", "numeric":
		return classReal
	case "bytea":
		return classBlob
	}
	return classText
}

// describeIndexes reads those that make keys unique in every row.
func (d postgres) describeIndexes(ctx context.Context, db *sql.DB, oid int64, cat *catalog) error {
	rows, err := db.QueryContext(ctx, `SELECT i.indexrelid::bigint, a.attname::text FROM pg_index i
		JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n) ON k.n <= i.indnkeyatts
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indisprimary DESC, 1, k.n`, oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	for last := int64(0); rows.Next(); {
		var index int64
		var name string
		if err := rows.Scan(&index, &name); err != nil {
			return err
		}
		if index != last {
			cat.uniques = append(cat.uniques, nil)
		}
		last = index
		at := len(cat.uniques) - 1
		cat.uniques[at] = append(cat.uniques[at], name)
	}
	return rows.Err()
}
