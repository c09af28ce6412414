package backlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// A gate says when a handler may be called. All passes of an engine go through it, and
// [run.enter] alone asks it.
type gate struct {
	slots     *semaphore.Weighted // running handlers
	room      *semaphore.Weighted // records dispatched and not yet settled, by their weight
	minWeight int64               // of the smallest record
	limiter   *rate.Limiter       // nil: no limit
	pause     atomic.Int64        // unix nanoseconds before which no call starts

	running atomic.Int64 // handler calls under way
}

func newGate(concurrency int, perSecond float64) *gate {
	records := max(MaxGroup, int64(concurrency))
	g := &gate{
		slots:     semaphore.NewWeighted(int64(concurrency)),
		minWeight: recordMemory / 2 / records,
	}
	g.room = semaphore.NewWeighted(g.minWeight * records)
	if perSecond > 0 {
		// A burst is ten milliseconds' worth. Low rates are exact, and high ones do not depend
		// on the resolution of timers.
		burst := max(1, int(perSecond/100))
		g.limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
	}
	return g
}

// weigh returns the share of the room that the record takes: its bytes, at least minWeight, so
// that the number of records is bounded, and at most the whole room.
func (g *gate) weigh(r *Record) int64 {
	whole := recordMemory / 2 / g.minWeight * g.minWeight
	return min(max(int64(r.approxBytes()), g.minWeight), whole)
}

// enter waits until a handler may be called, takes a slot for it, and returns the time
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
	if r.closedFor(now) == 0 && (g.limiter == nil || g.limiter.Allow()) {
		return now, true
	}
	// Only one worker of a pass waits with a slot and a reservation of the limiter. If all
	// did, another pass would have to wait behind each of them.
	g.slots.Release(1)
	if !r.waiting.take(r.stop) {
		return now, false
	}
	defer r.waiting.give()
	if g.slots.Acquire(r.stop, 1) != nil {
		return now, false
	}
	if !r.awaitRate() {
		g.slots.Release(1)
		return now, false
	}
	return r.e.Now(), true
}

// awaitRate waits until the gate is open and the limiter allows a call, and returns false if
// the pass is stopped before. The limiter serves reservations in their order, so that passes
// alternate.
func (r *run) awaitRate() bool {
	g := r.e.gate
	for {
		for wait := r.closedFor(r.e.Now()); wait > 0; wait = r.closedFor(r.e.Now()) {
			if !Sleep(r.stop, wait) {
				return false
			}
		}
		if r.stop.Err() != nil || g.limiter == nil {
			return r.stop.Err() == nil
		}
		reservation := g.limiter.Reserve()
		wait := reservation.Delay()
		if wait <= 0 {
			return true
		}
		if !Sleep(r.stop, wait) {
			reservation.Cancel()
			return false
		}
		if r.closedFor(r.e.Now()) == 0 { // else the gate has closed during the wait
			return r.stop.Err() == nil
		}
	}
}

// closedFor returns for how long the gate stays closed, at least. Nothing is dispatched in a
// pause, nor while the lock may be lost or the store cannot take the outcome.
func (r *run) closedFor(now time.Time) time.Duration {
	e := r.e
	if pause := e.gate.pause.Load() - now.UnixNano(); pause > 0 {
		return time.Duration(pause)
	}
	if !r.pass.Lock.isRecent() || e.settler.isStuck(now) {
		return 50 * time.Millisecond
	}
	if e.health.failing.Load() > 0 { // the calls that are retried will find out when the store is back
		return 100 * time.Millisecond
	}
	answered := e.health.answered.Load()
	age := now.UnixNano() - answered
	if age < 0 { // now was read before the answer, or the clock was set back
		age = e.Now().UnixNano() - answered
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

// awaitHandler waits until the handler takes records, and settles late outcomes until
// then. waited says that records read before may have changed. ok is false when nothing more
// is to be dispatched.
func (r *run) awaitHandler() (waited, ok bool) {
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

// errPause is the cause for which passes end when a pause begins.
var errPause = errors.New("pause")

const (
	pauseEvery   = time.Second // how often Engine.Paused is asked
	collectEvery = time.Second // how often a handler is asked for late outcomes
)

func (e *Engine) isPaused() bool { return e.Paused != nil && e.Paused() }

// watchPause stops the dispatch when a pause begins. It returns when done is.
func (r *run) watchPause(done context.Context) {
	for r.e.Paused != nil && Sleep(done, pauseEvery) {
		if r.e.Paused() {
			r.stopDispatch(errPause)
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

// A token is a channel of capacity one that passes between goroutines. As a mutex it is held
// by the goroutine that took it, and a context can end the wait for it. As a signal it is given
// by one side and taken by the other; several gives before a take count as one.
type token chan struct{}

// newSignal returns a token that has not been given yet.
func newSignal() token { return make(token, 1) }

// newMutex returns a token that has been given: the first take gets it.
func newMutex() token {
	t := make(token, 1)
	t.give()
	return t
}

// give makes the token available. It does nothing where that is so already.
func (t token) give() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// take waits for the token, and returns false if ctx is done before.
func (t token) take(ctx context.Context) bool {
	select {
	case <-t:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryTake takes the token if it is available.
func (t token) tryTake() {
	select {
	case <-t:
	default:
	}
}
