package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
)

const (
	// lockTimeout is how long an answer about a lock may take.
	lockTimeout = 2 * time.Second
	// LockIdle is after how many seconds without a word a server gives up the
	// session that has a lock. Who has one asks for it every two seconds.
	LockIdle = 10
	// rivalPause is between two looks at the marks of a lock: it may be about to be
	// taken, or given back.
	rivalPause = 250 * time.Millisecond
)

// A LockName names a lock of a table, and says who asks for it.
type LockName struct {
	Name string // run or leader
	Work backlog.Work
}

// String returns what tells the locks of a table apart. Works have no spaces in their names.
func (l LockName) String() string {
	if l.Work.Name == "" {
		return l.Name
	}
	return l.Name + " " + l.Work.Name
}

// marked is the mark of a lock that has all the others. Older versions have none.
var marked = backlog.Mark{What: "marked", Digest: "1"}

// mark returns the name of a mark of the lock, which the server has as a lock, too.
func (l LockName) mark(m backlog.Mark) string { return l.String() + " " + m.What + "=" + m.Digest }

// SessionLocks are the locks of a server. Each has a session of its own, with which it
// ends.
type SessionLocks struct {
	Server    Server // knows the errors, and how arguments are marked
	Connector driver.Connector
	Pool      *sql.DB // the program's own, in place of the connector

	// Prepare makes the session fit for being idle and looked after, or says why
	// it cannot have locks. The pool leads to other sessions.
	Prepare func(ctx context.Context, pool *sql.DB, conn *sql.Conn) error

	// The expressions have the lock's key as their argument, ?. Take says whether the
	// session has got it, Held whether this very session has it; Drop gives it back,
	// and Holder is the number of the session that has it, or NULL.
	Take, Held, Drop, Holder string
	// Key makes a key of a lock's name.
	Key func(c *Catalog, name string) string
}

// Lock implements [Server]. The server lets go of the lock when the session ends, however it ends.
func (l *SessionLocks) Lock(ctx context.Context, c *Catalog, name LockName) (backlog.Lock, error) {
	s := &sessionLock{SessionLocks: l, db: &DB{Server: l.Server}, pool: l.Pool, catalog: c, name: name}
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
	if errors.Is(err, backlog.ErrLocked) {
		if rival, look := l.Rival(ctx, s.conn, c, name); look == nil && rival != nil {
			err = rival
		}
	}
	if err != nil {
		s.close()
		return nil, s.db.Wrap(ctx, err)
	}
	_ = s.Mark(ctx, name.Work) // without marks it is a lock all the same
	return s, nil
}

// Rival implements [Server].
func (l *SessionLocks) Rival(ctx context.Context, q Querier, c *Catalog, name LockName) (*backlog.Rival, error) {
	if len(name.Work.Marks) == 0 {
		return nil, nil
	}
	return LookTwice(ctx, func() (*backlog.Rival, error) { return l.look(ctx, q, c, name) })
}

// LookTwice returns the rival that look finds at two times, nil if there is none at one of them.
func LookTwice(ctx context.Context, look func() (*backlog.Rival, error)) (found *backlog.Rival, err error) {
	for again := range 2 {
		if again > 0 && !backlog.Sleep(ctx, rivalPause) {
			return nil, ctx.Err()
		}
		found, err = look()
		if found == nil || err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (l *SessionLocks) look(ctx context.Context, q Querier, c *Catalog, name LockName) (*backlog.Rival, error) {
	marks := append([]backlog.Mark{marked}, name.Work.Marks...)
	names := []string{name.String()}
	for _, m := range marks {
		names = append(names, name.mark(m))
	}
	text, args := l.all(c, l.Holder, names)
	var holders []sql.NullInt64
	err := limited(ctx, lockTimeout, func(ctx context.Context) (err error) {
		row := q.QueryRowContext(ctx, text, args...)
		holders, err = scanEach[sql.NullInt64](row, len(names))
		return err
	})
	if err != nil {
		return nil, err
	}
	has := func(m backlog.Mark) bool { return holders[1+slices.Index(marks, m)] == holders[0] }
	if !holders[0].Valid || !has(marked) {
		return nil, nil
	}
	return name.Work.Rival(has), nil
}

// all returns a query for the expression for each of the locks, in their order.
func (l *SessionLocks) all(c *Catalog, expression string, names []string) (text string, args []any) {
	list := slices.Repeat([]string{expression}, len(names))
	for _, name := range names {
		args = append(args, l.Key(c, name))
	}
	return l.Server.Text().Place("SELECT " + strings.Join(list, ", ")), args
}

type sessionLock struct {
	*SessionLocks
	db      *DB // knows the errors
	pool    *sql.DB
	conn    *sql.Conn
	catalog *Catalog
	name    LockName
	marks   []string // that the session has, the one that says so first
}

var _ backlog.Marker = (*sessionLock)(nil)

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

// each returns what the expression is for each of the names.
func (l *sessionLock) each(ctx context.Context, expression string, names ...string) ([]sql.NullBool, error) {
	text, args := l.all(l.catalog, expression, names)
	return scanEach[sql.NullBool](l.conn.QueryRowContext(ctx, text, args...), len(names))
}

func (l *sessionLock) take(ctx context.Context) error {
	got, err := l.each(ctx, l.Take, l.name.String())
	switch {
	case err == nil && !got[0].Valid:
		return fmt.Errorf("%w: the server did not give the lock", backlog.ErrUnavailable)
	case err == nil && !got[0].Bool:
		return backlog.ErrLocked
	}
	return err
}

// Mark implements backlog.Marker. Marks that cannot be had at once are still those of a
// session that ends: without all of them the lock has none.
func (l *sessionLock) Mark(ctx context.Context, w backlog.Work) error {
	return limited(ctx, lockTimeout, func(ctx context.Context) error {
		if err := l.unmark(ctx); err != nil || len(w.Marks) == 0 {
			return err
		}
		var names []string
		for _, m := range w.Marks {
			names = append(names, l.name.mark(m))
		}
		for len(names) > 0 {
			got, err := l.each(ctx, l.Take, names...)
			if err != nil {
				return err
			}
			var rest []string
			for i, name := range names {
				if got[i].Bool {
					l.marks = append(l.marks, name)
				} else {
					rest = append(rest, name)
				}
			}
			if len(rest) > 0 && !backlog.Sleep(ctx, rivalPause/5) {
				return ctx.Err()
			}
			names = rest
		}
		all := l.name.mark(marked)
		l.marks = append([]string{all}, l.marks...)
		return errorOf(l.each(ctx, l.Take, all))
	})
}

func errorOf[T any](_ T, err error) error { return err }

// unmark gives the marks back.
func (l *sessionLock) unmark(ctx context.Context) error {
	marks := l.marks
	l.marks = nil
	if len(marks) == 0 {
		return nil
	}
	return errorOf(l.each(ctx, l.Drop, marks...))
}

// Check asks the server whether this very session still has the lock. A caller who
// does not want to know any more must not end the session.
func (l *sessionLock) Check(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var ours []sql.NullBool
	err := limited(ctx, lockTimeout, func(ctx context.Context) (err error) {
		ours, err = l.each(ctx, l.Held, l.name.String())
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

// Unlock gives the lock back and ends the session.
func (l *sessionLock) Unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	// Said before the end of the session, which the server need not notice at
	// once. Where it does not hear it, the session has ended, and the lock.
	_, _ = l.each(ctx, l.Drop, append(l.marks, l.name.String())...)
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
