package backlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// An Engine runs passes: it selects pending records from a Store, hands them
// to a Handler and settles the outcomes. Store and Handler are required, the
// zero value of every other field is a default. The fields must not be changed
// after the first call of Pass or Replace. An Engine may run several passes at
// once; they share its limits, and no record is in two of them at a time.
//
// It guarantees at-least-once processing: Succeeded is written only when the
// handler returned nil, and a crash at any point leaves every record either
// settled or pending. After a crash at most [MaxGroup] records that were
// already handled are handled again, and none that a [SettlingHandler] has
// settled.
type Engine struct {
	Store   Store
	Handler Handler

	Concurrency int           // handler calls at a time, over all passes; 0: 1
	Timeout     time.Duration // of one handler call; 0: none
	MaxRecords  int           // per pass; 0: no cap
	AbortAfter  int           // consecutive failures that end a pass; 0: never
	Rate        float64       // handler calls started per second, over all passes; 0: no limit
	MaxPause    time.Duration // bound on the pauses handlers ask for; 0: one hour

	Policy *Policy        // nil: progressive
	Random func() float64 // uniform in [0, 1), for jitter; may be called concurrently; nil: math/rand/v2

	// OnDead is called with every record just before it gets the dead
	// status, at least once: Reason and Error of the record say why. What it
	// returns is only told. Nil: none. The store must have a dead status.
	OnDead        Handler
	OnDeadTimeout time.Duration // of one call of it; 0: none

	// ShutdownTimeout is how long running handlers may go on after the
	// pass's context is done; 0: 30 s.
	ShutdownTimeout time.Duration
	// Hard, when closed, ends running handlers at once.
	Hard <-chan struct{}

	Now     func() time.Time // nil: time.Now
	Observe func(Event)      // nil: none; may be called concurrently, must return soon

	once     sync.Once
	*shared  // with the engine it replaces
	attempts atomic.Uint64
	retired  atomic.Bool // another has taken its place
	prefix   string
}

func (e *Engine) init() {
	e.once.Do(func() {
		if e.Concurrency <= 0 {
			e.Concurrency = 1
		}
		if e.MaxPause <= 0 {
			e.MaxPause = time.Hour
		}
		if e.ShutdownTimeout <= 0 {
			e.ShutdownTimeout = 30 * time.Second
		}
		if e.Now == nil {
			e.Now = time.Now
		}
		if e.Random == nil {
			e.Random = mrand.Float64
		}
		if e.Observe == nil {
			e.Observe = func(Event) {}
		}
		if e.shared == nil { // else that of the engine it replaces
			e.shared = newShared()
		}
		e.limit(e.Concurrency, e.Rate)
		var b [8]byte
		rand.Read(b[:]) // never fails
		e.prefix = hex.EncodeToString(b[:]) + "-"
	})
}

// Replace makes e take the place of old, whose passes under way go on: no
// record is handled by both, e's Concurrency and Rate are from now on those of
// both together, and a pause that was asked for, the rows that the database
// refuses and what is known of its being away are e's too. It must be called before the first Pass of e; both must
// work on the same table.
func (e *Engine) Replace(old *Engine) {
	old.init()
	e.shared = old.shared
	e.init()
}

// Retire ends the passes under way as soon as their running handlers have
// ended, however long those take: nothing more is handed out, and the reports
// say StoppedReload. It ends a pause as well. Passes that begin later end at
// once.
func (e *Engine) Retire() {
	e.init()
	e.retired.Store(true)
	e.shared.retire(e)
}

// Finish is to be called before the end of a process in which a pass may have
// lost its lock. Such a pass keeps the outcomes that it could not write and does
// not return before the store takes them; from now on it has ShutdownTimeout for
// that. Finish returns when no pass is under way, also of the engines that this
// one has replaced.
func (e *Engine) Finish() {
	e.init()
	e.shared.finish()
}

// A Pass is one process_backlog(MaxAge).
type Pass struct {
	Tier   string        // label in records, reports and events
	MaxAge time.Duration // records inserted at or after Now-MaxAge
	Widest bool          // the widest tier's: expires what is older, takes rows whose missing date counts as oldest
	Now    time.Time     // zero: read from the engine's clock
	Resume Resume        // from the Report of the tier's last pass
}

// Pass selects the pending records of the given age, the fresh before the
// failed, hands each once to the handler and settles the outcomes. When ctx is
// done it selects nothing more, lets running handlers finish for
// ShutdownTimeout, or less if its cause is a [LostLock], and settles what has
// finished; that is no error. A store that is away then is waited for as long
// again, after a LostLock until [Engine.Finish] is called. The report is valid also when an error is returned: the store failed for good, or the
// outcomes counted in Report.Unwritten could not be written.
func (e *Engine) Pass(ctx context.Context, p Pass) (Report, error) {
	e.init()
	e.begin()
	defer e.end()
	if p.Now.IsZero() {
		p.Now = e.Now()
	}
	began := e.Now()
	r := newRun(ctx, e, p)
	begun := r.report
	e.emit(Event{Kind: PassStarted, Tier: p.Tier, Report: &begun})
	r.do()
	r.report.Duration = max(0, e.Now().Sub(began))
	e.emit(Event{Kind: PassEnded, Tier: p.Tier, Report: &r.report, Err: r.err})
	return r.report, r.err
}

func (e *Engine) emit(ev Event) {
	if ev.At.IsZero() {
		ev.At = e.Now()
	}
	tell(e.Observe, ev)
}

// attemptID returns an id that no other attempt of any process has.
func (e *Engine) attemptID() string {
	return e.prefix + strconv.FormatUint(e.attempts.Add(1), 36)
}

// call runs a handler on one record.
func (e *Engine) call(ctx context.Context, h Handler, timeout time.Duration, rec *Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, timeoutError{timeout})
		defer cancel()
	}
	if err = h.Handle(ctx, rec); err != nil {
		_ = err.Error() // a nil pointer that is an error panics here
		err = nameTimeout(ctx, err)
	}
	return err
}

// A timeoutError is the cause for which a handler's context ends after
// [Engine.Timeout]. It is a context.DeadlineExceeded that says how long.
type timeoutError struct{ after time.Duration }

func (t timeoutError) Error() string { return fmt.Sprintf("timed out after %v", t.after) }

func (t timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// nameTimeout returns the handler's error so that it names the timeout, if that
// is what ended ctx and err says no more than that a deadline was exceeded.
func nameTimeout(ctx context.Context, err error) error {
	var cause timeoutError
	if !errors.As(context.Cause(ctx), &cause) || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(timeoutError)) {
		return err
	}
	if err == context.DeadlineExceeded {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err) // it may be a rejection, too
}

// pauseFor keeps every pass from starting handler calls if err asks for it.
func (e *Engine) pauseFor(err error) {
	p := (*pauseRequest)(nil)
	if !errors.As(err, &p) {
		return
	}
	until := e.Now().Add(min(max(0, p.wait), e.MaxPause))
	for {
		old := e.pause.Load()
		if until.UnixNano() <= old {
			return
		}
		if e.pause.CompareAndSwap(old, until.UnixNano()) {
			e.emit(Event{Kind: Paused, At: until, Err: err})
			return
		}
	}
}

// paused returns how long calls are to be held back.
func (e *Engine) paused() time.Duration {
	until := e.pause.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Unix(0, until).Sub(e.Now()))
}

// sleep waits for d and reports whether ctx was not done before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
