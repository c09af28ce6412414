// Package db accesses a database on behalf of package table. It has connection pools,
// timeouts and locks, classifies errors, reads the catalog, and writes SQL in the
// dialect of the database.
//
// Each kind of database has a package of its own next to this one, which knows nothing
// about tables of records. It consists of five files:
//
//   - text: a [Text], which describes the SQL and the URLs of the database.
//   - open: [Server.Open], Begin, MayWrite and Value. They use [Text.ParseURL] and, where
//     there is a server, [Options.Connect], [Dial] and [Text.ConnectError].
//   - catalog: [Server.Catalog] and [Server.Guards], whose queries fill a [Catalog].
//   - errors: [Server.Classify], a list of [Fault]s by the error codes of the driver.
//     Package db itself recognizes errors that no server sent, such as a broken connection.
//   - lock: [Server.Lock]. It uses [SessionLocks] if the server has locks that end with
//     their session.
//
// To add a database, append its dialect to the list in cmd/wire.go and run the conformance
// tests in backlog/table against it.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

const (
	// StatementTimeout limits every statement. With the right index a page or a group
	// takes milliseconds.
	StatementTimeout = time.Minute
	// LockPollInterval is the time between two attempts to get a lock that another
	// program holds.
	LockPollInterval = 10 * time.Millisecond
	// DialTimeout limits connecting to a server.
	DialTimeout = 10 * time.Second
	// defaultPatience is the default of [Options.Patience].
	defaultPatience = 10 * time.Second
)

// A DB is an open database. All its methods may be called concurrently.
type DB struct {
	Server
	Read              *sql.DB
	Write             *sql.DB       // nil: the database is open for reading only
	Planner           *sql.DB       // for planning statements that write; nil: Read does it
	Patience          time.Duration // how long to wait for a lock of another program
	CountsChangedOnly bool          // the affected rows of an UPDATE are those that it really changed

	// NoHints says that queries must not name the index to use. It is set when such an
	// index turns out to be dropped, and stays set until the next start. Without hints
	// queries are correct, but may be slower.
	NoHints atomic.Bool

	prepared sync.Map // from a preparedKey to its *sql.Stmt

	borrowed bool // the connections belong to the calling program, and Close leaves them open
}

// Options say how a database is opened.
type Options struct {
	ReadOnly bool          // change nothing
	Create   bool          // create the database if it is missing, and set no statement timeout
	Pool     int           // the maximum number of connections; 0: 4
	Patience time.Duration // how long to wait for a lock of another program; 0: 10 s
	Existing *sql.DB       // a pool of the calling program, used instead of the URL; it is never closed
}

// A RequiredSetting is a session setting that a pool of the calling program must have.
type RequiredSetting struct {
	Name  string
	Query string // an SQL expression that returns the value
	Want  string
	Hint  string // what to do if the value is another one
}

// Open opens the database at a URL:
//
//   - sqlite:PATH, or sqlite:PATH?synchronous=normal. The latter saves one sync to disk per
//     group of outcomes, but a power failure can undo the last groups.
//   - postgres://USER:PASSWORD@HOST:PORT/DATABASE
//   - mysql://USER:PASSWORD@HOST:PORT/DATABASE
//
// A missing file is a [*MissingFile]; Open creates it only with [Options].Create. An invalid
// URL is a [*URLError]. No error contains the URL, since it may hold a password.
func Open(ctx context.Context, dialect Server, url string, o Options) (*DB, error) {
	o.Pool = cmp.Or(max(o.Pool, 0), 4)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	db := &DB{Server: dialect, Patience: o.Patience}
	open, err := Get(ctx, db, func(ctx context.Context) (*DB, error) { return dialect.Open(ctx, url, o) })
	if err != nil {
		return nil, err
	}
	open.Patience = o.Patience
	open.borrowed = o.Existing != nil
	return open, nil
}

// Connect opens a pool of connections to a server, and verifies that it can be reached.
// It reserves two of the o.Pool connections for the locks of a leader, which have sessions
// of their own.
func (o Options) Connect(ctx context.Context, server Server, c driver.Connector, lifetime time.Duration) (*DB, error) {
	size := o.Pool
	pool := sql.OpenDB(c)
	db := &DB{Server: server, Read: pool}
	if !o.ReadOnly {
		size = max(1, size-2)
		db.Write = pool
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	pool.SetConnMaxLifetime(lifetime)
	pool.SetConnMaxIdleTime(time.Minute)
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, db.Wrap(ctx, err)
	}
	return db, nil
}

