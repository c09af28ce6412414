package backlog

import (
	"context"
	"errors"
	"time"
)

// An ending is an attempt that has ended, with what comes of it.
type ending struct {
	Settlement
	tier    string
	outcome Outcome
	began   *Memory // what the row remembered before the start; nil: not known, or the policy starts nothing
	dies    string  // why the record is dead then; "": it is not
	death   death   // how far that has come
	reason  error   // why nothing is to be written; nil: it is
}

// conclude makes of an outcome its settlement and its event, by the policy. err is what the
// handler returned, or what stands for that, and took its time.
func (e *Engine) conclude(ctx context.Context, x *ending, err error, took time.Duration) {
	if x.outcome == Errored || x.outcome == Rejected {
		x.Error = err.Error()
	}
	if x.outcome != HandedOver {
		e.plan(x)
	}
	if x.dies != "" && x.began != nil {
		e.planAgain(ctx, x)
	}
	e.emit(Event{
		Kind: AttemptEnded, At: x.At, Tier: x.tier, Record: x.Record,
		Outcome: x.outcome, Err: err, GivenUp: x.dies == ReasonRetries, Took: took,
	})
}

// plan completes the settlement with what the policy makes of the outcome, and sets why the
// record is dead: ReasonRetries if the policy gave it up.
func (e *Engine) plan(x *ending) {
	end := End{Outcome: x.outcome, At: x.At, Random: e.Random, Text: x.Error, Began: x.began}
	next, last := e.Policy.End(x.Record.Memory, end)
	x.Memory = next
	x.Target = x.outcome.Target()
	x.dies = ""
	switch {
	case x.outcome != Errored && x.outcome != Rejected:
	case !last:
		x.Target = RowError
	case x.outcome == Rejected:
		x.dies = ReasonRejected
	default:
		x.Target = RowDead
		x.dies = ReasonRetries
	}
}

// planAgain plans the death of a record by what its row has now. A save during the attempt
// keeps the row from being disabled, and its customer must not hear of a death.
func (e *Engine) planAgain(ctx context.Context, x *ending) {
	uid := x.Record.Memory.UID
	if uid == "" {
		return // the rehearsal finds a save, by which the row has lost the attempt
	}
	list, err := ask(ctx, e, func() ([]Record, error) { return e.Store.(Beginner).Running(ctx, []string{uid}) })
	if err != nil || len(list) == 0 {
		return // the rehearsal says why it is not written
	}
	x.Record.Memory = list[0].Memory
	e.plan(x)
}

// observe emits what has become of an outcome, and reports whether an attempt is settled by
// it.
func (e *Engine) observe(x *ending) (settled bool) {
	e.forgetTold(x.Record, x.reason)
	if x.reason != nil {
		e.emit(Event{Kind: x.kind(), At: x.At, Tier: x.tier, Record: x.Record, Outcome: x.outcome, Err: x.reason})
		return false
	}
	if x.dies != "" {
		e.died(x.tier, &x.Settlement, x.dies)
	}
	return x.outcome != Skipped
}

// kind returns the kind of the event of an outcome, by the reason for which it is not written.
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
