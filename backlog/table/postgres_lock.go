package table

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"strconv"

	"backlog/backlog"
)

// tryLock takes an advisory lock, which ends with its session.
func (d postgres) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	return d.locks.try(ctx, d, schema, table, name)
}

// prepareLocks refuses a session that a pooler shares with others between two
// transactions: the lock would stay behind in a session that is somebody else's.
func (d postgres) prepareLocks(ctx context.Context, s *lockSession) error {
	s.db.SetMaxIdleConns(1)
	pid, err := backend(ctx, s.conn)
	if err != nil {
		return err
	}
	said, err := backendPID(s.conn)
	if err != nil {
		return err
	}
	if said == pid {
		for _, set := range []string{"idle_session_timeout = " + strconv.Itoa(1000*lockIdle), "tcp_keepalives_idle = 5", "tcp_keepalives_interval = 2", "tcp_keepalives_count = 3", "tcp_user_timeout = 10000"} {
			if _, err := s.conn.ExecContext(ctx, "SET "+set); d.classify(err) == classAway {
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
		if err := s.db.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&other); err != nil {
			return err
		}
		again, err := backend(ctx, s.conn)
		if err != nil {
			return err
		}
		if other == pid || again != pid {
			return problem("name the PostgreSQL server itself in the database URL, or let the pooler have pool_mode = session for this user, with a pool_size of at least 5 for each process",
				"%s is a pooler that gives each transaction another session, but the lock that keeps two processes from the same table belongs to one", d.host)
		}
	}
	s.db.SetMaxIdleConns(0) // the other would keep a session for nothing
	return nil
}

// backend returns the number of the server's process behind the connection.
func backend(ctx context.Context, conn *sql.Conn) (pid int, err error) {
	err = conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return pid, err
}

// lockName returns the number that an advisory lock is known by.
func (d postgres) lockName(ctx context.Context, conn *sql.Conn, schema, table string, name backlog.LockName) (string, error) {
	r, err := d.relation(ctx, conn, schema, table)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte("backlog\x00" + r.schema + "\x00" + table + "\x00" + string(name)))
	return strconv.FormatInt(int64(binary.BigEndian.Uint64(sum[:8])), 10), nil
}

func (postgres) takeLock(ctx context.Context, conn *sql.Conn, name string) (got bool, err error) {
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock("+name+")").Scan(&got)
	return got, err
}

func (postgres) hasLock(ctx context.Context, conn *sql.Conn, name string) (ours bool, err error) {
	err = conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint << 32 | objid::bigint = `+name+`)`).Scan(&ours)
	return ours, err
}

func (postgres) dropLock(ctx context.Context, conn *sql.Conn, name string) {
	conn.ExecContext(ctx, "SELECT pg_advisory_unlock("+name+")")
}
