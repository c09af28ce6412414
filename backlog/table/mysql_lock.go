package table

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

const (
	// mysqlLockTimeout is after how many seconds without a word the server
	// gives up the session that has the locks. Who has one asks for it every
	// two seconds.
	mysqlLockTimeout = "10"
	// mysqlAsk is how long an answer about a lock may take.
	mysqlAsk = 2 * time.Second
	// mysqlLockName is how long the name of a lock may be.
	mysqlLockName = 64
)

// mysqlLocks are the locks that this process has by one DB. They share one
// session, which is there as long as there are any; they end with it.
type mysqlLocks struct {
	connector driver.Connector

	mu      sync.Mutex
	session *mysqlLockSession // nil: none
}

type mysqlLockSession struct {
	db   *sql.DB
	conn *sql.Conn
	held map[string]bool
}

func (s *mysqlLockSession) close() {
	s.conn.Close()
	s.db.Close()
}

// tryLock takes the server's lock of that name. The server lets go of it when
// the session ends, however it ends.
func (d mysql) tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	l := d.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	held, err := l.take(ctx, d, schema, table, name)
	if l.session != nil && (len(l.session.held) == 0 || err != nil && !errors.Is(err, backlog.ErrLocked)) {
		l.session.close() // what is wrong with it is so for every lock
		l.session = nil
	}
	if err != nil {
		return nil, (&DB{dialect: d}).wrap(ctx, err)
	}
	return held, nil
}

func (l *mysqlLocks) take(ctx context.Context, d mysql, schema, table string, name backlog.LockName) (*mysqlLock, error) {
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	s := l.session
	// To cancel a statement is to end the session, with the locks of others.
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mysqlAsk)
	defer cancel()
	var folds bool
	var database, got sql.NullString
	if err := s.conn.QueryRowContext(actx, "SELECT @@lower_case_table_names > 0, database()").Scan(&folds, &database); err != nil {
		return nil, err
	}
	if schema == "" {
		schema = database.String
	}
	if folds {
		schema, table = strings.ToLower(schema), strings.ToLower(table)
	}
	full := mysqlLockText(schema, table, string(name))
	if s.held[full] { // the session itself would get it once more
		return nil, backlog.ErrLocked
	}
	err := s.conn.QueryRowContext(actx, "SELECT GET_LOCK(?, 0)", full).Scan(&got)
	switch {
	case err != nil:
		return nil, err
	case got.String == "0":
		return nil, backlog.ErrLocked
	case got.String != "1":
		return nil, fmt.Errorf("%w: the server did not give the lock", backlog.ErrAway)
	}
	s.held[full] = true
	return &mysqlLock{l, s, full}, nil
}

// open makes sure that there is a session.
func (l *mysqlLocks) open(ctx context.Context) error {
	if l.session != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mysqlDial)
	defer cancel()
	db := sql.OpenDB(l.connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return err
	}
	l.session = &mysqlLockSession{db, conn, make(map[string]bool)}
	return nil
}

// mysqlLockText returns the lock's name: readable as far as there is room, and
// no other table's.
func mysqlLockText(schema, table, name string) string {
	sum := sha256.Sum256([]byte(schema + "\x00" + table + "\x00" + name))
	hash := fmt.Sprintf(" %x", sum[:8])
	text := "backlog " + name + " " + schema + "." + table
	return strings.ToValidUTF8(text[:min(len(text), mysqlLockName-len(hash))], "") + hash
}

type mysqlLock struct {
	locks   *mysqlLocks
	session *mysqlLockSession
	name    string
}

// Check asks the server whether this very session still has the lock. A caller
// who does not want to know any more must not end the others' session.
func (l *mysqlLock) Check(ctx context.Context) error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if !l.session.held[l.name] {
		return errors.New("the lock was given back")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mysqlAsk)
	defer cancel()
	var ours sql.NullBool
	err := l.session.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", l.name).Scan(&ours)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("the lock's connection: no answer within %v", mysqlAsk)
	case err != nil:
		return fmt.Errorf("the lock's connection: %w", err)
	case !ours.Bool:
		return errors.New("the database server no longer has the lock as ours")
	}
	return nil
}

// Unlock gives the lock back; the last one ends the session.
func (l *mysqlLock) Unlock() error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if !l.session.held[l.name] {
		return nil
	}
	delete(l.session.held, l.name)
	ctx, cancel := context.WithTimeout(context.Background(), mysqlAsk)
	defer cancel()
	// Said before the end of the session, which the server need not notice at
	// once. Where it does not hear it, the session has ended, and the lock.
	l.session.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", l.name)
	if len(l.session.held) == 0 {
		l.session.close()
		if l.locks.session == l.session {
			l.locks.session = nil
		}
	}
	return nil
}
