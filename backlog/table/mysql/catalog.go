package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"backlog/backlog/pattern"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// Catalog implements db.Server. The user sees only what they have a right to.
func (s *server) Catalog(ctx context.Context, q db.Querier, schema, name string) (*db.Catalog, error) {
	c := &db.Catalog{Name: name, Schema: schema}
	if err := q.QueryRowContext(ctx, "SELECT coalesce(nullif(?, ''), database(), '')", schema).Scan(&c.Database); err != nil {
		return nil, err
	}
	if c.Database == "" {
		return nil, db.Problemf("write it at the end of the URL, mysql://host/DATABASE, or set table.schema", "the database URL names no database")
	}
	rows, err := db.QueryRows(ctx, q, `SELECT version() AS version, @@collation_connection AS collation, t.table_name AS name, table_type AS kind, `+account+` AS account, IF(e.transactions <> 'YES', t.engine, '') AS engine
		FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
		WHERE table_schema = ? AND (table_name = BINARY ? OR @@lower_case_table_names > 0 AND lower(table_name) = lower(?))`, c.Database, name, name)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return c, c.SetMissingTable(ctx, q, db.TableSearch{
			Where:   "the database " + c.Database,
			Setting: "table.name or table.schema",
			Query:   "SELECT table_name FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name",
			Args:    []any{c.Database},
		})
	}
	table := rows[0]
	c.Kind = db.Relation
	c.Name = table["name"]
	c.QuotedUser = table["account"]
	c.Engine = table["engine"]
	c.QuotedName = text.Qualified(c.Database, c.Name)
	var create string // the CREATE TABLE statement, which needs the right to read the whole table
	if strings.HasSuffix(table["kind"], "VIEW") {
		c.Kind = db.View
	} else if err := q.QueryRowContext(ctx, "SHOW CREATE TABLE "+c.QuotedName).Scan(&name, &create); s.Classify(err).Class == db.Denied {
		c.Incomplete = true
	} else if err != nil {
		return nil, err
	}
	if strings.Contains(create, "PARTITION BY") {
		c.Kind = db.Partitioned
	}
	casts := newCaster(table["version"], table["collation"])
	if err := cmp.Or(describeColumns(ctx, q, create, casts, c), describeIndexes(ctx, q, c), describeServer(ctx, q, c)); err != nil {
		return nil, err
	}
	c.Triggers, err = db.QueryTexts(ctx, q, `SELECT trigger_name FROM information_schema.triggers
		WHERE event_object_schema = ? AND event_object_table = ? AND event_manipulation = 'UPDATE' ORDER BY trigger_name`, c.Database, c.Name)
	return c, err
}

// Guards implements db.Server. MariaDB says in check_constraints to which table a CHECK belongs, and
// lists the CHECKs of columns nowhere else. In MySQL table_constraints says it. Older servers have no
// check_constraints.
func (s *server) Guards(ctx context.Context, q db.Querier, c *db.Catalog) ([]db.Guard, error) {
	checks, err := db.QueryRows(ctx, q, "SELECT 'c' AS kind, constraint_name AS name, check_clause AS body FROM information_schema.check_constraints WHERE constraint_schema = ? AND table_name = ?", c.Database, c.Name)
	if err != nil {
		checks, err = db.QueryRows(ctx, q, `SELECT 'c' AS kind, k.constraint_name AS name, check_clause AS body FROM information_schema.check_constraints k JOIN information_schema.table_constraints t
			ON t.constraint_schema = k.constraint_schema AND t.constraint_name = k.constraint_name WHERE k.constraint_schema = ? AND t.table_name = ?`, c.Database, c.Name)
	}
	if s.Classify(err).Class == db.Unavailable {
		return nil, err
	}
	keys, err := db.QueryRows(ctx, q, `SELECT 'f' AS kind, constraint_name AS name, group_concat(column_name SEPARATOR 0x01) AS columns FROM information_schema.key_column_usage
		WHERE table_schema = ? AND table_name = ? AND referenced_table_name IS NOT NULL GROUP BY constraint_name`, c.Database, c.Name)
	if err != nil {
		return nil, err
	}
	triggers, err := db.QueryRows(ctx, q, `SELECT 't' AS kind, trigger_name AS name, action_statement AS body FROM information_schema.triggers
		WHERE event_object_schema = ? AND event_object_table = ? AND event_manipulation = 'UPDATE'`, c.Database, c.Name)
	return db.Guards(slices.Concat(checks, keys, triggers)), err
}

