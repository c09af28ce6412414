package backlog

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A runLock shares one RunLock between the passes of a process.
type runLock struct {
	mu      sync.Mutex
	waiting chan struct{} // not nil: somebody is taking the lock; closed when done
	holders int
	held    Lock
}

// acquire takes part in the lock, waiting until the process has it. waiting is
// called once if it is another's.
func (r *runLock) acquire(ctx context.Context, l Locker, waiting func()) (release func(), err error) {
	if l == nil {
		return func() {}, nil
	}
	for {
		r.mu.Lock()
		if r.held != nil {
			r.holders++
			r.mu.Unlock()
			return r.release, nil
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
	held, err := WaitLock(ctx, l, RunLock, waiting)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
	close(done)
	if err != nil {
		return nil, err
	}
	r.held, r.holders = held, 1
	return r.release, nil
}

func (r *runLock) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders--
	if r.holders == 0 {
		r.held.Unlock()
		r.held = nil
	}
}

// WaitLock takes the lock, trying again every half second until ctx is done
// while another process has it or the store is away; waiting is called once if
// it had to wait. On ctx's end the error is that of the last try.
func WaitLock(ctx context.Context, l Locker, name LockName, waiting func()) (Lock, error) {
	for first := true; ; first = false {
		var held Lock
		err := guard(func() (err error) {
			held, err = l.TryLock(ctx, name)
			return err
		})
		if err == nil || !errors.Is(err, ErrLocked) && !isAway(err) {
			return held, err
		}
		if first && waiting != nil {
			waiting()
		}
		if !sleep(ctx, 500*time.Millisecond) {
			return nil, err
		}
	}
}
