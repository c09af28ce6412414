package backlog

import (
	"context"
	"errors"
	"time"
)

// A Refresh is what the row of a record that is processed again and again
// remembers, in the columns of the refresh policy. Where a column is NULL, or the
// table does not have it, the field is zero.
type Refresh struct {
	At           time.Time // the next start; zero: none is planned
	AttemptNo    int       // starts since the last success, the running one included
	Deadline     time.Time // when the running attempt has failed; zero: none runs
	UID          string    // of the running attempt; "": none runs, or the table does not keep it
	Started      time.Time // start of the last attempt
	Disabled     bool      // no start until the row is saved again
	Reason       string    // why, for the customer
	FailingSince time.Time // end of the first failure since the last success
	Rule         string    // the row's own recurrence rule, where the policy has a column for it
}

// A Refresher plans the starts of such records: it makes a [Policy] one of
// deadlines. It is pure, and its methods may be called concurrently; package
// backlog/backlog/retry has one. Neither method changes what it is given.
type Refresher interface {
	// Start returns what the start of an attempt leaves. An error says that the
	// row's rule cannot be read: the record is not started.
	Start(s Refresh, now time.Time, uid string) (Refresh, error)
	// End returns what the end of an attempt leaves, and whether it was the last:
	// the record is disabled, or finished. began is the state before its start,
	// which a Skipped attempt restores; nil where nobody knows it. text is the
	// error's.
	End(s Refresh, o Outcome, now time.Time, text string, began *Refresh) (next Refresh, final bool)
}

// A Beginner is a [Store] whose rows the refresh policy starts. Its Pending returns
// what is due, Refresh.At at or before Query.Now, in both lanes by (At, key): the
// fresh lane has the records without a start since their last success. Rows that
// are disabled, or whose attempt runs, are in neither.
//
// Its Settle writes Settlement.Refresh if the row still has the attempt that
// Settlement.Record.Refresh tells of: its UID, or without that column its At and
// AttemptNo. A row that was saved during the attempt, its time of start is before its
// deadline, keeps its time of start and its number.
//
// What is written is rounded up to what the columns hold. All methods may be called
// concurrently, and their errors are as Store has them.
type Beginner interface {
	Store
	// Begin writes the starts of a group in one transaction, each only if its row
	// still has the UID and the At that were read, and is not disabled.
	// Settlement.Refresh is the state to write; on success the Refresh of the
	// record is what the row has then.
	Begin(ctx context.Context, group []Settlement) ([]Unsettled, error)
	// Overdue returns records whose deadline is at or before now, the earliest
	// first, and not those before the cursor.
	Overdue(ctx context.Context, now time.Time, after Cursor, limit int) ([]Record, error)
	// Running returns the records of the running attempts with the UIDs, in any
	// order; those that no row has are left out.
	Running(ctx context.Context, uids []string) ([]Record, error)
}

// Accepted is returned by a Handler that has handed the record over to somebody who
// will tell the outcome by [Engine.Resolve]; what is not told by the deadline has
// failed. Only a refresh policy whose table has a column for UIDs knows it.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Accepted
var Accepted = errors.New("accepted")

// An Answer is what somebody tells of a running attempt that was handed over.
type Answer struct {
	UID     string
	Outcome Outcome // Skipped: the attempt goes on, only Text becomes the row's Reason
	Text    string  // the error's, or the sentence for the customer
}
