package table

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"

	"backlog/backlog"
)

// mysqlLockName is how long the name of a lock may be.
const mysqlLockName = 64

// tryLock takes the server's lock of that name.
func (d mysql) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	return d.locks.try(ctx, d, schema, table, name)
}

func (mysql) prepareLocks(ctx context.Context, s *lockSession) error {
	_, err := s.conn.ExecContext(ctx, fmt.Sprintf("SET wait_timeout = %d", lockIdle))
	return err
}

func (mysql) lockName(ctx context.Context, conn *sql.Conn, schema, table string, name backlog.LockName) (string, error) {
	var folds bool
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT @@lower_case_table_names > 0, database()").Scan(&folds, &database); err != nil {
		return "", err
	}
	if schema == "" {
		schema = database.String
	}
	if folds {
		schema, table = strings.ToLower(schema), strings.ToLower(table)
	}
	return mysqlLockText(schema, table, string(name)), nil
}

// mysqlLockText returns the lock's name: readable as far as there is room, and
// no other table's.
func mysqlLockText(schema, table, name string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + table + "\x00" + name))
	hash := fmt.Sprintf(" %x", sum[:8])
	text := "backlog " + name + " " + schema + "." + table
	return strings.ToValidUTF8(text[:min(len(text), mysqlLockName-len(hash))], "") + hash
}

func (mysql) takeLock(ctx context.Context, conn *sql.Conn, name string) (bool, error) {
	var got sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", name).Scan(&got)
	if err == nil && !got.Valid {
		err = fmt.Errorf("%w: the server did not give the lock", backlog.ErrAway)
	}
	return got.Bool, err
}

func (mysql) hasLock(ctx context.Context, conn *sql.Conn, name string) (bool, error) {
	var ours sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", name).Scan(&ours)
	return ours.Bool, err
}

func (mysql) dropLock(ctx context.Context, conn *sql.Conn, name string) {
	conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", name)
}
