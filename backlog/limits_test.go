package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

func TestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		burst int
	}{{1, 1}, {10, 1}, {2.5, 1}, {0.5, 1}, {250, 2}, {1000, 10}} {
		for _, passes := range []int{1, 3} {
			t.Run(fmt.Sprintf("rate=%v/passes=%d", c.rate, passes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{}, slowly(300*time.Millisecond, succeed))
					b.Concurrency, b.Rate = 1000, c.rate
					n := 2 * max(10, int(c.rate))
					b.add(t, "NEW", 1, n, 0)
					start := time.Now()
					var all sync.WaitGroup
					for range passes {
						all.Go(func() { b.pass(t) })
					}
					all.Wait()
					calls := b.calls.all()
					if len(calls) != n {
						t.Fatalf("want %d calls, got %d", n, len(calls))
					}
					for i, c1 := range calls {
						in := 0 // calls in the second that begins with this one
						for _, c2 := range calls[i:] {
							if c2.at.Sub(c1.at) >= time.Second {
								break
							}
							in++
						}
						if most := max(1, int(c.rate)) + c.burst; in > most {
							t.Fatalf("want at most %d calls begun in any second, got %d", most, in)
						}
					}
					least := time.Duration(float64(n-c.burst-passes) / c.rate * float64(time.Second))
					most := time.Duration(float64(n) / c.rate * float64(time.Second))
					if took := calls[n-1].at.Sub(start); took < least || took > most {
						t.Errorf("want %d calls to take from %v to %v, got %v", n, least, most, took)
					}
				})
			})
		}
	}
}

// pausing returns a handler that takes a second and asks for a pause at the
// first attempt on one record. No two calls end at the same instant.
func pausing(at int, pause time.Duration) backlog.HandlerFunc {
	return func(ctx context.Context, r *backlog.Record) error {
		wait(ctx, time.Second+time.Nanosecond<<(id(r)%100))
		if id(r) == at && r.Lane == backlog.Fresh {
			return fmt.Errorf("call: %w", backlog.RetryAfter(pause, errBroken))
		}
		return nil
	}
}

func TestRetryAfterPausesAllPasses(t *testing.T) {
	for _, c := range []struct {
		name                string
		asked, bound, lasts time.Duration
	}{
		{"as asked", time.Minute, time.Hour, time.Minute},
		{"bounded by MaxPause", time.Hour, 10 * time.Minute, 10 * time.Minute},
		{"bounded by an hour", 1000 * time.Hour, 0, time.Hour},
		{"not at all", 0, 0, 0},
		{"not at all if negative", -time.Minute, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, pausing(3, c.asked))
				b.MaxPause, b.Concurrency = c.bound, 2
				b.add(t, "NEW", 1, 20, 0)
				b.add(t, "NEW", 101, 20, 2*day)
				var both sync.WaitGroup
				both.Go(func() { b.pass(t) })
				both.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
				both.Wait()

				asked := b.calls.of(3)[0].ended
				until := asked.Add(c.lasts)
				resumed := false
				for _, call := range b.calls.all() {
					if !call.at.Before(asked) && call.at.Before(until) {
						t.Errorf("want no call by any pass for %v, got one on record %d after %v", c.lasts, call.id, call.at.Sub(asked))
					}
					resumed = resumed || call.at.Equal(until)
				}
				if !resumed {
					t.Errorf("want calls again after exactly %v", c.lasts)
				}
				if last := b.row(t, 3); last.LastError != "call: "+errBroken.Error() {
					t.Errorf("want the record that asked to be an error, got %+v", last)
				}
				if got := b.statuses()["SUCCESS"]; got < 39 {
					t.Errorf("want all others done, got %d", got)
				}
				events := b.events.of(backlog.Paused)
				if c.lasts == 0 {
					return
				}
				if len(events) != 1 || !events[0].At.Equal(until) || !errors.Is(events[0].Err, errBroken) {
					t.Errorf("want one Paused event until %v with the handler's error, got %+v", until, events)
				}
			})
		})
	}
}

func TestPauseIsTheLongestAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := []time.Duration{1: 10 * time.Minute, 2: time.Minute, 3: 20 * time.Minute}
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if n := id(r); n < len(pause) {
				wait(ctx, time.Duration(n)*time.Second)
				return backlog.RetryAfter(pause[n], errBroken)
			}
			return nil
		})
		b.Concurrency = 3
		b.add(t, "NEW", 1, 4, 0)
		start := time.Now()
		b.pass(t)
		if got, want := b.calls.of(4)[0].at.Sub(start), 3*time.Second+20*time.Minute; got != want {
			t.Errorf("want the next call when the longest pause is over, after %v, got %v", want, got)
		}
		if n := len(b.events.of(backlog.Paused)); n != 2 {
			t.Errorf("want an event for each pause that is longer than the one before, 2, got %d", n)
		}
	})
}

// The pause counts from the moment the handler returns. Here the worker is
// held up a little then, at its reading of the clock, while another pass waits
// for its turn.
func TestPauseBeginsBeforeTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		asking := pausing(1, time.Minute)
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			err := asking(ctx, r)
			ended.Store(err != nil)
			return err
		})
		b.Now = func() time.Time {
			if ended.CompareAndSwap(true, false) {
				time.Sleep(time.Millisecond)
			}
			return time.Now()
		}
		b.add(t, "NEW", 1, 3, 0)
		b.add(t, "NEW", 101, 3, 2*day)
		var both sync.WaitGroup
		both.Go(func() { b.pass(t) })
		time.Sleep(time.Millisecond)
		both.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
		both.Wait()
		asked := b.calls.of(1)[0].ended
		for _, call := range b.calls.all()[1:] {
			if after := call.at.Sub(asked); after < time.Minute {
				t.Errorf("want no call until the pause of a minute is over, got one on record %d after %v", call.id, after)
			}
		}
	})
}

