// Package history judges what a program has done to the rows of a table. It knows nothing of
// the program: it reads what handlers, the table's trigger and the one who killed processes
// have written down.
//
// A [History] is what was written down. [Rules] say which statuses the table has and how much
// of the work a kill may repeat. [Check] returns what contradicts the promises. The package is
// pure: all times come from the history.
package history

import (
	"fmt"
	"time"
)

// A Call is one call of a handler with a row.
type Call struct {
	Key     string
	Attempt string // unique to the call
	Tier    string
	OnDead  bool // the handler is the one of dead rows
	PID     int  // of the handler
	Program int  // the process id of the program that called it

	Began time.Time
	Seen  time.Time // the last sign of life before the end
	Ended time.Time // zero: it was killed
	// Outcome is success, error or reject; empty if it was killed.
	Outcome string
}

// Last returns when the call was last known to be under way.
func (c *Call) Last() time.Time {
	if !c.Ended.IsZero() {
		return c.Ended
	}
	return later(c.Began, c.Seen)
}

// A Change is a change of a row's status, as a trigger has written it in the same transaction.
type Change struct {
	Key  string
	From string // empty: the row was inserted
	To   string
	At   time.Time
}

// A Strike is what was done to a process.
type Strike struct {
	What  string    // kill, session, stop, term …
	PID   int       // of the program, or of a handler
	At    time.Time // when it began
	Until time.Time // when its effect had ended
}

// A Tick is an instant at which a tier was due.
type Tick struct {
	Tier   string
	At     time.Time
	MaxAge time.Duration // of its rows
	Until  time.Time     // when its work must have been begun
}

// A Span is a time between two instants.
type Span struct{ From, To time.Time }

// contains reports whether the instant is in the span.
func (s Span) contains(at time.Time) bool { return !at.Before(s.From) && !at.After(s.To) }

// A History is what was written down. The order in its lists does not matter, except that
// changes of one row are in the order in which they were committed.
type History struct {
	Calls    []Call
	Changes  []Change
	Strikes  []Strike
	Ticks    []Tick
	Inserted map[string]time.Time // the date of insertion in each row
	Final    map[string]string    // the status of each row in the end
	Quiet    Span                 // a pass over all rows that nothing disturbed; zero: there was none
}

// Rules say what is promised.
type Rules struct {
	Pending []string // the statuses of rows that a pass tries
	Due     []string // those of them that each tick tries; a policy lets the others wait
	Failed  string   // the status of rows that are tried again; empty: none
	Success string
	Dead    string

	Repeats int           // how many successes one kill may cause to be repeated
	Slack   time.Duration // by how much a time in a row may be too early
	Margin  time.Duration // rows so close to the age limit of a tier may be left out by it
}

// A Violation is something that must not happen.
type Violation struct {
	Rule string
	Key  string // empty: it is not about a single row
	Text string
}

// String returns the violation in one line.
func (v Violation) String() string {
	if v.Key == "" {
		return fmt.Sprintf("%s: %s", v.Rule, v.Text)
	}
	return fmt.Sprintf("%s: row %s: %s", v.Rule, v.Key, v.Text)
}

// The names of the rules.
const (
	Overlap   = "one attempt at a time"
	Unearned  = "success only after a handler's"
	Unfailed  = "failure only after a handler's"
	Unnoticed = "death only after a call of on_dead"
	Overwrite = "another program's change wins"
	Repeat    = "repeated only by a kill"
	TooMany   = "few repeats for each kill"
	Untried   = "nothing is left out"
	Missed    = "no tick is lost"
	Misplaced = "a tier has its own ages"
	Torn      = "notes fit together"
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
