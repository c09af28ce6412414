// Package testserver gives tests a place of their own on the servers of PostgreSQL, MySQL
// or MariaDB, Redis and RabbitMQ that the environment names. The drivers are those that
// the test has.
package testserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// PostgresURL returns the URL of the server; its user may create schemas and roles.
func PostgresURL(tb testing.TB) *url.URL {
	tb.Helper()
	return reach(tb, "PostgreSQL", "BACKLOG_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/postgres", func(ctx context.Context, u *url.URL) error {
		return testkit.OpenPool(tb, "pgx", u.String()).PingContext(ctx)
	})
}

// MySQLURL returns the URL of the server; its user may create databases and users.
func MySQLURL(tb testing.TB) *url.URL {
	tb.Helper()
	return reach(tb, "MySQL or MariaDB", "BACKLOG_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test", func(ctx context.Context, u *url.URL) error {
		return testkit.OpenPool(tb, "mysql", DSN(u, "")).PingContext(ctx)
	})
}

// Postgres makes a schema that is dropped when the test has ended, and returns
// its name, which begins with the prefix, and a URL whose search_path it is.
// Where there is no server the test is skipped; where the environment names one
// it must be there.
func Postgres(tb testing.TB, prefix string) (schema string, u *url.URL) {
	tb.Helper()
	schema, u = Name(prefix), PostgresURL(tb)
	own(tb, testkit.OpenPool(tb, "pgx", u.String()), `CREATE SCHEMA "`+schema+`"`, `DROP SCHEMA IF EXISTS "`+schema+`" CASCADE`)
	q := u.Query()
	q.Set("search_path", `"`+schema+`"`)
	u.RawQuery = q.Encode()
	return schema, u
}

// MySQL makes a database, likewise.
func MySQL(tb testing.TB, prefix string) (database string, u *url.URL) {
	tb.Helper()
	database, u = Name(prefix), MySQLURL(tb)
	own(tb, testkit.OpenPool(tb, "mysql", DSN(u, "")), "CREATE DATABASE "+database+" CHARACTER SET utf8mb4", "DROP DATABASE IF EXISTS "+database)
	u.Path = "/" + database
	return database, u
}

// own makes what is the test's own, and drops it when the test has ended.
func own(tb testing.TB, db *sql.DB, create, drop string) {
	tb.Helper()
	if _, err := db.Exec(create); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if _, err := db.Exec(drop); err != nil {
			tb.Error(err)
		}
	})
}

// RedisURL returns the URL of a Redis, or skips the test likewise; lists in it have
// names of [Name], and are removed by those who made them.
func RedisURL(tb testing.TB) string {
	tb.Helper()
	return reach(tb, "Redis", "BACKLOG_TEST_REDIS", "redis://127.0.0.1:6379/0", dial).String()
}

// RabbitMQURL returns the URL of a RabbitMQ, or skips the test likewise; its user may do
// anything. Names of [Name] are removed by those who made them.
func RabbitMQURL(tb testing.TB) *url.URL {
	tb.Helper()
	return reach(tb, "RabbitMQ", "BACKLOG_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/", dial)
}

// RabbitMQVhost makes a vhost that is deleted when the test has ended, and returns its URL
// and how rabbitmqctl is called. It needs the server that `make services` has started.
func RabbitMQVhost(tb testing.TB) (u *url.URL, ctl func(arguments ...string) string) {
	tb.Helper()
	u = RabbitMQURL(tb)
	_, file, _, _ := runtime.Caller(0)
	run := func(arguments ...string) (string, error) {
		c := exec.Command(filepath.Join(filepath.Dir(file), "../../testdata/services.sh"), append([]string{"rabbitmqctl", "--quiet"}, arguments...)...)
		c.Env = append(os.Environ(), "RABBITMQ_PORT="+u.Port())
		out, err := c.CombinedOutput()
		return string(out), err
	}
	name := Name("test-")
	if out, err := run("add_vhost", name); err != nil && os.Getenv("CI") == "" {
		tb.Skipf("this RabbitMQ is none of `make services`: %v\n%s", err, out)
	}
	ctl = func(arguments ...string) string {
		tb.Helper()
		out, err := run(arguments...)
		if err != nil {
			tb.Fatalf("rabbitmqctl %q: %v\n%s", arguments, err, out)
		}
		return out
	}
	tb.Cleanup(func() { ctl("delete_vhost", name) })
	ctl("set_permissions", "--vhost", name, u.User.Username(), ".*", ".*", ".*")
	u.Path = "/" + name
	return u, ctl
}

// dial returns an error unless somebody listens there.
func dial(ctx context.Context, u *url.URL) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err == nil {
		conn.Close()
	}
	return err
}

// reach returns the URL of the server if it can be reached. Where nobody has said that
// there is one, the test is skipped.
func reach(tb testing.TB, what, env, otherwise string, ping func(context.Context, *url.URL) error) *url.URL {
	tb.Helper()
	u, err := url.Parse(cmp.Or(os.Getenv(env), otherwise))
	if err != nil {
		tb.Fatalf("%s is not a URL", env) // the error shows it, with its password
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := ping(ctx, u); err != nil && (os.Getenv(env) != "" || os.Getenv("CI") != "") {
		tb.Fatalf("%s does not lead to a %s: %v", env, what, err)
	} else if err != nil {
		tb.Skipf("there is no %s at the usual place, and %s names no other: %v", what, env, err)
	}
	return u
}

// Name returns one that begins with the prefix and that nothing else has.
func Name(prefix string) string { return prefix + strings.ToLower(rand.Text()[:12]) }

// DSN returns how the driver of MySQL has the URL, with its own parameters.
func DSN(u *url.URL, parameters string) string {
	user := u.User.Username()
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	return user + "@tcp(" + u.Host + ")" + u.Path + "?" + parameters
}
