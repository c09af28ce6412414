package table

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
	// lockTimeout is how long an answer about a lock may take, and lockDial how
	// long a connection for it.
	lockTimeout = 2 * time.Second
	lockDial    = 10 * time.Second
	// lockIdle is after how many seconds without a word a server gives up the
	// session that has the locks. Who has one asks for it every two seconds.
	lockIdle = 10
)

// serverLocks are the locks of a server that this process has by one DB. They
// share one session, which is there as long as there are any; they end with it.
type serverLocks struct {
	connector driver.Connector

	mu      sync.Mutex
	session *lockSession // nil: none
}

type lockSession struct {
	db   *sql.DB
	conn *sql.Conn
	held map[string]bool
}

func (s *lockSession) close() {
	s.conn.Close()
	s.db.Close()
}

// A lockServer is how a kind of server locks.
type lockServer interface {
	dialect
	// prepareLocks makes the session fit for being idle and looked after, or says
	// why it cannot have locks.
	prepareLocks(ctx context.Context, s *lockSession) error
	// lockName returns what the server knows the lock by.
	lockName(ctx context.Context, conn *sql.Conn, schema, table string, name backlog.LockName) (string, error)
	// takeLock takes it for the session unless another one has it.
	takeLock(ctx context.Context, conn *sql.Conn, name string) (bool, error)
	// hasLock reports whether this very session has it.
	hasLock(ctx context.Context, conn *sql.Conn, name string) (bool, error)
	dropLock(ctx context.Context, conn *sql.Conn, name string)
}

// try takes the lock of that name. The server lets go of it when the session
// ends, however it ends.
func (l *serverLocks) try(ctx context.Context, server lockServer, schema, table string, name backlog.LockName) (backlog.Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, err := l.take(ctx, server, schema, table, name)
	if err != nil && !errors.Is(err, backlog.ErrLocked) {
		err = (&DB{dialect: server}).wrap(ctx, err)
	}
	if l.session != nil && (len(l.session.held) == 0 || errors.Is(err, backlog.ErrAway)) {
		l.session.close() // when the server is away it is so for every lock
		l.session = nil
	}
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (l *serverLocks) take(ctx context.Context, server lockServer, schema, table string, name backlog.LockName) (held *serverLock, err error) {
	if err := limited(ctx, lockDial, func(ctx context.Context) error { return l.open(ctx, server) }); err != nil {
		return nil, err
	}
	// To cancel a statement is to end the session, with the locks of others.
	err = limited(context.WithoutCancel(ctx), lockTimeout, func(ctx context.Context) (err error) {
		held, err = l.takeOn(ctx, l.session, server, schema, table, name)
		return err
	})
	return held, err
}

func (l *serverLocks) takeOn(ctx context.Context, s *lockSession, server lockServer, schema, table string, name backlog.LockName) (*serverLock, error) {
	full, err := server.lockName(ctx, s.conn, schema, table, name)
	if err != nil {
		return nil, err
	}
	if s.held[full] { // the session itself would get it once more
		return nil, backlog.ErrLocked
	}
	got, err := server.takeLock(ctx, s.conn, full)
	switch {
	case err != nil:
		return nil, err
	case !got:
		return nil, backlog.ErrLocked
	}
	s.held[full] = true
	return &serverLock{l, s, server, full}, nil
}

// open makes sure that there is a session.
func (l *serverLocks) open(ctx context.Context, server lockServer) error {
	if l.session != nil {
		return nil
	}
	s := &lockSession{db: sql.OpenDB(l.connector), held: make(map[string]bool)}
	var err error
	if s.conn, err = s.db.Conn(ctx); err != nil {
		s.db.Close()
		return err
	}
	if err := server.prepareLocks(ctx, s); err != nil {
		s.close()
		return err
	}
	l.session = s
	return nil
}

type serverLock struct {
	locks   *serverLocks
	session *lockSession
	server  lockServer
	name    string
}

// Check asks the server whether this very session still has the lock. A caller
// who does not want to know any more must not end the others' session.
func (l *serverLock) Check(ctx context.Context) error {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if !l.session.held[l.name] {
		return errors.New("the lock was given back")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	ours, err := l.server.hasLock(ctx, l.session.conn, l.name)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("the lock's connection: no answer within %v", lockTimeout)
	case isWordless(err):
		return errors.New("the lock's connection broke off")
	case err != nil:
		return fmt.Errorf("the lock's connection: %w", err)
	case !ours:
		return errors.New("the database server no longer has the lock as ours")
	}
	return nil
}

// Unlock gives the lock back; the last one ends the session.
func (l *serverLock) Unlock() error {
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
	l.server.dropLock(ctx, l.session.conn, l.name)
	if len(l.session.held) == 0 {
		l.session.close()
		if l.locks.session == l.session {
			l.locks.session = nil
		}
	}
	return nil
}