// A record may wait long for the rate. A pause asked for meanwhile is its too.
func TestPauseHoldsForARecordThatWaitsForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, pausing(1, 10*time.Minute))
		b.Concurrency, b.Rate = 2, 0.1 // every ten seconds
		b.add(t, "NEW", 1, 3, 0)
		b.pass(t)
		asked := b.calls.of(1)[0].ended
		for _, call := range b.calls.all() {
			if after := call.at.Sub(asked); after >= 0 && after < 10*time.Minute {
				t.Errorf("want no call until the pause of ten minutes is over, got record %d after %v", call.id, after)
			}
		}
	})
}

// Records that waited for the end of a pause, or for the store, do not all
// start at once then: the service has just asked for less.
func TestRateHoldsAfterAWait(t *testing.T) {
	for _, c := range []struct {
		name string
		wait func(b *bench)
	}{
		{"pause", func(b *bench) { b.calls.do = pausing(1, 10*time.Minute) }},
		{"outage", func(b *bench) {
			store := &outage{Store: b.table, trouble: everything}
			b.Store = store
			time.AfterFunc(3*time.Second, store.begin)
			time.AfterFunc(time.Minute, store.end)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
				b.Concurrency, b.Rate = 50, 1
				c.wait(b)
				b.add(t, "NEW", 1, 200, 0)
				b.pass(t)
				calls := b.calls.all()
				for i := range calls[2:] {
					// Two may be a little less than a second apart when one
					// of them was late.
					if apart := calls[i+2].at.Sub(calls[i].at); apart < time.Second {
						t.Fatalf("want a call a second, also after %v, got three within %v", calls[i].at.Sub(calls[0].at), apart)
					}
				}
			})
		})
	}
}

// A context with a deadline is a stop like any other.
func TestRateBeyondTheDeadlineIsAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Rate = 0.01
		b.add(t, "NEW", 1, 3, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if err != nil || rep.Stopped != backlog.StoppedSignal {
			t.Errorf("want the pass stopped by its context, %q, got %q, error %v", backlog.StoppedSignal, rep.Stopped, err)
		}
	})
}

// However many hands there are, one looks for the store to be back.
func TestOneHandWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(250*time.Millisecond, succeed))
		b.Concurrency = 100
		store := &outage{Store: b.table, trouble: everything}
		b.Store = store
		var readings atomic.Int64
		b.Now = func() time.Time { readings.Add(1); return time.Now() }
		b.add(t, "NEW", 1, 2000, 0)
		var pass sync.WaitGroup
		pass.Go(func() { b.pass(t) })
		time.Sleep(3050 * time.Millisecond)
		store.begin()
		time.Sleep(10 * time.Second)
		before := readings.Load()
		time.Sleep(10 * time.Second)
		if n := readings.Load() - before; n > 300 {
			t.Errorf("want the store looked for ten times a second, got %d readings of the clock in ten seconds", n)
		}
		store.end()
		pass.Wait()
	})
}

// A handler that cannot begin says nothing about the records: they stay as they
// are, and the pass does not go through the table in vain.
func TestUnstartedHandlerEndsThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, func(_ context.Context, r *backlog.Record) error {
			if id(r) < 4 {
				return nil
			}
			return backlog.Unstarted(errors.New("deliver.sh is not there"))
		})
		b.Policy = &backlog.Policy{Name: "once", Never: true, Wait: func(int) (least, most time.Duration) { return 0, 0 }}
		b.add(t, "NEW", 1, 1000, 0)
		report, err := b.Engine.Pass(t.Context(), backlog.Pass{Tier: "1d", MaxAge: day})
		if err == nil || !strings.Contains(err.Error(), "deliver.sh is not there") || report.Stopped != backlog.StoppedError {
			t.Errorf("want the pass ended by the error, got %q and %v", report.Stopped, err)
		}
		if report.Succeeded != 3 || report.Failed != 0 || report.Selected > 100 {
			t.Errorf("want three successes, no failure and few calls, got %+v", report)
		}
		if got := b.statuses(); got["NEW"] != 997 || got["SUCCESS"] != 3 {
			t.Errorf("want the other rows as they were, got %v", got)
		}
	})
}

// An OnDead that the stop has ended has told nobody: as after a crash, the row
// stays, and the next pass tells.
func TestStopEndsOnDead(t *testing.T) {
	for _, c := range []struct {
		name  string
		age   time.Duration
		reply error
	}{{"expired", 3 * day, nil}, {"rejected", 0, backlog.Reject(errBroken)}, {"out of retries", 0, errBroken}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{Dead: "DEAD"}, func(context.Context, *backlog.Record) error { return c.reply })
				b.Policy = &backlog.Policy{Name: "none", Never: true, Wait: func(int) (least, most time.Duration) { return 0, 0 }}
				told := 0
				b.OnDead = backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Minute):
						told++
						return nil
					}
				})
				b.ShutdownTimeout = time.Second
				b.add(t, "NEW", 1, 1, c.age)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				p := backlog.Pass{Tier: "1d", MaxAge: day, Widest: true}
				if _, err := b.Engine.Pass(ctx, p); err != nil {
					t.Error(err)
				}
				if got := b.status(t, 1); got != "NEW" || told != 0 {
					t.Errorf("after the stop: %s, told %d times; want it as it was", got, told)
				}
				b.passOf(t, p)
				if got := b.status(t, 1); got != "DEAD" || told != 1 {
					t.Errorf("after the next pass: %s, told %d times; want DEAD, once", got, told)
				}
			})
		})
	}
}
