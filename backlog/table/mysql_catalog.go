package table

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// describe reads the catalogue, of which a user sees what they have a right
// to.
func (d mysql) describe(ctx context.Context, db *sql.DB, schema, name string) (*catalog, error) {
	if schema == "" {
		schema = d.database
	}
	if schema == "" {
		return nil, problem("write it at the end of the URL, mysql://host/DATABASE, or set table.schema", "the database URL names no database")
	}
	var real, kind, account string
	err := db.QueryRowContext(ctx, "SELECT table_name, table_type, "+mysqlAccount+` FROM information_schema.tables WHERE table_schema = ? AND
		(table_name = BINARY ? OR @@lower_case_table_names > 0 AND lower(table_name) = lower(?))`, schema, name, name).Scan(&real, &kind, &account)
	if err == sql.ErrNoRows {
		return nil, d.noTable(ctx, db, schema, name)
	}
	if err != nil {
		return nil, err
	}
	d.names.account.Store(&account)
	d.names.schema.Store(&schema)
	cat := &catalog{kind: "table"}
	var checks []string
	if strings.HasSuffix(kind, "VIEW") {
		cat.kind = "view"
	} else if checks, err = d.checks(ctx, db, d.quote(schema)+"."+d.quote(real)); err != nil && err != errMySQLHidden {
		return nil, err
	}
	cat.partial = err == errMySQLHidden
	if err := d.describeColumns(ctx, db, schema, real, checks, cat); err != nil {
		return nil, err
	}
	if err := d.describeIndexes(ctx, db, schema, real, cat); err != nil {
		return nil, err
	}
	cat.triggers, err = texts(ctx, db, `SELECT trigger_name FROM information_schema.triggers
		WHERE event_object_schema = ? AND event_object_table = ? AND event_manipulation = 'UPDATE' ORDER BY trigger_name`, schema, real)
	return cat, err
}

func (d mysql) noTable(ctx context.Context, db *sql.DB, schema, name string) error {
	have, err := texts(ctx, db, "SELECT table_name FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name", schema)
	if err != nil {
		return err
	}
	list := "there are no tables that this user may see"
	if len(have) > 0 {
		list = "the tables that this user may see are: " + strings.Join(have, ", ")
	}
	return problem("set table.name or table.schema, or let `backlog init` create it; "+list, "there is no table %s in the database %s", name, schema)
}

func (d mysql) describeColumns(ctx context.Context, db *sql.DB, schema, name string, checks []string, cat *catalog) error {
	rows, err := db.QueryContext(ctx, `SELECT column_name, column_type, is_nullable, coalesce(character_maximum_length, 0), coalesce(character_set_name, ''), extra,
		coalesce(generation_expression, '')
		FROM information_schema.columns WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`, schema, name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c column
		var nullable, charset, extra, expr string
		if err := rows.Scan(&c.name, &c.decl, &nullable, &c.length, &charset, &extra, &expr); err != nil {
			return err
		}
		c.notNull, c.generated = nullable == "NO", expr != ""
		c.class = mysqlClass(&c)
		c.unsigned = strings.Contains(c.decl, "unsigned")
		c.most = mysqlMost(&c)
		c.json = mysqlIs(&c, "json") || slices.Contains(checks, "json_valid("+d.quote(c.name)+")")
		c.updated = strings.Contains(strings.ToLower(extra), "on update")
		if mysqlIs(&c, "enum") {
			c.labels = mysqlLabels(c.decl)
		}
		if c.class != classText || mysqlIs(&c, "enum", "set", "json") {
			c.length = 0
		}
		if mysqlIs(&c, "tinytext", "text", "mediumtext", "longtext") {
			c.octets = c.length // what is said to be characters is bytes
		}
		c.holds = mysqlTakes(charset)
		cat.columns = append(cat.columns, c)
	}
	return rows.Err()
}

// mysqlTakes reports whether a text of the character set takes a character. The
// server cannot be asked to replace what does not fit: to a statement that
// writes this is an error.
func mysqlTakes(charset string) func(rune) bool {
	switch charset {
	case "", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030":
		return nil
	case "utf8", "utf8mb3", "ucs2":
		return func(r rune) bool { return r <= 0xFFFF }
	case "latin1": // of the name's meaning elsewhere only nearly
		return func(r rune) bool { _, ok := charmap.Windows1252.EncodeRune(r); return ok }
	}
	return isASCII
}

func isASCII(r rune) bool { return r < utf8.RuneSelf }

