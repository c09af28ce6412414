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
	"backlog/internal/lists"
)

// A Problem is why a database or a table cannot be used as it is, and what a person can do about it.
type Problem struct {
	What   string
	Hint   string // may be empty
	Denied bool   // the user lacks a right; a waiting program may be granted it
}

func (p *Problem) Error() string {
	return p.What + Prefixed("; ", p.Hint)
}

// Problemf returns a [*Problem].
func Problemf(hint, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Hint: hint}
}

// Deniedf returns a [*Problem] with Denied set.
func Deniedf(hint, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Hint: hint, Denied: true}
}

// Problems are several errors that were found at once.
type Problems struct{ List []error }

func (p *Problems) Error() string   { return errors.Join(p.List...).Error() }
func (p *Problems) Unwrap() []error { return p.List }

// A URLError is a [*Problem] with the URL of a database itself.
type URLError struct{ error }

func (e *URLError) Unwrap() error { return e.error }

// URLProblemf returns a [*URLError].
func URLProblemf(hint, format string, args ...any) error {
	return &URLError{Problemf(hint, format, args...)}
}

// A MissingFile is the [Problem] that a database file does not exist.
type MissingFile struct {
	Problem
	Path string
}

// An ErrorClass is what an error of a statement means for its caller.
type ErrorClass int

// The classes of errors.
const (
	Other       ErrorClass = iota
	Unavailable            // the same call may succeed later
	Busy                   // the same call may succeed in a moment: another program has a lock
	Refused                // the database does not accept these values for this row
	Denied                 // the user may not do that
	Stale                  // the index that a hint names does not exist
)

// A Fault is what an error of a database means. Its message consists of What, Message and Hint,
// and each may be empty. A Fault with a Hint that is neither Unavailable nor Busy becomes a
// [*Problem].
type Fault struct {
	Codes    string // the error codes with this meaning, which blanks separate
	Class    ErrorClass
	NoWrites bool   // only writes fail, see [backlog.ErrNoWrites]
	What     string // the meaning in plain words
	Message  string // the message of the database itself
	Hint     string

	// Guard and Name are set if a rule of the table refused the row. Name is what the
	// database calls the constraint or the column, or a text that identifies the trigger.
	Guard GuardKind
	Name  string
}

// Descriptions that the databases share, for [Fault.What].
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

// Hints that the databases share, for [Fault.Hint].
const (
	LookAtIndexes  = "probably an index is missing: `backlog check` tells which, `backlog init` creates it"
	MakeRoom       = "make room there"
	CorrectMapping = "correct the mapping, or restart after the table was changed"
)

// FindFault returns the first of the faults that has one of the codes of an error. The most
// specific code must come first. message is the database's own.
func FindFault(faults []Fault, message string, codes ...string) Fault {
	for _, code := range codes {
		for _, f := range faults {
			if slices.Contains(strings.Fields(f.Codes), code) {
				f.Message = message
				return f
			}
		}
	}
	return Fault{Message: message}
}

// words returns the text of the fault without its hint.
func (f Fault) words() string {
	return strings.Join(lists.NonEmpty(f.What, f.Message), ": ")
}

// faultOf returns what an error means, whether the server sent it or the connection broke.
func (db *DB) faultOf(err error) Fault {
	f := db.Classify(err)
	if f == (Fault{}) && (errors.Is(err, backlog.ErrUnavailable) || isBroken(err)) {
		f.Class = Unavailable
	}
	return f
}

// isBroken reports whether an error means that the connection to the server is broken.
func isBroken(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, new(*tls.CertificateVerificationError)) {
		return false
	}
	is := func(e error) bool { return errors.Is(err, e) }
	return slices.ContainsFunc([]error{sql.ErrConnDone, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF}, is) ||
		errors.As(err, new(net.Error)) // includes errors of system calls
}

// Class returns the class of an error.
func (db *DB) Class(err error) ErrorClass { return db.faultOf(err).Class }

// IsServerError reports whether the database itself sent the error.
func (db *DB) IsServerError(err error) bool { return db.Classify(err) != Fault{} }

// GuardOf returns the kind and the name of the rule by which the database refused a row.
func (db *DB) GuardOf(err error) (kind GuardKind, name string) {
	f := db.faultOf(err)
	return f.Guard, f.Name
}

