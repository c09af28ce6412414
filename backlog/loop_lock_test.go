package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// lockedBy takes the run lock as another process would.
func (b *bench) lockedBy(t testing.TB) backlog.Lock {
	t.Helper()
	lock, err := b.table.TryLock(t.Context(), backlog.RunLock)
	if err != nil {
		t.Fatalf("want the run lock free at %s: %v", clock(time.Now()), err)
	}
	return lock
}

// locked reports whether somebody holds the run lock.
func (b *bench) locked(t testing.TB) bool {
	t.Helper()
	lock, err := b.table.TryLock(t.Context(), backlog.RunLock)
	if err == nil {
		lock.Unlock()
	}
	return errors.Is(err, backlog.ErrLocked)
}

func TestPassWaitsForTheRunLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Minute, succeed))
		b.add(t, "NEW", 1, 1, 0)
		l := b.loop(schedule(t, "1d 10m", "7d 30m"))
		l.Locker = b.table
		stop := start(t, l)
		until(9 * time.Minute)
		other := b.lockedBy(t)
		until(25*time.Minute + 200*time.Millisecond)
		other.Unlock()
		until(25*time.Minute + 30*time.Second)
		if !b.locked(t) {
			t.Error("want the run lock held while a pass runs")
		}
		until(26*time.Minute + 30*time.Second)
		if b.locked(t) {
			t.Error("want the run lock free when no pass runs")
		}
		until(31 * time.Minute)
		stop()
		b.wantStory(t, append(passKinds, backlog.LockWaiting),
			"10m0s waiting 1d",
			"20m0s skipped 1d",   // it is still waiting
			"25m0.5s started 1d", // tried every half second
			"30m0s started 7d")
		if b.locked(t) {
			t.Error("want the run lock free after the loop")
		}
	})
}

// Two passes at a time share the lock. It is given back after the last.
func TestRunLockIsHeldUntilTheLastPassEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(15*time.Minute, succeed))
		b.Concurrency = 2
		b.add(t, "NEW", 1, 1, 3*day)
		l := b.loop(schedule(t, "1d 10m", "7d 30m"))
		l.Locker = b.table
		until(29 * time.Minute)
		stop := start(t, l)
		until(31 * time.Minute)  // the wide pass runs until 0:45
		b.add(t, "NEW", 2, 1, 0) // the narrow one from 0:40 to 0:55
		for _, c := range []struct {
			at   time.Duration
			want bool
		}{{35 * time.Minute, true}, {44 * time.Minute, true}, {46 * time.Minute, true}, {54 * time.Minute, true}, {56 * time.Minute, false}} {
			until(c.at)
			if got := b.locked(t); got != c.want {
				t.Errorf("want the lock held at %v: %t, got %t", c.at, c.want, got)
			}
		}
		stop()
		b.wantStory(t, append(passKinds, backlog.LockWaiting), "30m0s started 7d", "40m0s started 1d", "50m0s skipped 1d")
	})
}

// Two tiers may have to wait. One of them takes the lock for both.
func TestTwoPassesWaitForTheRunLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 1, 0)
		l := b.loop(schedule(t, "1d 10m", "7d 15m"))
		l.Locker = b.table
		other := b.lockedBy(t)
		stop := start(t, l)
		until(19 * time.Minute)
		other.Unlock()
		until(19*time.Minute + 30*time.Second)
		started := b.events.of(backlog.PassStarted)
		var names []string
		for _, ev := range started {
			names = append(names, ev.Tier)
			if late := ev.At.Sub(midnight.Add(19 * time.Minute)); late > time.Second {
				t.Errorf("want both passes started within a second, got that of %s after %v", ev.Tier, late)
			}
		}
		slices.Sort(names)
		if want := []string{"1d", "7d"}; !slices.Equal(names, want) {
			t.Errorf("want the passes of %v, got %v", want, names)
		}
		if b.locked(t) {
			t.Error("want the run lock free when both have ended")
		}
		stop()
	})
}

func TestStopWhileWaitingForTheRunLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 10m", "7d 15m"))
		l.Locker = b.table
		b.lockedBy(t)
		stop := start(t, l)
		until(19 * time.Minute)
		before := time.Now()
		stop()
		if took := time.Since(before); took != 0 {
			t.Errorf("want the loop to end at once, got %v", took)
		}
		b.wantStory(t, passKinds)
		if n := len(b.events.of(backlog.PassEnded)); n != 0 {
			t.Errorf("want no end of passes that did not begin, got %d", n)
		}
	})
}

// A tick whose pass came no further than to the lock is not lost: the tier may
// tick next in eight days.
func TestPassThatWaitedForTheLockIsOwedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		state := new(keeper)
		life := func() (stop func()) {
			l := b.loop(schedule(t, "1d 10m", "7d 30m"))
			l.Locker, l.State = b.table, state
			return start(t, l)
		}
		other := b.lockedBy(t)
		until(29 * time.Minute)
		stop := life()
		until(31 * time.Minute)
		stop()
		other.Unlock()
		until(32 * time.Minute)
		stop = life()
		until(33 * time.Minute)
		stop()
		b.wantStory(t, passKinds, "32m0s started 7d")
	})
}

// A troubled locker fails a few times, then gives the lock.
type troubled struct {
	backlog.Locker
	errs []error // taken by one pass at a time
	n    int
}

func (l *troubled) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	if name != backlog.RunLock {
		return nil, fmt.Errorf("asked for the lock %q", name)
	}
	l.n++
	if l.n <= len(l.errs) {
		return nil, l.errs[l.n-1]
	}
	return l.Locker.TryLock(ctx, name)
}

func TestRunLockCannotBeTaken(t *testing.T) {
	denied := errors.New("permission denied for function pg_try_advisory_lock")
	for _, c := range []struct {
		name string
		errs []error
		want []string
	}{
		{"the store is away for a moment", []error{errAway, errAway, errAway}, []string{"10m0s away", "10m0.35s back", "10m5.35s started 1d", "10m5.35s ended 1d", "20m0s started 1d", "20m0s ended 1d"}},
		{"the store is away, then another process has it", []error{errAway, backlog.ErrLocked, backlog.ErrLocked, errAway, errAway},
			[]string{"10m0s away", "10m0.05s back", "10m0.05s waiting 1d", "10m1.05s away", "10m1.2s back", "10m6.2s started 1d", "10m6.2s ended 1d", "20m0s started 1d", "20m0s ended 1d"}},
		{"another process of this machine has it", []error{backlog.ErrLockedHere}, []string{"10m0s waiting 1d", "10m0.5s started 1d", "10m0.5s ended 1d", "20m0s started 1d", "20m0s ended 1d"}},
		{"an error for good", []error{denied}, []string{"10m0s ended 1d", "20m5s started 1d", "20m5s ended 1d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				l := b.loop(schedule(t, "1d 10m"))
				l.Locker = &troubled{Locker: b.table, errs: c.errs}
				stop := start(t, l)
				until(21 * time.Minute)
				stop()
				b.wantStory(t, kinds(backlog.PassStarted, backlog.PassEnded, backlog.LockWaiting, backlog.StoreUnavailable, backlog.StoreBack), c.want...)
				end := b.events.of(backlog.PassEnded)[0]
				if c.errs[0] != denied {
					return
				}
				if !errors.Is(end.Err, denied) || end.Report == nil {
					t.Fatalf("want the end of the pass to have a report, and why it could not begin, got %+v", end)
				}
				testkit.Equal(t, "stopped by", end.Report.Stopped, backlog.StoppedError)
				testkit.Equal(t, "tier", end.Report.Tier, "1d")
				testkit.Equal(t, "age", end.Report.MaxAge, day)
			})
		})
	}
}

