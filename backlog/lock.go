package backlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// LockGrace is how long work under a lock may go on after its last successful probe was
// sent. Whatever handlers have started is killed then. In numbers: a lock is probed every 2 s, a
// probe is answered within 2 s or has failed, handlers are dead after 4 s, and the next holder
// starts its own after 5 s, [TakeOverAfter]. A [Loop] waits for that by a [Claim]; [WaitLock]
// does not.
const LockGrace = 4 * time.Second

const (
	// TakeOverAfter is how long a process waits after it got a lock that another may have had
	// until then, see [Claim.AwaitSafe]. The other one may not know yet that it lost the lock.
	TakeOverAfter = LockGrace + time.Second
	// probeEvery is how often a held lock is probed. An answer may take as long, so that the
	// loss is noticed within LockGrace.
	probeEvery = LockGrace / 2
)

// The two locks of a table.
const (
	RunLock    = "run"    // held by the process that runs a pass
	LeaderLock = "leader" // held by one `backlog run` for its life; a Loop never takes it
)

// A Locker locks a table between processes. Most stores are one.
type Locker interface {
	// TryLock takes the lock. It returns ErrLocked at once if another holder has it, or
	// ErrLockedHere. The lock ends with the process that holds it.
	TryLock(ctx context.Context, name string) (Lock, error)
}

// A Lock is held until Unlock.
type Lock interface {
	// Check returns an error when the lock has been lost.
	Check(ctx context.Context) error
	// Unlock gives the lock back. It is called once.
	Unlock() error
}

// A Claim is a Locker of one lock which remembers between two tries that another process may
// have had the lock: it was locked, it could not be asked for, or it was lost. It must not be
// used concurrently.
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

// Unsure reports whether another process may have had the lock until now, so that AwaitSafe
// waits.
func (c *Claim) Unsure() bool { return c.unsure }

// AwaitSafe returns when it is safe to work under a lock that has just been taken. If another
// process may have had it, AwaitSafe waits for [TakeOverAfter], until the handlers of that
// process are dead, and probes the lock. On an error the lock is given back.
func (c *Claim) AwaitSafe(ctx context.Context, lock Lock) error {
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

// LockWithin takes the lock and calls AwaitSafe. While another process has the lock, it waits
// at most so long. It waits for a [Rival], whose configuration is another one, only if
// waitForRival is set.
func (c *Claim) LockWithin(ctx context.Context, name string, wait time.Duration, waitForRival bool) (Lock, error) {
	lock, err := c.TryLock(ctx, name)
	_, isRival := errors.AsType[*Rival](err)
	mayWait := !isRival || waitForRival
	if errors.Is(err, ErrLocked) && mayWait && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		lock, err = WaitLock(waiting, c, name, nil)
	}
	if err != nil {
		return nil, err
	}
	err = c.AwaitSafe(ctx, lock)
	if err != nil {
		return nil, err // AwaitSafe has given the lock back
	}
	return lock, nil
}

var errLockLost = errors.New("the lock is lost")

// lossBy returns errLockLost in the words of the reason, if there is one.
func lossBy(reason error) error {
	if reason == nil {
		return errLockLost
	}
	return Worded(reason.Error(), errLockLost, reason)
}

// lockLost reports whether ctx is done because a lock is lost.
func lockLost(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLockLost) }

// A HeldLock is a lock that is probed while passes work under it. A pass must have its context, and
// the HeldLock as its [Pass.Lock]. Its methods may be called concurrently.
type HeldLock struct {
	ctx     context.Context
	release func()
	now     func() time.Time
	heldAt  atomic.Int64 // when it was last known to be held, in unix nanoseconds
	outer   *HeldLock    // the leader lock, if this is a run lock under it; nil: none
}

// WhileHeld probes the lock at once, and then every two seconds. The context of the result is done when ctx is or the
// lock is lost; lost is then called with the reason. now is the engine's clock. A pass under the lock
// ends its handlers when the loss is noticed, and what they started is killed at the latest LockGrace
// after the last successful probe was sent, see [Killed]. It dispatches nothing while the last probe
// is older, as after a sleep of the machine.
func WhileHeld(ctx context.Context, l Lock, now func() time.Time, lost func(error)) *HeldLock {
	h := &HeldLock{now: now}
	held, killed, kill := withKill(ctx)
	held, cancel := context.WithCancelCause(held)
	done, end := context.WithCancel(context.WithoutCancel(ctx))
	deadline := time.AfterFunc(LockGrace, func() {
		cancel(errLockLost)
		kill()
	})
	var watch sync.WaitGroup
	probe := func() (isHeld bool) {
		asked := now()
		sent := time.Now()
		err := callWithin(done, probeEvery, l.Check)
		if done.Err() != nil {
			return false
		}
		if err != nil || killed.Err() != nil {
			cancel(lossBy(err)) // before lost is called, which may take its time
			watch.Go(func() { lost(err) })
			return false
		}
		h.heldAt.Store(asked.UnixNano())
		deadline.Reset(LockGrace - time.Since(sent))
		return true
	}
	// The answer to TryLock or to AwaitSafe may be old already.
	if probe() {
		watch.Go(func() {
			tick := time.NewTicker(probeEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-done.Done():
					return
				}
				if !probe() {
					return
				}
			}
		})
	}
	h.ctx = held
	h.release = func() {
		deadline.Stop()
		cancel(nil)
		end()
		watch.Wait()
		kill()
	}
	return h
}

