package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// A gate says when a handler may be called. All passes of an engine go through
// it; [run.enter] is the only place that asks.
type gate struct {
	slots *semaphore.Weighted // running handlers
	room  *semaphore.Weighted // records dispatched and not yet settled, by their weight
	least int64               // weight of the smallest record
	pace  *rate.Limiter       // nil: no limit
	pause atomic.Int64        // unix nanoseconds before which no call starts

	running atomic.Int64 // handler calls under way
}

func newGate(concurrency int, perSecond float64) *gate {
	records := max(MaxGroup, int64(concurrency))
	g := &gate{
		slots: semaphore.NewWeighted(int64(concurrency)),
		least: recordMemory / 2 / records,
	}
	g.room = semaphore.NewWeighted(g.least * records)
	if perSecond > 0 {
		// Bursts of ten milliseconds' worth: exact at low rates, not
		// bound by timer resolution at high ones.
		g.pace = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/100)))
	}
	return g
}

// weigh returns the share of the room that the record takes: its bytes, at least what
// lets no more records in than may be unsettled, at most all of it.
func (g *gate) weigh(r *Record) int64 {
	return min(max(int64(r.bytes()), g.least), recordMemory/2/g.least*g.least)
}

// enter waits until a handler may be called, takes the slot for it, and returns the time
// then. ok is false when nothing more is to be dispatched. now is the present time, zero
// if it is to be read.
func (r *run) enter(now time.Time) (began time.Time, ok bool) {
	g := r.e.gate
	if r.stop.Err() != nil || !g.slots.TryAcquire(1) {
		if g.slots.Acquire(r.stop, 1) != nil {
			return now, false
		}
		now = time.Time{}
	}
	if now.IsZero() {
		now = r.e.Now()
	}
	if r.closedFor(now) == 0 && (g.pace == nil || g.pace.Allow()) {
		return now, true
	}
	// One of the pass waits for all: a slot and a turn of the rate for each
	// of them would keep another pass waiting for as many turns.
	g.slots.Release(1)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-r.stop.Done():
		return now, false
	}
	if g.slots.Acquire(r.stop, 1) != nil {
		return now, false
	}
	if !r.waitForTurn() {
		g.slots.Release(1)
		return now, false
	}
	return r.e.Now(), true
}

// waitForTurn waits until the gate is open and the rate allows a call: by its
// reservations, the passes take turns.
func (r *run) waitForTurn() bool {
	g := r.e.gate
	for {
		for wait := r.closedFor(r.e.Now()); wait > 0; wait = r.closedFor(r.e.Now()) {
			if !Sleep(r.stop, wait) {
				return false
			}
		}
		if r.stop.Err() != nil || g.pace == nil {
			return r.stop.Err() == nil
		}
		turn := g.pace.Reserve()
		wait := turn.Delay()
		if wait <= 0 {
			return true
		}
		if !Sleep(r.stop, wait) {
			turn.Cancel()
			return false
		}
		if r.closedFor(r.e.Now()) == 0 { // else what was found before is no longer true
			return r.stop.Err() == nil
		}
	}
}

// closedFor returns how long the gate stays closed at least: there is a pause, the
// lock has not been seen for long, outcomes cannot be written, or the store has
// not answered. A record is dispatched only when its outcome should find
// somebody to take it.
func (r *run) closedFor(now time.Time) time.Duration {
	e := r.e
	if pause := e.gate.pause.Load() - now.UnixNano(); pause > 0 {
		return time.Duration(pause)
	}
	if !r.lock.recent() || e.settler.isStuck(now) {
		return 50 * time.Millisecond
	}
	if e.health.failing.Load() > 0 { // those who try again will tell when the store is back
		return 100 * time.Millisecond
	}
	heard := e.health.heard.Load()
	age := now.UnixNano() - heard
	if age < 0 { // now was read before, or the clock was set back
		age = e.Now().UnixNano() - heard
	}
	if age >= 0 && age < int64(contactEvery) {
		return 0
	}
	if err := e.persist(r.stop, func() error { return e.ping(r.stop) }); err != nil {
		r.failUnlessStopped(err)
		return 100 * time.Millisecond
	}
	return 0
}

// handlerOpens waits until the handler takes records. Late outcomes are settled while it
// waits. waited says that rows that were read before may have changed; ok is false when
// nothing more is to be dispatched.
func (r *run) handlerOpens() (waited, ok bool) {
	h, ok := r.e.Handler.(ClosingHandler)
	if !ok {
		return false, true
	}
	for {
		wait, err := h.Closed(r.stop)
		if r.stop.Err() != nil {
			return waited, false
		}
		if err != nil {
			r.fail(handlerFault{fmt.Errorf("the handler cannot be started: %w", err)})
			return waited, false
		}
		if wait <= 0 {
			return waited, true
		}
		waited = true
		if !Sleep(r.stop, min(wait, collectEvery)) {
			return waited, false
		}
		_ = r.e.Collect(r.stop)
	}
}

// errPause is the cause for which passes end in a pause that somebody asked for.
var errPause = errors.New("pause")

const (
	pauseEvery   = time.Second // how often Engine.Paused is asked
	collectEvery = time.Second // how often a handler is asked for late outcomes
)

func (e *Engine) isPaused() bool { return e.Paused != nil && e.Paused() }

// heedPause ends the walk when a pause begins.
func (r *run) heedPause(over context.Context) {
	for r.e.Paused != nil && Sleep(over, pauseEvery) {
		if r.e.Paused() {
			r.endWalk(errPause)
			return
		}
	}
}

