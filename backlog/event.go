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

// An EventKind says what happened.
type EventKind int

const (
	PassStarted  EventKind = iota // Tier, Report: what is known before
	PassEnded                     // Tier, Report, Err: why it could not be finished
	AttemptEnded                  // Tier, Record, Outcome, Err: the handler's error; GivenUp: out of retries

	// These have Tier, Record, Outcome: the one that was not written, and
	// Err; At is the attempt's end.
	Conflicted // somebody else has changed the row, it is left alone; Err wraps ErrConflict
	Refused    // the database does not take the outcome; Err says why
	Unwritten  // given up, the row does not show what happened; Err says why

	UnreadableRow    // Tier, Record (its Key only), Err
	OnDeadFailed     // Tier, Record, Err: what Engine.OnDead returned for it
	StoreUnavailable // Err: first failure of a series
	StoreBack        // the series is over
	Paused           // Err: the handler's; At: until when
	TicksMissed      // N, AtLeast: ticks that the pass about to start covers; Tier: its tier
	TierSkipped      // Tier: due, but its last pass still runs
	TierCovered      // Tier: due, and covered by the pass of a wider one
	LockWaiting      // a pass waits for the run lock of another process; Tier
	LockLost         // the run lock is lost, the passes under it are stopped and owed; Err: the lock's
	ClockSetBack     // Err says by how much
	NoTick           // no tick was handled for too long; Err says for how long
	Panicked         // Err: a panic in the loop or in an observer; all else goes on
	StateFailed      // Err: the state could not be read or written; the loop goes on without
	Woke             // the loop looked at the clock
)

var kinds = [...]string{
	PassStarted: "pass started", PassEnded: "pass ended", AttemptEnded: "attempt ended",
	Conflicted: "conflict", Refused: "outcome refused", Unwritten: "outcome not written",
	UnreadableRow: "unreadable row", OnDeadFailed: "on_dead failed",
	StoreUnavailable: "store away", StoreBack: "store back", Paused: "pause",
	TicksMissed: "ticks missed", TierSkipped: "tier skipped", TierCovered: "tier covered",
	LockWaiting: "waiting for the lock", LockLost: "lock lost",
	ClockSetBack: "clock set back", NoTick: "no tick",
	Panicked: "panic", StateFailed: "state failed", Woke: "woke",
}

// String returns the kind in two or three words, such as "pass ended".
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return kinds[k]
}
