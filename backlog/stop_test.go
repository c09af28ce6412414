package backlog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// stopAfter returns a context that is done after d.
func stopAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(d, cancel)
	return ctx
}

// stopped runs a pass that is stopped after d and must return no error. It
// returns how long the pass went on after the stop.
func (b *bench) stopped(t *testing.T, d time.Duration) (backlog.Report, time.Duration) {
	t.Helper()
	start := time.Now()
	rep, err := b.Pass(stopAfter(t, d), backlog.Pass{Tier: "1d", MaxAge: day})
	if err != nil {
		t.Errorf("want a stop to be no error, got %v", err)
	}
	checkSum(t, rep)
	return rep, time.Since(start) - d
}

func TestRunningHandlersMayFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if !wait(ctx, 10*time.Second) {
				t.Errorf("want record %d left to finish, it was ended: %v", id(r), ctx.Err())
			}
			if id(r)%2 == 0 {
				return errBroken
			}
			return nil
		})
		b.Concurrency, b.ShutdownTimeout = 4, 9*time.Second
		b.add(t, "NEW", 1, 100, 0)
		rep, after := b.stopped(t, 25*time.Second)
		if got, want := b.calls.ids(), numbers(1, 12); !slices.Equal(sorted(got), want) {
			t.Errorf("want nothing handed out after the stop, after %v, got %v", want, got)
		}
		if got, want := outcomes(rep), "6 succeeded, 6 failed"; got != want || after != 5*time.Second {
			t.Errorf("want %s 5s after the stop, got %s after %v", want, got, after)
		}
		if got := b.statuses(); got["SUCCESS"] != 6 || got["ERROR"] != 6 || got["NEW"] != 88 {
			t.Errorf("want what finished after the stop settled, got %v", got)
		}
		if rep.Stopped != backlog.StoppedSignal || rep.Complete {
			t.Errorf("want a pass stopped by a signal, got %+v", rep)
		}
	})
}

func sorted(ids []int) []int { slices.Sort(ids); return ids }

func TestHandlersThatDoNotFinishAreEnded(t *testing.T) {
	for _, c := range []struct{ shutdown, want time.Duration }{{0, 30 * time.Second}, {5 * time.Second, 5 * time.Second}} {
		t.Run(fmt.Sprint(c.shutdown), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
					<-ctx.Done()
					switch id(r) {
					case 1: // it was done all the same
						return nil
					case 2:
						return backlog.Reject(errBroken)
					case 3:
						return backlog.Skip
					case 4:
						panic("ended")
					}
					return ctx.Err()
				})
				b.Concurrency, b.ShutdownTimeout = 6, c.shutdown
				b.add(t, "NEW", 1, 100, 0)
				rep, after := b.stopped(t, time.Minute)
				if after != c.want {
					t.Errorf("want the handlers ended %v after the stop, got %v", c.want, after)
				}
				if got, want := outcomes(rep), "1 succeeded, 1 rejected, 1 skipped, 3 interrupted"; got != want {
					t.Errorf("want %s, got %s", want, got)
				}
				for id, want := range []string{1: "SUCCESS", 2: "ERROR", 3: "NEW", 4: "NEW", 5: "NEW", 6: "NEW"} {
					if id == 0 {
						continue
					}
					row := b.row(t, id)
					if row.Status != want || want == "NEW" && row.Attempts != 0 {
						t.Errorf("want record %d to be %s, without an attempt if it is as it was; got %+v", id, want, row)
					}
				}
				for _, ev := range b.events.of(backlog.AttemptEnded) {
					want := backlog.Skipped
					switch id(ev.Record) {
					case 1:
						want = backlog.Succeeded
					case 2:
						want = backlog.Rejected
					}
					if ev.Outcome != want {
						t.Errorf("want the event of record %d to say %v, got %v", id(ev.Record), want, ev.Outcome)
					}
				}
			})
		})
	}
}

