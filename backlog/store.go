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
// A Store may do more. The engine looks for these interfaces, and does without what a
// Store does not have; their methods are called as these two are, concurrently, unless
// they say otherwise:
//
//   - [Pinger] says whether it can be reached
//   - [Prober] says whether passes could work on it
//   - [Trier] tries an outcome on its row before a handler is called
//   - [StrayFinder] finds rows that no page has
//   - [Expirer] gives records their dead status by age
//   - [Rehearser] tries a group of outcomes before OnDead is called
//   - [Verifier] says which rows are as they were read
//   - [Queue] gives each record once
//   - [Finisher] learns when a record is done
//   - [Beginner] writes starts and ends of attempts; the refresh policy requires it
//
// Most stores are a [Locker] as well, which a [Loop] is given.
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
	// count that was read, Record.Memory.Failures. Where Record.Exact is set, that and
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

// First returns the place of the first record, zero if the page has none.
func (p *Page) First() Cursor {
	if len(p.Records) == 0 {
		return Cursor{}
	}
	return p.Records[0].Cursor
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

	// Memory is what the outcome leaves in the row; nil: it leaves that as it is. Where a
	// failure leaves no Next under a policy that plans, the record is never tried again.
	Memory *Memory
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

// A Pinger is a [Store] that says whether it can be reached. The engine asks before it
// dispatches a record where the store has not answered anything for a second, and when a
// store that was unavailable may be back. Without it a record may be dispatched although
// its outcome cannot be written for now.
type Pinger interface {
	Store
	// Ping returns nil if the store answers. It changes nothing. Any error, and no answer
	// within a second, means that the store is unavailable: nothing is dispatched, and
	// Ping is called again after pauses of at most five seconds, until [Engine.Patience]
	// is used up.
	Ping(ctx context.Context) error
}

// A Prober is a [Store] that says whether passes could work on it. [Engine.Probe] asks,
// which a program calls to learn of trouble while no pass runs. Without it Engine.Probe
// returns nil.
type Prober interface {
	Store
	// Probe returns why a pass could not read or not write now, nil if it could do both. It
	// changes nothing. After an error that wraps [ErrUnavailable] it is called again, every
	// second until ctx is done, twelve seconds at most.
	Probe(ctx context.Context) error
}

// A Trier is a [Store] that can try an outcome on its row. The engine asks before
// the first record of each state is dispatched, so that a table that takes no
// outcome is found out before a handler has worked in vain. It asks for each settlement of
// [Trials], of one row after the other until one takes them all, and not again while the
// store takes the outcomes of that state. Without it a refusal shows when Settle returns it.
type Trier interface {
	Store
	// Try writes the settlement as Settle would, and undoes it. It returns
	// ErrConflict where the row is no longer as it was read, ErrLocked where
	// another program has it locked, ErrUnavailable as every call does, and
	// else the reason for which the row does not take the outcome: a [*Refusal] where
	// its [Reach] is known. Any other error would be every row's.
	Try(ctx context.Context, s Settlement) error
}

// A StrayFinder is a [Store] that finds rows that no page has, because their date is in
// another form than most. The engine asks for each lane at the end of a pass that was not
// stopped, and counts each row in [Report.Unreadable], once if Pending has reported it too.
// Without it such rows go unnoticed.
type StrayFinder interface {
	Store
	// Strays returns the first thousand such rows of the query's lane at most. The query
	// has no Limit, After or Until.
	Strays(ctx context.Context, q Query) ([]Unreadable, error)
}

// An Expirer is a [Store] that can give records their dead status by age. The engine
// calls it in each pass of the widest tier, see [Pass.Widest]: before the first record or,
// where OnDead is set, after the last. Without it records that are too old stay pending.
type Expirer interface {
	Store
	// Expire gives the dead status to every pending record that was
	// inserted before the given time or whose own time of expiry is before
	// now, and to every failed one that is out of retries, and returns how
	// many, also with an error. Records without a date of insertion expire by their own time
	// only. It counts no attempt. Without a dead status it does nothing.
	// A row that the database refuses stays as it was, and no other waits for it. After an
	// error that wraps [ErrUnavailable] it is called again.
	Expire(ctx context.Context, x Expiry) (int, error)
}

// An Expiry is what an [Expirer] is to do, and the functions that it
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

// A Rehearser is a [Store] that can settle a group and undo that. The engine asks before it
// calls OnDead, so that no death is announced that the row does not take. Without it
// OnDead is called in any case, and a row that refuses the dead status stays pending.
type Rehearser interface {
	Store
	// Rehearse does what Settle does, undoes it, and returns what Settle would have
	// returned. The group begins with deaths that were rehearsed before and are not written
	// yet: what a row takes alone it may refuse after another. An engine makes one call at a
	// time. An error means that nothing is known: OnDead is not called, and the records stay
	// as they are.
	Rehearse(ctx context.Context, group []Settlement) ([]Unsettled, error)
}

// A Verifier is a [Store] that can say which rows are as they were read. The engine asks
// before it counts outcomes that a [LateCollector] gives it, which may have been written
// before. Without it Settle alone decides: then such an outcome is counted as an attempt,
// and OnDead called, although its row is not written.
type Verifier interface {
	Store
	// AsRead reports for each of the records, in their order, whether Settle would find its
	// row as it was read: its state and, as the records are Exact, Attempts and
	// Memory.Failures. It changes nothing.
	AsRead(ctx context.Context, records []Record) ([]bool, error)
}

// A Queue is a [Store] that gives each record once, until Release gives it back. Its
// outcomes are settled at once, not in groups. All of its records are fresh: the failed lane
// is empty. A pass over it ends only by a stop: Pending returns within a second, and
// Page.More is true. Record.Origin distinguishes records with one key, unless it is 0.
type Queue interface {
	Store
	// Release gives back a record that is not settled, because it was skipped, handed over
	// or not dispatched: Pending may return it again. It is called from several goroutines
	// and must return soon.
	Release(r *Record)
}

// A Finisher is a [Store] or a [Handler] that keeps something for a record while it is worked
// on. The engine calls it once for each record that it has claimed, also where no handler
// was called.
type Finisher interface {
	// Finished says that the engine is done with the record: its outcome is written, its
	// row was changed by another program or refuses it, or no attempt was made. written is
	// false where the store was unavailable for too long: then the outcome is lost, and a
	// [LateCollector] may give it to the engine again. Finished is called from several
	// goroutines and must return soon.
	Finished(r *Record, written bool)
}
