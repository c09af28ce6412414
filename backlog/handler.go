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
// It returns nil for a success, any error for a failure that the schedule tries
// again, [Reject] for a failure that must not be tried again, [Skip] to leave the
// row as it was, [Snooze] to leave it and be given it again later, [RetryAfter] for a
// failure after which no handler is called for a while, and [Unstarted] if it cannot work
// at all. A panic counts as an error.
//
// Handle may be called concurrently, but not twice at a time for the same
// record. It must return soon after ctx is done. Nil then means that the work was
// done, and is settled as a success. An error is a failure if Engine.Timeout ended
// ctx, and no attempt if a stop did. An attempt is repeated when a crash comes
// between its end and its settlement. The repetition has another AttemptID, so that
// handlers that must not act twice go by the record's Key or a key of their own.
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
//   - [TrialHandler] can do its work and undo it again
type Handler interface {
	Handle(ctx context.Context, r *Record) error
}

// A HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, r *Record) error

// Handle calls f(ctx, r).
func (f HandlerFunc) Handle(ctx context.Context, r *Record) error { return f(ctx, r) }

// Killed returns a channel that is closed when every program that a handler has
// started must be dead: another process may begin with its records, or a second
// signal has asked for the stop. ctx is done by then. A handler that starts programs
// ends them when ctx is done, and kills them when Killed is closed or its own patience
// is over. The channel is nil if ctx is not an engine's.
func Killed(ctx context.Context) <-chan struct{} { return killedOf(ctx).Done() }

// killedKey is the context key of the context whose end Killed returns.
type killedKey struct{}

func killedOf(ctx context.Context) context.Context {
	if killed, ok := ctx.Value(killedKey{}).(context.Context); ok {
		return killed
	}
	return context.Background()
}

// withKill returns a child of ctx that is killed when ctx is, or kill is called. killed is what
// its [Killed] is made of.
func withKill(ctx context.Context) (child, killed context.Context, kill context.CancelFunc) {
	killed, kill = context.WithCancel(killedOf(ctx))
	return context.WithValue(ctx, killedKey{}, killed), killed, kill
}

// A SettlingHandler is a [Handler] that settles a success in the transaction of its work, so
// that a success happens exactly once. The engine calls HandleAndSettle instead of Handle, and
// under the same rules.
type SettlingHandler interface {
	Handler
	// HandleAndSettle does what Handle does, and has written the success when it
	// returns nil. now is the engine's clock. After an error nothing has been written
	// or, if the connection broke at commit, that is unknown; the engine then settles as
	// usual. An error that wraps [ErrConflict] says that another program has changed the
	// row, and is counted as that. An error that wraps [ErrUnavailable] is no attempt: the
	// call is made again with the same record when the store answers, at most twice. Then
	// the row is left as it was.
	HandleAndSettle(ctx context.Context, r *Record, now func() time.Time) error
}

// A ClosingHandler is a [Handler] that takes no records at times. The engine claims no records
// while the handler is closed. If a record waited inside the handler instead, a late outcome
// of its previous attempt could not be settled.
type ClosingHandler interface {
	Handler
	// Closed returns for how long the handler takes no record, at least; 0: it takes one
	// now. It is called before records are claimed, and again after the time it returned or
	// a second, whichever is shorter. An error ends the pass.
	Closed(ctx context.Context) (time.Duration, error)
}

// A ReadyChecker is a [Handler] that may be unable to take any record. Under the refresh
// policy the engine asks it before it writes the start of an attempt, so that no attempt is
// lost. Without it, and under other policies, Handle returns [Unstarted].
type ReadyChecker interface {
	Handler
	// Ready returns why no record can be taken, nil if one can. After an error the record is
	// left as it was, and the pass ends with the error. It is called concurrently, once for
	// each record.
	Ready(ctx context.Context) error
}

