package backlog_test

import (
	"context"
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

// Failures count in the order in which handlers end, not in that of records.
func TestAbortAfterCountsInTheOrderOfEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := []struct {
			takes time.Duration // and ends at
			err   error
		}{
			1: {1 * time.Second, errBroken},  // 1s: one
			2: {2 * time.Second, errBroken},  // 2s: two
			3: {3 * time.Second, nil},        // 3s: none
			4: {3 * time.Second, errBroken},  // 4s, begun at 1s: one
			5: {3 * time.Second, errBroken},  // 5s, begun at 2s: two
			6: {3 * time.Second, errBroken},  // 6s, begun at 3s: three
			7: {10 * time.Second, nil},       // 14s, begun at 4s
			8: {10 * time.Second, errBroken}, // 15s, begun at 5s
		}
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			p := plan[id(r)]
			if !wait(ctx, p.takes) {
				t.Errorf("want what is in flight to end by itself, record %d was ended", id(r))
			}
			return p.err
		})
		b.Concurrency, b.AbortAfter = 3, 3
		b.add(t, "NEW", 1, 20, 0)
		rep := b.pass(t)
		if got, want := sorted(b.calls.ids()), numbers(1, 8); !slices.Equal(got, want) {
			t.Errorf("want nothing handed out once three handlers in a row had failed, after %v, got %v", want, got)
		}
		if got, want := outcomes(rep), "2 succeeded, 6 failed"; got != want || rep.Duration != 15*time.Second {
			t.Errorf("want %s after 15s, with what was in flight settled, got %s after %v", want, got, rep.Duration)
		}
		if rep.Complete || rep.Stopped != backlog.StoppedAbortAfter {
			t.Errorf("want a pass stopped by abort_after, got %+v", rep)
		}
	})
}

func TestAbortAfterCountsOnlyFailuresInARow(t *testing.T) {
	for _, c := range []struct {
		name     string
		abort    int
		do       backlog.HandlerFunc
		complete bool
	}{
		{"off", 0, fail, true},
		{"one too many", 21, fail, true},
		{"a success in between", 2, func(_ context.Context, r *backlog.Record) error {
			if id(r)%2 == 0 {
				return nil
			}
			return errBroken
		}, true},
		{"skips", 1, func(context.Context, *backlog.Record) error { return backlog.Skip }, true},
		{"a skip in between", 2, func(_ context.Context, r *backlog.Record) error {
			if id(r)%2 == 0 {
				return backlog.Skip
			}
			return errBroken
		}, false},
		{"panics", 3, func(context.Context, *backlog.Record) error { panic("boom") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Second, c.do))
				b.AbortAfter = c.abort
				b.add(t, "NEW", 1, 20, 0)
				if rep := b.pass(t); rep.Complete != c.complete || rep.Complete != (rep.Selected == 20) {
					t.Errorf("want complete %t, got %+v", c.complete, rep)
				}
			})
		})
	}
}

// Where the last failure is that of the last record there is nothing to abort
// and nothing to go on with.
func TestAbortAfterTheLastRecord(t *testing.T) {
	for _, c := range []struct {
		name          string
		fresh, failed int
		limit         int // MaxRecords
		complete      bool
	}{
		{"fresh lane", 3, 0, 0, true},
		{"failed lane", 0, 3, 0, true},
		{"both lanes", 1, 2, 0, true},
		{"more", 6, 0, 0, false}, // with three hands, two may begin before the third failure
		{"more in the other lane", 3, 3, 0, false},
		{"under a cap that it reaches", 3, 0, 3, true},
		{"under a cap that leaves one", 0, 4, 3, false},
	} {
		for _, concurrency := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", c.name, concurrency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{}, slowly(time.Second, fail))
					b.AbortAfter, b.Concurrency, b.MaxRecords = 3, concurrency, c.limit
					b.add(t, "NEW", 1, c.fresh, 0)
					b.add(t, "ERROR", 11, c.failed, 0)
					rep := b.pass(t)
					if rep.Failed < 3 {
						t.Errorf("want at least three failures, got %d", rep.Failed)
					}
					testkit.Equal(t, "the pass is complete", rep.Complete, c.complete)
					testkit.Equal(t, "there is no reason why it stopped", rep.Stopped == "", c.complete)
					if c.complete && !rep.Resume.IsZero() {
						t.Errorf("want no resume point after a complete pass, got %+v", rep.Resume)
					}
				})
			})
		}
	}
}

