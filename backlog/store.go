package backlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Store holds the records: the user's table, or memory.
//
// Both methods may be called concurrently. An error that wraps [ErrUnavailable] says
// that the store cannot be reached or is busy for now, and that the same call may be
// made again. Any other error is final for the call.
//
// A Store may do more. The engine looks for these interfaces, and does without those
// that a Store does not have. Their methods are called concurrently, too, unless their
// comments say otherwise:
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
//   - [Snoozer] keeps until when a record is snoozed
//   - [Beginner] writes starts and ends of attempts; the refresh policy requires it
//
// Most stores are a [Locker] as well, which a [Loop] is given.
type Store interface {
	// Pending returns the next page of the query's lane in the lane's order, newest
	// first by (inserted, key). A policy, which the store is given when it is made,
	// changes the failed lane if it keeps something in the rows: then the lane has only
	// records that are due, the longest waiting first, by (last failure, key) or, if the
	// policy is a planned one, by (next attempt, key). Records without that time come
	// first.
	//
	// It returns at most q.Limit records, and may return fewer, even none, while
	// Page.More is true. Rows whose time cannot be read are never records; they are in
	// Page.Unreadable. A cursor stays valid when its record is gone. An After beyond
	// Until gives an empty page.
	Pending(ctx context.Context, q Query) (Page, error)

	// Settle writes the outcomes of one group, at most [MaxGroup], in one short
	// transaction. It writes an outcome only if the row still has the state that was
	// read. A failure under a policy that counts them also requires the count that was
	// read, Record.Memory.Failures. If Record.Exact is set, every outcome requires that
	// count and Record.Attempts as they were read, so that none is written twice.
	//
	// A record is in a group once. An outcome that changes nothing in its row is settled
	// if the row is as it was read. Settle does not keep the group.
	//
	// It returns the outcomes that were not written, in any order: with [ErrConflict] if
	// another program has changed the row, else with the reason for which the database
	// refuses the row. An error means that nothing was written or, if the connection
	// broke at commit, that this is unknown; calling again is safe. After an error that
	// wraps [ErrUnavailable] the outcomes are kept until a call succeeds, after another
	// one they are given up.
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
	After  Cursor    // records behind this place; zero: from the beginning
	Until  Cursor    // records before this place; zero: to the end
	Limit  int       // > 0
}

// A Page is a list of records in the lane's order.
type Page struct {
	Records    []Record
	Unreadable []Unreadable
	Next       Cursor // the place after the last row that was read
	More       bool   // whether there may be rows after Next
}

// First returns the place of the first record, zero if the page has none.
func (p *Page) First() Cursor {
	if len(p.Records) == 0 {
		return Cursor{}
	}
	return p.Records[0].Cursor
}

// An Unreadable row cannot be a record: its time, or a part of its key, is not
// what the configuration says.
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

	// Memory is what the row remembers after the outcome; nil: that does not change. A
	// failure without a Next under a planned policy means that the record is never tried
	// again.
	Memory *Memory

	// Until is set for a [Snoozer] only: the attempt was Snoozed, and the row is to keep that
	// its record is not tried before. Target is RowOther, and nothing else of the row changes.
	Until time.Time
}

// An Unsettled is a settlement that was not written.
type Unsettled struct {
	Index int // in the group
	Err   error
}

var (
	// ErrConflict says that a row no longer has the state that was read. Stores
	// return it in [Unsettled].
	ErrConflict = errors.New("the row was changed by somebody else")

	// ErrUnavailable says that the store cannot be reached or is busy for now. Stores
	// wrap it.
	ErrUnavailable = errors.New("the database is away")

	// ErrNoWrites is an ErrUnavailable of a store that answers and takes no writes,
	// such as a standby server or one with a full disk.
	ErrNoWrites = fmt.Errorf("%w: it takes no writes", ErrUnavailable)

	// ErrRefusesAll is an ErrUnavailable of a store that answers and refuses every
	// outcome, until the store or the configuration is changed.
	ErrRefusesAll = fmt.Errorf("%w: it refuses every outcome", ErrUnavailable)

	// ErrLocked says that another process holds the lock. A [Locker] returns it.
	ErrLocked = errors.New("another process is working on this table")

	// ErrLockedHere is an ErrLocked for a lock that its holder cannot lose while it
	// works. When the lock is free, the holder has no handlers any more.
	ErrLockedHere error = lockedHere{ErrLocked}
)

// ErrReplaced says that a store is another one than was opened, such as a file that was replaced, so that the
// process must start again. A [Locker] and its locks wrap it.
var ErrReplaced = errors.New("the database was replaced while it was open")

type lockedHere struct{ error }

// Unwrap makes it an ErrLocked.
func (l lockedHere) Unwrap() error { return l.error }

// A Pinger is a [Store] that says whether it can be reached. The engine asks before it
// dispatches a record if the last answer of the store is a second old, and when a
// store that was unavailable may be back. Without it a record may be dispatched while
// its outcome cannot be written.
type Pinger interface {
	Store
	// Ping returns nil if the store answers. It changes nothing. An error, or no answer
	// within a second, means that the store is unavailable: nothing is dispatched, and
	// Ping is called again after pauses of at most five seconds, until [Engine.Patience]
	// is used up.
	Ping(ctx context.Context) error
}

// A Prober is a [Store] that says whether passes could work on it. [Engine.Probe] asks it,
// so that a program learns of trouble while no pass runs. Without it Engine.Probe returns nil.
type Prober interface {
	Store
	// Probe returns why a pass could not read or could not write now, nil if it could do
	// both. It changes nothing. After an error that wraps [ErrUnavailable] it is called
	// again every second, for at most twelve seconds or until ctx is done.
	Probe(ctx context.Context) error
}

