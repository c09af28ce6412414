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
		b.wantStory(t, kinds(backlog.StoreAway, backlog.StoreBack, backlog.LockLost), "10m20s away", "10m22s lock lost", "2h0m1.45s back")
		if n := len(b.events.of(backlog.Unwritten)) + len(b.events.of(backlog.Conflicted)); n > 0 {
			t.Errorf("want no outcome given up, got %d", n)
		}
	})
}

// The call for one group hangs, as on a connection that is half open, and the
// rest of the table is there: the tier goes on with the other records.
func TestTierGoesOnBesideAKeptOutcome(t *testing.T) {
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
		if got := b.statuses()["SUCCESS"]; got != 8 {
			t.Errorf("want all but the two done whose outcome is on its way, got %v", b.statuses())
		}
		close(release)
		synctest.Wait()
		if got := b.statuses()["SUCCESS"]; got != 10 {
			t.Errorf("want the two done as well, got %v", b.statuses())
		}
		stop()
		for _, n := range []int{1, 2} {
			if calls := len(b.calls.of(n)); calls != 1 {
				t.Errorf("want record %d handed out once, got %d times", n, calls)
			}
		}
	})
}

// A daemon that has lost its lead leaves such passes behind, and can lead again
// beside them.
func TestKeptOutcomesOfAnotherLoop(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, store := keptBench(t, trouble{settle: true})
			b.ShutdownTimeout = time.Minute
			ctx, lose := context.WithCancelCause(t.Context())
			ended := make(chan struct{})
			until(9 * time.Minute)
			go func() {
				defer close(ended)
				b.loop(schedule(t, "1d 10m")).Run(ctx)
			}()
			until(10*time.Minute + 12*time.Second)
			store.begin()
			until(10*time.Minute + 21*time.Second)
			lose(backlog.LostLock(0))
			<-ended
			if late := time.Since(midnight.Add(10*time.Minute + 21*time.Second)); late > backlog.LockGrace+time.Second {
				t.Errorf("want the loop to end when its handlers have, got %v", late)
			}

			again := &backlog.Engine{Store: store, Handler: b.calls, Concurrency: 2, ShutdownTimeout: time.Minute, Observe: b.events.observe}
			again.Replace(b.Engine)
			b.Engine = again
			stop := start(t, b.loop(schedule(t, "1d 10m")))
			until(time.Hour + time.Second)
			if back {
				store.end()
			}
			until(time.Hour + 9*time.Minute)
			stopped := time.Now()
			stop()
			took := time.Since(stopped)
			unwritten := len(b.events.of(backlog.Unwritten))
			for _, ev := range b.events.of(backlog.Unwritten) {
				if !errors.Is(ev.Err, backlog.ErrAway) {
					t.Errorf("want to be told that the store was away, got %v", ev.Err)
				}
			}
			if want := 10; back && (b.statuses()["SUCCESS"] != want || unwritten > 0 || took > 0) {
				t.Errorf("want all done, got %v, %d given up", b.statuses(), unwritten)
			}
			if !back && (unwritten != 2 || took != time.Minute) {
				t.Errorf("want the two outcomes given up a minute after the stop, got %d after %v", unwritten, took)
			}
			for _, n := range []int{3, 4} {
				if calls := len(b.calls.of(n)); calls != 1 {
					t.Errorf("want record %d, whose outcome is kept, handed out once, got %d times", n, calls)
				}
			}
			if n := len(b.calls.all()); !back && n != 6 {
				t.Errorf("want nothing handed out while outcomes cannot be written, after 6 records, got %d", n)
			}
		})
	}
}

// The end of the process ends the wait, and a hard stop sooner.
func TestFinish(t *testing.T) {
	for name, c := range map[string]struct {
		hard bool
		want time.Duration
	}{"finish": {false, 20 * time.Second}, "hard": {true, 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, store := keptBench(t, everything)
				hard := make(chan struct{})
				b.Hard, b.ShutdownTimeout = hard, 20*time.Second
				b.Finish() // no pass is under way
				ctx, lose := context.WithCancelCause(t.Context())
				ended := make(chan error)
				go func() {
					_, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
					ended <- err
				}()
				time.Sleep(9 * time.Second)
				store.begin()
				time.Sleep(2 * time.Second)
				lose(backlog.LostLock(0))
				time.Sleep(24 * time.Hour)
				if len(b.events.of(backlog.PassEnded)) > 0 {
					t.Fatal("want the outcomes of a lost lock kept, the pass has ended")
				}
				began := time.Now()
				if c.hard {
					close(hard)
				} else {
					go b.Finish()
				}
				err := <-ended
				if took := time.Since(began); took != c.want || !errors.Is(err, backlog.ErrAway) {
					t.Errorf("want the outcomes given up after %v, got %v, %v", c.want, took, err)
				}
			})
		})
	}
}
