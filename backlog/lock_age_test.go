package backlog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A machine that has slept does not know what became of its lock: until it does,
// nothing is handed out. The lock is that of the passes, or that under which the loop runs.
func TestNothingIsHandedOutUnderALockNotSeenForLong(t *testing.T) {
	for _, c := range []struct{ lost, leads bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		lost := c.lost
		synctest.Test(t, func(t *testing.T) {
			var slept atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
			b := newBench(t, memory.Options{}, slowly(250*time.Millisecond, succeed))
			b.Concurrency, b.Now = 2, now
			b.add(t, "NEW", 1, 1000, 0)
			l := b.loop(schedule(t, "1d 10m"))
			locker := &losable{Locker: b.table}
			l.Now = now
			until(9 * time.Minute)
			if c.leads {
				lock, err := locker.TryLock(t.Context(), backlog.LeaderLock)
				if err != nil {
					t.Fatal(err)
				}
				l.Held = backlog.WhileHeld(t.Context(), lock, now, func(error) {})
				defer l.Held.Release()
			} else {
				l.Locker = locker
			}
			stop := start(t, l)
			until(10*time.Minute + 4*time.Second + 100*time.Millisecond) // it was looked at just now
			slept.Store(int64(5 * time.Minute))
			if lost {
				locker.lose(errBroken)
			}
			until(10*time.Minute + 9*time.Second)
			awoke := midnight.Add(10*time.Minute + 4*time.Second + 100*time.Millisecond)
			blind, after := 0, 0
			for _, c := range b.calls.all() {
				switch late := c.at.Sub(awoke); {
				case late > 0 && late < 1900*time.Millisecond: // until the next look
					blind++
				case late > 0:
					after++
				}
			}
			wantHandedOut(t, "the lock", blind, after, lost)
			stop()
		})
	}
}

// A run lock that was seen after a sleep of the machine is not enough to hand records out: the leader's lock, under
// which the loop runs, may be lost. The run lock is looked at first here, a second before the leader's.
func TestNothingIsHandedOutUnderTheRunLockAlone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var slept atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
			b := newBench(t, memory.Options{}, slowly(250*time.Millisecond, succeed))
			b.Concurrency, b.Now = 2, now
			b.add(t, "NEW", 1, 1000, 0)
			l := b.loop(schedule(t, "1d 10m"))
			l.Locker = b.table
			l.Now = now
			until(9*time.Minute + time.Second)
			locker := &losable{Locker: b.table}
			lock, err := locker.TryLock(t.Context(), backlog.LeaderLock)
			if err != nil {
				t.Fatal(err)
			}
			l.Held = backlog.WhileHeld(t.Context(), lock, now, func(error) {})
			defer l.Held.Release()
			stop := start(t, l)
			until(10*time.Minute + 5*time.Second + 100*time.Millisecond)
			awoke := time.Now()
			slept.Store(int64(5 * time.Minute))
			if lost {
				locker.lose(errBroken)
			}
			until(10*time.Minute + 6*time.Second + 900*time.Millisecond) // the run lock has been looked at
			if !b.locked(t) {
				t.Error("want the run lock still held")
			}
			until(10*time.Minute + 10*time.Second)
			seen := midnight.Add(10*time.Minute + 7*time.Second)
			blind, after := 0, 0
			for _, c := range b.calls.all() {
				switch {
				case c.at.After(awoke) && c.at.Before(seen):
					blind++
				case !c.at.Before(seen):
					after++
				}
			}
			wantHandedOut(t, "the leader's lock", blind, after, lost)
			stop()
		})
	}
}

// A lock that is lost while the answer to TryLock is on its way starts no work.
func TestWhileHeldProbesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := &losable{Locker: memory.New(memory.Options{})}
		lock, err := locker.TryLock(t.Context(), backlog.RunLock)
		if err != nil {
			t.Fatal(err)
		}
		locker.lose(errBroken)
		held := backlog.WhileHeld(t.Context(), lock, time.Now, func(error) {})
		defer held.Release()
		if held.Context().Err() == nil {
			t.Error("want work under a lost lock to end before it begins")
		}
	})
}

// The context of a lost lock has the reason, too: whoever sees the end of the context may come before the callback.
func TestLossHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := &losable{Locker: memory.New(memory.Options{})}
		lock, err := locker.TryLock(t.Context(), backlog.RunLock)
		if err != nil {
			t.Fatal(err)
		}
		held := backlog.WhileHeld(t.Context(), lock, time.Now, func(error) {})
		defer held.Release()
		locker.lose(errBroken)
		<-held.Context().Done()
		if cause := context.Cause(held.Context()); !errors.Is(cause, errBroken) || cause.Error() != errBroken.Error() {
			t.Errorf("want the cause %q, got %q", errBroken, cause)
		}
	})
}

// wantHandedOut wants no record handed out blindly, before a lock is looked at, and records after that
// if it is still held.
func wantHandedOut(t *testing.T, lock string, blind, after int, lost bool) {
	t.Helper()
	if blind > 0 {
		t.Errorf("want nothing handed out before %s is looked at, got %d records", lock, blind)
	}
	if (after > 0) == lost {
		t.Errorf("want records handed out after that if it is still held, got %d, lost: %t", after, lost)
	}
}
