// Package db speaks to a database on behalf of a table: pools of connections, time
// limits, locks, what errors mean, what a catalogue says, and how SQL is written.
//
// Each kind of database is a package beside it that knows no table, in five files:
//
//   - text: a [Text], how the kind writes SQL and URLs.
//   - open: [Server.Open], Begin, MayWrite and Value, on top of [Text.ParseURL] and, for a
//     server, [Source.Connect], [Dial] and [Text.Unreached].
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
	Patience    time.Duration // how long another program's lock is waited for
	ChangedOnly bool          // rows that have been written as they were are not counted

	noHints atomic.Bool
}

// Options say how a database is opened.
type Options struct {
	ReadOnly bool          // change no byte
	Pool     int           // connections at most; 0: 4
	Patience time.Duration // how long another program's lock is waited for; 0: 10 s
}

// Open opens the database that the URL names: sqlite:PATH, or
// sqlite:PATH?synchronous=normal to save a sync to disk per group of outcomes, at
// the price that a power failure can undo the last ones;
// postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://… for the servers. A file
// that is not there is a [*MissingFile]; nothing is created. Errors never hold the
// URL, which may contain a password; what is wrong with it is a [*URLError].
func Open(ctx context.Context, dialect Server, url string, o Options) (*DB, error) {
	return OpenSource(ctx, dialect, Source{URL: url, Options: o})
}

// OpenSource opens the database at the source.
func OpenSource(ctx context.Context, dialect Server, s Source) (*DB, error) {
	s.Options.Pool = cmp.Or(max(s.Options.Pool, 0), 4)
	s.Patience = cmp.Or(s.Patience, lockPatience)
	lctx, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	db := &DB{Server: dialect, Patience: s.Patience}
	var open *DB
	err := db.Patiently(lctx, func(ctx context.Context) (err error) {
		open, err = dialect.Open(ctx, s)
		return err
	})
	if err != nil {
		return nil, db.Wrap(ctx, err)
	}
	open.Patience = s.Patience
	return open, nil
}

// Connect returns the database of a server that is reached through the connector, or
// through the program's own pool, whose sessions must be as Text says.
func (s Source) Connect(ctx context.Context, server Server, c driver.Connector, lifetime time.Duration) (*DB, error) {
	if s.Pool != nil {
		for _, x := range server.Text().Sessions {
			var has string
			if err := s.Pool.QueryRowContext(ctx, "SELECT "+x.Query).Scan(&has); err != nil {
				return nil, err
			}
			if has != x.Want {
				return nil, Otherwise(x.Hint, x.Name, has, x.Want)
			}
		}
		return &DB{Server: server, Read: s.Pool, Write: s.Pool}, nil
	}
	n, pool := s.Options.Pool, sql.OpenDB(c)
	db := &DB{Server: server, Read: pool}
	if !s.ReadOnly {
		n, db.Write = max(1, n-1), pool // locks take one
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

// Otherwise is the *Problem of a program's pool whose sessions have another setting
// than is documented.
func Otherwise(hint, setting, has, want string) error {
	return Problemf(hint+"; docs/go.md shows how to open the pool", "the pool's sessions have %s = %s, not %s", setting, has, want)
}

// Close closes the connections.
func (db *DB) Close() error {
	err := db.Read.Close()
	if db.Write != nil && db.Write != db.Read {
		err = errors.Join(err, db.Write.Close())
	}
	return err
}

// Hints reports whether queries name the index to use. Once one was gone they do
// not until the next start: they are slower at worst.
func (db *DB) Hints() bool { return !db.noHints.Load() }

// Patiently calls f again while another program has the lock.
func (db *DB) Patiently(ctx context.Context, f func(context.Context) error) error {
	for start := time.Now(); ; {
		began := time.Now()
		err := f(ctx)
		class := db.Class(err)
		if class == Stale && !db.noHints.Swap(true) {
			continue
		}
		if class != Busy || ctx.Err() != nil || time.Since(start) >= db.Patience {
			return err
		}
		select { // where f itself has not waited
		case <-ctx.Done():
			return err
		case <-time.After(Moment - time.Since(began)):
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

// Describe reads the catalogue of a table.
func (db *DB) Describe(ctx context.Context, schema, name string) (c *Catalog, err error) {
	err = db.Within(ctx, func(ctx context.Context) (err error) {
		c, err = db.Catalog(ctx, db.Read, schema, name)
		return err
	})
	return c, err
}

// CheckRights is a *Problem if this user may not write to the database. It changes
// nothing.
func (db *DB) CheckRights(ctx context.Context) error {
	return db.Within(ctx, func(ctx context.Context) error { return db.MayWrite(ctx, db.Write) })
}

// Plan returns the error for which the database would not run the statement of
// n arguments, or the user may not. It does not run it.
func (db *DB) Plan(ctx context.Context, text string, n int) error {
	conn, err := db.Read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, db.Text().BeginPlan); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	stmt, err := conn.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	stmt.Close()
	// It asks for the rights.
	_, err = Scanned(ctx, conn, "EXPLAIN "+text, make([]any, n), func(*sql.Rows) (none struct{}, err error) { return none, nil })
	switch db.Class(err) {
	case Other, Refused: // what a function says of arguments that are NULL
		return nil
	}
	return err
}

// Skew returns how far this machine's clock, which now reads, is ahead of the
// database server's, not counting the time that the answer took; 0 where there is
// no server.
func (db *DB) Skew(ctx context.Context, now func() time.Time) (ahead time.Duration, err error) {
	text := db.Text().Present
	if text == "" {
		return 0, nil
	}
	err = db.Within(ctx, func(ctx context.Context) error {
		before := now()
		var micros int64
		if err := db.Read.QueryRowContext(ctx, "SELECT "+text).Scan(&micros); err != nil {
			return err
		}
		after, theirs := now(), time.UnixMicro(micros)
		switch {
		case theirs.Before(before):
			ahead = before.Sub(theirs)
		case theirs.After(after):
			ahead = after.Sub(theirs)
		default:
			ahead = 0
		}
		return nil
	})
	return ahead, err
}

// MostSkew is how far the clocks of this machine and of the server may be apart.
const MostSkew = 5 * time.Second
