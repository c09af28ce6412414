package backlog_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// keptBench returns a bench with records at handlers that take ten seconds, and
// a table that stops taking outcomes when the outage begins.
func keptBench(t *testing.T, of trouble) (*bench, *outage) {
	b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
	b.Concurrency = 2
	store := &outage{Store: b.table, trouble: of}
	b.Store = store
	b.add(t, "NEW", 1, 10, 0)
	return b, store
}

// A lost lock ends the pass, not the outcomes: they are written when the store
// takes them, however late, and until then nobody here is given their records.
func TestOutcomesOutliveTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store := keptBench(t, trouble{settle: true, ping: true})
		l := b.loop(schedule(t, "1d 10m"))
		locker := &losable{Locker: b.table}
		l.Locker, l.State = locker, new(keeper)
		until(9 * time.Minute)
		stop := start(t, l)
		until(10*time.Minute + 12*time.Second) // two records are written
		store.begin()
		until(10*time.Minute + 21*time.Second) // and two are not
		locker.lose(errBroken)
		until(2 * time.Hour)
		if n := len(b.calls.all()); n != 4 {
			t.Fatalf("want two records done, two kept and no other handed out while the store is away, got %d calls", n)
		}
		store.end()
		until(2*time.Hour + time.Minute)
		if got := b.statuses()["SUCCESS"]; got != 10 {
			t.Errorf("want all done a minute after the store is back, got %v", b.statuses())
		}
		stop()
		if got := sorted(b.calls.ids()); !slices.Equal(got, numbers(1, 10)) {
			t.Errorf("want each record handed out once, got %v", got)
		}
		b.wantStory(t, kinds(backlog.StoreUnavailable, backlog.StoreBack, backlog.LockLost), "10m20s away", "10m22s lock lost", "2h0m1.45s back")
		if n := len(b.events.of(backlog.Unwritten)) + len(b.events.of(backlog.Conflicted)); n > 0 {
			t.Errorf("want no outcome given up, got %d", n)
		}
	})
}

// The call for one group hangs, as on a connection that is half open: the rest of
// the table waits until that is over.
func TestTierWaitsForAKeptOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := keptBench(t, trouble{})
		h := b.hook()
		var calls atomic.Int64
		release := make(chan struct{})
		h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
			if calls.Add(1) == 1 {
				<-release
			}
			return h.Store.Settle(ctx, group)
		}
		l := b.loop(schedule(t, "1d 10m"))
		locker := &losable{Locker: b.table}
		l.Locker = locker
		until(9 * time.Minute)
		stop := start(t, l)
		until(10*time.Minute + 12*time.Second)
		locker.lose(errBroken)
		until(12 * time.Minute)
		if n := len(b.calls.all()); n != 4 {
			t.Errorf("want nothing dispatched before the outcomes are written, after 4 records, got %d", n)
		}
		close(release)
		until(13 * time.Minute)
		if got := b.statuses()["SUCCESS"]; got != 10 {
			t.Errorf("want all done then, got %v", b.statuses())
		}
		stop()
		for _, n := range []int{1, 2} {
			if calls := len(b.calls.of(n)); calls != 1 {
				t.Errorf("want record %d handed out once, got %d times", n, calls)
			}
		}
	})
}

// lost returns a context under a lock, and what loses that.
func lost(t *testing.T, table *memory.Store) (held *backlog.HeldLock, lose func()) {
	locker := &losable{Locker: table}
	lock, err := locker.TryLock(t.Context(), backlog.LeaderLock)
	if err != nil {
		t.Fatal(err)
	}
	held = backlog.WhileHeld(t.Context(), lock, time.Now, func(error) {})
	t.Cleanup(held.Release)
	return held, func() {
		locker.lose(errBroken)
		<-held.Context().Done()
	}
}

// A daemon that has lost its lead keeps such outcomes, and can lead again: it
// dispatches nothing before they are written, and gives them up when it stops.
func TestKeptOutcomesOfAnotherLoop(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, store := keptBench(t, trouble{settle: true})
			b.ShutdownTimeout = time.Minute
			held, lose := lost(t, memory.New(memory.Options{}))
			ended := make(chan struct{})
			until(9 * time.Minute)
			go func() {
				defer close(ended)
				l := b.loop(schedule(t, "1d 10m"))
				l.Held = held
				l.Run(held.Context())
			}()
			until(10*time.Minute + 12*time.Second)
			store.begin()
			until(10*time.Minute + 21*time.Second)
			lose()
			at := time.Now()
			<-ended
			if late := time.Since(at); late > backlog.LockGrace {
				t.Errorf("want the loop to end %v after the loss, got %v", backlog.LockGrace, late)
			}
			stop := start(t, b.loop(schedule(t, "1d 10m")))
			until(time.Hour + time.Second)
			if n := len(b.calls.all()); n != 6 {
				t.Errorf("want nothing dispatched while outcomes cannot be written, after 6 records, got %d", n)
			}
			if back {
				store.end()
			}
			until(time.Hour + 9*time.Minute)
			stopped := time.Now()
			stop()
			took := time.Since(stopped)
			unwritten := b.events.of(backlog.Unwritten)
			for _, ev := range unwritten {
				if !errors.Is(ev.Err, backlog.ErrUnavailable) {
					t.Errorf("want to be told that the store was away, got %v", ev.Err)
				}
			}
			if back {
				testkit.Equal(t, "rows with SUCCESS", b.statuses()["SUCCESS"], 10)
				testkit.Equal(t, "outcomes given up", len(unwritten), 0)
				testkit.Equal(t, "time from the stop to the end", took, 0)
			} else {
				testkit.Equal(t, "outcomes given up", len(unwritten), 2)
				if took < 3*time.Second || took > 4*time.Second {
					t.Errorf("want the outcomes given up 3s after the stop, got %v", took)
				}
			}
			for _, n := range []int{3, 4} {
				if calls := len(b.calls.of(n)); calls != 1 {
					t.Errorf("want record %d, whose outcome is kept, handed out once, got %d times", n, calls)
				}
			}
		})
	}
}

// A pass that has lost its lock ends without its outcomes; they are written when
// the store is back, or given up.
func TestFlush(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, store := keptBench(t, everything)
			b.Flush(t.Context()) // there is nothing
			held, lose := lost(t, b.table)
			time.AfterFunc(9*time.Second, store.begin)
			var report backlog.Report
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				report, _ = b.Pass(held.Context(), backlog.Pass{Lock: held, MaxAge: day})
			}()
			time.Sleep(11 * time.Second)
			lose()
			<-ended
			checkSum(t, report)
			if report.Stopped != backlog.StoppedLock || report.Unwritten != 2 || len(b.events.of(backlog.Unwritten)) > 0 {
				t.Errorf("want two outcomes kept, not given up, got %s, stopped by %s", outcomes(report), report.Stopped)
			}
			time.Sleep(24 * time.Hour)
			if back {
				store.end()
			}
			fctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			b.Flush(fctx)
			unwritten := len(b.events.of(backlog.Unwritten))
			if back {
				testkit.Equal(t, "outcomes given up", unwritten, 0)
				testkit.Equal(t, "rows with SUCCESS", b.statuses()["SUCCESS"], 2)
			} else {
				testkit.Equal(t, "outcomes given up", unwritten, 2)
			}
		})
	}
}
