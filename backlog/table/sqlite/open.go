// Package sqlite speaks to SQLite files. A build tag decides which driver does:
// modernc.org/sqlite, or with cgo_sqlite github.com/mattn/go-sqlite3.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// Dialect is the dialect of SQLite.
var Dialect db.Server = &server{}

// A server is an SQLite database, which is a file or in memory.
type server struct {
	path        string
	busyTimeout time.Duration // how long a statement waits for a lock of another program; see also pollTimeout
	readOnly    bool          // nothing may be changed, so no lock file is created
	opened      []openedFile  // the files that connections have open
	foreignPool *sql.DB       // the pool of the calling program that is used; nil: this package opens the pools

	// neverWaitsInside says that no statement inside a transaction waits for a lock: the journal is
	// a write-ahead log, which other programs cannot change while the file is open.
	neverWaitsInside bool
}

// pollTimeout is how long a connection waits for a lock where package db asks again.
func (s *server) pollTimeout() time.Duration { return min(s.busyTimeout, db.LockPollInterval) }

// inMemory is the path of a database in memory.
const inMemory = ":memory:"

// Open implements db.Server. Connections wait for a lock only for a moment, and package db asks
// again. SQLite's own waiting has two faults: it asks only ten times a second, so that it may never
// get a lock from a program that writes all the time, and it does not notice that a context is done.
func (*server) Open(ctx context.Context, rawURL string, o db.Options) (*db.DB, error) {
	if o.Existing != nil {
		return adopt(ctx, o)
	}
	path, synchronous, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	s := &server{path: path, busyTimeout: o.Patience, readOnly: o.ReadOnly}
	mode := "rw"
	switch {
	case o.Create:
		mode = "rwc"
	case o.ReadOnly:
		mode = "ro"
	}
	if err := readable(path); err != nil && !(o.Create && errors.As(err, new(*db.MissingFile))) {
		return nil, err
	}
	out := &db.DB{Server: s}
	quick := params(synchronous, s.pollTimeout())
	out.Read, err = s.open(mode, quick+readParams, max(1, o.Pool-1))
	if err == nil {
		out.Planner, err = s.open(mode, quick, 1)
	}
	if err == nil && o.Create { // the pool creates the file
		out.Write, err = s.open(mode, params(synchronous, s.busyTimeout), 1)
	}
	if err != nil {
		return nil, err
	}
	pool := cmp.Or(out.Write, out.Read)
	err = pool.QueryRowContext(ctx, "PRAGMA schema_version").Scan(new(int64))
	var journal string
	if err == nil {
		err = pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal)
	}
	if err == nil && out.Write == nil && !o.ReadOnly {
		s.neverWaitsInside = journal == "wal"
		timeout := s.busyTimeout
		if s.neverWaitsInside {
			timeout = s.pollTimeout()
		}
		out.Write, err = s.open(mode, params(synchronous, timeout), 1)
	}
	if err != nil {
		out.Close()
		denied := s.denied(err, "give this user the right to read it, and to create files in its folder", "the database file %s cannot be opened")
		return nil, out.Wrap(ctx, cmp.Or(denied, err))
	}
	s.noteFile(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		s.noteFile(real + "-wal") // SQLite removes it with the last connection, and these pools keep theirs
	}
	return out, nil
}

// An openedFile is a file as it was when the database was opened.
type openedFile struct {
	path string
	info fs.FileInfo
}

// noteFile notes a file, if it exists.
func (s *server) noteFile(path string) {
	if info, err := os.Stat(path); err == nil {
		s.opened = append(s.opened, openedFile{path, info})
	}
}

// checkFiles returns an error if the path of an open file no longer names it. The connections stay with that file,
// which no other program sees any more.
func (s *server) checkFiles() error {
	for _, f := range s.opened {
		now, err := os.Stat(f.path)
		isDatabase := f.path == s.path
		switch {
		case err == nil && os.SameFile(f.info, now):
		case isDatabase && errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: the database file %s was removed", backlog.ErrUnavailable, f.path)
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return backlog.Worded("the file "+f.path+" was replaced or removed while it was open; start again", backlog.ErrReplaced)
		default:
			return fmt.Errorf("%w: %w", backlog.ErrUnavailable, err)
		}
	}
	return nil
}

// params returns the driver's parameters for a connection.
func params(synchronous string, busyTimeout time.Duration) string {
	if synchronous == "full" {
		// SQLite's own full does not sync the folder after the rollback journal is removed. A power loss
		// could bring the journal back, and with it undo a transaction that was committed.
		synchronous = "extra"
	}
	return fmt.Sprintf(driverParams, busyTimeout.Milliseconds(), synchronous)
}

// open returns a pool of at most n connections.
func (s *server) open(mode, settings string, n int) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.path}).EscapedPath(), RawQuery: "mode=" + mode + "&" + settings}
	pool, err := sql.Open(driverName, u.String())
	if err == nil {
		pool.SetMaxOpenConns(n)
		pool.SetMaxIdleConns(n)
	}
	return pool, err
}