// Context returns the context of passes under the lock.
func (h *HeldLock) Context() context.Context { return h.ctx }

// Release ends the probing. It is called after the passes, and before Unlock.
func (h *HeldLock) Release() { h.release() }

// isRecent reports whether the lock, and the one that it is under, was held less than LockGrace ago. It is
// true without a lock.
func (h *HeldLock) isRecent() bool {
	if h == nil {
		return true
	}
	return h.now().UnixNano()-h.heldAt.Load() < int64(LockGrace) && h.outer.isRecent()
}

// A runLock shares one RunLock between the passes of a process.
type runLock struct {
	emit      func(Event)
	now       func() time.Time
	outer     *HeldLock // of the leader; nil: none
	acquiring token     // a mutex: one pass takes the lock, or finds that the process has it

	claim Claim // guarded by acquiring

	mu     sync.Mutex
	shared *sharedLock // may be one that is lost; nil: none
	lost   bool        // a lock was, since the last one was taken
}

// A sharedLock is a lock and the passes under it.
type sharedLock struct {
	Lock
	holders int // guarded by the runLock's mutex
	held    *HeldLock
}

// acquire takes part in the lock for a pass of the engine. It waits for another process that
// has the lock, after the event LockWaiting, until waiting is done. The lock ends with ctx, which is
// the same for all passes.
func (r *runLock) acquire(
	ctx, waiting context.Context, l Locker, e *Engine, tier string,
) (held *HeldLock, release func(), err error) {
	if !r.acquiring.take(waiting) {
		return nil, nil, waiting.Err()
	}
	defer r.acquiring.give()
	s := r.join()
	if s == nil {
		e.init()
		onWait := sync.OnceFunc(func() { r.emit(Event{Kind: LockWaiting, Tier: tier}) })
		lock, err := r.take(waiting, l, e, onWait)
		if err != nil {
			return nil, nil, err
		}
		s = &sharedLock{Lock: lock, holders: 1}
		s.held = WhileHeld(ctx, lock, r.now, func(err error) { r.emit(Event{Kind: LockLost, Err: err}) })
		s.held.outer = r.outer
		r.mu.Lock()
		r.shared = s
		r.mu.Unlock()
	}
	return s.held, func() { r.leave(s) }, nil
}

// take takes the lock for the process. It waits until no other process has the lock, nor
// handlers that were started under it.
func (r *runLock) take(waiting context.Context, l Locker, e *Engine, onWait func()) (Lock, error) {
	r.claim.Locker = l
	if r.wasLost() {
		r.claim.Doubt()
	}
	persist := func(f func() error) error { return e.persist(waiting, f) }
	for {
		lock, err := waitLock(waiting, &r.claim, RunLock, persist, func(error) { onWait() })
		if err != nil {
			return nil, err
		}
		err = r.claim.AwaitSafe(waiting, lock)
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

// join makes the caller a holder of the lock if the process has it, else it returns nil.
func (r *runLock) join() *sharedLock {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.shared
	if s == nil {
		return nil
	}
	if s.held.ctx.Err() != nil {
		r.lost = r.lost || lockLost(s.held.ctx)
		return nil
	}
	s.holders++
	return s
}

// leave gives the lock back if the caller is its last holder.
func (r *runLock) leave(s *sharedLock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.holders--
	if s.holders > 0 {
		return
	}
	r.lost = r.lost || lockLost(s.held.ctx)
	s.held.Release()
	s.Unlock()
	if r.shared == s {
		r.shared = nil
	}
}

// lockPause is the pause between two tries to take a lock.
const lockPause = 500 * time.Millisecond

// WaitLock takes the lock. While another process has it or the store is unavailable, it tries
// again every half second until ctx is done. Then it returns the error of the last try. waiting,
// if not nil, is called with the error of each try.
func WaitLock(ctx context.Context, l Locker, name string, waiting func(error)) (Lock, error) {
	return waitLock(ctx, l, name, guard, waiting)
}

// waitLock is WaitLock where call makes each try.
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
