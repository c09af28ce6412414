package backlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is how often a lock that is held is checked.
const checkEvery = 2 * time.Second

// LockGrace is how long after it was last known to be held the work under a
// lock goes on. Who takes a lock that another process has had until now, and
// may not know that it is lost, waits for longer than that before he begins.
const LockGrace = 4 * time.Second

// LostLock returns the cause with which the context of a pass is to be
// cancelled when the lock over it is lost that was last known to be held so
// long ago. It leaves handlers that run the rest of [LockGrace], not the time
// that they have to finish at a stop: another process may begin with their
// records. What they end with is written for as long as the process lives, see
// [Engine.Finish].
func LostLock(known time.Duration) error { return lostLock{max(0, LockGrace-known)} }

type lostLock struct{ grace time.Duration }

func (lostLock) Error() string { return "the lock is lost" }

// lockLost reports whether ctx is done because a lock is lost.
func lockLost(ctx context.Context) bool { return errors.As(context.Cause(ctx), new(lostLock)) }

// timeToEnd returns how long handlers may go on now that ctx is done.
func timeToEnd(ctx context.Context, atStop time.Duration) time.Duration {
	if lost := (lostLock{}); errors.As(context.Cause(ctx), &lost) {
		return min(lost.grace, atStop)
	}
	return atStop
}

// WhileHeld looks after a lock and returns a context that is done when ctx is or
// the lock is lost, which [LostLock] is the cause of then and lost is called with
// why. A pass on that context hands nothing out while it is not known that the
// lock has been held within [LockGrace], as after a sleep of the machine. release
// ends all that; it does not give the lock back.
func WhileHeld(ctx context.Context, l Lock, now func() time.Time, lost func(error)) (held context.Context, release func()) {
	h := &holding{now: now}
	h.known.Store(now().UnixNano())
	ctx, cancel := context.WithCancelCause(ctx)
	ctx = context.WithValue(ctx, holdingKey{}, h)
	var watch sync.WaitGroup
	watch.Go(func() {
		for sleep(ctx, checkEvery) {
			asked := now()
			err := guard(func() error { return l.Check(ctx) })
			if err == nil {
				h.known.Store(asked.UnixNano())
			} else if ctx.Err() == nil {
				cancel(LostLock(h.age())) // before anybody is told, which may take its time
				lost(err)
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// A holding is what is known of a lock.
type holding struct {
	now   func() time.Time
	known atomic.Int64 // when it was last known to be held, in unix nanoseconds
}

// holdingKey is that of a pass's lock in its context.
type holdingKey struct{}

func (h *holding) age() time.Duration { return h.now().Sub(time.Unix(0, h.known.Load())) }

// recent reports whether the lock was held a moment ago, or there is none.
func (h *holding) recent() bool { return h == nil || h.age() < LockGrace }

// A runLock shares one RunLock between the passes of a process.
type runLock struct {
	emit func(Event)
	now  func() time.Time

	mu      sync.Mutex
	waiting chan struct{} // not nil: somebody is taking the lock; closed when done
	held    *heldLock     // may be one that is lost; nil: none
}

// A heldLock is a lock with the passes under it.
type heldLock struct {
	Lock
	holders int             // guarded by the runLock's mutex
	good    context.Context // done: the lock is lost, which is its cause, or given back
	release func()
}

// acquire takes part in the lock, waiting until the process has it, for a pass
// of the engine. locked is done when ctx is or the lock is lost.
func (r *runLock) acquire(ctx context.Context, l Locker, e *Engine, tier string) (locked context.Context, release func(), err error) {
	if l == nil {
		return ctx, func() {}, nil
	}
	h, err := r.join(ctx, l, e, tier)
	if err != nil {
		return nil, nil, err
	}
	locked, cancel := context.WithCancelCause(context.WithValue(ctx, holdingKey{}, h.good.Value(holdingKey{})))
	unhook := context.AfterFunc(h.good, func() { cancel(context.Cause(h.good)) })
	return locked, func() {
		unhook()
		cancel(nil)
		r.leave(h)
	}, nil
}

// join makes the caller a holder of the lock.
func (r *runLock) join(ctx context.Context, l Locker, e *Engine, tier string) (*heldLock, error) {
	for {
		r.mu.Lock()
		if h := r.held; h != nil && h.good.Err() == nil {
			h.holders++
			r.mu.Unlock()
			return h, nil
		}
		if r.waiting == nil {
			break
		}
		c := r.waiting
		r.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	done := make(chan struct{})
	r.waiting = done
	r.mu.Unlock()
	lock, err := r.take(ctx, l, e, tier)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
	close(done)
	if err != nil {
		return nil, err
	}
	h := &heldLock{Lock: lock, holders: 1}
	h.good, h.release = WhileHeld(context.Background(), lock, r.now, func(err error) { r.emit(Event{Kind: LockLost, Err: err}) })
	r.held = h
	return h, nil
}

// leave gives the lock back if the caller is its last holder.
func (r *runLock) leave(h *heldLock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.holders--
	if h.holders > 0 {
		return
	}
	h.release()
	h.Unlock()
	if r.held == h {
		r.held = nil
	}
}

// take takes the lock and says what it waits for.
func (r *runLock) take(ctx context.Context, l Locker, e *Engine, tier string) (Lock, error) {
	e.init()
	var away, locked bool // and said so
	noLongerAway := func() {
		if away {
			away = false
			e.health.failing.Add(-1)
		}
	}
	answered := func() {
		if away {
			noLongerAway()
			e.storeAnswered()
		}
	}
	defer noLongerAway()
	lock, err := WaitLock(ctx, l, RunLock, func(err error) {
		if !isAway(err) {
			answered()
			if !locked {
				locked = true
				r.emit(Event{Kind: LockWaiting, Tier: tier})
			}
		} else if !away {
			away = true
			e.storeAway(err)
		}
	})
	if err == nil {
		answered()
	}
	return lock, err
}

// WaitLock takes the lock, trying again every half second until ctx is done
// while another process has it or the store is away; waiting, if not nil, is
// called with the error of each such try. On ctx's end the error is that of the
// last try.
func WaitLock(ctx context.Context, l Locker, name LockName, waiting func(error)) (Lock, error) {
	for {
		var held Lock
		err := guard(func() (err error) {
			held, err = l.TryLock(ctx, name)
			return err
		})
		if err == nil || !errors.Is(err, ErrLocked) && !isAway(err) {
			return held, err
		}
		if waiting != nil && ctx.Err() == nil {
			waiting(err)
		}
		if !sleep(ctx, 500*time.Millisecond) {
			return nil, err
		}
	}
}
