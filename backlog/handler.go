package backlog

import "context"

// A Handler processes one record: calls a service, sends a mail, ships an
// order.
//
// It returns nil for success, any error for a failure that the schedule tries
// again, [Reject] for one that must not be tried again, [Skip] to leave the
// row as it was, [RetryAfter] to ask for a pause, and [Unstarted] if it cannot
// work at all. A panic counts as an error.
//
// Handle may be called concurrently, never twice at a time for the same
// record. It must return soon after ctx is done; it should then report what
// really happened. An attempt is repeated when a crash comes between its end
// and its settlement: handlers that must not act twice use a key of their own
// or [Record.AttemptID] with the record's Key.
type Handler interface {
	Handle(ctx context.Context, r *Record) error
}

// A HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, r *Record) error

// Handle calls f(ctx, r).
func (f HandlerFunc) Handle(ctx context.Context, r *Record) error { return f(ctx, r) }

// A Checker is a Handler that can prove, before the first record is touched,
// that it could work: its program exists and may be executed. Check changes
// nothing and hands nothing out.
type Checker interface {
	Check(ctx context.Context) error
}