// A Collector is a [Handler] that returns [Accepted] and receives the outcomes later. The
// engine asks at the beginning of each pass, and a [Loop] every second; one call at a
// time.
type Collector interface {
	Handler
	// Collect passes the answers received since the last call to resolve, and returns when
	// there are no more. resolve is [Engine.Resolve]. Answers need to be passed again only
	// if its second result is an error. An error of Collect ends nothing: it is called again.
	Collect(ctx context.Context, resolve func(context.Context, []Answer) ([]error, error)) error
}

// A LateCollector is a [Handler] that receives outcomes for which no call of Handle waits any
// more, as after a restart. The engine asks for them when it would ask a [Collector], and while a
// [ClosingHandler] is closed. It does not ask a Handler that is also a Collector.
type LateCollector interface {
	Handler
	// CollectLate passes records to settle, at most [MaxGroup] in a call, with an answer for
	// each, whose UID is ignored. settle writes each outcome whose row is still as
	// the record says. It returns an error for each, nil if it is written. An error that wraps
	// [ErrUnavailable] says that another attempt of the record is under way: pass it again
	// later. After any other error, such as [ErrConflict], the outcome is obsolete. The second
	// result of settle says that nothing is known of any outcome. An error of CollectLate ends
	// nothing: it is called again.
	CollectLate(ctx context.Context, settle func(context.Context, []Record, []Answer) ([]error, error)) error
}

// A ConfiguredHandler is a [Handler] that the program makes from its configuration file. It
// is an [io.Closer] if there is something to close at the end.
type ConfiguredHandler interface {
	Handler
	// Prepare returns what is wrong with the settings and the files that they name. It is
	// called before all other methods, and uses no network, so that the program starts while
	// a service is down.
	Prepare() error
	// Check returns why no record could be handled now. It may use the network, and changes
	// nothing.
	Check(ctx context.Context) error
	// Describe returns what the handler says of itself.
	Describe() Description
}

// A Description is what a [ConfiguredHandler] says of itself. A zero field says nothing.
type Description struct {
	MaxConcurrency int           // how many calls at a time do work, further ones wait; 0: no limit
	MaxPause       time.Duration // the longest pause that it can ask for, [Engine.MaxPause]
	Columns        []string      // the columns that it uses by name
	Checked        string        // what a Check without an error has shown
	Notes          []string      // warnings about settings that Check accepts; a cure follows "; "
}

// A TrialHandler is a [Handler] that can do its work and undo it again. `backlog check --sample`
// calls Try instead of Handle.
type TrialHandler interface {
	Handler
	// Try does what Handle does, and undoes it. The row is not settled.
	Try(ctx context.Context, r *Record) error
}

// maxExchange is how many bytes of each side of an exchange are logged, without the ellipsis.
const maxExchange = 2<<10 - len("…")

// LogExchange logs at DEBUG what a handler sent for r and what it got back, the
// beginning of each. exchange returns both, without secrets. It is not called if
// DEBUG is off or log is nil.
func LogExchange(ctx context.Context, log *slog.Logger, r *Record, exchange func() (sent, got string)) {
	if log == nil || !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	sent, got := exchange()
	args := []any{"attempt_id", r.AttemptID, "id", r.Key.String()}
	if id := r.TraceID(); id != "" {
		args = append(args, "trace_id", id)
	}
	args = append(args, "sent", Beginning(sent, maxExchange), "got", Beginning(got, maxExchange))
	log.DebugContext(ctx, "exchange", args...)
}

// Beginning returns at most that many bytes of a text, as valid UTF-8, and an
// ellipsis if the text is longer.
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
	HandedOver                // the outcome comes later; refresh policy only
	Snoozed                   // not an attempt; the record is not tried before a time that the handler says
)

// outcomes are the names of outcomes.
var outcomes = [...]string{
	Succeeded:  "success",
	Errored:    "error",
	Rejected:   "reject",
	Skipped:    "skip",
	HandedOver: "accepted",
	Snoozed:    "snooze",
}

// String returns the outcome's word: "success", "error", "reject", "skip", "accepted" or "snooze".
func (o Outcome) String() string { return outcomes[o] }

