package table

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sqlite is the dialect of SQLite files. Which driver speaks it is decided by
// a build tag; see sqlite_modernc.go and sqlite_mattn.go.
type sqlite struct {
	path string
	busy time.Duration // how long another program's lock is waited for
}

const (
	// busyTimeout is the default of that.
	busyTimeout = 10 * time.Second
	// moment is how long SQLite itself waits before it is asked anew. In
	// longer waits it tries only ten times a second, which can be for ever
	// beside a program that writes all the time, and does not hear that a
	// context is done.
	moment = 10 * time.Millisecond
)

func openSQLite(path, synchronous string, o Options) (*DB, error) {
	if err := sqliteFile(path); err != nil {
		return nil, err
	}
	mode := "rw"
	if o.ReadOnly {
		mode = "ro"
	}
	d := sqlite{path, cmp.Or(o.busy, busyTimeout)}
	read, err := sql.Open(sqliteDriver, d.dsn(mode, synchronous, min(d.busy, moment)))
	if err != nil {
		return nil, err
	}
	db := &DB{dialect: d, patience: d.busy, read: pool(read, max(1, o.Pool-1)), file: &watchedFile{path: path}}
	if !o.ReadOnly {
		write, err := sql.Open(sqliteDriver, d.dsn(mode, synchronous, d.busy))
		if err != nil {
			return nil, err
		}
		db.write = pool(write, 1)
	}
	return db, nil
}

func (d sqlite) dsn(mode, synchronous string, busy time.Duration) string {
	params := fmt.Sprintf(sqliteParams, busy.Milliseconds(), synchronous)
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: d.path}).EscapedPath(), RawQuery: "mode=" + mode + "&" + params}
	return u.String()
}

// sqliteFile says what is wrong with a path before SQLite says it less well.
// It must not open the file: closing it again would end the locks that all
// connections of this process have on it.
func sqliteFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &missingFile{Problem{"the database file " + path + " does not exist" + inFolder(path), "name another, or let `backlog init` create it"}}
	case errors.Is(err, fs.ErrPermission):
		return problem("give this user the right to read it", "the database file %s cannot be read: permission denied", path)
	case err != nil:
		return problem("name another", "the database file cannot be read: %v", err)
	case info.IsDir():
		return problem("name the file in it", "%s is a directory, not a database file", path)
	}
	return nil
}

// reach reads from the database for the first time.
func (d sqlite) reach(ctx context.Context, db *sql.DB) error {
	var version int64
	err := db.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version)
	if code, ok := sqliteCode(err); ok {
		switch code & 0xff {
		case 3, 8, 14: // PERM READONLY CANTOPEN
			return problem("give this user the right to read it, and to create files in its folder", "the database file %s cannot be opened: %v", d.path, err)
		case 26: // NOTADB
			return problem("name another", "the file %s is not an SQLite database", d.path)
		}
	}
	return err
}

// missingFile is the problem of a database file that is not there.
type missingFile struct{ Problem }

// openSQLiteToCreate opens the database for init, which may create it.
func openSQLiteToCreate(rawURL string) (*DB, error) {
	path, synchronous, err := sqlitePath(rawURL)
	if err != nil {
		return nil, err
	}
	d := sqlite{path, busyTimeout}
	db, err := sql.Open(sqliteDriver, d.dsn("rwc", synchronous, d.busy))
	if err != nil {
		return nil, err
	}
	pool(db, 1)
	return &DB{dialect: d, read: db, write: db}, nil
}

func (sqlite) quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func (sqlite) foldsNames() bool         { return true }

// raw hides the declared type from the drivers, which would otherwise make
// times and booleans of what is stored. Unary plus changes nothing else.
func (sqlite) raw(col string) string { return "+" + col }

func (sqlite) place(text string) string                   { return text }
func (sqlite) cast(*column) string                        { return "?" }
func (sqlite) from(t *Table, _ []string, _ string) string { return t.name }

func (sqlite) prepares() bool       { return true }
func (sqlite) lazyUnion() bool      { return true }
func (sqlite) partialIndexes() bool { return true }
func (sqlite) leads(bool) bool      { return true }