// Adopt verifies that a pool of the calling program can be used, and returns db. It takes
// one connection, calls inspect with the driver's own connection, and compares the settings.
func (db *DB) Adopt(ctx context.Context, settings []RequiredSetting, inspect func(conn any) error) (*DB, error) {
	conn, err := db.Read.Conn(ctx)
	if err != nil {
		return nil, db.Wrap(ctx, cmp.Or(db.Text().ConnectError(ctx, "the other end of the pool", DialTimeout, err), err))
	}
	defer conn.Close()
	err = conn.Raw(inspect)
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

// Close closes the connections, unless they belong to the calling program.
func (db *DB) Close() error {
	if db.borrowed {
		return nil
	}
	var err error
	for _, pool := range []*sql.DB{db.Read, db.Planner, db.Write} { // two may be the same; closing it twice does no harm
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}

// RetryWhileBusy calls f until it no longer fails because another program has a lock, or
// until [DB].Patience is over. If f fails because an index hint is stale, hints are turned
// off and f is called again.
func (db *DB) RetryWhileBusy(ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	for {
		began := time.Now()
		err := f(ctx)
		class := db.Class(err)
		if class == Stale && !db.NoHints.Swap(true) {
			continue
		}
		if class != Busy || ctx.Err() != nil || time.Since(start) >= db.Patience {
			return err
		}
		if !backlog.Sleep(ctx, LockPollInterval-time.Since(began)) { // f may have waited for the lock itself
			return err
		}
	}
}

// Do calls f under the statement timeout, again while another program has a lock. It
// classifies the error. [sql.ErrNoRows] is not an error here.
func (db *DB) Do(ctx context.Context, f func(context.Context) error) error {
	sctx, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	err := db.RetryWhileBusy(sctx, f)
	if err == sql.ErrNoRows {
		return nil
	}
	return db.Wrap(ctx, err)
}

// Get is [DB.Do] for an f that returns a value.
func Get[T any](ctx context.Context, db *DB, f func(context.Context) (T, error)) (v T, err error) {
	err = db.Do(ctx, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// Describe reads the catalog of a table.
func (db *DB) Describe(ctx context.Context, schema, name string) (*Catalog, error) {
	return Get(ctx, db, func(ctx context.Context) (*Catalog, error) { return db.Catalog(ctx, db.Read, schema, name) })
}

// CheckRights returns a [*Problem] if the user may not write to the database. It changes
// nothing.
func (db *DB) CheckRights(ctx context.Context) error {
	return db.Do(ctx, func(ctx context.Context) error {
		conn, err := db.Write.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return db.MayWrite(ctx, conn)
	})
}

// Plan has the database check a statement with n arguments without running it. It returns
// the error with which the database would refuse it, also for want of rights.
func (db *DB) Plan(ctx context.Context, text string, n int) error {
	conn, err := cmp.Or(db.Planner, db.Read).Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if read := db.Text().ReadSchema; read != "" {
		if _, err := QueryTexts(ctx, conn, read); err != nil {
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
	// PREPARE does not check the rights, EXPLAIN does. Its arguments are NULL.
	_, err = QueryRows(ctx, conn, "EXPLAIN "+text, make([]any, n)...)
	if class := db.Class(err); class == Other || class == Refused { // a function did not accept NULL
		return nil
	}
	return err
}

// Skew returns how far the clock of this machine, now, is ahead of the clock of the
// database server. The round trip does not count: a difference that it can explain is 0.
// Without a server Skew returns 0.
func (db *DB) Skew(ctx context.Context, now func() time.Time) (time.Duration, error) {
	text := db.Text().NowMicros
	if text == "" {
		return 0, nil
	}
	return Get(ctx, db, func(ctx context.Context) (time.Duration, error) {
		before := now()
		var micros int64
		err := db.Read.QueryRowContext(ctx, "SELECT "+text).Scan(&micros)
		after := now()
		server := time.UnixMicro(micros)
		ahead := max(before.Sub(server), 0)
		behind := min(after.Sub(server), 0)
		return ahead + behind, err // at least one of them is 0
	})
}

// MaxSkew is the largest tolerated difference between the clocks of this machine and of the server.
const MaxSkew = 5 * time.Second
