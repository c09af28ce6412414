package backlog

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// health is what the engine knows of the store's.
type health struct {
	heard atomic.Int64 // when it last answered, in unix nanoseconds
	away  atomic.Bool
}

// contactEvery is how long a sign of life of the store is good for: together
// with contactTimeout no record is handed out later than two seconds after the
// store went away.
const (
	contactEvery   = time.Second
	contactTimeout = time.Second
)

// storeAnswered notes a sign of life.
func (e *Engine) storeAnswered() {
	e.health.heard.Store(e.Now().UnixNano())
	if e.health.away.CompareAndSwap(true, false) {
		e.emit(Event{Kind: StoreBack})
	}
}

// storeAway notes that a call failed because the store is away.
func (e *Engine) storeAway(err error) {
	if e.health.away.CompareAndSwap(false, true) {
		e.emit(Event{Kind: StoreAway, Err: err})
	}
}

// storeRecent reports whether the store has answered within contactEvery.
func (e *Engine) storeRecent() bool {
	age := e.Now().UnixNano() - e.health.heard.Load()
	return !e.health.away.Load() && age >= 0 && age < int64(contactEvery)
}

// reachStore returns when the store has shown life within contactEvery, or
// false when ctx is done. A record is handed out only then: its outcome should
// find somebody to take it.
func (e *Engine) reachStore(ctx context.Context) bool {
	pinger, canPing := e.Store.(Pinger)
	for {
		if e.storeRecent() || !canPing && !e.health.away.Load() {
			return true
		}
		if canPing {
			pctx, cancel := context.WithTimeout(ctx, contactTimeout)
			err := pinger.Ping(pctx)
			cancel()
			if err == nil {
				e.storeAnswered()
				return true
			}
			if ctx.Err() == nil {
				e.storeAway(err)
			}
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
}

// persist calls f until it returns anything but an error that wraps ErrAway,
// or ctx is done. The pauses between the calls grow to five seconds.
func (e *Engine) persist(ctx context.Context, f func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil {
			e.storeAnswered()
			return nil
		}
		if ctx.Err() != nil || !isAway(err) {
			return err
		}
		e.storeAway(err)
		if !sleep(ctx, pause) {
			return err
		}
	}
}

func isAway(err error) bool { return errors.Is(err, ErrAway) }