func (sqlite) driver() string  { return SQLiteDriver }
func (sqlite) present() string { return "" }

func (sqlite) grantee(context.Context, *sql.DB, *Table) (on, to string, err error) { return }
func (sqlite) schemaRights() bool                                                  { return false }

// lockRow is empty: the transaction itself keeps all others from writing.
func (sqlite) lockRow() string     { return "" }
func (sqlite) writers(*sql.DB) int { return 1 }

func (d sqlite) createIndex(t *Table, name, rest string) string {
	return "CREATE INDEX IF NOT EXISTS " + d.quote(name) + " ON " + d.quote(t.m.Name) + " (" + rest
}

func (sqlite) understood(ctx context.Context, db *sql.DB, text string) error {
	return preparable(ctx, db, text)
}

func (sqlite) permits(context.Context, *sql.DB, string, int) error     { return nil }
func (sqlite) ungranted(context.Context, *sql.DB, string, error) error { return nil }

// value undoes what one driver does: it says that a BLOB is empty in the way in
// which the other says NULL.
func (sqlite) value(_ *column, v any) any {
	if b, ok := v.([]byte); ok && b == nil {
		return []byte{}
	}
	return v
}

// timeForm returns nil: a type says nothing about what is stored.
func (sqlite) timeForm(*column, *time.Location) timeCodec { return nil }

// zeroDate has the ways in which programs store a zero date.
func (d sqlite) zeroDate(c *column) string { return d.quote(c.name) + " IN " + zeroDates() }

var zeroDates = sync.OnceValue(func() string {
	list := []string{"0", "''", "'00000000000000'"}
	for _, date := range []string{"0000-00-00", "0001-01-01"} {
		for _, rest := range []string{"", " 00:00", " 00:00:00", " 00:00:00.000", " 00:00:00.000000", " 00:00:00Z", " 00:00:00+00:00", " 00:00:00 +0000 UTC",
			"T00:00:00", "T00:00:00Z", "T00:00:00.000Z", "T00:00:00+00:00"} {
			list = append(list, "'"+date+rest+"'")
		}
	}
	return "(" + strings.Join(list, ", ") + ")"
})

func (sqlite) syntax() syntax {
	return syntax{placeholder: func(int) string { return "?" }, own: "?@$", brackets: true, backticks: true}
}

func (sqlite) literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case []byte:
		return "x'" + hex.EncodeToString(v) + "'"
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
}