// IsTransient reports whether the same call may succeed later, or was cancelled by its context.
func (db *DB) IsTransient(err error) bool {
	c := db.Class(err)
	return c == Unavailable || c == Busy || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// AsProblem returns a [*Problem] for an error that only a person can resolve, and other errors
// unchanged.
func (db *DB) AsProblem(err error) error {
	if f := db.faultOf(err); f.Hint != "" && f.Class != Unavailable && f.Class != Busy {
		return &Problem{What: f.words(), Hint: f.Hint, Denied: f.Class == Denied}
	}
	return err
}

// Wrap classifies the error of a statement: it wraps [backlog.ErrUnavailable] or
// [backlog.ErrNoWrites], or becomes a [*Problem]. ctx is the caller's, without the statement
// timeout, so that Wrap can tell one from the other.
func (db *DB) Wrap(ctx context.Context, err error) error {
	isClassified := errors.As(err, new(*Problem)) || errors.Is(err, backlog.ErrUnavailable)
	isCallers := ctx.Err() != nil && errors.Is(err, ctx.Err())
	switch {
	case err == nil, isClassified, isCallers:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return timeoutError(StatementTimeout)
	}
	f := db.faultOf(err)
	switch {
	case f.Class != Unavailable && f.Class != Busy:
		return db.AsProblem(err)
	case f.What != "":
		class := backlog.ErrUnavailable
		if f.NoWrites {
			class = backlog.ErrNoWrites
		}
		return backlog.Worded(f.words()+Prefixed("; ", f.Hint), class, err)
	case f.Message == "":
		return fmt.Errorf("%w: the connection broke off; the server's log tells why", backlog.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", backlog.ErrUnavailable, err)
}

// timeoutError is the error of a database that did not answer in time.
func timeoutError(limit time.Duration) error {
	return fmt.Errorf("%w: no answer within %v", backlog.ErrUnavailable, limit)
}

// withTimeout calls f with a time limit. If that is what ended f, the error says so.
func withTimeout(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	lctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(lctx)
	timedOut := lctx.Err() != nil && ctx.Err() == nil
	if err != nil && timedOut && !errors.Is(err, backlog.ErrUnavailable) {
		return timeoutError(limit)
	}
	return err
}

// Dial connects to a server. The system closes the connection within seconds if the other side
// vanishes.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	alive := net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}
	d := net.Dialer{Timeout: DialTimeout, KeepAliveConfig: alive}
	return d.DialContext(ctx, network, addr)
}

// ConnectError describes the error of a connection attempt to the server at addr. The driver's
// own message may contain parts of the URL. ConnectError returns nil for an error that it does
// not know.
func (t *Text) ConnectError(ctx context.Context, addr string, limit time.Duration, err error) error {
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
		return Problemf(t.CertificateHint, "%s: its certificate is not trusted: %v", at, verify.Err)
	case errors.As(err, &unknown): // with sslmode=verify-ca
		return Problemf(t.CertificateHint, "%s: its certificate is not trusted: %v", at, unknown)
	case errors.As(err, new(*net.DNSError)):
		return fmt.Errorf("%w: %s: its name is not found; correct the host in the database URL", backlog.ErrUnavailable, at)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s gives no answer within %v; %s", backlog.ErrUnavailable, at, limit, t.HostHint)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %s cannot be reached: %w; start it there, or correct host and port in the database URL", backlog.ErrUnavailable, at, op.Err)
	case isBroken(err):
		return fmt.Errorf("%w: %s broke the connection off; %s", backlog.ErrUnavailable, at, t.HostHint)
	}
	return nil
}

// A Notebook collects notes about things that work but that a person should know. Its zero
// value is empty and ready to use, also concurrently.
type Notebook struct {
	mu      sync.Mutex
	notes   []string
	observe func(string) // is called with each new note; nil: there is no observer
}

// Notes returns the notes so far.
func (n *Notebook) Notes() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes)
}

// ObserveNotes calls observe with every note so far, and from now on with every new one.
func (n *Notebook) ObserveNotes(observe func(string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.notes {
		observe(text)
	}
	n.observe = observe
}

// Notef adds a note, unless it is there already.
func (n *Notebook) Notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.notes, text) {
		return
	}
	n.notes = append(n.notes, text)
	if n.observe != nil {
		n.observe(text)
	}
}
