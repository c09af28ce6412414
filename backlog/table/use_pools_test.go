package table_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"backlog/internal/testserver"
)

// A serverPool is what a program opens that has never heard of us.
type serverPool struct {
	name        string
	settings    string // parameters of a URL or of a data source name
	connections int
}

var postgresPools = []serverPool{
	{"another zone", "timezone=Europe/Berlin&datestyle=SQL,%20DMY&row_security=on", 0},
	{"a mode of its own", "timezone=Asia/Kolkata&default_query_exec_mode=exec", 3},
	{"simple", "timezone=America/New_York&default_query_exec_mode=simple_protocol", 1},
}

var mysqlPools = []serverPool{
	{"as it is", "", 0},
	{"times of its own", "parseTime=true&loc=Europe%2FBerlin&time_zone=%27-08:00%27&interpolateParams=true&sql_mode=%27NO_BACKSLASH_ESCAPES%27", 3},
	{"rows that are found", "clientFoundRows=true&time_zone=%27%2B05%3A30%27&autocommit=0&sql_mode=%27%27&charset=latin1", 1},
}

// ownPostgres opens the URL with its parameters as a program does.
func ownPostgres(tb testing.TB, address string, p serverPool) *sql.DB {
	tb.Helper()
	if p.settings != "" {
		address += "&" + p.settings
	}
	return ownPool(tb, "pgx", address, p.connections)
}

// ownMySQL opens the database of the URL as a program does.
func ownMySQL(tb testing.TB, address string, p serverPool) *sql.DB {
	tb.Helper()
	return ownPool(tb, "mysql", testserver.DSN(mustURL(tb, address), p.settings), p.connections)
}

// A serverKind is one of those that pools lead to.
type serverKind struct {
	name      string
	pools     []serverPool
	db        testDatabase
	own       func(testing.TB, string, serverPool) *sql.DB
	many      string // makes a table of 2,400 rows
	session   string // the settings of a session, as one text
	elsewhere string // has a session look for tables in another place
}

var serverKinds = []serverKind{
	{
		"PostgreSQL", postgresPools, onPostgres, ownPostgres,
		`CREATE TABLE orders (id int PRIMARY KEY, status text, date_inserted timestamp);
			INSERT INTO orders SELECT i, 'NEW', timestamp '2026-02-10 11:00:00' - i * interval '1 second' FROM generate_series(1, 2400) i`,
		"SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name <> 'transaction_isolation'",
		"SET search_path = pg_catalog",
	},
	{
		"MySQL", mysqlPools, onMySQL, ownMySQL,
		`CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(20), date_inserted TIMESTAMP NULL);
			INSERT INTO orders WITH RECURSIVE a AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM a WHERE n < 47), b AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM b WHERE n < 50)
			SELECT 50 * a.n + b.n, 'NEW', TIMESTAMP '2026-02-10 11:00:00' - INTERVAL 50 * a.n + b.n SECOND FROM a, b`,
		`SELECT concat_ws(' ', @@time_zone, @@sql_mode, @@autocommit, @@completion_type, @@sql_auto_is_null, @@sql_safe_updates, @@sql_select_limit, @@wait_timeout,
			@@innodb_lock_wait_timeout, @@lock_wait_timeout, @@character_set_client, @@character_set_results, @@character_set_connection, @@collation_connection
			/*!80000 , @@max_execution_time, @@transaction_isolation */ /*M!100300 , @@tx_isolation, @@max_statement_time, @@idle_transaction_timeout, @@in_predicate_conversion_threshold */)`,
		"USE information_schema",
	},
}

// eachServerPool runs the test on each of them, with a table of many rows.
func eachServerPool(t *testing.T, test func(t *testing.T, kind serverKind, pool *sql.DB, plain *sql.DB)) {
	for _, kind := range serverKinds {
		for _, p := range kind.pools {
			t.Run(kind.name+", "+p.name, func(t *testing.T) {
				t.Parallel()
				plain, address := kind.db.open(t)
				for _, text := range strings.Split(kind.many, ";") {
					if _, err := plain.Exec(text); err != nil {
						t.Fatal(err)
					}
				}
				test(t, kind, kind.own(t, address, p), plain)
			})
		}
	}
}

// sessions returns the settings of the pool's connections, as far as they can be
// had at once.
func sessions(tb testing.TB, pool *sql.DB, query string) (list []string) {
	tb.Helper()
	n := pool.Stats().MaxOpenConnections
	if n == 0 {
		n = 3
	}
	for range n {
		c, err := pool.Conn(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		defer c.Close()
		var text string
		if err := c.QueryRowContext(context.Background(), query).Scan(&text); err != nil {
			tb.Fatal(err)
		}
		list = append(list, text)
	}
	return list
}

func mustURL(tb testing.TB, text string) *url.URL {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}
