package backlog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"backlog/backlog/flight"
)

// An ending is an attempt that has ended, and what becomes of its outcome.
type ending struct {
	Settlement
	tier        string
	outcome     Outcome
	before      *Memory // what the row remembered before the start; nil: not known, or the policy starts nothing
	deathReason string  // why the record is dead then; "": it is not
	death       death   // how far that has come
	reason      error   // why nothing is to be written, or was; nil: the outcome is written

	snooze       SnoozeTime // of a Snoozed answer
	snoozedUntil time.Time  // of a Snoozed outcome
}

// writesRow reports whether the outcome changes its row. One that counts no attempt may not.
func (x *ending) writesRow() bool {
	return x.outcome.CountsAttempt() || x.Memory != nil || !x.Until.IsZero()
}

// conclude plans the settlement of an outcome by the policy, and emits its event. err is the
// handler's, or stands for it, and took is the handler's time.
func (e *Engine) conclude(ctx context.Context, x *ending, err error, took time.Duration) {
	if x.outcome == Errored || x.outcome == Rejected {
		x.Error = err.Error()
	}
	if x.outcome == Snoozed {
		t, _ := SnoozeOf(err)
		x.snoozedUntil = t.After(x.At)
	}
	if x.outcome != HandedOver {
		e.planSettlement(x)
	}
	if x.deathReason != "" && x.before != nil {
		e.planAgain(ctx, x)
	}
	e.emit(Event{
		Kind: AttemptEnded, At: x.At, Tier: x.tier, Record: x.Record,
		Outcome: x.outcome, Err: err, GivenUp: x.deathReason == ReasonRetries, Took: took, Until: x.snoozedUntil,
	})
}

// planSettlement completes the settlement by the policy. It sets why the record is dead: ReasonRetries if
// the policy gave it up.
func (e *Engine) planSettlement(x *ending) {
	end := End{Outcome: x.outcome, At: x.At, Random: e.Random, Text: x.Error, Before: x.before, Until: x.snoozedUntil}
	next, isLast := e.Policy.End(x.Record.Memory, end)
	x.Memory = next
	x.Target = x.outcome.Target()
	x.deathReason = ""
	if x.outcome == Snoozed && x.Memory == nil && e.keepsSnooze(x.Record) {
		x.Until = x.snoozedUntil
	}
	hasFailed := x.outcome == Errored || x.outcome == Rejected
	if !hasFailed {
		return
	}
	switch {
	case !isLast:
		x.Target = RowError
	case x.outcome == Rejected:
		x.deathReason = ReasonRejected
	default:
		x.Target = RowDead
		x.deathReason = ReasonRetries
	}
}

// planAgain plans the death of a record by what its row has now. A save during the attempt
// keeps the row from being disabled, so that OnDead must not be called.
func (e *Engine) planAgain(ctx context.Context, x *ending) {
	uid := x.Record.Memory.UID
	if uid == "" {
		return // without UIDs a save ends the attempt, and the rehearsal finds that out
	}
	list, err := ask(ctx, e, func() ([]Record, error) { return e.Store.(Beginner).Running(ctx, []string{uid}) })
	if err != nil || len(list) == 0 {
		return // the rehearsal returns why the death is not written
	}
	x.Record.Memory = list[0].Memory
	e.planSettlement(x)
}

// emitSettled emits what has become of an outcome, and reports whether that settles an attempt.
func (e *Engine) emitSettled(x *ending) (settled bool) {
	e.forgetNotified(x.Record, x.reason)
	if x.reason != nil {
		e.emit(Event{Kind: x.kind(), At: x.At, Tier: x.tier, Record: x.Record, Outcome: x.outcome, Err: x.reason})
		return false
	}
	if x.deathReason != "" {
		e.emitDeath(x.tier, &x.Settlement, x.deathReason)
	}
	return x.outcome.CountsAttempt()
}

// kind returns the kind of the outcome's event, by the reason for which it is not written.
func (x *ending) kind() EventKind {
	switch {
	case x.reason == nil:
		return Settled
	case errors.As(x.reason, new(unwritten)):
		return Unwritten
	case errors.Is(x.reason, ErrConflict):
		return Conflicted
	}
	return Refused
}

