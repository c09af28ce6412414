package backlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// health is what the engine knows of the store's.
type health struct {
	heard   atomic.Int64 // when it last answered, in unix nanoseconds
	failing atomic.Int64 // how many callers try again because it is away
	said    atomic.Bool  // that it is away
}

// contactEvery is how long a sign of life of the store is good for: together
// with contactTimeout no record is handed out later than two seconds after the
// store went away.
const (
	contactEvery   = time.Second
	contactTimeout = time.Second
)

// storeAnswered notes a sign of life. While another call still fails the store
// is not back: it can answer reads and take no writes.
func (e *Engine) storeAnswered() {
	e.health.heard.Store(e.Now().UnixNano())
	if e.health.said.Load() && e.health.failing.Load() == 0 && e.health.said.CompareAndSwap(true, false) {
		e.emit(Event{Kind: StoreBack})
	}
}

// askAgain asks a store that was said to be away whether it is back, where
// nothing else does: what found it away may have been stopped.
func (e *Engine) askAgain(ctx context.Context) {
	e.init()
	if !e.health.said.Load() || e.health.failing.Load() > 0 {
		return
	}
	if p, ok := e.Store.(Pinger); ok && ping(ctx, p) == nil {
		e.storeAnswered()
	}
}

// storeAway notes that a call fails because the store is away, until
// e.health.failing is counted down again.
func (e *Engine) storeAway(err error) {
	e.health.failing.Add(1)
	if e.health.said.CompareAndSwap(false, true) {
		e.emit(Event{Kind: StoreAway, Err: err})
	}
}

// storeRecent reports whether the store has answered within contactEvery of
// the time now, in unix nanoseconds.
func (e *Engine) storeRecent(now int64) bool {
	age := now - e.health.heard.Load()
	return e.health.failing.Load() == 0 && age >= 0 && age < int64(contactEvery)
}

// reachStore returns when the store has shown life within contactEvery, or
// false when ctx is done. A record is handed out only then: its outcome should
// find somebody to take it.
func (e *Engine) reachStore(ctx context.Context) bool {
	pinger, canPing := e.Store.(Pinger)
	for {
		if e.storeRecent(e.Now().UnixNano()) {
			return true
		}
		switch {
		case e.health.failing.Load() > 0: // those who try again will tell
		case !canPing:
			return true
		default:
			if e.persist(ctx, func() error { return ping(ctx, pinger) }) == nil {
				return true
			}
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
}

// ping asks for a sign of life. Whatever goes wrong, the store is away.
func ping(ctx context.Context, p Pinger) error {
	pctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	err := guard(func() error { return p.Ping(pctx) })
	switch {
	case err != nil && pctx.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: no answer within %v", ErrAway, contactTimeout)
	case err != nil && !isAway(err):
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// persist calls f until it returns anything but an error that wraps ErrAway,
// or ctx is done: then it returns the last such error, which says why. The
// pauses between the calls grow to five seconds.
func (e *Engine) persist(ctx context.Context, f func() error) error {
	var away error
	done := func() {
		if away != nil {
			e.health.failing.Add(-1)
		}
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := guard(f)
		if err == nil {
			done()
			e.storeAnswered()
			return nil
		}
		switch {
		case ctx.Err() != nil:
			done()
			if away != nil && !isAway(err) {
				err = away // that the call was cut short says nothing
			}
			return err
		case !isAway(err):
			done()
			return err
		case away == nil:
			e.storeAway(err)
		}
		away = err
		if !sleep(ctx, pause) {
			done()
			return err
		}
	}
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

func isAway(err error) bool { return errors.Is(err, ErrAway) }
