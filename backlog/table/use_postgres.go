package table

import (
	"context"
	"database/sql"
	"strings"

	"backlog/backlog"
)

// usedPostgres is PostgreSQL on connections that somebody else has set up.
type usedPostgres struct {
	postgres
	pool *sql.DB
}

// usePostgres makes a database of the pool.
func usePostgres(ctx context.Context, pool *sql.DB) (*DB, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	server, err := postgresOf(conn)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT current_user::text, current_database()::text").Scan(&server.config.User, &server.config.Database)
	}
	conn.Close()
	if err != nil {
		return nil, err
	}
	server.locks = locksFrom(pool)
	d := usedPostgres{postgres{server}, pool}
	if err := d.reach(ctx, pool); err != nil {
		return nil, err
	}
	lent := (&lender{pool: pool, enter: postgresEnter, arg: postgresArg}).open()
	return &DB{dialect: d, patience: postgresPatience, read: lent, write: lent, lent: true}, nil
}

// postgresEnter begins a transaction. What is set in it ends with it, whatever
// becomes of the connection, and a pooler gives it the same session throughout.
func postgresEnter(ctx context.Context, c *lentConn) error {
	_, err := c.conn.ExecContext(ctx, postgresUse)
	c.inTx = err == nil
	c.leave = func(context.Context) error { return nil }
	return err
}

// postgresUse sets what the parameters of a session of our own do.
var postgresUse = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL " + strings.Join([]string{
	"timezone = 'UTC'", "datestyle = 'ISO, YMD'", "standard_conforming_strings = on",
	"statement_timeout = " + milliseconds(statementTimeout), "lock_timeout = " + milliseconds(postgresLockTimeout),
	"idle_in_transaction_session_timeout = " + milliseconds(statementTimeout),
	"plan_cache_mode = force_custom_plan", "jit = off", "row_security = off",
}, "; SET LOCAL ")

// postgresArg makes text of numbers and truths, which the server takes for what
// it expects: the driver would refuse them where that is text.
func postgresArg(v any) any {
	if text, ok := asWritten(v); ok {
		return text
	}
	return v
}

// tryLock takes the lock on a connection of the pool, which ends with it.
func (d usedPostgres) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	if err := roomForLocks(d.pool); err != nil {
		return nil, err
	}
	return d.postgres.tryLock(ctx, schema, table, name)
}

func (d usedPostgres) schemaOf(ctx context.Context, db *sql.DB, table string) (string, error) {
	r, err := d.relation(ctx, db, "", table)
	return r.schema, err
}

// home asks the pool itself, whose zone is that of the program.
func (d usedPostgres) home(ctx context.Context, _ *sql.DB) (zone string, utc bool, err error) {
	err = d.pool.QueryRowContext(ctx, postgresHome).Scan(&zone, &utc)
	return zone, utc, err
}
