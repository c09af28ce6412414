package db

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// A Problem is why a database or a table cannot be worked as it is, and what to do.
type Problem struct {
	What   string
	Hint   string // may be empty
	Denied bool   // the user lacks a right, which may be granted while a program waits
}

func (p *Problem) Error() string {
	return p.What + Prefixed("; ", p.Hint)
}

// Problemf returns a *Problem.
func Problemf(hint, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Hint: hint}
}

// Deniedf returns a *Problem of a right that the user lacks.
func Deniedf(hint, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Hint: hint, Denied: true}
}

// Problems are several that were found at once.
type Problems struct{ List []error }

func (p *Problems) Error() string   { return errors.Join(p.List...).Error() }
func (p *Problems) Unwrap() []error { return p.List }

// A URLError is a *Problem of a database's URL, whatever it leads to.
type URLError struct{ error }

func (e *URLError) Unwrap() error { return e.error }

// URLProblemf returns a *URLError.
func URLProblemf(hint, format string, args ...any) error {
	return &URLError{Problemf(hint, format, args...)}
}

// A MissingFile is the problem of a database file that is not there.
type MissingFile struct {
	Problem
	Path string
}

// An ErrorClass is what an error of a statement means.
type ErrorClass int

const (
	Other       ErrorClass = iota
	Unavailable            // the same call may succeed later
	Busy                   // in a moment: another program has the lock
	Refused                // this row does not take these values
	Denied                 // the user may not do that
	Stale                  // the index of a hint is gone
)

// A Fault is what an error means: its text is What in plain words, what the
// database says itself, and the hint; each may be empty. A Fault that is
// neither Unavailable nor Busy is a *Problem if it has a hint.
type Fault struct {
	Codes string // that have this meaning, divided by blanks
	Class ErrorClass
	// NoWrites says that reads go on: see [backlog.ErrNoWrites].
	NoWrites bool
	What     string
	Said     string
	Hint     string

	// Of a refusal: by what kind of rule, and its name as the database tells it: of the
	// constraint, of the column, or what says which trigger it was.
	Judge Judge
	Name  string
}

// What is in the way of a statement, as all databases have it.
const (
	LockedByOther = "locked by another session"
	CrossesOther  = "in the way of another session again and again"
	Cancelled     = "the statement was cancelled"
	TooSlow       = "a statement takes longer than its time limit"
	Ended         = "the connection was ended there"
	ReadOnly      = "the database takes no writes"
	Full          = "the database has no connection left"
	OutOfSpace    = "the database has run out of disk or memory"

	TableChanged = "the table is not as it was"
)

// What to do about it.
const (
	LookAtIndexes  = "probably an index is missing: `backlog check` tells which, `backlog init` creates it"
	MakeRoom       = "make room there"
	CorrectMapping = "correct the mapping, or restart after the table was changed"
)

// Meaning returns what an error with the codes means. The most special code comes
// first.
func Meaning(faults []Fault, said string, codes ...string) Fault {
	for _, code := range codes {
		for _, f := range faults {
			if slices.Contains(strings.Fields(f.Codes), code) {
				f.Said = said
				return f
			}
		}
	}
	return Fault{Said: said}
}

// words are the fault's text without its hint.
func (f Fault) words() string {
	return strings.Join(NonEmpty(f.What, f.Said), ": ")
}

// fault is what an error means, whether the server has said it or not.
func (db *DB) fault(err error) Fault {
	f := db.Error(err)
	if f == (Fault{}) && (errors.Is(err, backlog.ErrUnavailable) || isBroken(err)) {
		f.Class = Unavailable
	}
	return f
}

// isBroken reports whether the way to the server has broken.
func isBroken(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, new(*tls.CertificateVerificationError)) {
		return false
	}
	is := func(e error) bool { return errors.Is(err, e) }
	return slices.ContainsFunc([]error{sql.ErrConnDone, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF}, is) ||
		errors.As(err, new(net.Error)) // as are those of system calls
}

// Class returns what the error means.
func (db *DB) Class(err error) ErrorClass { return db.fault(err).Class }

// HasSaid reports whether the error is the database's answer, and not of the way to it.
func (db *DB) HasSaid(err error) bool { return db.Error(err) != Fault{} }

