package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver sqlite
)

// A store is a kind of database.
type store struct {
	name  string
	check func(context.Context) error // says why the database cannot be used
}

var (
	postgres    = &store{"PostgreSQL", checkPostgres}
	sqlite      = &store{"SQLite", func(context.Context) error { return nil }}
	redisServer = &store{"Redis", checkRedis}
)

// The servers are those of the tests, see CONTRIBUTING.
var (
	postgresURL = cmp.Or(os.Getenv("BACKLOG_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres")
	redisURL    = cmp.Or(os.Getenv("BACKLOG_TEST_REDIS"), "redis://127.0.0.1:6379/0")
)

// schema is the schema of PostgreSQL in which a drain makes its tables.
var schema = fmt.Sprintf("backlog_peers_%d", os.Getpid())

func checkPostgres(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, postgresURL)
	if err != nil {
		return fmt.Errorf("BACKLOG_TEST_POSTGRES, or make services: %w", err)
	}
	return conn.Close(ctx)
}

// inSchema is the URL of the server for sessions that look for tables in the schema.
func inSchema() (string, error) {
	u, err := url.Parse(postgresURL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// createSchema creates the schema, and returns a function that drops it with all that is in it.
func createSchema(ctx context.Context) (drop func(), err error) {
	if err := execPostgres(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	drop = func() {
		// A context that is done must not keep the schema.
		if err := execPostgres(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			fmt.Fprintf(os.Stderr, "the schema %s is left: %v\n", schema, err)
		}
	}
	return drop, nil
}

// settlePostgres does what the server would otherwise begin to do during the drain.
func settlePostgres(ctx context.Context, table string) error {
	if err := execPostgres(ctx, "VACUUM ANALYZE "+schema+"."+table); err != nil {
		return err
	}
	return execPostgres(ctx, "CHECKPOINT")
}

// execPostgres runs the statement on a connection of its own.
func execPostgres(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, postgresURL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// postgresSettings selects what readPostgres reads.
const postgresSettings = "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"

// readPostgres reads the version and the durability of a session from the row that postgresSettings returns.
func (r *run) readPostgres(row interface{ Scan(...any) error }) error {
	var version, fsync, commit string
	if err := row.Scan(&version, &fsync, &commit); err != nil {
		return err
	}
	r.version = "PostgreSQL " + firstWord(version)
	r.durability = "fsync=" + fsync + " synchronous_commit=" + commit
	return nil
}

// sqliteSettings are those of every SQLite database here, whoever uses it: readers and the writer do not
// wait for each other, and a commit does not wait for the disk. A power failure may undo the last commits.
const sqliteSettings = "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"

// createSQLite returns the path of a database file that does not exist yet, in a folder of its own, and a
// function that removes the folder.
func createSQLite() (path string, drop func(), err error) {
	folder, err := os.MkdirTemp("", "backlog-peers-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(folder, "peers.db"), func() { os.RemoveAll(folder) }, nil
}

// openSQLite opens the file with at most so many connections.
func openSQLite(path string, connections int) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", "file:"+path+"?"+sqliteSettings)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// settleSQLite empties the write-ahead log, so that a drain does not write what it was filled with.
func settleSQLite(ctx context.Context, pool *sql.DB) error {
	_, err := pool.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// readSQLite reads the version and the durability of a connection.
func (r *run) readSQLite(ctx context.Context, pool *sql.DB) error {
	const query = "SELECT sqlite_version(), (SELECT journal_mode FROM pragma_journal_mode), (SELECT synchronous FROM pragma_synchronous)"
	var version, journal string
	var synchronous int
	if err := pool.QueryRowContext(ctx, query).Scan(&version, &journal, &synchronous); err != nil {
		return err
	}
	levels := []string{"off", "normal", "full", "extra"}
	r.version = "SQLite " + version
	r.durability = "journal_mode=" + journal + " synchronous=" + levels[synchronous]
	return nil
}

// redisDatabase is the number of the database in which drains make their keys.
const redisDatabase = 15

// redisOptions are those of a client of that database.
func redisOptions() (*redis.Options, error) {
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, err
	}
	options.DB = redisDatabase
	return options, nil
}

func checkRedis(ctx context.Context) error {
	options, err := redisOptions()
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	keys, err := client.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("BACKLOG_TEST_REDIS, or make services: %w", err)
	}
	if keys > 0 {
		return fmt.Errorf("its database %d is not empty: if nobody needs it, call redis-cli -n %d flushdb", redisDatabase, redisDatabase)
	}
	return nil
}

// openRedis returns a client of the database, which must be empty, and a function that empties it again.
func openRedis(ctx context.Context) (client *redis.Client, drop func(), err error) {
	options, err := redisOptions()
	if err != nil {
		return nil, nil, err
	}
	client = redis.NewClient(options)
	keys, err := client.DBSize(ctx).Result()
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	if keys > 0 {
		client.Close()
		return nil, nil, errors.New("another program uses the database")
	}
	drop = func() {
		if err := client.FlushDB(context.WithoutCancel(ctx)).Err(); err != nil {
			fmt.Fprintf(os.Stderr, "database %d of Redis is not emptied: %v\n", redisDatabase, err)
		}
		client.Close()
	}
	return client, drop, nil
}

// readRedis reads the version and the durability of the server.
func (r *run) readRedis(ctx context.Context, client *redis.Client) error {
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	r.version = "Redis " + info["Server"]["redis_version"]
	r.durability = ""
	for _, setting := range []string{"appendonly", "appendfsync", "save"} {
		values, err := client.ConfigGet(ctx, setting).Result()
		if err != nil {
			return err
		}
		if r.durability != "" {
			r.durability += " "
		}
		r.durability += fmt.Sprintf("%s=%q", setting, values[setting])
	}
	return nil
}
