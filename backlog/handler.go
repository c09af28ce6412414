package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// A Handler processes one record: calls a service, sends a mail, ships an
// order.
//
// It returns nil for success, any error for a failure that the schedule tries
// again, [Reject] for one that must not be tried again, [Skip] to leave the
// row as it was, [RetryAfter] for a failure after which no handler is called for a
// while, and [Unstarted] if it cannot work at all. A panic counts as an error.
//
// Handle may be called concurrently, never twice at a time for the same
// record. It must return soon after ctx is done. Nil then means that the work was
// done, and is written; an error is a failure if Engine.Timeout ended ctx, and no
// attempt if a stop did. An attempt is repeated when a crash comes between its end
// and its settlement: handlers that must not act twice use a key of their own
// or [Record.AttemptID] with the record's Key.
//
// A Handler may do more. The engine looks for these interfaces, and does without what a
// Handler does not have:
//
//   - [SettlingHandler] writes the success in the transaction of its work
//   - [ClosingHandler] takes no records at times
//   - [ReadyChecker] says before a start is written whether it could be made
//   - [Collector] receives the outcomes of records that it handed over
//   - [LateCollector] receives outcomes that no call waits for
//   - [Finisher] learns when a record is done
//
// The program asks more of the handlers that its configuration file names:
//
//   - [ConfiguredHandler] describes itself and says whether it can work
//   - [TrialHandler] can do its work and undo it
type Handler interface {
	Handle(ctx context.Context, r *Record) error
}

// A HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, r *Record) error

// Handle calls f(ctx, r).
func (f HandlerFunc) Handle(ctx context.Context, r *Record) error { return f(ctx, r) }

// Killed returns a channel that is closed when every program a handler has
// started must be dead: another process may begin with its records, or the stop
// was asked for twice. ctx is done by then. A handler that starts programs ends
// them when ctx is done, and kills them when Killed is closed or its own patience
// is over. The channel is nil where ctx is not an engine's.
func Killed(ctx context.Context) <-chan struct{} { return killOf(ctx).Done() }

// killKey is the key of the context that ends when handlers are to be killed.
type killKey struct{}

func killOf(ctx context.Context) context.Context {
	if kill, ok := ctx.Value(killKey{}).(context.Context); ok {
		return kill
	}
	return context.Background()
}

// A SettlingHandler is a [Handler] whose work and its settlement are one
// transaction, so that a success happens exactly once. The engine calls HandleAndSettle
// instead of Handle, and as Handle is called.
type SettlingHandler interface {
	Handler
	// HandleAndSettle is Handle, but when it returns nil the success has
	// been written. now is the engine's clock. After any other answer
	// nothing has been written, or, if the connection broke at commit, that
	// is unknown; the engine then settles as usual. An error that wraps
	// [ErrConflict] says that another program has changed the row: that is
	// counted as such. One that wraps [ErrUnavailable] is no attempt: the call is
	// made again, with the same record, once the store answers, but not more
	// than twice; then the row is left as it was.
	HandleAndSettle(ctx context.Context, r *Record, now func() time.Time) error
}

// A ClosingHandler is a [Handler] that takes no records at times. The engine asks before it
// claims records, and claims none while the handler is closed: a record that waits inside
// the handler is at work, so that an outcome of its last attempt could not be settled.
type ClosingHandler interface {
	Handler
	// Closed returns for how long no record is taken, at least; 0: one is taken now. It is
	// called again after that time, or a second if that is less, and by each pass. An error
	// ends the pass.
	Closed(ctx context.Context) (time.Duration, error)
}

// A ReadyChecker is a [Handler] that may be unable to take any record. Under the refresh
// policy the engine asks before it writes the start of an attempt, so that none is spent on
// that. Without it, and under other policies, Handle returns [Unstarted].
type ReadyChecker interface {
	Handler
	// Ready returns why no record can be taken. The record is left as it is then, and the
	// pass ends with the error. It is called concurrently, once for each record.
	Ready(ctx context.Context) error
}

// A Collector is a [Handler] that returns [Accepted] and receives the outcomes later. The
// engine asks at the beginning of each pass, and a [Loop] every second; one call at a
// time.
type Collector interface {
	Handler
	// Collect passes to resolve what it has received since the last call, and returns when
	// there is nothing more. resolve is [Engine.Resolve]: what it returns no error for, and
	// what it refuses with an error for that answer alone, need not be passed again. An error
	// of Collect ends nothing: it is called again.
	Collect(ctx context.Context, resolve func(context.Context, []Answer) ([]error, error)) error
}

// A LateCollector is a [Handler] that receives outcomes that no call of Handle waits for any
// more, as after a restart. The engine asks when it would ask a [Collector], and while a
// [ClosingHandler] is closed. A Collector is not asked for late outcomes.
type LateCollector interface {
	Handler
	// CollectLate passes to settle records, at most [MaxGroup] in a call, and an answer for
	// each, whose UID is not looked at. settle writes each outcome whose row still is as
	// the record says. It returns an error for each, nil where it is written. One that wraps
	// [ErrUnavailable] means not yet: the record is at work, pass it again. After any other,
	// such as [ErrConflict], the outcome is obsolete. The second result says that nothing is
	// known of any. An error of CollectLate ends nothing: it is called again.
	CollectLate(ctx context.Context, settle func(context.Context, []Record, []Answer) ([]error, error)) error
}

