package backlog

import (
	"context"
	"errors"
	"time"
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
