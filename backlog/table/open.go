package table

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// A DB is a connection to a database: one connection that writes, a few that
// read.
type DB struct {
	dialect     dialect
	patience    time.Duration // how long another program's lock is waited for
	read, write *sql.DB
	file        *watchedFile // nil: nothing to watch
	lent        bool         // closed with its table: the connections are those of another pool
	changedOnly bool         // rows that have been written as they were are not counted
}

// patiently calls f again while another program has the lock.
func (db *DB) patiently(ctx context.Context, f func(context.Context) error) error {
	if err := db.there(); err != nil {
		return err
	}
	return again(ctx, db.dialect, db.patience, f)
}

// again calls f until no other program has the lock, but not for longer than
// the limit. Where f itself has not waited for a moment, it does.
func again(ctx context.Context, d dialect, limit time.Duration, f func(context.Context) error) error {
	for start := time.Now(); ; {
		began := time.Now()
		err := f(ctx)
		if d.classify(err) != classBusy || ctx.Err() != nil || time.Since(start) >= limit {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(moment - time.Since(began)):
		}
	}
}

// Options say how a database is opened.
type Options struct {
	ReadOnly bool // change no byte
	Pool     int  // connections at most; 0: 4

	unlimited bool // a statement takes as long as it takes, such as one that creates an index

	busy time.Duration // how long SQLite waits for a lock; 0: busyTimeout; set by tests
}

// Open opens the database that the URL names: sqlite:PATH, or
// sqlite:PATH?synchronous=normal to save a sync to disk per group of outcomes,
// at the price that a power failure can undo the last ones;
// postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://… for the servers. A
// file that is not there is a *Problem; nothing is created. Errors never hold
// the URL, which may contain a password; what is wrong with it is a *URLError.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	if o.Pool <= 0 {
		o.Pool = 4
	}
	db, err := open(url, o)
	if err != nil {
		return nil, err
	}
	cctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = db.patiently(cctx, func(ctx context.Context) error { return db.dialect.reach(ctx, db.read) })
	if err != nil {
		db.Close()
		return nil, db.wrap(ctx, err)
	}
	return db, nil
}

// open makes the pools of connections, without using them.
func open(url string, o Options) (*DB, error) {
	switch kind, _, _ := strings.Cut(url, ":"); strings.ToLower(kind) {
	case "postgres", "postgresql":
		db, err := openPostgres(url, o)
		return db, inURL(err)
	case "mysql", "mariadb":
		db, err := openMySQL(url, o)
		return db, inURL(err)
	}
	path, synchronous, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	return openSQLite(path, synchronous, o)
}

// A URLError is a *Problem of a database's URL, whatever it leads to.
type URLError struct{ problem *Problem }

func (e *URLError) Error() string { return e.problem.Error() }
func (e *URLError) Unwrap() error { return e.problem }

func inURL(err error) error {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return &URLError{p}
	}
	return err
}

// openToCreate opens the database for init.
func openToCreate(url string) (*DB, error) {
	if isServer(url) {
		return open(url, Options{unlimited: true})
	}
	return openSQLiteToCreate(url)
}

// isServer reports whether the URL names a server.
func isServer(url string) bool {
	kind, _, _ := strings.Cut(url, ":")
	return slices.Contains(servers, strings.ToLower(kind))
}

// aScheme is what a URL may begin with. Anything else in front of a colon can
// be a part of a password and is not shown.
var aScheme = pattern(`^[a-z][a-z0-9+.-]*$`)

// servers are the kinds of databases that are no file.
var servers = []string{"postgres", "postgresql", "mysql", "mariadb"}

// Shown returns the URL as it may be shown. Where a password can stand in it,
// and how it is quoted there, differs from kind to kind: only the name of a
// file holds none for sure.
func Shown(url string) string {
	scheme, rest, _ := strings.Cut(url, ":")
	switch kind := strings.ToLower(scheme); {
	case isSQLite(kind):
		if _, _, err := sqliteParts(rest); err != nil {
			return scheme + ":…"
		}
		return url
	case kind == "postgres" || kind == "postgresql":
		return shownPostgres(scheme, url)
	case kind == "mysql" || kind == "mariadb":
		return shownMySQL(scheme, url)
	}
	return "…"
}

func isSQLite(kind string) bool { return kind == "sqlite" || kind == "sqlite3" }