// adopt uses a pool of the calling program. Its driver must be the one of this build, because errors
// are classified by that driver's codes.
func adopt(ctx context.Context, o db.Options) (*db.DB, error) {
	s := &server{busyTimeout: o.Patience, foreignPool: o.Existing}
	if err := o.Existing.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&s.path); err != nil {
		return nil, err
	}
	_, err := o.Existing.ExecContext(ctx, "SELECT")
	if codeOf(err) == 0 && ctx.Err() == nil {
		return nil, db.Problemf("open it with "+Driver+", or build with -tags cgo_sqlite for github.com/mattn/go-sqlite3, without it for modernc.org/sqlite",
			"the pool's driver is %T", o.Existing.Driver())
	}
	if _, err := os.Stat(s.path); err != nil {
		s.path = inMemory
		if o.Existing.Stats().MaxOpenConnections != 1 {
			return nil, db.Problemf("call its SetMaxOpenConns(1) before the first use", "the database is no file, and each connection of the pool may have one of its own")
		}
	}
	s.noteFile(s.path)
	return &db.DB{Server: s, Read: o.Existing, Write: o.Existing}, nil
}

// readable returns a clear error for a path that cannot be opened. It must not open the file itself:
// closing the file would release the locks that other connections of this process have on it.
func readable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		folder := ""
		if workingFolder, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
			folder = " in " + workingFolder
		}
		return &db.MissingFile{Problem: db.Problem{What: "the database file " + path + " does not exist" + folder, Hint: mapping.DidYouMeanFile(path, "start in its folder, name another file, or create it by `backlog init --create-table`")}, Path: path}
	case errors.Is(err, fs.ErrPermission):
		return db.Deniedf("give this user the right to read it", "the database file %s cannot be read: permission denied", path)
	case err != nil:
		return db.Problemf("name another", "the database file cannot be read: %v", err)
	case info.IsDir():
		return db.Problemf("name the file in it", "%s is a directory, not a database file", path)
	}
	return nil
}

// parse returns the path of a URL and how its file is synchronized, "full" or "normal".
func parse(rawURL string) (path, synchronous string, err error) {
	const hint = "write sqlite:PATH, such as sqlite:backlog.db"
	u, params, err := text.ParseURL(rawURL)
	switch {
	case err != nil:
		return "", "", err
	case u.Path == "":
		return "", "", db.URLProblemf(hint, "the database URL names no file")
	case u.Path == inMemory:
		return "", "", db.URLProblemf(hint, "a database in memory is nobody else's and ends with the program")
	case strings.HasPrefix(u.Path, "~"):
		return "", "", db.URLProblemf("write the folder out, or ${HOME} in the configuration; ./~ is a file of that name", "the database file %s: ~ is not replaced here", u.Path)
	}
	return u.Path, cmp.Or(params["synchronous"], "full"), nil
}

// Begin implements db.Server. It waits for the write lock only for a moment, because package db asks
// again. The statements of the transaction may wait longer: before it commits, SQLite admits no new
// readers and waits for the present ones, unless the journal is a write-ahead log.
func (s *server) Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	if s.neverWaitsInside {
		return s.beginImmediate(ctx, conn)
	}
	if err := setBusyTimeout(ctx, conn, s.pollTimeout()); err != nil {
		return nil, err
	}
	tx, err := s.beginImmediate(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, setBusyTimeout(ctx, conn, s.busyTimeout))
	}
	if err := setBusyTimeout(ctx, tx, s.busyTimeout); err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// beginImmediate begins a transaction that has the write lock from its beginning. The pools of this
// package begin every transaction so, see driverParams. A foreign pool may begin one without the lock,
// so that beginImmediate commits that one, which has done nothing, and begins another in its place.
func (s *server) beginImmediate(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil || s.foreignPool == nil {
		return tx, err
	}
	_, err = tx.ExecContext(ctx, "COMMIT; BEGIN IMMEDIATE")
	if err != nil {
		tx.Rollback() // fails if there is no transaction any more, which does no harm
		return nil, err
	}
	return tx, nil
}

// setBusyTimeout sets how long the statements of a connection wait for a lock, even if ctx is
// cancelled: the pool uses the connection again.
func setBusyTimeout(ctx context.Context, c execer, d time.Duration) error {
	_, err := c.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
	return err
}

// An execer is a connection or its transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// WholeUpdate implements db.Server. A transaction costs no round trips.
func (*server) WholeUpdate(string) string { return "" }

// MayWrite implements db.Server. It writes a value that is there already, and rolls back. This takes
// the write lock and creates a journal, for which the folder must be writable too.
func (s *server) MayWrite(ctx context.Context, conn *sql.Conn) error {
	tx, err := s.Begin(ctx, conn)
	if err == nil {
		defer tx.Rollback()
		var version int64
		err = tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		}
	}
	return cmp.Or(s.denied(err, "give this user the right to write the file, and to create others in its folder", "the database %s cannot be written to"), err)
}

// Value implements db.Server. One driver returns an empty BLOB as a nil slice, which must not be taken for NULL.
func (*server) Value(_ *db.Column, v any) any {
	if b, ok := v.([]byte); ok && b == nil {
		return []byte{}
	}
	return v
}
