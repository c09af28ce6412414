package table

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backlog/backlog"
)

// usedMySQL is MySQL or MariaDB on connections that somebody else has set up.
type usedMySQL struct {
	mysql
	pool *sql.DB

	// dates are the quoted columns of which the driver may make times, in a
	// zone that may have skipped some.
	dates map[string]bool
}

// useMySQL makes a database of the pool.
func useMySQL(ctx context.Context, pool *sql.DB) (*DB, error) {
	rows, err := pool.QueryContext(ctx, "SELECT a FROM (SELECT database() AS a) AS b")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var schema sql.NullString
	names, err := rows.Columns()
	switch {
	case err != nil:
		return nil, err
	case names[0] != "a":
		return nil, problem("leave columnsWithAlias out of its DSN", "the pool names columns in a way of its own")
	case !rows.Next():
		return nil, rows.Err()
	}
	if err := rows.Scan(&schema); err != nil {
		return nil, err
	}
	d := usedMySQL{
		mysql: mysql{database: schema.String, locks: locksFrom(pool), hints: new(mysqlHints), names: new(mysqlNames)},
		pool:  pool, dates: make(map[string]bool),
	}
	lent := (&lender{pool: pool, enter: mysqlEnter, begin: []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION READ WRITE"}}).open()
	return &DB{dialect: d, patience: mysqlPatience, read: lent, write: lent, lent: true, changedOnly: true}, nil
}

// A mysqlSetting is a variable of the session.
type mysqlSetting struct {
	only string // the beginning of a comment that only the servers read that have it
	name string
	want string // "": whatever it is, but others change it
}

// mysqlWanted are what a session is to be like, as [mysqlSession] has it.
var mysqlWanted = []mysqlSetting{
	{"", "character_set_client", "utf8mb4"},
	{"", "character_set_results", "utf8mb4"},
	{"", "character_set_connection", "utf8mb4"},
	{"", "collation_connection", ""},
	{"", "time_zone", "+00:00"},
	{"", "sql_mode", "STRICT_ALL_TABLES"}, // among others
	{"", "autocommit", "1"},
	{"", "completion_type", "NO_CHAIN"},
	{"", "sql_auto_is_null", "0"},
	{"", "sql_safe_updates", "0"},
	{"", "sql_select_limit", "18446744073709551615"},
	{"", "innodb_lock_wait_timeout", "5"},
	{"", "lock_wait_timeout", "10"},
	{"!80000", "max_execution_time", "60000"},
	{"M!100100", "max_statement_time", "60"},
	{"M!100300", "idle_transaction_timeout", "60"},
	{"M!100300", "in_predicate_conversion_threshold", "0"},
}

// mysqlAskSession is the query for them.
var mysqlAskSession = sync.OnceValue(func() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, s := range mysqlWanted {
		text := "@@SESSION." + s.name + " AS " + s.name + ", "
		if s.only != "" {
			text = "/*" + s.only + " " + text + "*/ "
		}
		b.WriteString(text)
	}
	return b.String() + "1 AS one"
})

// mysqlEnter sets what is not as it is to be, and has it set back afterwards.
func mysqlEnter(ctx context.Context, c *lentConn) error {
	rows, err := mysqlNullRows(ctx, c.conn, mysqlAskSession())
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return err
	}
	has := rows[0]
	var set, back []string
	for _, s := range mysqlWanted {
		value, there := has[s.name]
		want := s.want
		if s.name == "sql_mode" {
			want = mysqlMode(value.String, want)
		}
		if !there || sameSetting(value.String, want) {
			continue
		}
		back = append(back, s.name+" = "+mysqlSettingText(value))
		if want != "" {
			set = append(set, s.name+" = "+mysqlSettingText(sql.NullString{String: want, Valid: true}))
		}
	}
	c.leave = func(context.Context) error { return nil }
	if len(set) == 0 {
		return nil
	}
	c.leave = func(ctx context.Context) error {
		_, err := c.conn.ExecContext(ctx, "SET "+strings.Join(back, ", "))
		return err
	}
	_, err = c.conn.ExecContext(ctx, "SET "+strings.Join(set, ", "))
	return err
}

// mysqlMode returns the sql_mode with the one added, and without that in which
// a backslash is no more than one.
func mysqlMode(has, want string) string {
	modes := strings.Split(has, ",")
	if !slices.Contains(modes, want) {
		modes = append(modes, want)
	}
	modes = slices.DeleteFunc(modes, func(m string) bool { return m == "" || m == "NO_BACKSLASH_ESCAPES" })
	return strings.Join(modes, ",")
}

// sameSetting compares numbers as such: 60 is 60.000000.
func sameSetting(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return a == b || errA == nil && errB == nil && x == y
}

func mysqlSettingText(v sql.NullString) string {
	if _, err := strconv.ParseFloat(v.String, 64); err == nil {
		return v.String
	}
	if !v.Valid {
		return "NULL"
	}
	return mysql{}.literal(v.String)
}

func (usedMySQL) prepares() bool { return false } // on a connection that is given back

// describe notes which columns are dates.
func (d usedMySQL) describe(ctx context.Context, db *sql.DB, schema, name string) (*catalog, error) {
	cat, err := d.mysql.describe(ctx, db, schema, name)
	if err != nil {
		return nil, err
	}
	for i := range cat.columns {
		if c := &cat.columns[i]; mysqlIs(c, "date", "datetime", "timestamp") {
			d.dates[d.quote(c.name)] = true
		}
	}
	return cat, nil
}

// raw has dates as text, whatever parseTime and loc say: a zero date is no time
// of Go's, and a zone may have skipped others.
func (d usedMySQL) raw(col string) string {
	if d.dates[col] {
		return "CAST(" + col + " AS CHAR)"
	}
	return col
}

// tryLock takes the lock on a connection of the pool, which ends with it.
func (d usedMySQL) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	if err := roomForLocks(d.pool); err != nil {
		return nil, err
	}
	return d.mysql.tryLock(ctx, schema, table, name)
}

func (d usedMySQL) schemaOf(context.Context, *sql.DB, string) (string, error) { return d.database, nil }
