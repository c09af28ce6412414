package cmd

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A wildKind is a kind of database, as the program speaks to it that owns the
// tables.
type wildKind struct {
	name string
	// make makes a database of the test's own, or a schema. It returns a pool
	// that runs several statements in a text, and the URL for us.
	make func(t *testing.T) (*sql.DB, string)
	// quote returns the name as an identifier.
	quote func(name string) string
	// literal returns an expression for the column's value as an SQL literal.
	literal func(column string) string
	// schema returns queries for all that is declared where the table is.
	schema func(table string) []string
	// user makes THEROLE with THEPASSWORD, who may see what is there.
	user string
	// now is the time of settlement in a column with microseconds, tick that of
	// the pass.
	now, tick string
}

func inDoubleQuotes(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func inBackticks(name string) string    { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

var inSQLite = wildKind{
	name: "sqlite",
	make: func(t *testing.T) (*sql.DB, string) {
		driver := "sqlite"
		if slices.Contains(sql.Drivers(), "sqlite3") {
			driver = "sqlite3"
		}
		path := filepath.Join(t.TempDir(), "a.db")
		return testkit.OpenPool(t, driver, "file:"+path), "sqlite:" + path
	},
	quote:   inDoubleQuotes,
	literal: func(column string) string { return "quote(" + column + ")" },
	schema:  func(string) []string { return []string{"SELECT * FROM pragma_schema_version, sqlite_master"} },
	now:     "'2026-02-10 12:00:00.250000'", tick: "'2026-02-10 12:00:00'",
}

var inPostgres = wildKind{
	name: "postgres",
	make: func(t *testing.T) (*sql.DB, string) {
		_, ours := testserver.Postgres(t, ownPrefix)
		theirs := *ours
		theirs.RawQuery += "&default_query_exec_mode=simple_protocol&timezone=UTC"
		return testkit.OpenPool(t, "pgx", theirs.String()), ours.String()
	},
	quote:   inDoubleQuotes,
	literal: func(column string) string { return "quote_nullable(" + column + "::text)" },
	schema: func(string) []string {
		const here = " = current_schema()::regnamespace"
		return []string{
			"SELECT oid, relname, relkind, relfilenode, relacl FROM pg_class WHERE relnamespace" + here,
			`SELECT attrelid, attname, attnum, format_type(atttypid, atttypmod), attnotnull, attidentity, attacl, pg_get_expr(adbin, adrelid)
				FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE relnamespace` + here,
			"SELECT oid, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace" + here,
			"SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()",
			"SELECT pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace" + here,
		}
	},
	user: "CREATE ROLE THEROLE LOGIN PASSWORD THEPASSWORD; DO $$ BEGIN EXECUTE 'GRANT USAGE ON SCHEMA ' || current_schema() || ' TO THEROLE'; END $$; ",
	now:  "'2026-02-10 12:00:00.25+00'", tick: "'2026-02-10 12:00:00+00'",
}

var inMySQL = wildKind{
	name: "mysql",
	make: func(t *testing.T) (*sql.DB, string) {
		_, u := testserver.MySQL(t, ownPrefix)
		// As programs do that want their old SQL to run: with zero dates, and
		// here with names in double quotes.
		dsn := testserver.DSN(u, "multiStatements=true&charset=utf8mb4&time_zone=%27%2B00%3A00%27&sql_mode=%27ANSI_QUOTES%27")
		return testkit.OpenPool(t, "mysql", dsn), u.String()
	},
	quote: inBackticks,
	literal: func(column string) string {
		return "coalesce(concat('''', replace(" + column + ", '''', ''''''), ''''), 'NULL')"
	},
	schema: func(table string) []string {
		return []string{
			"SHOW CREATE TABLE " + inBackticks(table),
			"SELECT TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_TIME, TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = database()",
			"SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = database()",
		}
	},
	user: "CREATE USER THEROLE IDENTIFIED BY THEPASSWORD; ",
	now:  "'2026-02-10 12:00:00.250000'", tick: "'2026-02-10 12:00:00.000000'",
}

// ownPrefix is what the names begin with of what is a test's own.
const ownPrefix = "backlog_wild_"

// ownNames matches those.
var ownNames = regexp.MustCompile(ownPrefix + "[a-z2-7]{12}")

func mustExec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// rowsOf returns the rows of a query as text, sorted.
func rowsOf(t *testing.T, db *sql.DB, query string) (list []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		to := make([]any, len(values))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		line := make([]string, len(values))
		for i, v := range values {
			line[i] = v.String
		}
		list = append(list, strings.Join(line, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}
