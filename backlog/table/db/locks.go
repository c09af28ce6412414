package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

const (
	// lockTimeout limits a query about a lock.
	lockTimeout = 2 * time.Second
	// LockIdle is how many seconds of silence a server tolerates before it ends the session
	// that holds a lock. The holder asks about its lock every two seconds.
	LockIdle = 10
	// rivalPause is the time between two comparisons of a lock's marks. After one alone a
	// lock that is just being acquired or released would look like a rival's.
	rivalPause = 250 * time.Millisecond
)

// A LockName is a lock of a table, together with the work of the process that asks for it.
type LockName struct {
	Name string // run or leader
	Work backlog.Work
}

// String returns the name of the lock among the locks of its table. Names of works contain no spaces.
func (l LockName) String() string {
	if l.Work.Name == "" {
		return l.Name
	}
	return l.Name + " " + l.Work.Name
}

// allMarked is the mark that a lock gets last: it has all its marks. Older versions do not set it.
var allMarked = backlog.Mark{What: "marked", Digest: "1"}

// mark returns the name of the server lock that stands for a mark of the lock.
func (l LockName) mark(m backlog.Mark) string { return l.String() + " " + m.What + "=" + m.Digest }

// SessionLocks implements [Server.Lock] and [Server.Rival] with locks of a server. Each lock
// is held by a session of its own, and ends with it.
type SessionLocks struct {
	Server    Server // classifies errors and describes the SQL
	Connector driver.Connector
	Pool      *sql.DB // a pool of the calling program, used instead of the connector

	// Prepare sets up a session that is to hold a lock: it may be idle, and the server must
	// notice when this process is gone. It fails if the session cannot hold locks. pool
	// returns other sessions of the same server.
	Prepare func(ctx context.Context, pool *sql.DB, conn *sql.Conn) error

	// The following are SQL expressions with one argument, ?, the key of the lock.

	Take   string // acquires the lock without waiting; true: the session has it now
	Held   string // whether this very session has the lock
	Drop   string // releases the lock
	Holder string // the number of the session that has the lock, or NULL

	// Key returns the key of a lock of a table by the lock's name.
	Key func(c *Catalog, name string) string
}

// Lock implements [Server]. The server releases the lock when the session ends for any reason.
func (l *SessionLocks) Lock(ctx context.Context, c *Catalog, name LockName) (backlog.Lock, error) {
	s := &sessionLock{SessionLocks: l, db: &DB{Server: l.Server}, pool: l.Pool, catalog: c, name: name}
	switch {
	case l.Pool == nil:
		s.pool = sql.OpenDB(l.Connector)
	case l.Pool.Stats().MaxOpenConnections == 1:
		return nil, Problemf("allow more by its SetMaxOpenConns", "the pool has 1 connection at most, but a lock keeps one as long as it is held, and the work takes another")
	}
	err := withTimeout(ctx, DialTimeout, s.open)
	if err == nil {
		err = withTimeout(ctx, lockTimeout, s.acquire)
	}
	if errors.Is(err, backlog.ErrLocked) {
		rival, lookErr := l.Rival(ctx, s.conn, c, name)
		if lookErr == nil && rival != nil {
			err = rival
		}
	}
	if err != nil {
		s.close()
		return nil, s.db.Wrap(ctx, err)
	}
	_ = s.Mark(ctx, name.Work) // a lock without marks is a lock too
	return s, nil
}

// Rival implements [Server].
func (l *SessionLocks) Rival(ctx context.Context, q Querier, c *Catalog, name LockName) (*backlog.Rival, error) {
	if len(name.Work.Marks) == 0 {
		return nil, nil
	}
	return ConfirmRival(ctx, func() (*backlog.Rival, error) { return l.findRival(ctx, q, c, name) })
}

// ConfirmRival calls find twice, with a pause between. It returns a rival only if both calls find
// one.
func ConfirmRival(ctx context.Context, find func() (*backlog.Rival, error)) (rival *backlog.Rival, err error) {
	for attempt := range 2 {
		if attempt > 0 && !backlog.Sleep(ctx, rivalPause) {
			return nil, ctx.Err()
		}
		rival, err = find()
		if rival == nil || err != nil {
			return nil, err
		}
	}
	return rival, nil
}

// findRival compares the marks of name.Work with those that the holder of the lock has. It
// returns nil if the marks agree, if the lock is free, or if its marks are incomplete.
func (l *SessionLocks) findRival(ctx context.Context, q Querier, c *Catalog, name LockName) (*backlog.Rival, error) {
	marks := append([]backlog.Mark{allMarked}, name.Work.Marks...)
	names := []string{name.String()}
	for _, m := range marks {
		names = append(names, name.mark(m))
	}
	text, args := l.query(c, l.Holder, names)
	var holders []sql.NullInt64
	err := withTimeout(ctx, lockTimeout, func(ctx context.Context) (err error) {
		holders, err = scanN[sql.NullInt64](OneRow(ctx, q, text, args...), len(names))
		return err
	})
	if err != nil {
		return nil, err
	}
	lockHolder := holders[0]
	has := func(m backlog.Mark) bool { return holders[1+slices.Index(marks, m)] == lockHolder }
	if !lockHolder.Valid || !has(allMarked) {
		return nil, nil
	}
	return name.Work.Rival(has), nil
}