// mysqlClass returns what a column of the type can hold.
func mysqlClass(c *column) class {
	switch {
	case c.decl == "bit(1)":
		return classBoolean
	case mysqlIs(c, "tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"):
		return classInteger
	case mysqlIs(c, "float", "double", "decimal"):
		return classReal
	case mysqlIs(c, "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "vector"):
		return classBlob
	}
	return classText
}

// mysqlLabels returns those of an ENUM's declaration.
func mysqlLabels(decl string) []string {
	list := []string{}
	for _, m := range mysqlLabel().FindAllStringSubmatch(decl, -1) {
		list = append(list, strings.ReplaceAll(m[1], "''", "'"))
	}
	return list
}

var mysqlLabel = pattern(`'((?:[^']|'')*)'`)

// describeIndexes reads the unique keys. What one says of the beginnings of
// texts holds for the whole of them; one of an expression has no column.
func (d mysql) describeIndexes(ctx context.Context, db *sql.DB, schema, name string, cat *catalog) error {
	indexes, err := d.indexes(ctx, db, schema, name)
	cat.indexes = indexes
	for _, x := range indexes {
		if x.unique && !slices.Contains(x.columns, "") {
			cat.uniques = append(cat.uniques, x.columns)
		}
	}
	return err
}

// A mysqlIndex is an index of the table; a column of "" is an expression.
type mysqlIndex struct {
	name    string
	unique  bool
	whole   bool // no column by its beginning only
	hidden  bool // the planner is not to know it
	columns []string
	down    []bool // which of the columns are in descending order
}

func (d mysql) indexes(ctx context.Context, db *sql.DB, schema, name string) (list []mysqlIndex, err error) {
	rows, err := mysqlRows(ctx, db, "SELECT * FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? ORDER BY index_name, seq_in_index", schema, name)
	for _, row := range rows {
		index := row["index_name"]
		if len(list) == 0 || list[len(list)-1].name != index {
			list = append(list, mysqlIndex{name: index, unique: row["non_unique"] == "0", whole: true,
				hidden: row["is_visible"] == "NO" || row["ignored"] == "YES"}) // MySQL's word, and MariaDB's
		}
		x := &list[len(list)-1]
		x.columns, x.whole = append(x.columns, row["column_name"]), x.whole && row["sub_part"] == ""
		x.down = append(x.down, row["collation"] == "D")
	}
	return list, err
}

// mysqlRows returns the rows as text by the names of their columns, in small
// letters. These differ from server to server. NULL is "".
func mysqlRows(ctx context.Context, db querier, query string, args ...any) (list []map[string]string, err error) {
	rows, err := mysqlNullRows(ctx, db, query, args...)
	for _, r := range rows {
		row := make(map[string]string, len(r))
		for name, value := range r {
			row[name] = value.String
		}
		list = append(list, row)
	}
	return list, err
}

// mysqlNullRows is mysqlRows where NULL is not "".
func mysqlNullRows(ctx context.Context, db querier, query string, args ...any) (list []map[string]sql.NullString, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range to {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		row := make(map[string]sql.NullString)
		for i, name := range names {
			row[strings.ToLower(name)] = values[i]
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// errMySQLHidden says that the user may not see the constraints.
var errMySQLHidden = errors.New("the constraints are not to be seen")

// checks returns the table's CHECK constraints, or errMySQLHidden. They stand in the statement that creates the table, which those may see
// who may read it; the catalogue shows them to fewer.
func (d mysql) checks(ctx context.Context, db *sql.DB, table string) ([]string, error) {
	var name, create string
	err := db.QueryRowContext(ctx, "SHOW CREATE TABLE "+table).Scan(&name, &create)
	if n := mysqlNumber(err); n == 1142 || n == 1143 {
		return nil, errMySQLHidden
	}
	return mysqlChecks(create), err
}

var mysqlToken = pattern("(?is)" + "'(?:[^'\\\\]|''|\\\\.)*'|`(?:[^`]|``)*`|\\bCHECK\\s*\\(|[()]|\\bNOT ENFORCED\\b")

// mysqlChecks finds the conditions in the statement that creates a table.
func mysqlChecks(create string) (list []string) {
	begin, depth := -1, 0
	for _, at := range mysqlToken().FindAllStringIndex(create, -1) {
		switch token := create[at[0]:at[1]]; {
		case token == ")" && begin >= 0:
			if depth--; depth == 0 {
				list = append(list, create[begin:at[0]])
				begin = -1
			}
		case strings.HasSuffix(token, "(") && begin >= 0:
			depth++
		case strings.EqualFold(token, "NOT ENFORCED") && len(list) > 0:
			list = list[:len(list)-1]
		case len(token) > 1 && strings.HasSuffix(token, "("):
			begin, depth = at[1], 1
		}
	}
	return list
}

var mysqlWidth = map[string]uint{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

// mysqlMost returns the largest number of a column of the smaller types, else 0.
func mysqlMost(c *column) int64 {
	name, _, _ := strings.Cut(strings.ToLower(c.decl), "(")
	name, _, _ = strings.Cut(name, " ")
	bits, ok := mysqlWidth[name]
	switch {
	case !ok || bits > 24:
		return 0
	case c.unsigned:
		return 1<<bits - 1
	}
	return 1<<(bits-1) - 1
}

// mysqlHolds reports whether an integer column can hold the number.
func mysqlHolds(c *column, n int64) bool {
	name, _, _ := strings.Cut(strings.ToLower(c.decl), "(")
	name, _, _ = strings.Cut(name, " ")
	bits, ok := mysqlWidth[name]
	switch {
	case name == "year": // of others it makes one
		return n == 0 || n >= 1901 && n <= 2155
	case name == "bit":
		digits, _ := strconv.ParseUint(strings.Trim(c.decl, "bit()"), 10, 8)
		return n >= 0 && (digits >= 63 || n < 1<<digits)
	case !ok || bits == 64:
		return true
	case c.unsigned:
		return n >= 0 && n < 1<<bits
	}
	return n >= -1<<(bits-1) && n < 1<<(bits-1)
}
