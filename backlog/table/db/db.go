// Package db speaks to a database on behalf of a table: pools of connections, time
// limits, locks, what errors mean, what a catalogue says, and how SQL is written.
//
// Each kind of database is a package beside it that knows no table, in five files:
//
//   - text: a [Text], how the kind writes SQL and URLs.
//   - open: [Server.Open], Begin, MayWrite and Value, on top of [Text.ParseURL] and, for a
//     server, [Options.Connect], [Dial] and [Text.Unreached].
//   - catalog: [Server.Catalog], queries whose answers become a [Catalog].
//   - errors: [Server.Error], a list of [Fault]s by the codes of the driver's errors; what
//     no server has said, such as a broken connection, is understood here.
//   - lock: [Server.Lock], by [SessionLocks] where a server has locks that end with their
//     session.
//
// The database then goes into the list of dialects in cmd/wire.go, and the conformance
// tests in backlog/table run against it.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

const (
	// StatementTimeout bounds every statement. A page or a group takes
	// milliseconds where the index is there.
	StatementTimeout = time.Minute
	// Moment is how long a lock is waited for before it is asked for anew.
	Moment = 10 * time.Millisecond
	// DialTimeout is how long a connection to a server may take.
	DialTimeout = 10 * time.Second
	// lockPatience is how long locks of other programs are waited for.
	lockPatience = 10 * time.Second
)

// A DB is a database that is open.
type DB struct {
	Server
	Read, Write *sql.DB       // nil: it is open to be read only
	Planner     *sql.DB       // on which what writes is planned; nil: Read
	Patience    time.Duration // how long another program's lock is waited for
	ChangedOnly bool          // rows that have been written as they were are not counted

	// NoHints says that queries do not name the index to use: once one was gone they do
	// not until the next start. They are slower at worst.
	NoHints atomic.Bool

	own bool // the connections are the program's
}

// Options say how a database is opened.
type Options struct {
	ReadOnly bool          // change no byte
	Create   bool          // the database may be made, and statements take as long as they take
	Pool     int           // connections at most; 0: 4
	Patience time.Duration // how long another program's lock is waited for; 0: 10 s
	Own      *sql.DB       // the program's own connections, in place of the URL; they stay open
}

// A Setting is one that the sessions of a program's own pool must have, with a query's
// expression for its value and what to do where that is another one.
type Setting struct{ Name, Query, Want, Hint string }

// Open opens the database that the URL names: sqlite:PATH, or
// sqlite:PATH?synchronous=normal to save a sync to disk per group of outcomes, at
// the price that a power failure can undo the last ones;
// postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://… for the servers. A file
// that is not there is a [*MissingFile]; nothing is created. Errors never hold the
// URL, which may contain a password; what is wrong with it is a [*URLError].
func Open(ctx context.Context, dialect Server, url string, o Options) (*DB, error) {
	o.Pool = cmp.Or(max(o.Pool, 0), 4)
	o.Patience = cmp.Or(o.Patience, lockPatience)
	db := &DB{Server: dialect, Patience: o.Patience}
	open, err := Get(ctx, db, func(ctx context.Context) (*DB, error) { return dialect.Open(ctx, url, o) })
	if err != nil {
		return nil, err
	}
	open.Patience, open.own = o.Patience, o.Own != nil
	return open, nil
}

// Connect returns the database of a server that is reached through the connector.
func (o Options) Connect(ctx context.Context, server Server, c driver.Connector, lifetime time.Duration) (*DB, error) {
	n, pool := o.Pool, sql.OpenDB(c)
	db := &DB{Server: server, Read: pool}
	if !o.ReadOnly {
		n, db.Write = max(1, n-2), pool // a leader's two locks take the rest
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	pool.SetConnMaxLifetime(lifetime)
	pool.SetConnMaxIdleTime(time.Minute)
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, db.Wrap(ctx, err)
	}
	return db, nil
}

