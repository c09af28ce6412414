// Package backlog processes the pending records of a table: it hands each to a
// [Handler], writes the outcome back, and retries failed ones less often as they
// age.
//
// An [Engine] runs one pass over a [Store]. It selects the pending records up to
// an age, the fresh before the failed, and settles each when its handler has
// ended. A [Loop] runs passes at the ticks of a schedule, see package
// backlog/tiers. A [Policy] decides which failed records are due, in addition to
// their age; package backlog/backlog/retry has policies by name.
//
// A Store has two methods. Package backlog/backlog/table implements it over a
// table of an SQL database, and package backlog/backlog/memory for tests.
//
// Processing is at least once. Success is written only if the handler returned
// nil, and a crash at any moment leaves each record either settled or pending.
// One Engine never handles a record twice at a time. Between processes the
// [RunLock] prevents that: a Loop with a [Locker] takes it, and a program that
// calls [Engine.Pass] itself takes it with [WaitLock].
//
// The package reads no files and no environment, and logs only what handlers
// exchange, with [LogExchange]. All events go to the function Observe, and the
// time comes from the function Now.
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
// after the first call of a method. An Engine may run several passes at once:
// they share its limits, and no record is in two of them at a time.
//
// It guarantees at-least-once processing: Succeeded is written only if the
// handler returned nil, and a crash at any moment leaves every record either
// settled or pending. After a crash at most [MaxGroup] records that were
// handled before are handled again, or Concurrency if that is more. None of
// them is one that a [SettlingHandler] has settled.
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
	// status, at least once, and only once by one process. Reason and Error of the
	// record say why. A [Rehearser] is asked first whether the row takes the status.
	// An error of OnDead is an event, OnDeadFailed, and the record becomes dead in spite
	// of it. Nil: none. The store must have a dead status.
	OnDead        Handler
	OnDeadTimeout time.Duration // of one call of it; 0: none

	// Traceparent returns [Record.Traceparent] for an attempt, of the handler or OnDead, on a
	// record that has its AttemptID, by [Traceparent] for example. It may be called
	// concurrently. Nil: records have no traceparent.
	Traceparent func(*Record) string

	// Paused reports whether nothing may be dispatched for now. It is called before the
	// first record of a pass and every second. When it returns true the pass ends. Nil:
	// never paused.
	Paused func() bool

	// Patience is how long a pass waits for a store that is unavailable. Then it ends with
	// an error, and gives up the outcomes that are not written yet. A store that takes no
	// writes, [ErrNoWrites], ends the pass at once if there is no such outcome. 0: it waits
	// until its context is done.
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
	prefix    string // of attempt IDs
	trials    trials
	rehearsed rehearsed

	impatient atomic.Bool // Patience is used up: each call is made once
}

// shared is what an engine passes on to its successor after a reload. All methods may be
// called concurrently.
type shared struct {
	flights *flight.Set
	settler settler
	health  health

	// These are sets of key hashes. refused are the records whose outcome the database did not
	// take: this process does not handle them again. refusedDeaths are the records whose rows
	// do not take the dead status by age. notified are the records for which OnDead was
	// called, and whose death is not written yet.
	refused       *lru.Cache[uint64, struct{}]
	refusedDeaths *lru.Cache[uint64, struct{}]
	notified      *lru.Cache[uint64, struct{}]

	snoozed *snoozes // that no row keeps
}