// A pass begins only when the handlers of another holder are dead that may have had the
// lock until it was taken: where it was locked on another machine, could not be asked for,
// or was lost. Who finds it free at the first try does not wait.
func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		errs   []error
		doubt  bool
		cancel time.Duration // 0: never
		gone   error         // what the probe after the wait says
		wait   time.Duration
		err    error
	}{
		{"free", nil, false, 0, nil, 0, nil},
		{"held by another machine", []error{backlog.ErrLocked}, false, 0, nil, backlog.TakeOverAfter, nil},
		{"held on this machine", []error{backlog.ErrLockedHere}, false, 0, nil, 0, nil},
		{"held elsewhere, then here", []error{backlog.ErrLocked, backlog.ErrLockedHere}, false, 0, nil, backlog.TakeOverAfter, nil},
		{"away", []error{errAway}, false, 0, nil, backlog.TakeOverAfter, nil},
		{"the right was missing", []error{errors.New("permission denied")}, false, 0, nil, backlog.TakeOverAfter, nil},
		{"lost before", nil, true, 0, nil, backlog.TakeOverAfter, nil},
		{"stopped in the wait", []error{errAway}, false, time.Second, nil, time.Second, context.Canceled},
		{"lost in the wait", []error{errAway}, false, 0, errBroken, backlog.TakeOverAfter, errBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				table := memory.New(memory.Options{})
				locker := &losable{Locker: table}
				claim := &backlog.Claim{Locker: &troubled{Locker: locker, errs: c.errs}}
				for range c.errs {
					if _, err := claim.TryLock(ctx, backlog.RunLock); err == nil {
						t.Fatal("want an error")
					}
				}
				if c.doubt {
					claim.Doubt()
				}
				lock, err := claim.TryLock(ctx, backlog.RunLock)
				if err != nil {
					t.Fatal(err)
				}
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				locker.lose(c.gone)
				taken := time.Now()
				if err := claim.AwaitSafe(ctx, lock); !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if took := time.Since(taken); took != c.wait {
					t.Errorf("waited for %v, want %v", took, c.wait)
				}
				if claim.Unsure() != (c.err != nil) {
					t.Errorf("unsure is %t afterwards", claim.Unsure())
				}
				if c.err != nil {
					lock, err = table.TryLock(t.Context(), backlog.RunLock) // it was given back
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := lock.Unlock(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestWaitLock(t *testing.T) {
	denied := errors.New("denied")
	for _, c := range []struct {
		name   string
		errs   []error
		cancel time.Duration // 0: never
		took   time.Duration
		waits  []error
		err    error
	}{
		{"free", nil, 0, 0, nil, nil},
		{"taken for a while", []error{backlog.ErrLocked, backlog.ErrLocked, fmt.Errorf("lock: %w", backlog.ErrLocked)}, 0, 1500 * time.Millisecond,
			[]error{backlog.ErrLocked, backlog.ErrLocked, backlog.ErrLocked}, nil},
		{"away for a while", []error{errAway, backlog.ErrLocked}, 0, time.Second, []error{backlog.ErrUnavailable, backlog.ErrLocked}, nil},
		{"an error for good", []error{backlog.ErrLocked, denied, nil}, 0, 500 * time.Millisecond, []error{backlog.ErrLocked}, denied},
		{"cancelled", slices.Repeat([]error{backlog.ErrLocked}, 100), 1700 * time.Millisecond, 1700 * time.Millisecond,
			slices.Repeat([]error{backlog.ErrLocked}, 4), backlog.ErrLocked},
		{"cancelled while away", slices.Repeat([]error{errAway}, 100), 1700 * time.Millisecond, 1700 * time.Millisecond,
			slices.Repeat([]error{backlog.ErrUnavailable}, 4), backlog.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				table := memory.New(memory.Options{})
				began, waits := time.Now(), []error(nil)
				lock, err := backlog.WaitLock(ctx, &troubled{Locker: table, errs: c.errs}, backlog.RunLock, func(err error) { waits = append(waits, err) })
				if !errors.Is(err, c.err) || (lock != nil) != (c.err == nil) {
					t.Errorf("want the error %v, or the lock without one; got %v, %v", c.err, lock, err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("want it to take %v, got %v", c.took, took)
				}
				if !slices.EqualFunc(waits, c.waits, errors.Is) {
					t.Errorf("want waiting called with %v, got %v", c.waits, waits)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := &troubled{Locker: memory.New(memory.Options{}), errs: []error{backlog.ErrLocked}}
		if _, err := backlog.WaitLock(t.Context(), l, backlog.RunLock, nil); err != nil {
			t.Errorf("want a wait without a function to call to be fine, got %v", err)
		}
	})
}