func (sqlite) keyIn(cols []string, n int) string {
	if len(cols) == 1 {
		return cols[0] + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	row := ",(?" + strings.Repeat(",?", len(cols)-1) + ")"
	return "(" + strings.Join(cols, ", ") + ") IN (VALUES " + strings.Repeat(row, n)[1:] + ")"
}

func (sqlite) guard(cond string) string { return "(" + cond + ") IS TRUE" }

// begin takes the lock to write, asked for in moments. What follows may then
// wait for long: at its end it lets no new reader in and waits for the others.
func (d sqlite) begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	wait := func(exec func(context.Context, string, ...any) (sql.Result, error), d time.Duration) error {
		_, err := exec(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
		return err
	}
	if err := wait(conn.ExecContext, min(d.busy, moment)); err != nil {
		return nil, err
	}
	for start := time.Now(); ; {
		tx, err := conn.BeginTx(ctx, nil)
		if err == nil {
			if err := wait(tx.ExecContext, d.busy); err != nil {
				tx.Rollback()
				return nil, err
			}
			return tx, nil
		}
		if d.classify(err) != classBusy || ctx.Err() != nil || time.Since(start) >= d.busy {
			return nil, errors.Join(err, wait(conn.ExecContext, d.busy))
		}
	}
}

// Primary result codes: https://sqlite.org/rescode.html
func (sqlite) classify(err error) errorClass {
	if code, ok := sqliteCode(err); ok {
		return classOf(code)
	}
	return classOther
}

func (d sqlite) describe(ctx context.Context, db *sql.DB, schema, name string) (*catalog, error) {
	if schema != "" && !strings.EqualFold(schema, "main") {
		return nil, problem("leave it out", "table.schema: an SQLite file has only the schema main, not %s", schema)
	}
	var cat catalog
	var text sql.NullString
	err := db.QueryRowContext(ctx, "SELECT type, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE", name).Scan(&cat.kind, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, d.noTable(ctx, db, name)
	}
	if err != nil {
		return nil, err
	}
	if err := d.describeColumns(ctx, db, name, &cat); err != nil {
		return nil, err
	}
	if err := d.describeIndexes(ctx, db, name, &cat); err != nil {
		return nil, err
	}
	cat.triggers, err = texts(ctx, db, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND sql LIKE '%UPDATE%ON%' ORDER BY name", name)
	return &cat, err
}

func (d sqlite) noTable(ctx context.Context, db *sql.DB, name string) error {
	have, err := texts(ctx, db, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name")
	if err != nil {
		return err
	}
	list := "there are no tables"
	if len(have) > 0 {
		list = "the tables are: " + strings.Join(have, ", ")
	}
	return problem("set table.name, or let `backlog init` create it; "+list, "there is no table %s in %s", name, d.path)
}

func (d sqlite) describeColumns(ctx context.Context, db *sql.DB, name string, cat *catalog) error {
	rows, err := db.QueryContext(ctx, `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid`, name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var pk []string
	for rows.Next() {
		var c column
		var inKey, hidden int
		if err := rows.Scan(&c.name, &c.decl, &c.notNull, &inKey, &hidden); err != nil {
			return err
		}
		c.class, c.length, c.json = sqliteClass(c.decl)
		c.generated = hidden != 0
		if inKey > 0 {
			pk = append(pk, c.name)
		}
		cat.columns = append(cat.columns, c)
	}
	if len(pk) > 0 {
		cat.uniques = append(cat.uniques, pk)
	}
	if c := cat.find(strings.Join(pk, ","), false); len(pk) == 1 && strings.EqualFold(c.decl, "INTEGER") {
		c.notNull = true // the rowid
	}
	return rows.Err()
}

func (d sqlite) describeIndexes(ctx context.Context, db *sql.DB, name string, cat *catalog) error {
	// What an index of another collation calls different can be equal to the
	// column, and so to a condition.
	indexes, err := texts(ctx, db, `SELECT l.name FROM pragma_index_list(?) l LEFT JOIN sqlite_master m ON m.type = 'index' AND m.name = l.name
		WHERE l."unique" AND NOT l.partial AND coalesce(m.sql, '') NOT LIKE '%COLLATE%'`, name)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		// An expression in an index has no name; it makes nothing unique.
		cols, err := texts(ctx, db, "SELECT coalesce(name, '(expression)') FROM pragma_index_info(?)", index)
		if err != nil {
			return err
		}
		cat.uniques = append(cat.uniques, cols)
	}
	return nil
}

var sqliteLength = regexp.MustCompile(`\(\s*(\d+)\s*\)`)

// sqliteClass follows the rules by which SQLite gives a column its affinity
// (https://sqlite.org/datatype3.html, 3.1), and tells apart what people mean by
// BOOLEAN and JSON.
func sqliteClass(decl string) (c class, length int, isJSON bool) {
	d := strings.ToUpper(decl)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(d, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("BOOL"):
		return classBoolean, 0, false
	case has("INT"):
		return classInteger, 0, false
	case has("CHAR", "CLOB", "TEXT"):
		if m := sqliteLength.FindStringSubmatch(d); m != nil {
			length, _ = strconv.Atoi(m[1])
		}
		return classText, length, has("JSON")
	case has("JSON"):
		return classNumeric, 0, true
	case has("BLOB"), d == "":
		return classAny, 0, false
	case has("REAL", "FLOA", "DOUB"):
		return classReal, 0, false
	}
	return classNumeric, 0, false
}

func (sqlite) advice(ctx context.Context, db *sql.DB) string {
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || strings.EqualFold(mode, "wal") {
		return ""
	}
	return "the journal mode is " + mode + ": readers and writers wait for each other; with `PRAGMA journal_mode = WAL` they would not"
}