// maxRemembered bounds the sets of an engine. A table that refuses more rows than this has been
// reporting failures for long.
const maxRemembered = 100_000

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
		if e.shared == nil { // else inherit has set it
			e.shared = &shared{
				flights:       flight.New(),
				refused:       newKeySet(),
				refusedDeaths: newKeySet(),
				notified:      newKeySet(),
				snoozed:       newSnoozes(),
			}
			e.settler.wake = newSignal()
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

// newKeySet returns an empty set of key hashes, which forgets the oldest when it is full.
func newKeySet() *lru.Cache[uint64, struct{}] {
	set, _ := lru.New[uint64, struct{}](maxRemembered) // an error would be a size of 0
	return set
}

// inherit makes e the successor of old, which has no pass under way any more. e writes the
// outcomes that are not written yet, and knows the rows that the database refuses.
func (e *Engine) inherit(old *Engine) {
	old.init()
	e.shared = old.shared
	e.init()
}

// A Pass says what one call of [Engine.Pass] takes: pending records inserted at
// most MaxAge before Now.
type Pass struct {
	Tier   string        // label in records, reports and events
	MaxAge time.Duration // records inserted at or after Now-MaxAge
	Widest bool          // the widest tier's: expires older records, takes rows whose missing date counts as oldest; TierPass sets it
	Now    time.Time     // zero: read from the engine's clock
	Tick   time.Time     // that the pass is for; zero: none
	Resume Resume        // from the Report of the tier's last pass
	Lock   *HeldLock     // that excludes other processes; the pass needs its context, too. nil: none

	cut       context.Context     // done: dispatch nothing more, handlers may go on; nil: the context of Pass
	tried     map[uint64]struct{} // hashes of keys that the pass attempted before a reload interrupted it
	id        uint64              // of a Loop's pass, the same before and after a reload
	tickTiers []string            // the tiers whose ticks a Loop's pass is for

	allDispatched func() // called, perhaps several times, when only running handlers remain; nil: not called
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
// ShutdownTimeout, and settles their outcomes; that is no error. Outcomes are
// written until ShutdownTimeout is over, or for three seconds after the last
// handler has ended if that is later.
//
// If ctx is done because its lock is lost, see [WhileHeld], handlers are ended
// at once. Outcomes that the store does not take within [LockGrace] are
// written after the end of Pass, and nothing is dispatched before that; see
// [Engine.Flush].
//
// The report is valid also with an error, which says that the store failed for good or that
// the outcomes counted in Report.Unwritten could not be written.
func (e *Engine) Pass(ctx context.Context, p Pass) (Report, error) {
	report, _, err := e.pass(ctx, p)
	return report, err
}

// pass is Pass. It also returns the hashes of the keys that were attempted and may still be pending, for
// the pass that goes on after a reload. They are not in the report, because observers keep reports.
func (e *Engine) pass(ctx context.Context, p Pass) (report Report, tried map[uint64]struct{}, err error) {
	e.init()
	p.Now = cmp.Or(p.Now, e.Now())
	p.cut = cmp.Or(p.cut, ctx)
	began := e.Now()
	r := newRun(ctx, e, p)
	started := r.report
	e.emit(Event{Kind: PassStarted, Tier: p.Tier, Report: &started})
	r.do()
	r.mu.Lock()
	r.report.Duration = max(0, e.Now().Sub(began))
	report = r.report
	err = r.err
	r.mu.Unlock()
	e.emit(Event{Kind: PassEnded, Tier: p.Tier, Report: &report, Err: err})
	return report, r.tried, err
}

// finished calls the Finishers: the engine is done with the record.
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

// hash returns what distinguishes the record: its key, or its Origin in a queue, where two
// records may have one key.
func (e *Engine) hash(r *Record) uint64 {
	if e.queue != nil && r.Origin != 0 {
		return NewKey(int64(r.Origin)).Hash()
	}
	return r.Key.Hash()
}

func (e *Engine) emit(ev Event) { observe(e.Observe, e.Now, ev) }

// InFlight returns how many handler calls are under way.
func (e *Engine) InFlight() int {
	e.init()
	return int(e.gate.running.Load())
}

// attemptID returns an id that no other attempt of any process has.
func (e *Engine) attemptID() string {
	id := append(make([]byte, 0, 32), e.prefix...)
	id = strconv.AppendUint(id, e.attempts.Add(1), 32)
	return string(id)
}

// newAttempt gives the record the id and the trace of a new attempt.
func (e *Engine) newAttempt(r *Record) { e.nameAttempt(r, e.attemptID()) }

// nameAttempt gives the record the id of an attempt, and the trace that belongs to it.
func (e *Engine) nameAttempt(r *Record, id string) {
	r.AttemptID = id
	if e.Traceparent != nil {
		r.Traceparent = e.Traceparent(r)
	}
}

// Call calls a handler with one record, within the timeout unless that is 0. A panic becomes an
// error.
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

// nameTimeout adds the timeout to the handler's error, if the timeout ended ctx and the error is
// a context.DeadlineExceeded that does not name it.
func nameTimeout(ctx context.Context, err error) error {
	var cause timeoutError
	timedOut := errors.As(context.Cause(ctx), &cause)
	named := errors.As(err, new(timeoutError))
	if !timedOut || named || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err == context.DeadlineExceeded {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err) // err may also be a rejection
}

// Sleep waits for d, and returns false if ctx is done before.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
