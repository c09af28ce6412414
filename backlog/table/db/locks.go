package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
)

const (
	// lockTimeout is how long an answer about a lock may take.
	lockTimeout = 2 * time.Second
	// LockIdle is after how many seconds without a word a server gives up the
	// session that has a lock. Who has one asks for it every two seconds.
	LockIdle = 10
)

// SessionLocks are the locks of a server. Each has a session of its own, with which it
// ends.
type SessionLocks struct {
	Connector driver.Connector
	Pool      *sql.DB // the program's own, in place of the connector

	// Prepare makes the session fit for being idle and looked after, or says why
	// it cannot have locks. The pool leads to other sessions.
	Prepare func(ctx context.Context, pool *sql.DB, conn *sql.Conn) error

	// The queries have the lock's name as their argument. Take says whether the
	// session has got it, Held whether this very session has it; Drop gives it back.
	Take, Held, Drop string
}

// Lock takes the lock of that name. The server lets go of it when the session ends,
// however it ends.
func (l *SessionLocks) Lock(ctx context.Context, server Server, name string) (backlog.Lock, error) {
	s := &sessionLock{SessionLocks: l, db: &DB{Server: server}, pool: l.Pool, name: name}
	switch {
	case l.Pool == nil:
		s.pool = sql.OpenDB(l.Connector)
	case l.Pool.Stats().MaxOpenConnections == 1:
		return nil, Problemf("allow more by its SetMaxOpenConns", "the pool has 1 connection at most, but a lock keeps one as long as it is held, and the work takes another")
	}
	err := limited(ctx, DialTimeout, s.open)
	if err == nil {
		err = limited(ctx, lockTimeout, s.take)
	}
	if err == nil {
		return s, nil
	}
	s.close()
	if errors.Is(err, backlog.ErrLocked) {
		return nil, err
	}
	return nil, s.db.Wrap(ctx, err)
}

type sessionLock struct {
	*SessionLocks
	db   *DB // knows the errors
	pool *sql.DB
	conn *sql.Conn
	name string
}

// open begins the session.
func (l *sessionLock) open(ctx context.Context) (err error) {
	if l.conn, err = l.pool.Conn(ctx); err != nil {
		return err
	}
	err = l.Prepare(ctx, l.pool, l.conn)
	if l.Pool == nil {
		l.pool.SetMaxIdleConns(-1) // Prepare may have opened another, which it needs to its end
	}
	return err
}

func (l *sessionLock) take(ctx context.Context) error {
	var got sql.NullBool
	err := l.conn.QueryRowContext(ctx, l.Take, l.name).Scan(&got)
	switch {
	case err == nil && !got.Valid:
		return fmt.Errorf("%w: the server did not give the lock", backlog.ErrUnavailable)
	case err == nil && !got.Bool:
		return backlog.ErrLocked
	}
	return err
}

// Check asks the server whether this very session still has the lock. A caller who
// does not want to know any more must not end the session.
func (l *sessionLock) Check(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var ours sql.NullBool
	err := limited(ctx, lockTimeout, func(ctx context.Context) error {
		return l.conn.QueryRowContext(ctx, l.Held, l.name).Scan(&ours)
	})
	if err != nil {
		return fmt.Errorf("the lock's connection: %w", l.db.Wrap(ctx, err))
	}
	if !ours.Bool {
		return errors.New("the database server no longer has the lock as ours")
	}
	return nil
}

// Unlock gives the lock back and ends the session.
func (l *sessionLock) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	// Said before the end of the session, which the server need not notice at
	// once. Where it does not hear it, the session has ended, and the lock.
	l.conn.ExecContext(ctx, l.Drop, l.name)
	l.close()
	return nil
}

func (l *sessionLock) close() {
	if l.conn != nil {
		l.conn.Raw(func(any) error { return driver.ErrBadConn }) // it ends: nobody is to get it back
		l.conn.Close()
	}
	if l.Pool == nil {
		l.pool.Close()
	}
}
