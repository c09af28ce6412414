package table

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
)

// lockTimeout is how long a lock's connection may take to answer.
const lockTimeout = 2 * time.Second

// tryLock takes an advisory lock, which ends with its connection: a dedicated
// one, which the server, too, is to find dead within seconds.
func (d postgres) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	own := &postgresServer{config: d.config, host: d.host, ownMode: d.ownMode}
	own.plain.Store(d.plain.Load())
	return postgres{own}.lockOn(ctx, sql.OpenDB(own), schema, table, name)
}

// lockOn takes it on a connection of the pool, which is closed with it.
func (d postgres) lockOn(ctx context.Context, db *sql.DB, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, postgresPatience)
	defer cancel()
	db.SetMaxIdleConns(1)
	l := &postgresLock{d: d, db: db}
	if err := l.take(ctx, schema, table, name); err != nil {
		l.Unlock()
		return nil, d.failed(ctx, err)
	}
	return l, nil
}

// failed gives an error of a lock's statement its class.
func (d postgres) failed(ctx context.Context, err error) error {
	p := (*Problem)(nil)
	switch {
	case errors.Is(err, backlog.ErrLocked), errors.Is(err, backlog.ErrAway), errors.As(err, &p):
		return err
	case ctx.Err() != nil, d.classify(err) == classAway, d.classify(err) == classBusy:
		return fmt.Errorf("%w: lock: %w", backlog.ErrAway, err)
	}
	return d.explain(err)
}

type postgresLock struct {
	d    postgres
	db   *sql.DB
	conn *sql.Conn
	key  int64
	pid  int // of the session that has the lock
}

func (l *postgresLock) take(ctx context.Context, schema, table string, name backlog.LockName) error {
	r, err := l.d.relation(ctx, l.db, schema, table)
	if err != nil {
		return err
	}
	if l.conn, err = l.db.Conn(ctx); err != nil {
		return err
	}
	if err := l.sessionOfItsOwn(ctx); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte("backlog\x00" + r.schema + "\x00" + table + "\x00" + string(name)))
	l.key = int64(binary.BigEndian.Uint64(sum[:8]))
	var got bool
	if err := l.conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1), pg_backend_pid()", l.key).Scan(&got, &l.pid); err != nil {
		return err
	}
	if !got {
		return backlog.ErrLocked
	}
	return l.Check(ctx)
}

// sessionOfItsOwn prepares the session for being idle and looked after. It
// refuses one that a pooler shares with others between two transactions: the
// lock would stay behind in a session that is somebody else's.
func (l *postgresLock) sessionOfItsOwn(ctx context.Context) error {
	pid, err := l.backend(ctx)
	if err != nil {
		return err
	}
	said, err := backendPID(l.conn)
	if err != nil {
		return err
	}
	if said == pid {
		for _, s := range []string{"idle_session_timeout = 0", "tcp_keepalives_idle = 5", "tcp_keepalives_interval = 2", "tcp_keepalives_count = 3", "tcp_user_timeout = 10000"} {
			if _, err := l.conn.ExecContext(ctx, "SET "+s); l.d.classify(err) == classAway {
				return err // an older server only does not have all of them
			}
		}
		return nil
	}
	// A pooler gives numbers of its own. One that pools transactions lets
	// another connection have the session that has just become free, or has
	// given it to somebody else by the time it is asked for again.
	for range 3 {
		var other int
		if err := l.db.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&other); err != nil {
			return err
		}
		again, err := l.backend(ctx)
		if err != nil {
			return err
		}
		if other == pid || again != pid {
			return problem("name the PostgreSQL server itself in the database URL, or let the pooler have pool_mode = session for this user, with a pool_size of at least 8",
				"%s is a pooler that gives each transaction another session, but the lock that keeps two processes from the same table belongs to one", l.d.host)
		}
	}
	l.db.SetMaxIdleConns(0) // the other would keep a session for nothing
	return nil
}

// backend returns the number of the server's process behind the connection.
func (l *postgresLock) backend(ctx context.Context) (pid int, err error) {
	err = l.conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return pid, err
}

// Check asks the server whether this very session still has the lock.
func (l *postgresLock) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	var pid int
	var held bool
	err := l.conn.QueryRowContext(ctx, `SELECT pg_backend_pid(), EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint << 32 | objid::bigint = $1)`, l.key).Scan(&pid, &held)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("lock: no answer within %v", lockTimeout)
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case pid != l.pid || !held:
		return errors.New("lock: the session that had it is another one now")
	}
	return nil
}

// Unlock implements backlog.Lock. Whatever it comes to, the lock ends with the
// connection.
func (l *postgresLock) Unlock() error {
	if l.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
		defer cancel()
		if l.pid != 0 {
			l.conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", l.key)
		}
		l.conn.Close()
	}
	return l.db.Close()
}