// The observer of the last failure is slow: meanwhile nothing more may start.
func TestAbortAfterHandsNothingOutAfterTheLastFailure(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Second, fail))
				b.Concurrency, b.AbortAfter = concurrency, 5
				b.Observe = func(ev backlog.Event) {
					if ev.Kind == backlog.AttemptEnded {
						time.Sleep(time.Millisecond)
					}
				}
				b.add(t, "NEW", 1, 50, 0)
				rep := b.pass(t)
				var ends []time.Time
				for _, c := range b.calls.all() {
					ends = append(ends, c.ended)
				}
				slices.SortFunc(ends, time.Time.Compare)
				fifth := ends[4]
				for _, c := range b.calls.all() {
					if c.at.After(fifth) || concurrency == 1 && c.at.Equal(fifth) {
						t.Errorf("want no handler call begun after the fifth failure in a row ended, got one on record %d %v later", c.id, c.at.Sub(fifth))
					}
				}
				if rep.Stopped != backlog.StoppedAbortAfter {
					t.Errorf("want a pass stopped by abort_after, got %+v", rep)
				}
			})
		})
	}
}

// The same of a record that waits for the hand that the last failure frees,
// while another pass has the other one.
func TestAbortAfterHandsNothingToTheHandThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if r.Tier == "7d" {
				wait(ctx, time.Hour)
				return nil
			}
			wait(ctx, time.Second)
			return errBroken
		})
		b.Concurrency, b.AbortAfter = 2, 3
		b.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.AttemptEnded {
				time.Sleep(time.Millisecond)
			}
		}
		b.add(t, "ERROR", 1, 1, 3*day)
		var wide sync.WaitGroup
		wide.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
		time.Sleep(time.Minute)
		b.add(t, "NEW", 11, 20, 0)
		if rep := b.pass(t); rep.Selected != 3 || rep.Stopped != backlog.StoppedAbortAfter {
			t.Errorf("want the pass ended by three failures, one at a time, and no record after them; got %d selected, stopped %q", rep.Selected, rep.Stopped)
		}
		wide.Wait()
	})
}

// With N poison records in a row at the head of a lane, the others still have
// their turn: the next pass goes on behind those tried.
func TestAbortAfterDoesNotLetPoisonBlockTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		o      memory.Options
		status string
	}{
		{"fresh lane", memory.Options{}, "NEW"},
		{"failed lane", memory.Options{}, "ERROR"},
		{"one lane", memory.Options{ErrorKeep: true}, "NEW"},
	} {
		for _, n := range []int{1, 2, 3, 7} {
			for _, rows := range []struct{ poison, good int }{{20, 30}, {n, 1}, {2 * n, 1}, {70, 70}} {
				for _, takes := range []time.Duration{0, time.Second} {
					t.Run(fmt.Sprintf("%s/N=%d/%d and %d/%v", c.name, n, rows.poison, rows.good, takes), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							b := newBench(t, c.o, slowly(takes, func(_ context.Context, r *backlog.Record) error {
								if id(r) <= rows.poison {
									return errBroken
								}
								return nil
							}))
							b.AbortAfter = n
							b.add(t, c.status, 1, rows.poison+rows.good, 0)
							tr := b.tier()
							passes := passesFor(rows.poison, n) + 1
							for range passes {
								tr.pass(t)
							}
							if done := b.statuses()["SUCCESS"]; done != rows.good {
								t.Errorf("want the %d good records behind %d poison ones done in %d passes, got %d", rows.good, rows.poison, passes, done)
							}
						})
					})
				}
			}
		}
	}
}