// Adopt returns the database if one connection of the program's own pool, which the
// driver's is shown of, has the settings.
func (db *DB) Adopt(ctx context.Context, settings []Setting, look func(conn any) error) (*DB, error) {
	conn, err := db.Read.Conn(ctx)
	if err != nil {
		return nil, db.Wrap(ctx, cmp.Or(db.Text().Unreached(ctx, "the other end of the pool", DialTimeout, err), err))
	}
	defer conn.Close()
	err = conn.Raw(look)
	for _, s := range settings {
		var has string
		if err == nil {
			err = conn.QueryRowContext(ctx, "SELECT "+s.Query).Scan(&has)
		}
		if err == nil && has != s.Want {
			err = Problemf(s.Hint+"; docs/go.md shows how to open the pool", "the pool's sessions have %s = %s, not %s", s.Name, has, s.Want)
		}
	}
	return db, db.Wrap(ctx, err)
}

// Close closes the connections, unless they are the program's own.
func (db *DB) Close() error {
	if db.own {
		return nil
	}
	var err error
	for _, pool := range []*sql.DB{db.Read, db.Planner, db.Write} { // some may be the same: that is closed once
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}

// Patiently calls f again while another program has the lock.
func (db *DB) Patiently(ctx context.Context, f func(context.Context) error) error {
	for start := time.Now(); ; {
		began := time.Now()
		err := f(ctx)
		class := db.Class(err)
		if class == Stale && !db.NoHints.Swap(true) {
			continue
		}
		if class != Busy || ctx.Err() != nil || time.Since(start) >= db.Patience {
			return err
		}
		if !backlog.Sleep(ctx, Moment-time.Since(began)) { // where f itself has not waited
			return err
		}
	}
}

// Within calls f patiently under the statement timeout and gives its error a class.
func (db *DB) Within(ctx context.Context, f func(context.Context) error) error {
	sctx, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	err := db.Patiently(sctx, f)
	if err == sql.ErrNoRows {
		return nil
	}
	return db.Wrap(ctx, err)
}

// Get likewise returns what f does.
func Get[T any](ctx context.Context, db *DB, f func(context.Context) (T, error)) (v T, err error) {
	err = db.Within(ctx, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// Describe reads the catalogue of a table.
func (db *DB) Describe(ctx context.Context, schema, name string) (*Catalog, error) {
	return Get(ctx, db, func(ctx context.Context) (*Catalog, error) { return db.Catalog(ctx, db.Read, schema, name) })
}

// CheckRights is a *Problem if this user may not write to the database. It changes
// nothing.
func (db *DB) CheckRights(ctx context.Context) error {
	return db.Within(ctx, func(ctx context.Context) error {
		conn, err := db.Write.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return db.MayWrite(ctx, conn)
	})
}

// Plan returns the error for which the database would not run the statement of
// n arguments, or the user may not. It does not run it.
func (db *DB) Plan(ctx context.Context, text string, n int) error {
	conn, err := cmp.Or(db.Planner, db.Read).Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if read := db.Text().ReadSchema; read != "" {
		if _, err := Texts(ctx, conn, read); err != nil {
			return err
		}
	}
	begin := db.Text().BeginPlan
	if begin != "" {
		if _, err := conn.ExecContext(ctx, begin); err != nil {
			return err
		}
		defer conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	stmt, err := conn.PrepareContext(ctx, text)
	if err == nil {
		stmt.Close()
	}
	if err != nil || begin == "" {
		return err
	}
	// It asks for the rights.
	_, err = Rows(ctx, conn, "EXPLAIN "+text, make([]any, n)...)
	if class := db.Class(err); class == Other || class == Refused { // what a function says of arguments that are NULL
		return nil
	}
	return err
}

// Skew returns how far this machine's clock, which now reads, is ahead of the
// database server's, not counting the time that the answer took; 0 where there is
// no server.
func (db *DB) Skew(ctx context.Context, now func() time.Time) (time.Duration, error) {
	text := db.Text().Present
	if text == "" {
		return 0, nil
	}
	return Get(ctx, db, func(ctx context.Context) (time.Duration, error) {
		before := now()
		var micros int64
		err := db.Read.QueryRowContext(ctx, "SELECT "+text).Scan(&micros)
		after, theirs := now(), time.UnixMicro(micros)
		return max(before.Sub(theirs), 0) + min(after.Sub(theirs), 0), err // one of them is 0
	})
}

// MostSkew is how far the clocks of this machine and of the server may be apart.
const MostSkew = 5 * time.Second
