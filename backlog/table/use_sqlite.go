package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// useSQLite makes a database of the pool, which has said that the path is its
// file, or not answered so.
func useSQLite(ctx context.Context, pool *sql.DB, path string, err error) (*DB, error) {
	d := usedSQLite{sqlite{path, busyTimeout}, pool}
	db := &DB{dialect: d, patience: d.busy, read: pool, write: pool}
	const cure = "open it with modernc.org/sqlite, github.com/mattn/go-sqlite3, github.com/jackc/pgx/v5/stdlib or github.com/go-sql-driver/mysql"
	if _, isSQLite := codeOf(err); isSQLite || ctx.Err() != nil {
		return nil, db.wrap(ctx, err)
	} else if err != nil {
		detail := ""
		if strings.HasPrefix(err.Error(), "sql: ") { // database/sql's own
			detail = ": " + err.Error()
		}
		return nil, problem(cure, "the pool does not answer as a database does that is known%s", detail)
	}
	// What an error means is told by its code. A driver of which none is known
	// would take a lock for the end.
	if _, err := pool.ExecContext(ctx, "SELECT"); ctx.Err() != nil {
		return nil, db.wrap(ctx, err)
	} else if _, ok := codeOf(err); !ok {
		return nil, problem(cure, "the driver %T does not give its errors in a form that is known", pool.Driver())
	}
	if _, err := os.Stat(d.path); err != nil {
		d.path = inMemory
	}
	if d.path == inMemory && pool.Stats().MaxOpenConnections != 1 {
		return nil, problem("call its SetMaxOpenConns(1) before the first use", "the database is no file, and each connection of the pool may have one of its own")
	}
	db.dialect = d
	return db, nil
}

// inMemory is the path of a database that is no file.
const inMemory = ":memory:"

// usedSQLite is SQLite on connections that somebody else has set up.
type usedSQLite struct {
	sqlite
	pool *sql.DB
}

func (usedSQLite) classify(err error) errorClass {
	if code, ok := codeOf(err); ok {
		return classOf(code)
	}
	return classOther
}

// begin takes the lock that a commit needs, too: then all waiting is over, and
// the connection can have back its own busy timeout. With a write-ahead log
// that is the lock to write, which lets readers be.
func (d usedSQLite) begin(ctx context.Context, conn *sql.Conn) (tx *sql.Tx, err error) {
	var theirs int64
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&theirs); err != nil {
		return nil, err
	}
	wait := func(exec func(context.Context, string, ...any) (sql.Result, error), milliseconds int64) error {
		_, err := exec(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds))
		return err
	}
	// While it is asked for no new reader gets in, so that in the end the
	// others are gone.
	ask := moment
	err = again(ctx, d, d.busy, func(ctx context.Context) error {
		err := wait(conn.ExecContext, ask.Milliseconds())
		if err == nil {
			tx, err = d.lock(ctx, conn)
		}
		ask = min(2*ask, time.Second)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, wait(conn.ExecContext, theirs))
	}
	if err := wait(tx.ExecContext, theirs); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// lock begins a transaction with the lock. How the driver begins one is up to
// its settings: that one is ended before it has done anything.
func (usedSQLite) lock(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{"COMMIT", "BEGIN EXCLUSIVE"} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			tx.Rollback() // an error where none is left to undo
			return nil, err
		}
	}
	return tx, nil
}

// mayWrite is [sqlite.mayWrite] with the transaction of connections as these.
func (d usedSQLite) mayWrite(ctx context.Context, db *sql.DB) error {
	return sqliteMayWrite(ctx, d, db, d.path, "open it so that it can be written to, and let this user create files in its folder")
}

// tryLock takes the lock of the file, which all programs share, or that of a
// database which only this one has.
func (d usedSQLite) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	if d.path != inMemory {
		return d.sqlite.tryLock(ctx, schema, table, name)
	}
	l := memoryLock{d.pool, strings.ToLower(table), name}
	if _, taken := memoryLocks.LoadOrStore(l, true); taken {
		return nil, backlog.ErrLocked
	}
	return l, nil
}

// memoryLocks are those that are held.
var memoryLocks sync.Map

// A memoryLock is that of a table in a database that one pool alone leads to.
type memoryLock struct {
	pool  *sql.DB
	table string
	name  backlog.LockName
}

// Check returns nil: nobody can take it away.
func (l memoryLock) Check(context.Context) error { return nil }

func (l memoryLock) Unlock() error {
	memoryLocks.Delete(l)
	return nil
}