// sqlitePath returns the file that the URL names and how carefully it is to be
// written to, "full" or "normal".
func sqlitePath(url string) (path, synchronous string, err error) {
	const (
		cure  = "write sqlite:PATH, such as sqlite:backlog.db"
		kinds = "write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE"
	)
	defer func() { err = inURL(err) }()
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		return "", "", problem(kinds, "the database is not a URL")
	}
	switch kind := strings.ToLower(scheme); {
	case isSQLite(kind):
	case slices.Contains(servers, kind):
		return "", "", problem("name the database's own file", "a database of the kind %s is no file", kind)
	case aScheme().MatchString(kind) && (strings.HasPrefix(rest, "//") || !strings.Contains(rest, "@")):
		return "", "", problem(kinds, "unknown kind of database %q", kind)
	default:
		return "", "", problem(kinds, "the database is not a URL of a known kind")
	}
	if path, synchronous, err = sqliteParts(rest); err != nil {
		return "", "", err
	}
	switch {
	case path == "":
		return "", "", problem(cure, "the database URL names no file")
	case path == ":memory:":
		return "", "", problem(cure, "a database in memory is nobody else's and ends with the program")
	case strings.HasPrefix(path, "~"):
		return "", "", problem("write the folder out, or ${HOME} in the configuration; ./~ is a file of that name", "the database file %s: ~ is not replaced here", path)
	}
	return path, synchronous, nil
}

// pattern compiles the expression when it is first needed: most starts need
// none of these.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	// aUser matches the beginning of a URL with a user. A password may have a
	// slash in it, but one letter and a colon are a drive.
	aUser = pattern(`(?s)^//([^/]*@|[^/:]{2,}:.*@)`)

	// parameters matches where those of a URL begin. A file's name may have a
	// question mark in it.
	parameters = pattern(`\?[^=?/]*=`)

	// aParameter matches names that are no part of a password.
	aParameter = pattern(`^[A-Za-z_]{1,20}$`)
)

// sqliteParts divides what follows the scheme. It refuses, without showing
// them, parts that the name of a file does not have: they may be secret.
func sqliteParts(rest string) (path, synchronous string, err error) {
	if strings.Contains(rest, "@") && aUser().MatchString(rest) {
		return "", "", problem("a file has no user and host; write sqlite:PATH", "the database URL has a user")
	}
	path, synchronous = strings.TrimPrefix(rest, "//"), "full"
	var at []int
	if strings.Contains(path, "?") {
		at = parameters().FindStringIndex(path)
	}
	if at == nil {
		return path, synchronous, nil
	}
	for _, p := range strings.Split(path[at[0]+1:], "&") {
		name, value, _ := strings.Cut(p, "=")
		switch value = strings.ToLower(value); {
		case name != "synchronous" && aParameter().MatchString(name):
			return "", "", problem("synchronous is the only one there is", "the database URL has a parameter %s", name)
		case name != "synchronous":
			return "", "", problem("synchronous is the only one there is", "the database URL has a parameter that is not known")
		case value != "full" && value != "normal":
			return "", "", problem("write full or normal", "the database URL asks for a synchronous that is neither full nor normal")
		}
		synchronous = value
	}
	return path[:at[0]], synchronous, nil
}

// IsMissingFile reports whether the error says that the database file does not
// exist.
func IsMissingFile(err error) bool {
	m := (*missingFile)(nil)
	return errors.As(err, &m)
}

// Driver returns the name of the module that speaks to the database.
func (db *DB) Driver() string { return db.dialect.driver() }

// Close closes the connections.
func (db *DB) Close() error {
	err := db.read.Close()
	if db.write != nil && db.write != db.read {
		err = errors.Join(err, db.write.Close())
	}
	return err
}

// wrap gives an error of a statement its class. The statement's own timeout is
// told from the end of ctx, the caller's.
func (db *DB) wrap(ctx context.Context, err error) error {
	p := (*Problem)(nil)
	switch {
	case err == nil, errors.As(err, &p), errors.Is(err, backlog.ErrAway):
		return err
	case ctx.Err() != nil:
		return ended(ctx, err)
	case errors.Is(err, context.DeadlineExceeded):
		return noAnswer(statementTimeout)
	}
	switch db.dialect.classify(err) {
	case classAway, classBusy:
		return inTheWay(db.dialect, err)
	}
	return db.dialect.explain(err)
}

// explain makes a *Problem of an error that says that the file is damaged.
func (d sqlite) explain(err error) error {
	switch code, _ := codeOf(err); code & 0xff {
	case 11, 26: // CORRUPT NOTADB
		return problem("restore it from a backup, or see https://sqlite.org/recovery.html", "the database file %s is damaged: %v", d.path, err)
	}
	return err
}

// besideLocks is how many connections are for work on a server: locks may take
// one of those that are allowed.
func (o Options) besideLocks() int {
	if o.ReadOnly {
		return o.Pool
	}
	return max(1, o.Pool-1)
}

// pool sets what every pool of connections is to have.
func pool(db *sql.DB, n int) *sql.DB {
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	// Also those in use while the database file was replaced are to go.
	db.SetConnMaxLifetime(time.Minute)
	return db
}

// ProveRights proves that this user may write to the database, changing
// nothing. It is a *Problem if not. The database must not be open to be read
// only.
func (db *DB) ProveRights(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	return db.wrap(ctx, db.patiently(ctx, func(ctx context.Context) error { return db.dialect.mayWrite(ctx, db.write) }))
}

// Advice returns what its owner could change about the database for the
// better, or "".
func (db *DB) Advice(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	return db.dialect.advice(ctx, db.read)
}