// query returns a SELECT of the expression for each of the names, in their order.
func (l *SessionLocks) query(c *Catalog, expression string, names []string) (text string, args []any) {
	list := slices.Repeat([]string{expression}, len(names))
	for _, name := range names {
		args = append(args, l.Key(c, name))
	}
	return l.Server.Text().Rebind("SELECT " + strings.Join(list, ", ")), args
}

// A sessionLock is one lock and the session that holds it.
type sessionLock struct {
	*SessionLocks
	db      *DB // classifies errors
	pool    *sql.DB
	conn    *sql.Conn
	catalog *Catalog
	name    LockName

	asking  sync.Mutex // held while conn has a query: Check and Mark may be called at a time
	marking sync.Mutex // guards the following
	marks   []string   // that the session has; allMarked comes first
}

var _ backlog.Marker = (*sessionLock)(nil)

// open starts the session.
func (l *sessionLock) open(ctx context.Context) (err error) {
	l.conn, err = l.pool.Conn(ctx)
	if err != nil {
		return err
	}
	err = l.Prepare(ctx, l.pool, l.conn)
	if l.Pool == nil {
		l.pool.SetMaxIdleConns(-1) // closes a second connection that Prepare may have needed
	}
	return err
}

// evaluate returns the value of the expression for each of the names.
func (l *sessionLock) evaluate(ctx context.Context, expression string, names ...string) ([]sql.NullBool, error) {
	text, args := l.query(l.catalog, expression, names)
	l.asking.Lock() // a sql.Conn does not keep a second query out while the first one's row is read
	defer l.asking.Unlock()
	return scanN[sql.NullBool](OneRow(ctx, l.conn, text, args...), len(names))
}

// acquire gets the lock, or returns backlog.ErrLocked at once.
func (l *sessionLock) acquire(ctx context.Context) error {
	got, err := l.evaluate(ctx, l.Take, l.name.String())
	switch {
	case err == nil && !got[0].Valid:
		return fmt.Errorf("%w: the server did not give the lock", backlog.ErrUnavailable)
	case err == nil && !got[0].Bool:
		return backlog.ErrLocked
	}
	return err
}

// Mark implements backlog.Marker. A mark that another session still has is probably one of the
// previous holder, which is about to end, so Mark tries again. If it does not get all marks in
// time, allMarked is not set, and the lock counts as one without marks.
func (l *sessionLock) Mark(ctx context.Context, w backlog.Work) error {
	return withTimeout(ctx, lockTimeout, func(ctx context.Context) error {
		if err := l.unmark(ctx); err != nil || len(w.Marks) == 0 {
			return err
		}
		var names []string
		for _, m := range w.Marks {
			names = append(names, l.name.mark(m))
		}
		for len(names) > 0 {
			got, err := l.evaluate(ctx, l.Take, names...)
			if err != nil {
				return err
			}
			var missing []string
			for i, name := range names {
				if got[i].Bool {
					l.setMarks(append(l.takenMarks(), name))
				} else {
					missing = append(missing, name)
				}
			}
			if len(missing) > 0 && !backlog.Sleep(ctx, rivalPause/5) {
				return ctx.Err()
			}
			names = missing
		}
		last := l.name.mark(allMarked)
		l.setMarks(append([]string{last}, l.takenMarks()...))
		_, err := l.evaluate(ctx, l.Take, last)
		return err
	})
}

// takenMarks returns the marks that the session has.
func (l *sessionLock) takenMarks() []string {
	l.marking.Lock()
	defer l.marking.Unlock()
	return slices.Clone(l.marks)
}

func (l *sessionLock) setMarks(marks []string) {
	l.marking.Lock()
	defer l.marking.Unlock()
	l.marks = marks
}

// unmark releases the marks.
func (l *sessionLock) unmark(ctx context.Context) error {
	marks := l.takenMarks()
	l.setMarks(nil)
	if len(marks) == 0 {
		return nil
	}
	_, err := l.evaluate(ctx, l.Drop, marks...)
	return err
}

// Check asks the server whether this very session still has the lock. Check ignores that ctx is
// cancelled: a cancelled query would end the session, and the lock with it.
func (l *sessionLock) Check(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var ours []sql.NullBool
	err := withTimeout(ctx, lockTimeout, func(ctx context.Context) (err error) {
		ours, err = l.evaluate(ctx, l.Held, l.name.String())
		return err
	})
	if err != nil {
		return fmt.Errorf("the lock's connection: %w", l.db.Wrap(ctx, err))
	}
	if !ours[0].Bool {
		return errors.New("the database server no longer has the lock as ours")
	}
	return nil
}

// Unlock releases the lock and ends the session.
func (l *sessionLock) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	// The server may notice the end of the session late, so the lock is released first. If that
	// fails the session is over anyway, and the lock with it.
	_, _ = l.evaluate(ctx, l.Drop, append(l.takenMarks(), l.name.String())...)
	l.close()
	return nil
}

// close ends the session, and the pool that was opened for it.
func (l *sessionLock) close() {
	if l.conn != nil {
		l.conn.Raw(func(any) error { return driver.ErrBadConn }) // keeps the connection out of the pool
		l.conn.Close()
	}
	if l.Pool == nil {
		l.pool.Close()
	}
}