// A Trier is a [Store] that can try an outcome on its row. The engine tries the
// outcomes of each state before it dispatches the first record of that state, so that no
// handler works in vain for a table that takes no outcome. It calls Try for each settlement of
// [Trials], for one row after the other, until a row takes them all. While the store takes the
// outcomes of that state it does not try them again. Without a Trier, a refusal shows when
// Settle returns it.
type Trier interface {
	Store
	// Try writes the settlement as Settle would, and undoes it. It returns ErrConflict if
	// the row is no longer as it was read, ErrLocked if another program has locked it, and
	// ErrUnavailable as every method may. Otherwise it returns why the row does not take
	// the outcome: a [*Refusal] if its [Reach] is known, and any other error for a reason
	// that concerns every row.
	Try(ctx context.Context, s Settlement) error
}

// A StrayFinder is a [Store] that finds rows that are on no page, because their date is in
// another form than most. The engine asks for each lane at the end of a pass that was not
// stopped. It counts each row once in [Report.Unreadable], also if Pending has reported it.
// Without a StrayFinder such rows go unnoticed.
type StrayFinder interface {
	Store
	// Strays returns at most a thousand such rows of the query's lane, the first ones. The
	// query has no Limit, After or Until.
	Strays(ctx context.Context, q Query) ([]Unreadable, error)
}

// An Expirer is a [Store] that can give records the dead status by age. The engine
// calls it in each pass of the widest tier, see [Pass.Widest]: before the first record or, if
// OnDead is set, after the last. Without it records that are too old stay pending.
type Expirer interface {
	Store
	// Expire gives the dead status to every pending record that was inserted before
	// x.Before, or whose own time of expiry is before x.Now, and to every failed one that
	// is out of retries. It returns how many these were, also with an error. Records without
	// a date of insertion expire by their own time only. It counts no attempt. Without a
	// dead status it does nothing. A row that the database refuses stays as it was and keeps
	// no other from dying. After an error that wraps [ErrUnavailable] it is called again.
	Expire(ctx context.Context, x Expiry) (int, error)
}

// An Expiry is what an [Expirer] is to do, with functions that it calls one at a time. Only
// BeforeDeath may be nil.
type Expiry struct {
	Now    time.Time
	Before time.Time

	// Skips reports whether the record with the key is left as it is.
	Skips func(Key) bool

	// BeforeDeath is called with every record just before it gets the dead status, when it is
	// known that its row takes that, as far as the store can tell. It returns whether the
	// expiry goes on. If not, that record and all later ones are left as they are. The records
	// before it are still written, even if ctx is done by then. Nil: every record dies.
	BeforeDeath func(*Record) (goOn bool)

	// Died is called after n records got the dead status, with all of them or, if BeforeDeath is
	// nil, with some.
	Died func(list []Record, n int)

	// Refused is called with a record that the database refuses.
	Refused func(r *Record, why error)
}

// A Rehearser is a [Store] that can settle a group and undo that. The engine asks before it
// calls OnDead, so that OnDead is not called for a record whose row does not take the dead
// status. Without it OnDead is called in any case, and such a record stays pending.
type Rehearser interface {
	Store
	// Rehearse does what Settle does, undoes it, and returns what Settle would have
	// returned. The group begins with deaths that were rehearsed before and are not written
	// yet, because a row may refuse after another death what it takes alone. An engine makes
	// one call at a time. An error means that nothing is known: OnDead is not called, and the
	// records stay as they are.
	Rehearse(ctx context.Context, group []Settlement) ([]Unsettled, error)
}

// A Verifier is a [Store] that can say which rows are as they were read. The engine asks
// before it counts the outcomes of a [LateCollector], which may have been written before.
// Without it such an outcome is counted as an attempt, and OnDead may be called for it, before
// Settle finds out that the row has changed.
type Verifier interface {
	Store
	// AsRead reports for each of the records, in their order, whether Settle would find its
	// row as it was read: its state and, since the records are Exact, Attempts and
	// Memory.Failures. It changes nothing.
	AsRead(ctx context.Context, records []Record) ([]bool, error)
}

// A Snoozer is a [Store] whose rows can keep until when their records are snoozed, such as in a
// column of times before which Pending does not return them. Where a row keeps no snooze, the
// engine remembers it as long as the process lives. The engine does not ask a Snoozer under a
// policy with deadlines, where Memory.Next keeps the snooze.
type Snoozer interface {
	Store
	// KeepsSnooze reports whether Settle keeps Settlement.Until for the record. It requires the
	// same of the row as after a failure, so that a change by another program wins, and so does a
	// later time in a column that other programs write. The time is rounded up to what the column
	// holds. It must return at once.
	KeepsSnooze(r *Record) bool
}

// A Queue is a [Store] that returns each record once, unless Release gives it back. Its
// outcomes are settled at once, and do not wait for a group. All of its records are fresh: the
// failed lane is empty. Only a stop ends a pass over it: Pending returns within a second, and
// Page.More is always true. Record.Origin, unless it is 0, distinguishes records with one key.
type Queue interface {
	Store
	// Release gives back a record that is not settled, because it was skipped, handed over
	// or not dispatched. Pending may return it again. It is called concurrently and must
	// return soon.
	Release(r *Record)
}

// A Finisher is a [Store] or a [Handler] that keeps something for a record while it is worked
// on. The engine calls it once for each record that it has claimed, also if no handler was
// called.
type Finisher interface {
	// Finished says that the engine is done with the record: its outcome is written, its
	// row was changed by another program or refuses it, or no attempt was made. written is
	// false if the store was unavailable for too long. Then the outcome is lost, and a
	// [LateCollector] may pass it to the engine again. Finished is called concurrently and
	// must return soon.
	Finished(r *Record, written bool)
}
