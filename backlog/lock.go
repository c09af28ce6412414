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
// handlers are dead after 4 s, and the next holder starts its own after 5 s,
// [TakeOverAfter]. [Loop] waits for so long by a [Claim]; [WaitLock] does not.
const LockGrace = 4 * time.Second

const (
	// TakeOverAfter is how long a process waits after it got a lock that another
	// may have had until then, see [Claim.Settle]: the other may not know yet that
	// it lost the lock.
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
	// holder has it, or ErrLockedHere. The lock ends with the process that holds it.
	TryLock(ctx context.Context, name string) (Lock, error)
}

// A Lock is held until Unlock.
type Lock interface {
	// Check returns an error when the lock has been lost.
	Check(ctx context.Context) error
	// Unlock gives the lock back. It is called once.
	Unlock() error
}

// A Claim is a Locker of one lock which remembers between two tries that another
// process may have had the lock: it was locked, it could not be asked for, or it was
// lost. It is not for concurrent use.
type Claim struct {
	Locker
	unsure bool
}

// TryLock implements [Locker].
func (c *Claim) TryLock(ctx context.Context, name string) (Lock, error) {
	lock, err := c.Locker.TryLock(ctx, name)
	if err != nil && !errors.Is(err, ErrLockedHere) {
		c.unsure = true
	}
	return lock, err
}

// Doubt says that another process may have had the lock since the last try.
func (c *Claim) Doubt() { c.unsure = true }

// Unsure reports whether another process may have had the lock until now, so that
// Settle waits.
func (c *Claim) Unsure() bool { return c.unsure }

// Settle makes a lock that has just been taken safe to work under. If another
// process may have had it until then, Settle waits until the handlers of that one
// are dead, for [TakeOverAfter], and probes the lock. On an error the lock is given back.
func (c *Claim) Settle(ctx context.Context, lock Lock) error {
	if !c.unsure {
		return nil
	}
	if !Sleep(ctx, TakeOverAfter) {
		lock.Unlock()
		return ctx.Err()
	}
	if err := guard(func() error { return lock.Check(ctx) }); err != nil {
		lock.Unlock()
		return err
	}
	c.unsure = false
	return nil
}

// LockWithin takes the lock and settles. It waits for another process for as long as wait says at
// most; for one of another configuration only if replace is set.
func (c *Claim) LockWithin(ctx context.Context, name string, wait time.Duration, replace bool) (Lock, error) {
	lock, err := c.TryLock(ctx, name)
	waits := errors.Is(err, ErrLocked) && (replace || !errors.As(err, new(*Rival)))
	if waits && wait > 0 {
		wctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		lock, err = WaitLock(wctx, c, name, nil)
	}
	if err != nil {
		return nil, err
	}
	return lock, c.Settle(ctx, lock)
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

	claim Claim // guarded by the turn

	mu   sync.Mutex
	held *heldLock // may be one that is lost; nil: none
	lost bool      // a lock was, since the last one was taken
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
		lock, err := r.take(waiting, l, e, say)
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

// take takes the lock for the process. It waits until no other process has it or
// handlers under it.
func (r *runLock) take(waiting context.Context, l Locker, e *Engine, say func()) (Lock, error) {
	r.claim.Locker = l
	if r.wasLost() {
		r.claim.Doubt()
	}
	again := func(f func() error) error { return e.persist(waiting, f) }
	for {
		lock, err := waitLock(waiting, &r.claim, RunLock, again, func(error) { say() })
		if err != nil {
			return nil, err
		}
		err = r.claim.Settle(waiting, lock)
		if err == nil || waiting.Err() != nil {
			return lock, err
		}
	}
}

// wasLost reports whether a lock was lost since the last call.
func (r *runLock) wasLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.lost
	r.lost = false
	return was
}

// join makes the caller a holder of the lock if the process has it, else it
// returns nil.
func (r *runLock) join() *heldLock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil || r.held.good.Err() != nil {
		r.lost = r.lost || r.held != nil && lockLost(r.held.good)
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
	r.lost = r.lost || lockLost(h.good)
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
		if !Sleep(ctx, lockPause) {
			return nil, err
		}
	}
}