// A ConfiguredHandler is a [Handler] that the program makes from its configuration file. It
// is an [io.Closer] if there is something to close at the end.
type ConfiguredHandler interface {
	Handler
	// Prepare returns what is wrong with the settings and the files that they name. It is
	// called before all other methods, and uses no network: a service that is down is no
	// reason not to start.
	Prepare() error
	// Check returns why no record could be handled now; it may use the network. It changes
	// nothing.
	Check(ctx context.Context) error
	// Describe returns what the handler says of itself.
	Describe() Description
}

// A Description is what a [ConfiguredHandler] says of itself. A zero field says nothing.
type Description struct {
	MaxConcurrency int           // calls at a time, more would only wait; 0: no limit
	MaxPause       time.Duration // the longest pause that it can ask for, [Engine.MaxPause]
	Columns        []string      // the columns that it asks of a record by name
	Checked        string        // what a Check that found nothing has shown
	Notes          []string      // what is worth a warning though Check finds nothing; a cure follows "; "
}

// A TrialHandler is a [Handler] that can do its work and undo it. `backlog check --sample`
// calls Try instead of Handle.
type TrialHandler interface {
	Handler
	// Try is Handle, but nothing of the work remains. The row is not settled.
	Try(ctx context.Context, r *Record) error
}

// maxExchange is how much of each side of an exchange is logged, but for the mark.
const maxExchange = 2<<10 - len("…")

// LogExchange logs at DEBUG what a handler sent for r and what it got back, as
// exchange returns them without secrets, the beginning of each. It does nothing
// where DEBUG is off or log is nil.
func LogExchange(ctx context.Context, log *slog.Logger, r *Record, exchange func() (sent, got string)) {
	if log == nil || !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	sent, got := exchange()
	log.DebugContext(ctx, "exchange", "attempt_id", r.AttemptID, "id", r.Key.String(), "sent", Beginning(sent, maxExchange), "got", Beginning(got, maxExchange))
}

// Beginning returns the beginning of a text as valid UTF-8 of at most so many
// bytes, and a mark where more of it was cut off.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// An Outcome is what became of one attempt.
type Outcome int

const (
	Succeeded  Outcome = iota // the handler did its work
	Errored                   // it failed; schedule and policy try again
	Rejected                  // it failed and trying again is useless
	Skipped                   // not an attempt; the row stays as it was
	HandedOver                // the outcome follows; refresh policy only
)

// String returns the outcome's word: "success", "error", "reject", "skip" or "accepted".
func (o Outcome) String() string {
	return [...]string{"success", "error", "reject", "skip", "accepted"}[o]
}

// Target returns the state that a settlement of the outcome reaches while the
// policy has not given the record up; RowOther: it ends no attempt.
func (o Outcome) Target() RowState {
	return [...]RowState{Succeeded: RowSuccess, Errored: RowError, Rejected: RowDead, Skipped: RowOther, HandedOver: RowOther}[o]
}

// Skip is returned by a Handler that made no attempt: the row is left exactly
// as it was. Errors that wrap it count too.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Skip
var Skip = errors.New("skipped")

// Reject returns an error that says the record can never succeed. With a dead
// status configured the record gets it, else the error status. It wraps err;
// Reject(nil) is a rejection without a reason.
func Reject(err error) error { return &rejection{cmp.Or(err, errors.New("rejected"))} }

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// RetryAfter returns an error by which a handler asks for a pause: no handler
// call of this engine starts before wait has passed (at most
// [Engine.MaxPause]). The record itself is an error. It wraps err.
func RetryAfter(wait time.Duration, err error) error {
	return &pauseRequest{cmp.Or(err, fmt.Errorf("asked to pause for %v", wait)), wait}
}

type pauseRequest struct {
	error
	wait time.Duration
}

func (p *pauseRequest) Unwrap() error { return p.error }

// PauseOf returns the pause that a handler's error asks for, and whether it does.
func PauseOf(err error) (wait time.Duration, asks bool) {
	if p, ok := errors.AsType[*pauseRequest](err); ok {
		return max(0, p.wait), true
	}
	return 0, false
}

// Unstarted returns an error by which a handler says that it could not even
// begin: what is wrong is wrong with the handler, not with the record. The row
// is left as it was, as by [Skip], and the pass ends with the error. It wraps
// err.
func Unstarted(err error) error { return &unstarted{err} }

type unstarted struct{ error }

func (u *unstarted) Unwrap() []error { return []error{u.error, Skip} }

// Worded returns an error with a text for people, and the causes that errors.Is
// and errors.As find behind it.
func Worded(text string, causes ...error) error { return &worded{text, causes} }

type worded struct {
	text   string
	causes []error
}

func (w *worded) Error() string   { return w.text }
func (w *worded) Unwrap() []error { return w.causes }

// OutcomeOf returns the outcome that a handler's error stands for.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case errors.Is(err, Skip):
		return Skipped
	case errors.Is(err, Accepted):
		return HandedOver
	case errors.As(err, new(*rejection)):
		return Rejected
	}
	return Errored
}

// A handlerFault is an error that ends a pass and is not the store's.
type handlerFault struct{ error }

func (f handlerFault) Unwrap() error { return f.error }

// IsHandlerFault reports whether the error with which a pass has ended is the handler's, and
// not the store's.
func IsHandlerFault(err error) bool { return errors.As(err, new(handlerFault)) }
