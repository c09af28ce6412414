package backlog

import (
	"errors"
	"fmt"
	"time"

	"backlog/backlog/plan"
)

// An Event is something that an engine or a loop reports: logs, metrics, progress and the
// simulation's report are made of events. The comment of a kind names its fields; the
// others are zero.
type Event struct {
	Kind    EventKind
	At      time.Time // by the engine's clock
	Tier    string
	By      string
	Record  *Record
	Outcome Outcome
	Err     error
	N       int
	AtLeast bool // N is not all
	Since   time.Time
	Report  *Report
	GivenUp bool
	Took    time.Duration
	Until   time.Time
}

// observe calls the function with the event, if there is one. A panic of the function becomes
// an event, so that it does not end the pass.
func observe(f func(Event), now func() time.Time, ev Event) {
	if f == nil {
		return
	}
	if ev.At.IsZero() {
		ev.At = now()
	}
	defer func() {
		if p := recover(); p != nil && ev.Kind != Panicked {
			observe(f, now, Event{Kind: Panicked, At: ev.At, Err: fmt.Errorf("panic in Observe: %v", p)})
		}
	}()
	f(ev)
}

// An EventKind says what happened, in two or three words.
type EventKind string

const (
	PassStarted  EventKind = "pass started"  // Tier, Report: what is known at the start
	PassEnded    EventKind = "pass ended"    // Tier, Report, Err: why it could not be finished
	AttemptEnded EventKind = "attempt ended" // Tier, Record, Outcome, Err: the handler's error; GivenUp: out of retries; Took: the handler's time, 0 for the answer to a record that was handed over; Until: when the record is tried again, if it is Snoozed
	Settled      EventKind = "settled"       // Tier, N: outcomes of attempts that have been written

	// These have Tier, Record, the Outcome that was not written, and Err; At is the attempt's
	// end. If the Record has a Reason, its death by age was not written.
	Conflicted EventKind = "conflict"            // another program has changed the row, which is left alone; Err wraps ErrConflict
	Refused    EventKind = "outcome refused"     // the database does not take the outcome; Err says why
	Unwritten  EventKind = "outcome not written" // given up: the row does not show what happened; Err says why

	UnreadableRow    EventKind = "unreadable row"       // Tier, Record (its Key only), Err
	Uncertain        EventKind = "outcome uncertain"    // Tier, Record, Outcome, Err: whether the database takes it depends on what the handler writes; once for each state
	Died             EventKind = "record died"          // Tier, Record, whose Reason says why: its death is written
	Expired          EventKind = "records expired"      // Tier, N: records that became dead by age and have no Died
	OnDeadFailed     EventKind = "on_dead failed"       // Tier, Record, Err: what Engine.OnDead returned for it
	StoreUnavailable EventKind = "store away"           // Err: the first failure of a series
	StoreBack        EventKind = "store back"           // the series is over
	Paused           EventKind = "pause"                // Err: the handler's; At: until when
	TicksMissed      EventKind = "ticks missed"         // N, AtLeast: ticks after Since that the next pass makes up for; Tier: its tier
	TierSkipped      EventKind = "tier skipped"         // Tier: due, but its last pass still runs
	TierCovered      EventKind = "tier covered"         // Tier: due, and covered by the pass of a wider one, By
	LockWaiting      EventKind = "waiting for the lock" // a pass waits for the run lock of another process; Tier
	LockLost         EventKind = "lock lost"            // the run lock is lost, its passes are stopped and run again later; Err: the lock's
	ClockSetBack     EventKind = "clock set back"       // Err says by how much
	NoTick           EventKind = "no tick"              // no tick was handled for too long; Err says for how long
	Panicked         EventKind = "panic"                // Err: a panic in the loop or in an observer; everything else goes on
	SnoozesForgotten EventKind = "snooze forgotten"     // more records are snoozed than this process remembers, once; Tier, N: how many it remembers, Err
	SnoozeRefused    EventKind = "snooze refused"       // a row does not keep a snooze, so that this process remembers it, once; Tier, Record, Outcome, Err: the database's
	StateFailed      EventKind = "state failed"         // Err: the state could not be read or written; the loop goes on without
	Woke             EventKind = "woke"                 // the loop looked at the clock
)

// A Report sums up one pass. Selected is the sum of Succeeded, Failed,
// Rejected, Skipped, Snoozed, Accepted, Conflicts, Refused, Interrupted and Unwritten.
type Report struct {
	Tier     string        `json:"tier"`
	MaxAge   time.Duration `json:"-"`
	Tick     time.Time     `json:"-"` // that the pass is for; zero: none
	Started  time.Time     `json:"-"` // the pass's one reading of the clock
	Duration time.Duration `json:"-"`

	Selected    int    `json:"selected"` // handed to the handler
	Succeeded   int    `json:"succeeded"`
	Failed      int    `json:"failed"`
	Rejected    int    `json:"rejected"`
	Skipped     int    `json:"skipped"`
	Snoozed     int    `json:"snoozed,omitempty"` // not to be tried before a time that the handler said
	Conflicts   int    `json:"conflicts"`         // outcome not written: another program had changed the row
	Expired     int    `json:"expired"`           // records that became dead by age
	Complete    bool   `json:"complete"`          // every record of the pass's age was looked at
	Stopped     string `json:"stopped"`           // why the pass ended early: one of the Stopped constants, or empty
	Refused     int    `json:"refused"`           // outcome not written: the database does not take it
	Interrupted int    `json:"interrupted"`       // handlers ended by a stop, which is no attempt
	Unwritten   int    `json:"unwritten"`         // outcome not written when the pass ended: the database was unavailable
	Unreadable  int    `json:"unreadable"`        // rows that could not be records
	GivenUp     int    `json:"given_up"`          // of the failed: out of retries
	Accepted    int    `json:"accepted"`          // handed over, the outcome follows
	Overdue     int    `json:"overdue,omitempty"` // attempts that failed because no answer came by their deadline

	Resume Resume `json:"-"` // where the tier's next pass goes on

	cutShort bool // the error came with a stop, or the store was unavailable at the end
}

// Why a pass ended early.
const (
	StoppedMaxRecords = "max_records"
	StoppedAbortAfter = "abort_after"
	StoppedSignal     = "signal"
	StoppedReload     = "reload" // another engine goes on with the rest
	StoppedLock       = "lock"   // the run lock was lost
	StoppedPause      = "pause"  // [Engine.Paused]
	StoppedError      = "error"
)

// A Resume is where the next pass of a tier goes on after one that ended
// early. The zero Resume is the beginning.
type Resume = plan.Resume

// add counts an outcome that was written.
func (r *Report) add(a *attempt) {
	if a.outcome == Errored && a.Target == RowDead {
		r.GivenUp++
	}
	switch a.outcome {
	case Succeeded:
		r.Succeeded++
	case Errored:
		r.Failed++
	case Rejected:
		r.Rejected++
	case Snoozed:
		r.Snoozed++
	case Skipped: // it was counted when it ended
	}
}

// addOverdue counts an attempt that was not answered by its deadline. reason is why its
// outcome is not written; nil: it is.
func (r *Report) addOverdue(reason error) {
	switch {
	case reason == nil:
		r.Overdue++
	case !errors.Is(reason, ErrConflict) && !isUnavailable(reason):
		r.Selected++ // the sum of all
		r.Refused++
	}
}