// Target returns the state that a settlement of the outcome reaches, unless the policy gives
// the record up. RowOther says that the outcome ends no attempt.
func (o Outcome) Target() RowState {
	switch o {
	case Succeeded:
		return RowSuccess
	case Errored:
		return RowError
	case Rejected:
		return RowDead
	}
	return RowOther
}

// CountsAttempt reports whether the outcome ends an attempt that counts.
func (o Outcome) CountsAttempt() bool { return o != Skipped && o != Snoozed }

// Skip is returned by a Handler that made no attempt: the row is left exactly
// as it was. An error that wraps it means the same.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Skip
var Skip = errors.New("skipped")

// Reject returns an error that says that the record can never succeed. The record
// gets the dead status, or the error status if no dead one is configured. It wraps
// err; Reject(nil) is a rejection without a reason.
func Reject(err error) error { return &rejection{cmp.Or(err, errors.New("rejected"))} }

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// RetryAfter returns an error by which a handler asks for a pause: the engine
// starts no handler call before wait has passed, at most [Engine.MaxPause]. The
// outcome of the record is an error. It wraps err.
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

// MaxSnooze is the longest snooze. A longer one is shortened to it.
const MaxSnooze = 366 * 24 * time.Hour

// Snooze returns an error by which a handler that made no attempt says when to come back: the
// record is not tried before wait has passed, at most [MaxSnooze], and no attempt is counted.
// If wait is 0 or less it is a [Skip]. It wraps err; nil: "snoozed for" that long.
//
// Where the store keeps it, see [Snoozer], every process keeps to it, also after a restart.
// Otherwise this process does, for 100,000 records at a time.
func Snooze(wait time.Duration, err error) error { return SnoozeTime{For: wait}.Snooze(err) }

// SnoozeUntil is [Snooze] until a time. One that has passed is a Skip.
func SnoozeUntil(at time.Time, err error) error { return SnoozeTime{Until: at}.Snooze(err) }

// Snooze returns what [Snooze] or [SnoozeUntil] returns.
func (t SnoozeTime) Snooze(err error) error {
	return &snoozeRequest{cmp.Or(err, errors.New("snoozed "+t.String())), t}
}

type snoozeRequest struct {
	error
	time SnoozeTime
}

func (s *snoozeRequest) Unwrap() error { return s.error }

// SnoozeOf returns the snooze that a handler's error asks for, and whether it asks for one.
func SnoozeOf(err error) (t SnoozeTime, asks bool) {
	if s, ok := errors.AsType[*snoozeRequest](err); ok {
		return s.time, true
	}
	return t, false
}

// Unstarted returns an error by which a handler says that it could not even
// begin: the fault is in the handler, not in the record. The row is left as it was,
// as after [Skip], and the pass ends with the error. It wraps err.
func Unstarted(err error) error { return &unstarted{err} }

type unstarted struct{ error }

func (u *unstarted) Unwrap() []error { return []error{u.error, Skip} }

// Worded returns an error with a text for people. errors.Is and errors.As find
// its causes.
func Worded(text string, causes ...error) error { return &worded{text, causes} }

type worded struct {
	text   string
	causes []error
}

func (w *worded) Error() string   { return w.text }
func (w *worded) Unwrap() []error { return w.causes }

// OutcomeOf returns the outcome that a handler's error stands for.
func OutcomeOf(err error) Outcome {
	snooze, snoozes := SnoozeOf(err)
	switch {
	case err == nil:
		return Succeeded
	case snoozes && !snooze.isNone():
		return Snoozed
	case snoozes, errors.Is(err, Skip):
		return Skipped
	case errors.Is(err, Accepted):
		return HandedOver
	case errors.As(err, new(*rejection)):
		return Rejected
	}
	return Errored
}

// A handlerFault is an error of the handler that ends a pass.
type handlerFault struct{ error }

func (f handlerFault) Unwrap() error { return f.error }

// IsHandlerFault reports whether the error with which a pass has ended is the handler's,
// and not the store's.
func IsHandlerFault(err error) bool { return errors.As(err, new(handlerFault)) }
