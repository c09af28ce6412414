// Package backlog processes records that wait in a table: it hands each to a
// [Handler], writes the outcome back, and retries what failed, less often as it
// ages.
//
// An [Engine] runs one pass over a [Store]: it selects the pending records up
// to an age, the fresh before the failed, and settles each once its handler has
// ended. A [Loop] runs such passes as the ticks of a schedule come; see package
// backlog/tiers. Where age is not to decide alone, a [Policy] does; package
// backlog/backlog/retry has those that are known by name.
//
// A store is two methods. Package backlog/backlog/table has one over a table of
// an SQL database, opened by the program itself or not, and package
// backlog/backlog/memory one for tests.
//
// Processing is at least once: success is written only where the handler
// returned nil, and a crash at any moment leaves each record either settled or
// pending. A record is never handled twice at a time by one Engine; between
// processes that takes the [RunLock], which a Loop takes if it is given a
// [Locker] and which a program that calls [Engine.Pass] itself takes by
// [WaitLock].
//
// Nothing is read from files or the environment, and nothing is logged but what
// handlers exchange, by [LogExchange]. What happens goes to Observe; the time
// comes from the function Now.
package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"backlog/backlog/flight"
	"backlog/tiers"
)

// An Engine runs passes: it selects pending records from a Store, hands them
// to a Handler and settles the outcomes. Store and Handler are required, the
// zero value of every other field is a default. The fields must not be changed
// after the first call of Pass. An Engine may run several passes at
// once; they share its limits, and no record is in two of them at a time.
//
// It guarantees at-least-once processing: Succeeded is written only when the
// handler returned nil, and a crash at any point leaves every record either
// settled or pending. After a crash at most [MaxGroup] records that were
// already handled are handled again, or Concurrency if that is more, and none
// that a handler has settled.
type Engine struct {
	Store   Store
	Handler Handler

	Concurrency int              // handler calls at a time, over all passes; 0: 1
	Timeout     time.Duration    // of one handler call; 0: none
	MaxRecords  int              // per pass; 0: no cap
	AbortAfter  int              // consecutive failures that end a pass; 0: never
	Rate        float64          // handler calls started per second, over all passes; 0: no limit
	MaxPause    time.Duration    // bound on the pauses handlers ask for; 0: one hour
	Policy      *Policy          // nil: progressive
	Random      func() float64   // uniform in [0, 1), for jitter; may be called concurrently; nil: math/rand/v2
	Now         func() time.Time // nil: time.Now
	Observe     func(Event)      // nil: none; may be called concurrently, must return soon

	// OnDead is called with every record just before it gets the dead
	// status, at least once, and once by this process: Reason and Error of the record
	// say why. A [Rehearser] is asked first whether the row takes the status. Its
	// error is an event, OnDeadFailed; the record becomes dead all the same. Nil:
	// none. The store must have a dead status.
	OnDead        Handler
	OnDeadTimeout time.Duration // of one call of it; 0: none

	// Paused reports whether nothing may be dispatched for now. It is asked before
	// the first record of a pass and every second: the pass ends then. Nil: never.
	Paused func() bool

	// Patience is how long a pass waits for a store that is unavailable; then it ends with
	// an error, and gives up the outcomes that wait to be written. Where none waits, a
	// store that takes no writes, [ErrNoWrites], ends it at once. 0: it waits until its
	// context is done.
	Patience time.Duration

	// ShutdownTimeout is how long running handlers may go on after the
	// pass's context is done; 0: 30 s. One nanosecond gives them no time.
	ShutdownTimeout time.Duration
	// Hard, when closed, ends the contexts of running handlers at once and
	// closes [Killed]. A Go function must return by itself.
	Hard <-chan struct{}

	once       sync.Once
	collecting sync.Mutex
	*shared
	gate  *gate
	queue Queue // the store, if it is a queue
	rule  *Rule // of the policy

	finishers []Finisher
	attempts  atomic.Uint64
	prefix    string
	trials    trials
	dying     dying

	impatient atomic.Bool // Patience is used up: each call is made once
}

// shared is what the engines of a process that follow each other by a reload have in
// common. All methods may be called concurrently.
type shared struct {
	flights *flight.Set
	settler settler
	health  health

	// refused are hashes of keys whose outcome the database did not take, so that this
	// process does not repeat the attempt at every tick for ever. undying are likewise those
	// of rows that do not take the dead status by age.
	refused *lru.Cache[uint64, struct{}]
	undying *lru.Cache[uint64, struct{}]

	// told are hashes of keys for which OnDead was called and whose death is not written yet.
	told *lru.Cache[uint64, struct{}]
}

// maxRefused bounds the memory of rows the database refuses; a table that
// refuses more than this has been failing loudly for long.
const maxRefused = 100_000