// describeServer reads the time zone of the server, which may be its machine's. The zone of the
// session does not tell, because it is set to UTC. describeServer also detects a cluster, in which
// each server has locks of its own.
func describeServer(ctx context.Context, q db.Querier, c *db.Catalog) error {
	const shown = "CONVERT_TZ(utc_timestamp()%s, '+00:00', @@global.time_zone) = utc_timestamp()%[1]s"
	err := q.QueryRowContext(ctx, "SELECT IF("+fmt.Sprintf(shown, "")+" AND "+fmt.Sprintf(shown, " + INTERVAL 6 MONTH")+
		", '', IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone))").Scan(&c.SessionZone)
	if err != nil {
		return err
	}
	rows, err := db.QueryRows(ctx, q, "SHOW VARIABLES LIKE 'wsrep_on'")
	if len(rows) > 0 && rows[0].Is("value") {
		c.Advice = "the server is one of a Galera cluster, whose locks hold on one server only: let all daemons for a table use the same one"
	}
	return err
}

// describeColumns reads the columns.
func describeColumns(ctx context.Context, q db.Querier, create string, casts caster, c *db.Catalog) error {
	rows, err := db.QueryRows(ctx, q, "SELECT * FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position", c.Database, c.Name)
	for _, r := range rows {
		name := r["column_name"]
		decl := r["column_type"]
		isMariaJSON := strings.Contains(create, "json_valid("+text.Quote(name)+")") // a text with a CHECK
		x := db.Column{
			Name:          name,
			Decl:          decl,
			NotNull:       r["is_nullable"] == "NO",
			Generated:     r["generation_expression"] != "",
			Class:         cmp.Or(classes[decl], classes[typeName(decl)], db.Textual),
			Time:          calendar(decl),
			Accepts:       acceptedBy(r["character_set_name"]),
			JSON:          is(decl, "json") || isMariaJSON,
			LabelOrder:    is(decl, "enum", "set"),
			PrefixIndexed: is(decl, longTexts...) || is(decl, "tinyblob", "blob", "mediumblob", "longblob"),
			AutoUpdated:   strings.Contains(strings.ToLower(r["extra"]), "on update"),
		}
		x.ArgumentExpr = casts.typedArgument(&x, r["character_set_name"], r["collation_name"])
		x.Min, x.Max = rangeOf(decl)
		if x.Max < 1<<24 {
			x.MaxCount = x.Max
		}
		length := r.Int("character_maximum_length") // 2^32-1 for LONGTEXT
		if x.LabelOrder {
			found := labelPattern().FindAllStringSubmatch(decl, -1)
			x.Labels = lists.Map(found, func(m []string) string { return strings.ReplaceAll(m[1], "''", "'") })
		} else if x.Class == db.Textual && !is(decl, "json") {
			x.MaxLength = length
		}
		if is(decl, longTexts...) {
			x.MaxBytes = length // the server calls this length characters, but it counts bytes
		}
		switch { // a text is never compared with the number 0: all words are equal to it
		case x.Class == db.Bytes || is(decl, "time", "json"):
		case x.Class == db.Textual && x.Time == nil:
			x.ZeroCond = db.ZeroText
		default:
			x.ZeroCond = db.ZeroNumber
		}
		c.Columns = append(c.Columns, x)
	}
	return err
}

// longTexts are the text types whose index contains only the beginnings.
var longTexts = []string{"tinytext", "text", "mediumtext", "longtext"}

// calendar returns the form in which the server writes and reads dates of a type, nil for other types.
// A TIMESTAMP is shown in the zone of the session, which is UTC.
func calendar(decl string) *db.Calendar {
	f := db.Calendar{Head: "2006-01-02 15:04:05", Type: decl}
	switch {
	case is(decl, "date"):
		f.Head = "2006-01-02"
		return &f
	case is(decl, "timestamp"):
		f.Zone = time.UTC
		f.Moment = true
	case !is(decl, "datetime"):
		return nil
	}
	var digits int
	if _, err := fmt.Sscanf(length(decl), "(%d)", &digits); err == nil && digits > 0 {
		f.Fraction = "." + strings.Repeat("0", digits)
	}
	return &f
}

