package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// A losable locker's locks are lost when the test says so.
type losable struct {
	backlog.Locker
	mu   sync.Mutex
	lost error // of the locks taken so far; nil: they are good
}

type losableLock struct {
	backlog.Lock
	of   *losable
	lost error // guarded by of.mu
}

func (l *losable) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = nil
	lock, err := l.Locker.TryLock(ctx, name)
	return &losableLock{Lock: lock, of: l}, err
}

// lose makes the lock that is held a lost one, for another process to take.
func (l *losable) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
}

func (l *losableLock) Check(ctx context.Context) error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.lost == nil && l.of.lost != nil {
		l.lost = l.of.lost
		l.Lock.Unlock()
	}
	return l.lost
}

// A pass whose lock is lost is stopped: another process may be at work. With
// the lock taken anew it is gone on with.
func TestPassesStopWhenTheRunLockIsLost(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("state=%t", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := errors.New("lock file: no such file")
				b := newBench(t, memory.Options{}, slowly(9500*time.Millisecond, succeed))
				b.Concurrency = 2
				b.add(t, "ERROR", 1, 60, 3*day)
				l := b.loop(schedule(t, "1d 7m", "7d 1h"))
				locker := &losable{Locker: b.table}
				l.Locker = locker
				if kept {
					l.State = new(keeper)
				}
				until(58 * time.Minute)
				stop := start(t, l)
				until(time.Hour + 65*time.Second)
				locker.lose(gone)
				until(time.Hour + 69*time.Second)
				other := b.lockedBy(t) // it would find it free
				until(time.Hour + 100*time.Second + 200*time.Millisecond)
				if n := len(b.calls.ids()); n != 14 {
					t.Errorf("want nothing handed out after the lock was lost, after 14 records, got %d", n)
				}
				other.Unlock()
				until(time.Hour + 6*time.Minute + 30*time.Second)
				stop()
				b.wantStory(t, kinds(backlog.PassStarted, backlog.PassEnded, backlog.LockLost, backlog.LockWaiting, backlog.TierSkipped),
					"1h0m0s started 7d", "1h1m6s lock lost", "1h1m6s ended 7d", // its handlers are ended
					"1h1m30s waiting 7d", "1h1m45.5s started 7d", "1h5m33.5s ended 7d")
				ends := b.events.of(backlog.PassEnded)
				testkit.Equal(t, "the first pass was stopped by", ends[0].Report.Stopped, backlog.StoppedLock)
				testkit.Equal(t, "its successes", ends[0].Report.Succeeded, 12)
				testkit.Equal(t, "its interrupted records", ends[0].Report.Interrupted, 2)
				testkit.Equal(t, "the second pass is complete", ends[1].Report.Complete, true)
				if lost := b.events.of(backlog.LockLost); !errors.Is(lost[0].Err, gone) {
					t.Errorf("want the event to say why, got %v", lost[0].Err)
				}
				want := slices.Sorted(slices.Values(append(numbers(1, 60), 13, 14)))
				if got := sorted(b.calls.ids()); !slices.Equal(got, want) {
					t.Errorf("want each record handed out once, and the two that were interrupted again, got %v", got)
				}
			})
		})
	}
}

// Another process may begin with the records that are at handlers when the lock
// is lost: those are ended, however long they may take at a stop.
func TestLostRunLockEndsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(30*time.Second, succeed))
		b.Concurrency, b.ShutdownTimeout = 2, time.Minute
		b.add(t, "ERROR", 1, 6, 3*day)
		l := b.loop(schedule(t, "1d 7m", "7d 1h"))
		locker := &losable{Locker: b.table}
		l.Locker = locker
		until(58 * time.Minute)
		stop := start(t, l)
		until(time.Hour + 35*time.Second)
		locker.lose(errBroken)
		until(time.Hour + 50*time.Second)
		b.wantStory(t, kinds(backlog.LockLost), "1h0m36s lock lost")
		b.wantStory(t, kinds(backlog.PassEnded), "1h0m36s ended 7d") // either may be told first
		if r := b.events.of(backlog.PassEnded)[0].Report; r.Succeeded != 2 || r.Interrupted != 2 {
			t.Errorf("want two records done and two interrupted, got %+v", r)
		}
		until(time.Hour + 6*time.Minute)
		stop()
		if n := b.statuses()["SUCCESS"]; n != 6 {
			t.Errorf("want all records done with the lock taken anew, got %d", n)
		}
	})
}

// A lock that is lost is nobody's, also while a pass that had it has handlers
// which do not end when they are told to.
func TestLostRunLockIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(context.Context, *backlog.Record) error {
			time.Sleep(45 * time.Second)
			return nil
		})
		b.Concurrency, b.ShutdownTimeout = 2, time.Minute
		b.add(t, "ERROR", 1, 60, 3*day)
		l := b.loop(schedule(t, "1d 5m", "7d 1h"))
		locker := &losable{Locker: b.table}
		l.Locker = locker
		until(58 * time.Minute)
		stop := start(t, l)
		until(time.Hour + 4*time.Minute + 49*time.Second)
		locker.lose(errBroken)
		until(time.Hour + 4*time.Minute + 51*time.Second)
		other := b.lockedBy(t)
		until(time.Hour + 5*time.Minute + 35*time.Second)
		b.wantStory(t, kinds(backlog.PassStarted, backlog.PassEnded, backlog.LockLost, backlog.LockWaiting),
			"1h0m0s started 7d", "1h4m50s lock lost", "1h5m0s waiting 1d", "1h5m15s ended 7d")
		other.Unlock()
		until(time.Hour + 40*time.Minute)
		stop()
		if n := b.statuses()["SUCCESS"]; n != 60 {
			t.Errorf("want all records done with the lock taken anew, got %d", n)
		}
		if n := len(b.events.of(backlog.LockLost)); n != 1 || b.locked(t) {
			t.Errorf("want one lock lost and the other given back, got %d lost", n)
		}
	})
}