func TestHardEndsHandlersAtOnce(t *testing.T) {
	for _, c := range []struct {
		name       string
		stop, hard time.Duration
	}{
		{"some time after the stop", 10 * time.Second, 12 * time.Second},
		{"together with the stop", 10 * time.Second, 10 * time.Second},
		{"without a stop", 1000 * time.Hour, 12 * time.Second},
		{"before the pass", 1000 * time.Hour, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Hour, succeed))
				b.Concurrency = 3
				hard := make(chan struct{})
				b.Hard = hard
				if c.hard < 0 {
					close(hard)
				} else {
					time.AfterFunc(c.hard, func() { close(hard) })
				}
				b.add(t, "NEW", 1, 100, 0)
				start := time.Now()
				rep, err := b.Pass(stopAfter(t, c.stop), backlog.Pass{MaxAge: day})
				if err != nil {
					t.Errorf("want a hard stop to be no error, got %v", err)
				}
				if took := time.Since(start); took != max(0, c.hard) {
					t.Errorf("want the pass to end at once on the hard stop after %v, got %v", c.hard, took)
				}
				testkit.Equal(t, "interrupted, of all selected", rep.Interrupted, rep.Selected)
				if rep.Selected > 3 || c.hard > 0 && rep.Selected != 3 {
					t.Errorf("want the three running handlers and none other begun, got %s of %d", outcomes(rep), rep.Selected)
				}
				if rep.Stopped != backlog.StoppedSignal || b.statuses()["NEW"] != 100 {
					t.Errorf("want a pass stopped by a signal and all rows as they were, got %q, %v", rep.Stopped, b.statuses())
				}
			})
		})
	}
}

func TestSettlementIsNotCancelledByTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
		b.Concurrency = 2
		h := b.hook()
		var n int
		h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
			n++
			if !wait(ctx, 3*time.Second) {
				t.Errorf("want settlement %d left to finish, its context is done: %v", n, ctx.Err())
			}
			return h.Store.Settle(ctx, group)
		}
		b.add(t, "NEW", 1, 10, 0)
		// One settlement is under way then, the other begins after it.
		rep, _ := b.stopped(t, 11*time.Second)
		if rep.Succeeded != 4 || b.statuses()["SUCCESS"] != 4 || n != 2 {
			t.Errorf("want four records settled in two groups, got %s, rows %v, %d groups", outcomes(rep), b.statuses(), n)
		}
	})
}

func TestStopBeforeThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, succeed)
		b.add(t, "NEW", 1, 3, 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resume := backlog.Resume{FailedLast: backlog.Cursor{Order: int64(5), Key: key(5)}}
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day, Widest: true, Resume: resume})
		if err != nil {
			t.Errorf("want no error, got %v", err)
		}
		testkit.Equal(t, "selected", rep.Selected, 0)
		testkit.Equal(t, "stopped by", rep.Stopped, backlog.StoppedSignal)
		testkit.Equal(t, "the pass is complete", rep.Complete, false)
		if rep.Resume.FailedLast.Key.String() != "5" {
			t.Errorf("want the resume point kept, got %+v", rep.Resume)
		}
	})
}

// Whatever a pass waits for, it ends soon after the stop.
func TestStopIsHeardWhileWaiting(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T, b *bench)
	}{
		{"for the rate", func(_ *testing.T, b *bench) { b.Rate = 0.001 }},
		{"for the end of a pause", func(_ *testing.T, b *bench) { b.calls.do = pausing(1, time.Hour) }},
		{"for the store to be back", func(_ *testing.T, b *bench) {
			store := &outage{Store: b.table, trouble: trouble{pending: true, ping: true}}
			b.Store = store
			time.AfterFunc(2*time.Second, store.begin)
			b.calls.do = slowly(time.Second, succeed)
		}},
		{"for a page", func(_ *testing.T, b *bench) {
			store := &outage{Store: b.table, trouble: trouble{pending: true, hangs: true}}
			store.begin()
			b.Store = store
		}},
		{"for the expiry", func(_ *testing.T, b *bench) {
			b.Store = &awayExpirer{Store: b.table, until: time.Now().Add(1000 * time.Hour)}
		}},
		{"for another pass's handler", func(t *testing.T, b *bench) {
			b.calls.do = slowly(20*time.Minute, succeed)
			other := make(chan struct{})
			go func() {
				defer close(other)
				b.pass(t)
			}()
			t.Cleanup(func() { <-other })
			synctest.Wait()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				b.add(t, "NEW", 1, 10, 0)
				c.setUp(t, b)
				start := time.Now()
				rep, err := b.Pass(stopAfter(t, 10*time.Minute), backlog.Pass{MaxAge: day, Widest: true})
				if err != nil {
					t.Errorf("want a stop to be no error, got %v", err)
				}
				checkSum(t, rep)
				if late := time.Since(start) - 10*time.Minute; late != 0 {
					t.Errorf("want the pass to end at the stop, as no handler runs, got %v later", late)
				}
				if rep.Stopped != backlog.StoppedSignal || rep.Complete {
					t.Errorf("want a pass stopped by a signal and not complete, got stopped %q, complete %t, %s", rep.Stopped, rep.Complete, outcomes(rep))
				}
			})
		})
	}
}

