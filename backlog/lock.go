package backlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// LockGrace is how long after the last successful probe of a lock was sent the
// work under it may go on: whatever handlers have started is killed then. In
// numbers: a lock is probed every 2 s, a probe is answered within 2 s or failed,
// handlers are dead after 4 s, and a standby of `backlog run` starts its own after
// 5 s, [TakeOverAfter]. [Loop] and [WaitLock] do not wait for so long.
const LockGrace = 4 * time.Second

const (
	// TakeOverAfter is how long a process should wait after it got a lock that
	// another has had, and then [Lock.Check]: the other may not know yet that it
	// lost the lock.
	TakeOverAfter = LockGrace + time.Second
	// probeEvery is how often a lock that is held is probed. An answer takes
	// as long at most, so that the loss is noticed within LockGrace.
	probeEvery = LockGrace / 2
)

// The two locks of a table.
const (
	RunLock    = "run"    // held by whoever runs a pass
	LeaderLock = "leader" // held by one `backlog run` for its life; a Loop never takes it
)

// A Locker locks a table between processes. Most stores are one.
type Locker interface {
	// TryLock takes the lock, or returns ErrLocked at once where another
	// holder has it. The lock ends with the process that holds it.
	TryLock(ctx context.Context, name string) (Lock, error)
}

// A Lock is held until Unlock.
type Lock interface {
	// Check returns an error when the lock has been lost.
	Check(ctx context.Context) error
	// Unlock gives the lock back. It is called once.
	Unlock() error
}

var errLockLost = errors.New("the lock is lost")

// lockLost reports whether ctx is done because a lock is lost.
func lockLost(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLockLost) }

// WhileHeld probes the lock every two seconds. The context it returns is done when
// ctx is or the lock is lost; lost is then called with the reason. now is the
// engine's clock. A pass on that context ends its handlers when the loss is
// noticed, and has killed what they started at the latest LockGrace after the last
// successful probe was sent, see [Killed]. It dispatches nothing while the last
// probe is older, as after a sleep of the machine. release ends the probing and is
// called after the pass; Unlock is still the caller's.
func WhileHeld(ctx context.Context, l Lock, now func() time.Time, lost func(error)) (held context.Context, release func()) {
	h := &holding{now: now}
	h.known.Store(now().UnixNano())
	kill, killNow := context.WithCancel(killOf(ctx))
	held, cancel := context.WithCancelCause(context.WithValue(context.WithValue(ctx, holdingKey{}, h), killKey{}, kill))
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	deadline := time.AfterFunc(LockGrace, func() {
		cancel(errLockLost)
		killNow()
	})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-over.Done():
				return
			}
			asked, sent := now(), time.Now()
			err := answers(over, probeEvery, l.Check)
			switch {
			case err == nil && kill.Err() == nil:
				h.known.Store(asked.UnixNano())
				deadline.Reset(LockGrace - time.Since(sent))
			case over.Err() == nil:
				cancel(errLockLost) // before anybody is told, which may take its time
				lost(err)
				return
			}
		}
	})
	return held, func() {
		deadline.Stop()
		cancel(nil)
		end()
		watch.Wait()
		killNow()
	}
}

// A holding is what is known of a lock.
type holding struct {
	now   func() time.Time
	known atomic.Int64 // when it was last known to be held, in unix nanoseconds
}

// holdingKey is the key of a pass's lock in its context.
type holdingKey struct{}

// recent reports whether the lock was held a moment ago, or there is none.
func (h *holding) recent() bool {
	return h == nil || h.now().UnixNano()-h.known.Load() < int64(LockGrace)
}

// A runLock shares one RunLock between the passes of a process.
type runLock struct {
	emit func(Event)
	now  func() time.Time
	turn chan struct{} // holds a token: somebody takes the lock, or finds it taken

	mu   sync.Mutex
	held *heldLock // may be one that is lost; nil: none
}

// A heldLock is a lock with the passes under it.
type heldLock struct {
	Lock
	holders int             // guarded by the runLock's mutex
	good    context.Context // done: the lock is lost, which is its cause, or given back, or the loop is stopped
	release func()
}

// acquire takes part in the lock for a pass of the engine. Until waiting is
// done it waits for the process to have it, and says so. locked is done when ctx is or the lock is lost;
// ctx is the same for all passes.
func (r *runLock) acquire(
	ctx, waiting context.Context, l Locker, e *Engine, tier string,
) (locked context.Context, release func(), err error) {
	if l == nil {
		return ctx, func() {}, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-waiting.Done():
		return nil, nil, waiting.Err()
	}
	h := r.join()
	if h == nil {
		e.init()
		say := sync.OnceFunc(func() { r.emit(Event{Kind: LockWaiting, Tier: tier}) })
		again := func(f func() error) error { return e.persist(waiting, f) }
		lock, err := waitLock(waiting, l, RunLock, again, func(error) { say() })
		if err != nil {
			return nil, nil, err
		}
		h = &heldLock{Lock: lock, holders: 1}
		h.good, h.release = WhileHeld(ctx, lock, r.now, func(err error) { r.emit(Event{Kind: LockLost, Err: err}) })
		r.mu.Lock()
		r.held = h
		r.mu.Unlock()
	}
	return h.good, func() { r.leave(h) }, nil
}

// join makes the caller a holder of the lock if the process has it, else it
// returns nil.
func (r *runLock) join() *heldLock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil || r.held.good.Err() != nil {
		return nil
	}
	r.held.holders++
	return r.held
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

// WaitLock takes the lock, trying again every half second until ctx is done
// while another process has it or the store is away; waiting, if not nil, is
// called with the error of each such try. On ctx's end the error is that of the
// last try.
func WaitLock(ctx context.Context, l Locker, name string, waiting func(error)) (Lock, error) {
	return waitLock(ctx, l, name, guard, waiting)
}

// lockPause is between two tries to take a lock.
const lockPause = 500 * time.Millisecond

func waitLock(ctx context.Context, l Locker, name string, call func(func() error) error, waiting func(error)) (held Lock, err error) {
	for {
		err := call(func() (err error) {
			held, err = l.TryLock(ctx, name)
			return err
		})
		if err == nil || !errors.Is(err, ErrLocked) && !isUnavailable(err) {
			return held, err
		}
		if waiting != nil && ctx.Err() == nil {
			waiting(err)
		}
		if !sleep(ctx, lockPause) {
			return nil, err
		}
	}
}
