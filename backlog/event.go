package backlog

import (
	"fmt"
	"time"
)

// An Event is something worth telling: logs, metrics, progress and the
// simulation report are all fed from events. Fields that a kind does not
// mention are zero.
type Event struct {
	Kind    EventKind
	At      time.Time // by the engine's clock
	Tier    string
	Record  *Record
	Outcome Outcome
	Err     error
	N       int
	AtLeast bool // N is not all
	Report  *Report
	GivenUp bool
}

// tell calls observe, if there is one, and survives it: what watches the work
// must not end it.
func tell(observe func(Event), now func() time.Time, ev Event) {
	if observe == nil {
		return
	}
	if ev.At.IsZero() {
		ev.At = now()
	}
	defer func() {
		if p := recover(); p != nil && ev.Kind != Panicked {
			tell(observe, now, Event{Kind: Panicked, At: ev.At, Err: fmt.Errorf("panic in Observe: %v", p)})
		}
	}()
	observe(ev)
}

// An EventKind says what happened, in two or three words.
type EventKind string

const (
	PassStarted  EventKind = "pass started"  // Tier, Report: what is known before
	PassEnded    EventKind = "pass ended"    // Tier, Report, Err: why it could not be finished
	AttemptEnded EventKind = "attempt ended" // Tier, Record, Outcome, Err: the handler's error; GivenUp: out of retries

	// These have Tier, Record, Outcome: the one that was not written, and
	// Err; At is the attempt's end.
	Conflicted EventKind = "conflict"            // somebody else has changed the row, it is left alone; Err wraps ErrConflict
	Refused    EventKind = "outcome refused"     // the database does not take the outcome; Err says why
	Unwritten  EventKind = "outcome not written" // given up, the row does not show what happened; Err says why

	UnreadableRow    EventKind = "unreadable row"       // Tier, Record (its Key only), Err
	OnDeadFailed     EventKind = "on_dead failed"       // Tier, Record, Err: what Engine.OnDead returned for it
	StoreUnavailable EventKind = "store away"           // Err: first failure of a series
	StoreBack        EventKind = "store back"           // the series is over
	Paused           EventKind = "pause"                // Err: the handler's; At: until when
	TicksMissed      EventKind = "ticks missed"         // N, AtLeast: ticks that the pass about to start covers; Tier: its tier
	TierSkipped      EventKind = "tier skipped"         // Tier: due, but its last pass still runs
	TierCovered      EventKind = "tier covered"         // Tier: due, and covered by the pass of a wider one
	LockWaiting      EventKind = "waiting for the lock" // a pass waits for the run lock of another process; Tier
	LockLost         EventKind = "lock lost"            // the run lock is lost, the passes under it are stopped and owed; Err: the lock's
	ClockSetBack     EventKind = "clock set back"       // Err says by how much
	NoTick           EventKind = "no tick"              // no tick was handled for too long; Err says for how long
	Panicked         EventKind = "panic"                // Err: a panic in the loop or in an observer; all else goes on
	StateFailed      EventKind = "state failed"         // Err: the state could not be read or written; the loop goes on without
	Woke             EventKind = "woke"                 // the loop looked at the clock
)