// Records that were read, and even given to the workers, but not to a handler
// are not done: the pass is not complete.
func TestStopWhileTheLastRecordsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(20*time.Second, succeed))
		b.add(t, "NEW", 1, 2, 0)
		rep, _ := b.stopped(t, 10*time.Second)
		if rep.Selected != 1 || rep.Complete || rep.Stopped != backlog.StoppedSignal {
			t.Errorf("want one of two records done by a pass that was stopped and is not complete, got %s, stopped %q, complete %t",
				outcomes(rep), rep.Stopped, rep.Complete)
		}
	})
}

// The same of records whose handlers were ended by the stop.
func TestStopThatInterruptsTheLastRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Hour, succeed))
		b.Concurrency = 2
		b.add(t, "NEW", 1, 2, 0)
		rep, _ := b.stopped(t, 10*time.Second)
		if rep.Interrupted != 2 || rep.Complete || rep.Stopped != backlog.StoppedSignal {
			t.Errorf("want two records interrupted in a pass that was stopped and is not complete, got %s, stopped %q, complete %t",
				outcomes(rep), rep.Stopped, rep.Complete)
		}
	})
}

// A stop after the last record was handed out changes nothing.
func TestStopAfterTheLastRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(20*time.Second, succeed))
		b.Concurrency = 2
		b.add(t, "NEW", 1, 2, 0)
		if rep, _ := b.stopped(t, 10*time.Second); rep.Succeeded != 2 || !rep.Complete || rep.Stopped != "" {
			t.Errorf("want a complete pass, got %s, stopped %q, complete %t", outcomes(rep), rep.Stopped, rep.Complete)
		}
	})
}

func TestStoppedPassIsGoneOnWith(t *testing.T) {
	for _, status := range []string{"NEW", "ERROR"} {
		for _, concurrency := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/concurrency=%d", status, concurrency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{ErrorKeep: status == "NEW"}, slowly(time.Second, fail))
					b.Concurrency = concurrency
					b.add(t, status, 1, 60, 0)
					rep, _ := b.stopped(t, 9500*time.Millisecond)
					n := 10 * concurrency
					if got, want := sorted(b.calls.ids()), numbers(1, n); !slices.Equal(got, want) {
						t.Fatalf("want %v handled, got %v", want, got)
					}
					b.goOn(t, rep, n)
				})
			})
		}
	}
}

// goOn checks that the pass after rep begins behind the first n records and
// comes to all.
func (b *bench) goOn(t *testing.T, rep backlog.Report, n int) {
	t.Helper()
	before := len(b.calls.ids())
	again := b.passOf(t, backlog.Pass{MaxAge: day, Resume: throughJSON(t, rep.Resume)})
	got := b.calls.ids()[before:]
	first, rest := got[:min(60-n, len(got))], got[min(60-n, len(got)):]
	if !slices.Equal(sorted(slices.Clone(first)), numbers(n+1, 60)) || !slices.Equal(sorted(slices.Clone(rest)), numbers(1, n)) {
		t.Errorf("want the next pass to begin with record %d and wrap round to those before, got %v", n+1, got)
	}
	if !again.Complete {
		t.Errorf("want it complete, got %+v", again)
	}
}