// JudgeOf returns by what kind of rule the error refuses a row, and what its name is.
func (db *DB) JudgeOf(err error) (judge Judge, name string) {
	f := db.fault(err)
	return f.Judge, f.Name
}

// MayPass reports whether the same call may succeed later, or its context is done.
func (db *DB) MayPass(err error) bool {
	c := db.Class(err)
	return c == Unavailable || c == Busy || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Explained returns the *Problem of an error that only a person can mend, else the
// error.
func (db *DB) Explained(err error) error {
	if f := db.fault(err); f.Hint != "" && f.Class != Unavailable && f.Class != Busy {
		return &Problem{What: f.words(), Hint: f.Hint, Denied: f.Class == Denied}
	}
	return err
}

// Wrap gives an error of a statement its class. The statement's own timeout differs
// from the end of ctx, the caller's.
func (db *DB) Wrap(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.As(err, new(*Problem)), errors.Is(err, backlog.ErrUnavailable), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return noAnswer(StatementTimeout)
	}
	f := db.fault(err)
	switch {
	case f.Class != Unavailable && f.Class != Busy:
		return db.Explained(err)
	case f.What != "":
		class := backlog.ErrUnavailable
		if f.NoWrites {
			class = backlog.ErrNoWrites
		}
		return backlog.Worded(f.words()+Prefixed("; ", f.Hint), class, err)
	case f.Said == "":
		return fmt.Errorf("%w: the connection broke off; the server's log tells why", backlog.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", backlog.ErrUnavailable, err)
}

// noAnswer says that the database has kept quiet for that long.
func noAnswer(limit time.Duration) error {
	return fmt.Errorf("%w: no answer within %v", backlog.ErrUnavailable, limit)
}

// limited calls f with a limit to its time, and says so when that has ended it.
func limited(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	lctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(lctx)
	if err != nil && lctx.Err() != nil && ctx.Err() == nil && !errors.Is(err, backlog.ErrUnavailable) {
		return noAnswer(limit)
	}
	return err
}

// Dial connects to a server. Within seconds it is noticed when the other side is
// gone without a word.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	alive := net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}
	d := net.Dialer{Timeout: DialTimeout, KeepAliveConfig: alive}
	return d.DialContext(ctx, network, addr)
}

// Unreached words an error of connecting to the server at addr: the driver's own
// words may have parts of the URL in them. It returns nil where it has no words.
func (t *Text) Unreached(ctx context.Context, addr string, limit time.Duration, err error) error {
	at := "the " + t.Name + " server at " + addr
	var (
		problem *Problem
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case ctx.Err() != nil:
		return backlog.Worded(backlog.ErrUnavailable.Error()+": no connection to "+at+" so far", backlog.ErrUnavailable, ctx.Err())
	case errors.As(err, &verify):
		return Problemf(t.Distrust, "%s: its certificate is not trusted: %v", at, verify.Err)
	case errors.As(err, &unknown): // of sslmode=verify-ca
		return Problemf(t.Distrust, "%s: its certificate is not trusted: %v", at, unknown)
	case errors.As(err, new(*net.DNSError)):
		return fmt.Errorf("%w: %s: its name is not found; correct the host in the database URL", backlog.ErrUnavailable, at)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s gives no answer within %v; %s", backlog.ErrUnavailable, at, limit, t.NameServer)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %s cannot be reached: %w; start it there, or correct host and port in the database URL", backlog.ErrUnavailable, at, op.Err)
	case isBroken(err):
		return fmt.Errorf("%w: %s broke the connection off; %s", backlog.ErrUnavailable, at, t.NameServer)
	}
	return nil
}

// A Notebook has what a person should know, though it works. The zero value is empty.
type Notebook struct {
	mu    sync.Mutex
	notes []string
	tell  func(string) // of each note; nil: nobody listens
}

// Notes returns what is in it.
func (n *Notebook) Notes() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes)
}

// TellNotes calls tell, once, with each of the notes and with those to come.
func (n *Notebook) TellNotes(tell func(string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.notes {
		tell(text)
	}
	n.tell = tell
}

// Notef adds a note, once.
func (n *Notebook) Notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.notes, text) {
		return
	}
	if n.notes = append(n.notes, text); n.tell != nil {
		n.tell(text)
	}
}
