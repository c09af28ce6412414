package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// health is whether the store can be reached, as far as calls have shown.
type health struct {
	answered atomic.Int64 // when the store last answered, in unix nanoseconds
	failing  atomic.Int64 // how many calls are retried because the store is unavailable
	logged   atomic.Bool  // StoreUnavailable was emitted, and StoreBack not since
	broken   atomic.Bool  // a probe found the store broken; only a probe clears it
}

const (
	// contactEvery is how long an answer of the store is good for. Together with contactTimeout
	// it bounds how long after the store became unavailable a record is still dispatched.
	contactEvery   = time.Second
	contactTimeout = time.Second
)

// storeAnswered notes that the store has answered. While another call still fails the store
// is not back: it may answer reads and take no writes.
func (e *Engine) storeAnswered() {
	h := &e.health
	h.answered.Store(e.Now().UnixNano())
	if !h.logged.Load() {
		return
	}
	back := h.failing.Load() == 0 && !h.broken.Load()
	if back && h.logged.CompareAndSwap(true, false) {
		e.emit(Event{Kind: StoreBack})
	}
}

// storeFails notes that a call fails because the store is unavailable. The caller counts
// health.failing down again when it has an answer or makes the call no more.
func (e *Engine) storeFails(err error) {
	e.health.failing.Add(1)
	if e.health.logged.CompareAndSwap(false, true) {
		e.emit(Event{Kind: StoreUnavailable, Err: err})
	}
}

// recheckStore asks a store that was unavailable whether it is back, if no call is being
// retried: the pass that found it unavailable may have been stopped.
func (e *Engine) recheckStore(ctx context.Context) {
	e.init()
	if e.health.logged.Load() && e.health.failing.Load() == 0 && e.ping(ctx) == nil {
		e.storeAnswered()
	}
}

// ping asks the store for an answer. Every error of its says that the store is unavailable.
func (e *Engine) ping(ctx context.Context) error {
	p, ok := e.Store.(Pinger)
	if !ok {
		return nil
	}
	err := callWithin(ctx, contactTimeout, p.Ping)
	if err != nil && !isUnavailable(err) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// probeTimeout is how long a probe may take, because another program may lock the store for
// seconds. A store waits for a lock for a shorter time, and then says what blocks it.
const probeTimeout = 12 * time.Second

// Probe asks the store whether passes could work on it, for up to twelve seconds, and returns
// why not. The events StoreUnavailable and StoreBack follow from the answer, so that trouble
// such as a missing table shows also while no pass runs.
func (e *Engine) Probe(ctx context.Context) error {
	e.init()
	p, ok := e.Store.(Prober)
	if !ok {
		return nil
	}
	err := probe(ctx, p)
	switch {
	case err == nil:
		e.health.broken.Store(false)
		e.storeAnswered()
	case ctx.Err() != nil: // the error says nothing about the store
	default:
		e.health.broken.Store(!isUnavailable(err))
		if e.health.logged.CompareAndSwap(false, true) {
			e.emit(Event{Kind: StoreUnavailable, Err: err})
		}
	}
	return err
}

// probe repeats a probe while the store is unavailable. Its error is the last one that the
// store gave by itself, before the time was over.
func probe(ctx context.Context, p Prober) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var last error
	for {
		err := guard(func() error { return p.Probe(ctx) })
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
			if !isUnavailable(err) {
				return last
			}
		}
		if !Sleep(ctx, time.Second) {
			return cmp.Or(last, fmt.Errorf("%w: no answer within %v", ErrUnavailable, probeTimeout))
		}
	}
}

// persist calls f until it returns nil or an error that does not wrap ErrUnavailable. The
// pauses between the calls grow to five seconds. When ctx is done or the engine's Patience is
// used up, it returns the last error that wraps ErrUnavailable, which says why.
func (e *Engine) persist(ctx context.Context, f func() error) error {
	return e.persistUnless(ctx, e.endsAtOnce, f)
}

// endsAtOnce reports whether a call is not repeated after the error.
func (e *Engine) endsAtOnce(err error) bool {
	return e.Patience > 0 && errors.Is(err, ErrNoWrites) || e.impatient.Load()
}

// persistSettling is persist for a call that writes outcomes. It also uses up the Patience
// where the store takes no writes.
func (e *Engine) persistSettling(ctx context.Context, f func() error) error {
	return e.persistUnless(ctx, func(error) bool { return e.impatient.Load() }, f)
}

// persistUnless is persist where final says after which errors a call is not repeated.
func (e *Engine) persistUnless(ctx context.Context, final func(error) bool, f func() error) error {
	var err, waitedFor error
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err = guard(f)
		if err == nil || !isUnavailable(err) || ctx.Err() != nil || final(err) {
			break
		}
		if e.Patience > 0 && time.Since(began) >= e.Patience {
			e.impatient.Store(true)
			break
		}
		if waitedFor == nil {
			e.storeFails(err)
		}
		waitedFor = err
		if !Sleep(ctx, pause) {
			break
		}
	}
	if waitedFor != nil {
		e.health.failing.Add(-1)
	}
	switch {
	case err == nil, errors.Is(err, ErrLocked):
		e.storeAnswered()
	case ctx.Err() != nil && waitedFor != nil && !isUnavailable(err): // the end of ctx has cut the call short
		return waitedFor
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

// callWithin calls f with a context that ends after the timeout.
func callWithin(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	err := guard(func() error { return f(ctx) })
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// guard returns a panic of f, which calls a store, as an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the store: %v", p)
		}
	}()
	return f()
}

func isUnavailable(err error) bool { return errors.Is(err, ErrUnavailable) }
