package backlog

import (
	"context"
	"io"
	"time"
)

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

// A Sampler is a Handler that can show an attempt. Sample is Handle, for real,
// but writes to w, for people, what it gives away and what it gets back, secrets
// left out. Where the work and its settlement are one, both are undone.
type Sampler interface {
	Sample(ctx context.Context, r *Record, w io.Writer) error
}

// A SettlingHandler is a Handler whose work and its settlement are one
// transaction, so that a success happens exactly once.
type SettlingHandler interface {
	Handler
	// HandleAndSettle is Handle, but when it returns nil the success has
	// been written. now is the engine's clock. After any other answer
	// nothing has been written, or, if the connection broke at commit, that
	// is unknown; the engine then settles as usual. An error that wraps
	// [ErrConflict] says that somebody else has changed the row: that is
	// counted as such. One that wraps [ErrAway] is no attempt: the call is
	// made again, with the same record, once the store answers, but not more
	// than twice; then the row is left as it was.
	HandleAndSettle(ctx context.Context, r *Record, now func() time.Time) error
}
