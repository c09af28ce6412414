package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"strconv"

	"github.com/jackc/pgx/v5/stdlib"

	"backlog/backlog/table/db"
)

// sessionLocks returns PostgreSQL's advisory locks, which end with their session. s opens the sessions,
// unless the caller sets Pool to a pool of the calling program.
func sessionLocks(s *server) *db.SessionLocks {
	const held = `FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint << 32 | objid::bigint = ?::bigint`
	return &db.SessionLocks{
		Server: s, Connector: s, Prepare: s.prepareLocks,
		Take:   "pg_try_advisory_lock(?::bigint)",
		Held:   "EXISTS (SELECT " + held + " AND pid = pg_backend_pid())",
		Drop:   "pg_advisory_unlock(?::bigint)",
		Holder: "(SELECT pid " + held + " LIMIT 1)",
		Key: func(c *db.Catalog, name string) string {
			sum := sha256.Sum256([]byte("backlog\x00" + c.Schema + "\x00" + c.Name + "\x00" + name))
			return strconv.FormatInt(int64(binary.BigEndian.Uint64(sum[:8])), 10)
		},
	}
}

// prepareLocks refuses a session that a pooler lends to others between two transactions: the lock
// would stay behind in the session of another program.
func (s *server) prepareLocks(ctx context.Context, pool *sql.DB, conn *sql.Conn) error {
	const backend = "SELECT pg_backend_pid()"
	var pid int
	if err := conn.QueryRowContext(ctx, backend).Scan(&pid); err != nil {
		return err
	}
	var announced int // the process that the other side named when the connection began
	conn.Raw(func(d any) error {
		announced = int(d.(*stdlib.Conn).Conn().PgConn().PID())
		return nil
	})
	if announced == pid {
		return s.prepareDirect(ctx, conn)
	}
	// The other side is a pooler, which announces numbers of its own. If it pools transactions, it
	// lends the session that has just become free to another connection, or it has lent it to another
	// program when this connection asks again.
	for range 3 {
		var other, again int
		if err := cmp.Or(pool.QueryRowContext(ctx, backend).Scan(&other), conn.QueryRowContext(ctx, backend).Scan(&again)); err != nil {
			return err
		}
		if other == pid || again != pid {
			return db.Problemf("name the PostgreSQL server itself in the database URL, or let the pooler have pool_mode = session for this user, with a pool_size of at least 5 for each process",
				"%s is a pooler that gives each transaction another session, but the lock that keeps two processes from the same table belongs to one", s.host)
		}
	}
	return nil
}

// prepareDirect has a server without a pooler notice soon when this process is gone.
func (s *server) prepareDirect(ctx context.Context, conn *sql.Conn) error {
	settings := []string{
		"idle_session_timeout = " + strconv.Itoa(1000*db.LockIdle),
		"tcp_keepalives_idle = 5", "tcp_keepalives_interval = 2", "tcp_keepalives_count = 3", "tcp_user_timeout = 10000",
	}
	for _, set := range settings {
		// Older servers do not have all of these settings.
		if _, err := conn.ExecContext(ctx, "SET "+set); s.Classify(err).Class == db.Unavailable {
			return err
		}
	}
	return nil
}
