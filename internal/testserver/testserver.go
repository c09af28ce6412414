// Package testserver gives each test a schema, database or vhost of its own on PostgreSQL, MySQL or MariaDB,
// Redis and RabbitMQ. The environment names the servers. The test must import the drivers.
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
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// PostgresURL returns the URL of the server, whose user may create schemas and roles.
func PostgresURL(tb testing.TB) *url.URL {
	tb.Helper()
	return serverURL(tb, "PostgreSQL", "BACKLOG_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/postgres", func(ctx context.Context, u *url.URL) error {
		return testkit.OpenPool(tb, "pgx", u.String()).PingContext(ctx)
	})
}

// MySQLURL returns the URL of the server, whose user may create databases and users.
func MySQLURL(tb testing.TB) *url.URL {
	tb.Helper()
	return serverURL(tb, "MySQL or MariaDB", "BACKLOG_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test", func(ctx context.Context, u *url.URL) error {
		return testkit.OpenPool(tb, "mysql", DSN(u, "")).PingContext(ctx)
	})
}

// Postgres creates a schema, which is dropped at the end of the test. It returns its name, which begins with
// the prefix, and a URL with the schema as its search_path. It skips the test if there is no server, and
// fails it if the environment names a server that cannot be reached.
func Postgres(tb testing.TB, prefix string) (schema string, u *url.URL) {
	tb.Helper()
	schema, u = Name(prefix), PostgresURL(tb)
	createForTest(tb, testkit.OpenPool(tb, "pgx", u.String()), `CREATE SCHEMA "`+schema+`"`, `DROP SCHEMA IF EXISTS "`+schema+`" CASCADE`)
	q := u.Query()
	q.Set("search_path", `"`+schema+`"`)
	u.RawQuery = q.Encode()
	return schema, u
}

// MySQL creates a database in the same way as [Postgres] creates a schema.
func MySQL(tb testing.TB, prefix string) (database string, u *url.URL) {
	tb.Helper()
	database, u = Name(prefix), MySQLURL(tb)
	createForTest(tb, testkit.OpenPool(tb, "mysql", DSN(u, "")), "CREATE DATABASE "+database+" CHARACTER SET utf8mb4", "DROP DATABASE IF EXISTS "+database)
	u.Path = "/" + database
	return database, u
}

// createForTest runs create now, and drop at the end of the test.
func createForTest(tb testing.TB, db *sql.DB, create, drop string) {
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

// RedisURL returns the URL of a Redis server, or skips the test like [Postgres]. Tests remove the lists that
// they create, whose names are from [Name].
func RedisURL(tb testing.TB) string {
	tb.Helper()
	return serverURL(tb, "Redis", "BACKLOG_TEST_REDIS", "redis://127.0.0.1:6379/0", dial).String()
}

// RabbitMQURL returns the URL of a RabbitMQ server whose user may do everything, or skips the test like
// [Postgres]. Tests remove what they create, whose names are from [Name].
func RabbitMQURL(tb testing.TB) *url.URL {
	tb.Helper()
	return serverURL(tb, "RabbitMQ", "BACKLOG_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/", dial)
}

// moduleRoot returns the folder of go.mod. A test runs in the folder of its package.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("the test runs outside of its module")
		}
		dir = filepath.Dir(dir)
	}
}

// RabbitMQVhost creates a vhost, which is deleted at the end of the test. It returns the URL of the vhost, and
// a function that calls rabbitmqctl. It needs the server of `make services`.
func RabbitMQVhost(tb testing.TB) (u *url.URL, ctl func(arguments ...string) string) {
	tb.Helper()
	u = RabbitMQURL(tb)
	services := filepath.Join(moduleRoot(tb), "testdata", "services.sh")
	run := func(arguments ...string) (string, error) {
		c := exec.Command(services, append([]string{"rabbitmqctl", "--quiet"}, arguments...)...)
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

// dial returns an error unless something listens at the host of the URL.
func dial(ctx context.Context, u *url.URL) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err == nil {
		conn.Close()
	}
	return err
}

// serverURL returns the URL of a server that can be reached. If there is none, it skips the test, or fails it
// if the environment promises one.
func serverURL(tb testing.TB, what, env, otherwise string, ping func(context.Context, *url.URL) error) *url.URL {
	tb.Helper()
	u, err := url.Parse(cmp.Or(os.Getenv(env), otherwise))
	if err != nil {
		tb.Fatalf("%s is not a URL", env) // the error itself would show the URL with its password
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

// Name returns a unique name that begins with the prefix.
func Name(prefix string) string { return prefix + strings.ToLower(rand.Text()[:12]) }

// DSN returns the URL in the form of the MySQL driver, with parameters of the driver.
func DSN(u *url.URL, parameters string) string {
	user := u.User.Username()
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	return user + "@tcp(" + u.Host + ")" + u.Path + "?" + parameters
}