func (e *Engine) init() {
	e.once.Do(func() {
		e.Concurrency = max(1, e.Concurrency)
		e.MaxPause = cmp.Or(max(0, e.MaxPause), time.Hour)
		e.ShutdownTimeout = cmp.Or(max(0, e.ShutdownTimeout), 30*time.Second)
		if e.Now == nil {
			e.Now = time.Now
		}
		if e.Random == nil {
			e.Random = rand.Float64
		}
		if e.shared == nil { // else it follows another
			e.shared = &shared{flights: flight.New()}
			for _, set := range []**lru.Cache[uint64, struct{}]{&e.refused, &e.undying, &e.told} {
				*set, _ = lru.New[uint64, struct{}](maxRefused) // an error is a size of 0
			}
			e.settler.wake = make(chan struct{}, 1)
		}
		e.gate = newGate(e.Concurrency, e.Rate)
		e.queue, _ = e.Store.(Queue)
		e.rule = e.Policy.Rule()
		for _, x := range []any{e.Handler, e.Store} {
			if f, ok := x.(Finisher); ok {
				e.finishers = append(e.finishers, f)
			}
		}
		e.prefix = fmt.Sprintf("%016x-", rand.Uint64())
	})
}

// follow makes e take the place of old, which has no pass under way any more:
// outcomes that are still to be written, and rows that the database refuses, are
// e's too.
func (e *Engine) follow(old *Engine) {
	old.init()
	e.shared = old.shared
	e.init()
}

// A Pass says what one call of [Engine.Pass] takes: pending records inserted at
// most MaxAge before Now.
type Pass struct {
	Tier   string        // label in records, reports and events
	MaxAge time.Duration // records inserted at or after Now-MaxAge
	Widest bool          // the widest tier's: expires what is older, takes rows whose missing date counts as oldest; TierPass sets it
	Now    time.Time     // zero: read from the engine's clock
	Tick   time.Time     // that it is for; zero: none
	Resume Resume        // from the Report of the tier's last pass

	cut   context.Context     // done: dispatch nothing more, handlers may go on; nil: with the pass's own
	tried map[uint64]struct{} // keys attempted before the cut that this pass goes on after
	id    uint64              // of a Loop's pass, which may go on after a reload
	ticks []string            // the tiers whose ticks a Loop's pass is for

	dispatched func() // called, perhaps often, when nothing is left but running handlers; nil: not
}

// TierPass returns the pass of a tier of the schedule.
func TierPass(s *tiers.Schedule, t tiers.Tier) Pass {
	return Pass{Tier: t.Name, MaxAge: t.MaxAge, Widest: t.MaxAge == s.Widest().MaxAge}
}

// since returns the date of insertion of the oldest records that the pass takes.
func (p *Pass) since() time.Time { return p.Now.Add(-p.MaxAge) }

// Pass selects the pending records of the given age, the fresh before the
// failed, hands each once to the handler and settles the outcomes. When ctx is
// done it selects nothing more, lets running handlers finish for
// ShutdownTimeout, and settles what has finished; that is no error. Outcomes are
// written until ShutdownTimeout is over, or for three seconds after the last handler's end.
//
// If ctx is done because the lock over it is lost, see [WhileHeld], handlers are ended
// at once. Outcomes that the store does not take within [LockGrace] are
// written after the end of Pass, and nothing is dispatched before they are; see
// [Engine.Flush].
//
// The report is valid also when an error is returned: the store failed for good, or the
// outcomes counted in Report.Unwritten could not be written.
func (e *Engine) Pass(ctx context.Context, p Pass) (Report, error) {
	e.init()
	p.Now, p.cut = cmp.Or(p.Now, e.Now()), cmp.Or(p.cut, ctx)
	began := e.Now()
	r := newRun(ctx, e, p)
	begun := r.report
	e.emit(Event{Kind: PassStarted, Tier: p.Tier, Report: &begun})
	r.do()
	r.mu.Lock()
	r.report.Duration = max(0, e.Now().Sub(began))
	report, err := r.report, r.err
	r.mu.Unlock()
	e.emit(Event{Kind: PassEnded, Tier: p.Tier, Report: &report, Err: err})
	return report, err
}

// finished tells handler and store that a record is done with.
func (e *Engine) finished(r *Record, written bool) {
	for _, f := range e.finishers {
		f.Finished(r, written)
	}
}

// release gives a record back to a queue.
func (e *Engine) release(r *Record) {
	if e.queue != nil {
		e.queue.Release(r)
	}
}

// hash tells records apart. A queue gives each of its own once, also two with one key.
func (e *Engine) hash(r *Record) uint64 {
	if e.queue != nil && r.Origin != 0 {
		return NewKey(int64(r.Origin)).Hash()
	}
	return r.Key.Hash()
}

func (e *Engine) emit(ev Event) { tell(e.Observe, e.Now, ev) }

// InFlight returns how many handler calls are under way.
func (e *Engine) InFlight() int {
	e.init()
	return int(e.gate.running.Load())
}

// attemptID returns an id that no other attempt of any process has.
func (e *Engine) attemptID() string {
	return string(strconv.AppendUint(append(make([]byte, 0, 32), e.prefix...), e.attempts.Add(1), 32))
}

// Call runs a handler on one record, within the timeout unless that is 0. A panic is an error.
func Call(ctx context.Context, h Handler, timeout time.Duration, rec *Record) (err error) {
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

// Sleep waits for d and reports whether ctx was not done before.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