// acceptedBy returns whether a text of a character set may contain a character; nil: it may contain
// all. The server cannot be asked to replace characters that do not fit: writing them is an error.
func acceptedBy(charset string) func(rune) bool {
	switch charset {
	case "", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return nil
	case "utf8", "utf8mb3", "ucs2":
		return func(r rune) bool { return r <= 0xFFFF }
	case "latin1": // in MySQL this is Windows-1252
		return func(r rune) bool {
			return r < 0x80 || r >= 0xA0 && r <= 0xFF || strings.ContainsRune("€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ", r)
		}
	}
	return func(r rune) bool { return r < utf8.RuneSelf }
}

// classes are the classes of the types. Columns of other types hold text.
var classes = map[string]db.Class{
	"bit(1)": db.Boolean, "bit": db.Integer, "year": db.Integer,
	"tinyint": db.Integer, "smallint": db.Integer, "mediumint": db.Integer, "int": db.Integer, "bigint": db.Integer,
	"float": db.Real, "double": db.Real, "decimal": db.Real,
	"binary": db.Bytes, "varbinary": db.Bytes, "tinyblob": db.Bytes, "blob": db.Bytes, "mediumblob": db.Bytes, "longblob": db.Bytes,
	"geometry": db.Bytes, "point": db.Bytes, "vector": db.Bytes,
}

// labelPattern matches a label in the declaration of an ENUM or a SET.
var labelPattern = pattern.Lazily(`'((?:[^']|'')*)'`)

// describeIndexes reads the indexes. Texts that a unique index of their beginnings tells apart differ
// as a whole too. InnoDB appends the primary key to each index.
func describeIndexes(ctx context.Context, q db.Querier, c *db.Catalog) error {
	rows, err := db.QueryRows(ctx, q, `SELECT s.*, index_name AS name, column_name AS col, non_unique = 0 AS uniq, sub_part IS NULL AS sorted, collation = 'D' AS down
		FROM information_schema.statistics s WHERE table_schema = ? AND table_name = ? ORDER BY index_name, seq_in_index`, c.Database, c.Name)
	for _, r := range rows {
		if r["is_visible"] == "NO" || r["ignored"] == "YES" { // in MySQL, and in MariaDB
			r["hidden"] = "1"
		}
	}
	c.AddIndexes(rows)
	if i := slices.IndexFunc(c.Indexes, func(x db.Index) bool { return x.Name == "PRIMARY" && x.Sorted }); i >= 0 {
		c.IndexSuffix = c.Indexes[i].Columns
	}
	return err
}

// widths are the sizes of the whole numbers, in bits.
var widths = map[string]uint{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

// rangeOf returns the smallest and the largest whole number that a column of the type holds, 0 and 0
// if it holds all of int64.
func rangeOf(decl string) (low, high int64) {
	bits, ok := widths[typeName(decl)]
	unsigned := strings.Contains(decl, "unsigned")
	switch {
	case is(decl, "year"): // the server turns 3 into 2003
		return 1901, 2155
	case !ok || bits == 64 && !unsigned:
		return 0, 0
	case unsigned:
		return 0, 1<<min(bits, 63) - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

// typeName returns the name of a declared type, without length and attributes.
func typeName(decl string) string {
	name, _, _ := strings.Cut(decl, "(")
	name, _, _ = strings.Cut(name, " ")
	return strings.ToLower(name)
}

// is reports whether a declared type has one of the names.
func is(decl string, types ...string) bool { return slices.Contains(types, typeName(decl)) }

// account is an expression for the user and the host as the server has matched them and as GRANT names
// them. The name of the user may contain an @.
const account = "concat(quote(left(current_user(), char_length(current_user()) - char_length(substring_index(current_user(), '@', -1)) - 1)), " +
	"'@', quote(substring_index(current_user(), '@', -1)))"