// pauseFor keeps every pass from starting handler calls if err asks for it.
func (e *Engine) pauseFor(err error) {
	wait, asks := PauseOf(err)
	if !asks {
		return
	}
	until := e.Now().Add(min(wait, e.MaxPause))
	for old := e.gate.pause.Load(); old < until.UnixNano(); old = e.gate.pause.Load() {
		if e.gate.pause.CompareAndSwap(old, until.UnixNano()) {
			e.emit(Event{Kind: Paused, At: until, Err: err})
			return
		}
	}
}

// health is what is known of the store's.
type health struct {
	heard   atomic.Int64 // when it last answered, in unix nanoseconds
	failing atomic.Int64 // how many callers try again because it is unavailable
	logged  atomic.Bool  // that it is unavailable
	broken  atomic.Bool  // a probe has found it broken, which only a probe clears
}

// contactEvery is how long a sign of life of the store is good for: together
// with contactTimeout no record is dispatched later than two seconds after the
// store went away.
const (
	contactEvery   = time.Second
	contactTimeout = time.Second
)

// storeAnswered notes a sign of life. While another call still fails the store
// is not back: it can answer reads and take no writes.
func (e *Engine) storeAnswered() {
	h := &e.health
	h.heard.Store(e.Now().UnixNano())
	if h.logged.Load() && h.failing.Load() == 0 && !h.broken.Load() && h.logged.CompareAndSwap(true, false) {
		e.emit(Event{Kind: StoreBack})
	}
}

// storeFails notes that a call fails because the store is unavailable, until
// health.failing is counted down again.
func (e *Engine) storeFails(err error) {
	e.health.failing.Add(1)
	if e.health.logged.CompareAndSwap(false, true) {
		e.emit(Event{Kind: StoreUnavailable, Err: err})
	}
}

// askAgain asks a store that was unavailable whether it is back, where nothing
// else does: what found it unavailable may have been stopped.
func (e *Engine) askAgain(ctx context.Context) {
	e.init()
	if e.health.logged.Load() && e.health.failing.Load() == 0 && e.ping(ctx) == nil {
		e.storeAnswered()
	}
}

// ping asks for a sign of life. Whatever goes wrong, the store is unavailable.
func (e *Engine) ping(ctx context.Context) error {
	p, ok := e.Store.(Pinger)
	if !ok {
		return nil
	}
	err := answers(ctx, contactTimeout, p.Ping)
	if err != nil && !isUnavailable(err) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// probeTimeout is how long a probe waits: another program may lock the store for seconds. It
// is longer than a store waits for a lock, so that the store can say what is in the way.
const probeTimeout = 12 * time.Second

// Probe asks the store whether passes could work on it, for up to twelve seconds, and returns
// why they could not. What passes do not notice while none runs is so in the events: that the
// store is unavailable, or its table gone, and that it is back.
func (e *Engine) Probe(ctx context.Context) error {
	e.init()
	p, ok := e.Store.(Prober)
	if !ok {
		return nil
	}
	err := askFor(ctx, p)
	switch {
	case err == nil:
		e.health.broken.Store(false)
		e.storeAnswered()
	case ctx.Err() != nil: // that says nothing
	default:
		e.health.broken.Store(!isUnavailable(err))
		if e.health.logged.CompareAndSwap(false, true) {
			e.emit(Event{Kind: StoreUnavailable, Err: err})
		}
	}
	return err
}

// askFor asks again while the store is unavailable, and returns the last of its own reasons.
func askFor(ctx context.Context, p Prober) (why error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		err := guard(func() error { return p.Probe(ctx) })
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			why = err
			if !isUnavailable(err) {
				return why
			}
		}
		if !Sleep(ctx, time.Second) {
			return cmp.Or(why, fmt.Errorf("%w: no answer within %v", ErrUnavailable, probeTimeout))
		}
	}
}

// persist calls f until it returns anything but an error that wraps ErrUnavailable,
// ctx is done, or the engine's patience is used up: then it returns the last such
// error, which says why. The pauses between the calls grow to five seconds.
func (e *Engine) persist(ctx context.Context, f func() error) error {
	return e.persistUnless(ctx, e.endsAtOnce, f)
}

// endsAtOnce reports whether a call with the error is not worth another one.
func (e *Engine) endsAtOnce(err error) bool {
	return e.Patience > 0 && errors.Is(err, ErrNoWrites) || e.impatient.Load()
}

// persistSettling is persist for a call that outcomes wait for: these are worth the whole
// patience.
func (e *Engine) persistSettling(ctx context.Context, f func() error) error {
	return e.persistUnless(ctx, func(error) bool { return e.impatient.Load() }, f)
}

// persistUnless is persist where ends says which errors are not worth another call.
func (e *Engine) persistUnless(ctx context.Context, ends func(error) bool, f func() error) (err error) {
	var away error
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err = guard(f)
		if err == nil || !isUnavailable(err) || ctx.Err() != nil || ends(err) {
			break
		}
		if e.Patience > 0 && time.Since(began) >= e.Patience {
			e.impatient.Store(true)
			break
		}
		if away == nil {
			e.storeFails(err)
		}
		away = err
		if !Sleep(ctx, pause) {
			break
		}
	}
	if away != nil {
		e.health.failing.Add(-1)
	}
	switch {
	case err == nil, errors.Is(err, ErrLocked):
		e.storeAnswered()
	case ctx.Err() != nil && away != nil && !isUnavailable(err):
		return away // that the call was cut short says nothing
	}
	return err
}

// ask is [Engine.persist] for a call that has a result.
func ask[T any](ctx context.Context, e *Engine, f func() (T, error)) (result T, err error) {
	err = e.persist(ctx, func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// answers calls f, which has so long to answer.
func answers(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	err := guard(func() error { return f(ctx) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// guard makes an error of f's panic: the store is another's code.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the store: %v", p)
		}
	}()
	return f()
}

func isUnavailable(err error) bool { return errors.Is(err, ErrUnavailable) }