const (
	// maxHeld is how many refused outcomes are kept. Further ones are dropped.
	maxHeld = 1000
	// heldGroup is how many of them are written at a time, and heldPause the time between two attempts.
	heldGroup = 100
	heldPause = 10 * time.Second
)

// heldOutcomes are the outcomes that the database has refused, by the hashes of their keys. What refuses them may
// change, such as a constraint or a trigger. Then they are written, and their handlers are not called again. All methods
// may be called concurrently.
type heldOutcomes struct {
	mu      sync.Mutex
	list    map[uint64]ending
	triedAt time.Time
}

// isEmpty reports whether no outcome is kept.
func (h *heldOutcomes) isEmpty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list) == 0
}

// contains reports whether an outcome of the record is kept.
func (h *heldOutcomes) contains(hash uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, found := h.list[hash]
	return found
}

// add keeps an outcome, without the values for its handler.
func (h *heldOutcomes) add(x ending) {
	record := *x.Record
	record.Values = nil
	x.Record = &record
	x.reason = nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = make(map[uint64]ending)
	}
	if len(h.list) < maxHeld {
		h.list[record.Key.Hash()] = x
	}
}

// remove forgets the outcome of a record.
func (h *heldOutcomes) remove(hash uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.list, hash)
}

// due returns the outcomes if it is time to try them again.
func (h *heldOutcomes) due(now time.Time) []ending {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.triedAt) < heldPause {
		return nil
	}
	h.triedAt = now
	return slices.Collect(maps.Values(h.list))
}

// leavesAlone reports whether the database has refused an outcome of the record.
func (e *Engine) leavesAlone(hash uint64) bool {
	return e.refused.Contains(hash) || e.held.contains(hash)
}

// hold keeps an outcome if the database has refused it. A queue does that itself.
func (e *Engine) hold(x *ending) {
	if x.kind() == Refused && e.queue == nil {
		e.held.add(*x)
	}
}

// writeHeld tries to write the outcomes that the database has refused. It stops after a
// group that the database still refuses as a whole. It must be called under the run lock.
func (e *Engine) writeHeld(ctx context.Context, tier string) {
	written := 0
	for group := range slices.Chunk(e.held.due(e.Now()), heldGroup) {
		n, err := e.writeHeldGroup(ctx, group)
		written += n
		if n == 0 || err != nil {
			break
		}
	}
	if written > 0 {
		e.emit(Event{Kind: Settled, Tier: tier, N: written})
		e.emit(Event{Kind: WrittenLate, Tier: tier, N: written})
	}
}

// writeHeldGroup tries to write some of the outcomes, and returns how many are written. Those whose rows another
// program has changed are dropped.
func (e *Engine) writeHeldGroup(ctx context.Context, group []ending) (written int, err error) {
	var claimed []ending
	var flights []*flight.Flight
	var settlements []Settlement
	for _, x := range group {
		f := e.flights.Claim(nil, x.Record.Key.Hash())[0]
		if f != nil { // else the attempt is just being accounted for
			claimed = append(claimed, x)
			flights = append(flights, f)
			settlements = append(settlements, x.Settlement)
		}
	}
	var unsettled []Unsettled
	err = guard(func() (err error) {
		unsettled, err = e.Store.Settle(ctx, settlements)
		return err
	})
	if err != nil {
		e.flights.Drop(flights...)
		return 0, err
	}
	for _, u := range unsettled {
		claimed[u.Index].reason = u.Err
	}
	for i := range claimed {
		x := &claimed[i]
		if x.kind() == Refused {
			e.flights.Drop(flights[i])
			continue
		}
		if x.reason == nil {
			written++
		}
		e.emitSettled(x)
		e.held.remove(x.Record.Key.Hash())
		e.refused.Remove(x.Record.Key.Hash())
		e.flights.Land(flights[i]) // on pages that were read before it seems to be pending
	}
	return written, nil
}
