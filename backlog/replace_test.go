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
)

// replaced starts a pass of the wide tier and, after a while, puts another
// engine in the place of the bench's, whose fields set sets. The function it
// returns waits for the pass.
func (b *bench) replaced(t *testing.T, after time.Duration, set func(e *backlog.Engine)) (wait func() backlog.Report) {
	old := *b
	var wide sync.WaitGroup
	var rep backlog.Report
	wide.Go(func() { rep = old.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
	time.Sleep(after)
	again := &backlog.Engine{Store: b.Store, Handler: b.calls, Observe: b.events.observe}
	set(again)
	again.Replace(b.Engine)
	b.Engine = again
	return func() backlog.Report { wide.Wait(); return rep }
}

// Handlers of both engines are at most as many as the new one says, but for
// those that ran already.
func TestReplaceSharesTheConcurrency(t *testing.T) {
	for _, c := range []struct{ old, again int }{{4, 4}, {4, 1}, {1, 4}, {50, 3}, {3, 50}, {600, 2}} {
		t.Run(fmt.Sprintf("%d then %d", c.old, c.again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
				b.Concurrency = c.old
				b.add(t, "ERROR", 1, 20*c.old, 3*day)
				var at time.Time
				wide := b.replaced(t, 35*time.Second, func(e *backlog.Engine) { e.Concurrency, at = c.again, time.Now() })
				b.add(t, "NEW", 100_001, 20, 0)
				b.pass(t)
				wide()
				for _, call := range b.calls.all() {
					if call.at.After(at) && call.handed+1 > c.again {
						t.Fatalf("want at most %d handlers at a time once the engine is replaced, got %d after %v", c.again, call.handed+1, call.at.Sub(at))
					}
				}
				if n := b.statuses()["SUCCESS"]; n != 20*c.old+20 {
					t.Errorf("want all records of both passes done, got %d", n)
				}
			})
		})
	}
}

// What is handed out and not settled is bounded over both engines.
func TestReplaceSharesTheBoundOnTheUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		h := b.hook()
		var mu sync.Mutex
		handed, written, most := 0, 0, 0
		h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
			wait(ctx, 500*time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			written += len(group)
			return h.Store.Settle(ctx, group)
		}
		b.calls.do = func(context.Context, *backlog.Record) error {
			mu.Lock()
			defer mu.Unlock()
			handed++
			most = max(most, handed-written)
			return nil
		}
		b.add(t, "ERROR", 1, 2000, 3*day)
		b.add(t, "NEW", 10_001, 2000, 0)
		wide := b.replaced(t, 100*time.Millisecond, func(*backlog.Engine) {})
		b.pass(t)
		wide()
		if most > backlog.MaxGroup || most < 400 {
			t.Errorf("want close to %d records handed out and not settled by both engines, got %d", backlog.MaxGroup, most)
		}
	})
}

// The new rate is that of both engines at once, also for what waits by the old
// one, and for an old pass that had none.
func TestReplaceSetsTheRate(t *testing.T) {
	for _, c := range []struct{ old, again float64 }{{1, 1}, {1, 2}, {2, 1}, {0, 1}, {0.001, 2}, {0.001, 0}, {1, 0}} {
		t.Run(fmt.Sprintf("%v then %v", c.old, c.again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
				b.Rate, b.Concurrency = c.old, 2
				b.add(t, "ERROR", 1, 100, 3*day)
				var at time.Time
				wide := b.replaced(t, 10*time.Second+time.Millisecond, func(e *backlog.Engine) {
					e.Rate, e.Concurrency, at = c.again, 10, time.Now()
				})
				b.add(t, "NEW", 1001, 20, 0)
				b.pass(t)
				wide()
				calls := b.calls.all()
				last := calls[len(calls)-1].at
				first := slices.IndexFunc(calls, func(call call) bool { return !call.at.Before(at) })
				if c.old > 0 {
					first-- // counts by the new rate
				}
				calls = calls[first:]
				if c.again == 0 {
					if took := last.Sub(at); took > time.Minute {
						t.Errorf("want no limit any more, %d calls of a second by two and more hands, got %v", len(calls), took)
					}
					return
				}
				turn := time.Duration(float64(time.Second) / c.again)
				for i := range calls[1:] {
					if apart := calls[i+1].at.Sub(calls[i].at); apart < turn-time.Millisecond {
						t.Fatalf("want a call every %v by both engines together, got two within %v", turn, apart)
					}
				}
				if took, want := last.Sub(at), turn*time.Duration(len(calls)+2); took > want {
					t.Errorf("want %d calls within %v, got %v", len(calls), want, took)
				}
			})
		})
	}
}

// A limit that was lifted and set again holds, and so on.
func TestReplaceAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Rate = 1
		b.add(t, "ERROR", 1, 1000, 3*day)
		var wide []func() backlog.Report
		for _, rate := range []float64{0.001, 10, 0.001, 1, 0.001, 0.5} {
			wide = append(wide, b.replaced(t, 10*time.Second, func(e *backlog.Engine) { e.Rate, e.Concurrency = rate, 3 }))
		}
		time.Sleep(time.Second)
		n := len(b.calls.ids())
		time.Sleep(100 * time.Second)
		if n = len(b.calls.ids()) - n; n < 49 || n > 51 {
			t.Errorf("want a call every two seconds by the passes of all engines together, 50 in 100s, got %d", n)
		}
		wide = append(wide, b.replaced(t, time.Second, func(*backlog.Engine) {}))
		for _, w := range wide {
			w()
		}
		if n := b.statuses()["SUCCESS"]; n != 1000 {
			t.Errorf("want all records done, got %d", n)
		}
	})
}

// Rows that the database refuses are not tried by every new engine in turn.
func TestReplaceTakesOverRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.hook().refuse(1, errors.New("CHECK constraint failed"))
		b.add(t, "ERROR", 1, 3, 3*day)
		wide := b.replaced(t, time.Second, func(*backlog.Engine) {})
		if rep := wide(); rep.Refused != 1 {
			t.Fatalf("want one row refused, got %s", outcomes(rep))
		}
		b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
		if n := len(b.calls.of(1)); n != 1 {
			t.Errorf("want the row that is refused not tried again by the new engine, got %d attempts", n)
		}
	})
}

// A stop ends the passes of both engines, whatever they wait for.
func TestStopOfBothEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Minute, succeed))
		b.Concurrency, b.Rate = 20, 5
		b.add(t, "ERROR", 1, 1000, 3*day)
		old, ctx := b.Engine, stopAfter(t, 5*time.Minute)
		var both sync.WaitGroup
		began := time.Now()
		pass := func(e *backlog.Engine) {
			if rep, err := e.Pass(ctx, backlog.Pass{MaxAge: 7 * day}); err != nil || rep.Stopped != backlog.StoppedSignal {
				t.Errorf("want a pass stopped by a signal, got %q, error %v", rep.Stopped, err)
			}
		}
		both.Go(func() { pass(old) })
		time.Sleep(90 * time.Second)
		again := &backlog.Engine{Store: b.table, Handler: b.calls, Concurrency: 2, Rate: 0.1}
		again.Replace(old)
		both.Go(func() { pass(again) })
		both.Wait()
		if took := time.Since(began); took > 5*time.Minute+30*time.Second {
			t.Errorf("want both passes to end within the time that handlers have to finish, got %v", took-5*time.Minute)
		}
	})
}
