package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"backlog/backlog"
)

const (
	// lockTimeout is how long an answer about a lock may take.
	lockTimeout = 2 * time.Second
	// LockIdle is after how many seconds without a word a server gives up the
	// session that has the locks. Who has one asks for it every two seconds.
	LockIdle = 10
)

// SessionLocks are the locks of a server that this process has by one DB. They
// share one session, which is there as long as there are any; they end with it.
type SessionLocks struct {
	Connector driver.Connector
	Pool      *sql.DB // somebody else's, instead of the connector

	// Prepare makes the session fit for being idle and looked after, or says why
	// it cannot have locks. The pool leads to other sessions.
	Prepare func(ctx context.Context, pool *sql.DB, conn *sql.Conn) error

	// The queries have the lock's name as their argument. Take says whether the
	// session has got it, Held whether this very session has it; Drop gives it back.
	Take, Held, Drop string

	mu      sync.Mutex
	session *lockSession // nil: none
}

type lockSession struct {
	db   *sql.DB // its own; nil: the pool is somebody else's
	conn *sql.Conn
	held map[string]bool
}

func (s *lockSession) close() {
	if s.conn != nil {
		s.conn.Raw(func(any) error { return driver.ErrBadConn }) // it is not for others any more
		s.conn.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
}

// Lock takes the lock of that name. The server lets go of it when the session ends,
// however it ends.
func (l *SessionLocks) Lock(ctx context.Context, server Server, name string) (backlog.Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, err := l.take(ctx, server, name)
	if err != nil && !errors.Is(err, backlog.ErrLocked) {
		err = (&DB{Server: server}).Wrap(ctx, err)
	}
	if l.session != nil && (len(l.session.held) == 0 || errors.Is(err, backlog.ErrUnavailable)) {
		l.session.close() // when the server is unavailable it is so for every lock
		l.session = nil
	}
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (l *SessionLocks) take(ctx context.Context, server Server, name string) (held *sessionLock, err error) {
	if err := limited(ctx, DialTimeout, l.open); err != nil {
		return nil, err
	}
	if l.session.held[name] { // the session itself would get it once more
		return nil, backlog.ErrLocked
	}
	// To cancel a statement is to end the session, with the locks of others.
	err = limited(context.WithoutCancel(ctx), lockTimeout, func(ctx context.Context) (err error) {
		var got sql.NullBool
		err = l.session.conn.QueryRowContext(ctx, l.Take, name).Scan(&got)
		switch {
		case err == nil && !got.Valid:
			return fmt.Errorf("%w: the server did not give the lock", backlog.ErrUnavailable)
		case err == nil && !got.Bool:
			return backlog.ErrLocked
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.session.held[name] = true
	return &sessionLock{l, l.session, server, name}, nil
}

// open makes sure that there is a session.
func (l *SessionLocks) open(ctx context.Context) error {
	if l.session != nil {
		return nil
	}
	s, pool := &lockSession{held: make(map[string]bool)}, l.Pool
	if pool == nil {
		s.db = sql.OpenDB(l.Connector)
		pool = s.db
	} else if pool.Stats().MaxOpenConnections == 1 {
		return Problemf("allow more by its SetMaxOpenConns", "the pool has 1 connection at most, but it takes 2: locks keep one as long as they are held, and the work another")
	}
	var err error
	if s.conn, err = pool.Conn(ctx); err == nil {
		err = l.Prepare(ctx, pool, s.conn)
	}
	if err != nil {
		s.close()
		return err
	}
	if s.db != nil {
		s.db.SetMaxIdleConns(-1) // Prepare may have opened others
	}
	l.session = s
	return nil
}

type sessionLock struct {
	locks   *SessionLocks
	session *lockSession
	server  Server
	name    string
}

// Check asks the server whether this very session still has the lock. A caller who
// does not want to know any more must not end the others' session.
func (l *sessionLock) Check(ctx context.Context) error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if !l.session.held[l.name] {
		return errors.New("the lock was given back")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	var ours sql.NullBool
	err := l.session.conn.QueryRowContext(ctx, l.locks.Held, l.name).Scan(&ours)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("the lock's connection: no answer within %v", lockTimeout)
	case err != nil && (&DB{Server: l.server}).fault(err) == Fault{Class: Unavailable}:
		return errors.New("the lock's connection broke off")
	case err != nil:
		return fmt.Errorf("the lock's connection: %w", err)
	case !ours.Bool:
		return errors.New("the database server no longer has the lock as ours")
	}
	return nil
}

// Unlock gives the lock back; the last one ends the session.
func (l *sessionLock) Unlock() error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if !l.session.held[l.name] {
		return nil
	}
	delete(l.session.held, l.name)
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	// Said before the end of the session, which the server need not notice at
	// once. Where it does not hear it, the session has ended, and the lock.
	l.session.conn.ExecContext(ctx, l.locks.Drop, l.name)
	if len(l.session.held) == 0 {
		l.session.close()
		if l.locks.session == l.session {
			l.locks.session = nil
		}
	}
	return nil
}
