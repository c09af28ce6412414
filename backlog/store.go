package backlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Store holds the records: the user's table, or memory.
//
// Both methods may be called concurrently, with themselves and each other. An
// error that wraps [ErrUnavailable] says that the store cannot be reached or is busy
// for now and that the very same call may be made again; any other error is
// final for the call.
//
// A Store may have six more methods, for which the engine looks:
//
//	Ping(ctx context.Context) error
//	Strays(ctx context.Context, q Query) ([]Unreadable, error)
//	Expire(ctx context.Context, x Expiry) (int, error)
//	Try(ctx context.Context, s Settlement) error
//	Rehearse(ctx context.Context, group []Settlement) ([]Unsettled, error)
//	Release(r *Record)
//
// Ping tells whether the store can be reached now: the engine asks before it
// dispatches a record when it has not heard from the store for a second. Strays returns, at
// the end of a pass, rows of the query's lane that no page has because their date is in
// another form than the others': the first thousand at most. Expire
// gives records their dead status by age. Try tries a settlement on its row and
// undoes it: the engine asks before the first record of each state. Rehearse settles a
// group as Settle does and undoes that: the engine asks before it calls OnDead, so that
// no death is announced that the row does not take. A Store with
// Release is a queue: it gives each record once, until Release gives back one that is
// not settled, because it was skipped or not dispatched. Its outcomes are settled at once,
// and a pass over it has no end but a stop: Pending returns within a second, and
// Page.More is true.
type Store interface {
	// Pending returns the next page of the query's lane in the lane's
	// order: newest first by (inserted, key). The Query carries no policy, a
	// store is given it when it is made. With a policy that keeps
	// state, the failed lane holds only what is due, the longest waiting
	// first: by (last failure, key), or (next attempt, key) where that is
	// planned, what has neither before all. It returns at most q.Limit
	// records and may return fewer, even none, while Page.More is true.
	// Rows whose time cannot be read are never records; they are reported
	// in Page.Unreadable. A cursor stays good when its record is gone; an
	// After beyond Until gives an empty page.
	Pending(ctx context.Context, q Query) (Page, error)

	// Settle writes the outcomes of one group, at most [MaxGroup], in one
	// short transaction, each only if its row still has the state that was
	// read and, for a failure where a policy keeps their number, still has the
	// count that was read, Record.Failures.Count. Where Record.Exact is set, that and
	// Record.Attempts must be as they were read whatever the outcome: so none is written twice.
	// A record is in a group once; an outcome that changes nothing in its row
	// is settled if the row is as it was read. The group is the caller's again after
	// that. It returns those that were not written, in any order: with
	// [ErrConflict] where somebody else has changed the row meanwhile,
	// otherwise with the reason for which the database refuses the row. A
	// returned error means that nothing was written or, if the connection
	// broke at commit, that this is unknown; calling again is safe.
	Settle(ctx context.Context, group []Settlement) ([]Unsettled, error)
}

// MaxGroup is the largest number of outcomes that are settled in one
// transaction. A crash repeats at most that many records, or
// Engine.Concurrency if that is more.
const MaxGroup = 500

// A Query names the records a page is taken from.
type Query struct {
	Lane   Lane
	Now    time.Time // the pass's one reading of the clock
	Since  time.Time // records inserted at or after it
	Widest bool      // the widest tier's pass: takes rows whose missing date counts as oldest
	After  Cursor    // the records behind this place; zero: from the beginning
	Until  Cursor    // and before that one; zero: to the end
	Limit  int       // > 0
}

// A Page is a run of records in lane order.
type Page struct {
	Records    []Record
	Unreadable []Unreadable
	Next       Cursor // the place after the last row that was looked at
	More       bool   // whether there may be rows after Next
}

// An Unreadable row is one that cannot be a record: its time, or a part of its
// key, is not what the configuration says.
type Unreadable struct {
	Key Key
	Err error // names the column and the value
}

// A Settlement is an outcome to be written.
type Settlement struct {
	Record *Record
	// Target is the state to reach: RowSuccess, RowError or RowDead. A table
	// without a dead state takes RowError's values for RowDead.
	Target RowState
	Error  string    // the error's text; empty on success
	At     time.Time // when the attempt ended

	// Failures is what a failure leaves for a policy that keeps something in
	// the row. A planned policy tries the record again at Next; where that
	// is zero, never.
	Failures Failures

	Refresh *Refresh // what the outcome leaves under the refresh policy; nil under others
}

// An Unsettled is a settlement that was not written.
type Unsettled struct {
	Index int // in the group
	Err   error
}

var (
	// ErrConflict says that a row no longer has the state that was read.
	// Stores return it in [Unsettled].
	ErrConflict = errors.New("the row was changed by somebody else")

	// ErrUnavailable says that the store cannot be reached, or is busy, for now.
	// Stores wrap it.
	ErrUnavailable = errors.New("the database is away")

	// ErrNoWrites is an ErrUnavailable of a store that answers and takes no writes,
	// as a standby server does or one with a full disk.
	ErrNoWrites = fmt.Errorf("%w: it takes no writes", ErrUnavailable)

	// ErrLocked says that another process holds the lock. [Locker] returns
	// it.
	ErrLocked = errors.New("another process is working on this table")

	// ErrLockedHere is an ErrLocked whose holder has no handlers any more when its
	// lock is free: it is not lost while its process works.
	ErrLockedHere error = lockedHere{ErrLocked}
)

type lockedHere struct{ error }

// Unwrap makes it an ErrLocked.
func (l lockedHere) Unwrap() error { return l.error }

// A releaser is a Store that gives each record once, and is told of those that are not
// settled.
type releaser interface {
	Release(r *Record)
}

// A strayer is a Store that finds rows of which the date is in another form than the
// others'.
type strayer interface {
	Strays(ctx context.Context, q Query) ([]Unreadable, error)
}

// A checker is a Store that can tell which rows are as they were read, also where a record
// is Exact. The engine asks before it counts an outcome that may have been written before.
type checker interface {
	AsRead(ctx context.Context, records []Record) ([]bool, error)
}

// An expirer is a Store that can give records their dead status by age.
type expirer interface {
	// Expire gives the dead status to every pending record that was
	// inserted before the given time or whose own time of expiry is before
	// now, and to every failed one that is out of retries, and returns how
	// many. Records without a date of insertion expire by their own time
	// only. It counts no attempt. Without a dead status it does nothing.
	// A row that the database refuses stays as it was, and no other waits for it.
	Expire(ctx context.Context, x Expiry) (int, error)
}

// An Expiry is what the method Expire of a [Store] is to do, and the functions that it
// calls, one after the other. All but Dies are there.
type Expiry struct {
	Now    time.Time
	Before time.Time

	// Skips reports whether the record with the key is left as it is.
	Skips func(Key) bool

	// Dies is called with every record just before it gets the dead status, once it is
	// known that its row takes that, as far as the store can tell. Where it returns false,
	// that record is left as it is and the others with it; those before, and those
	// for which it returned true before ctx was done, are still written. Nil: it is not asked.
	Dies func(*Record) bool

	// Died is called after n records got the dead status, with all of them or, where Dies is
	// nil, some.
	Died func(list []Record, n int)

	// Refused is called with a record that the database refuses.
	Refused func(r *Record, why error)
}

// A rehearser is a Store that can settle a group and undo that.
type rehearser interface {
	Rehearse(ctx context.Context, group []Settlement) ([]Unsettled, error)
}
