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

// A settled is one group that came to the store.
type settled struct {
	at  time.Time
	ids []int
}

// A ledger notes the groups that a store is given.
type ledger struct {
	mu     sync.Mutex
	groups []settled
}

// keep makes the bench's store note its groups.
func (l *ledger) keep(b *bench) *hooked {
	h := b.hook()
	h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
		l.note(group)
		return h.Store.Settle(ctx, group)
	}
	return h
}

func (l *ledger) note(group []backlog.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := settled{at: time.Now()}
	for _, s := range group {
		g.ids = append(g.ids, id(s.Record))
	}
	l.groups = append(l.groups, g)
}

func (l *ledger) all() []settled {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.groups)
}

// takes is a handler that takes as many milliseconds as the table says for the
// record.
func takes(ms map[int]int) backlog.HandlerFunc {
	return func(ctx context.Context, r *backlog.Record) error {
		wait(ctx, time.Duration(ms[id(r)])*time.Millisecond)
		return nil
	}
}

func TestGroupIsWritten100msAfterItsFirstOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		b := newBench(t, memory.Options{}, takes(map[int]int{1: 1000, 2: 1050, 3: 1099, 4: 1101, 5: 1150, 6: 3000, 7: 5000}))
		b.Concurrency = 10
		l.keep(b)
		b.add(t, "NEW", 1, 7, 0)
		start := time.Now()
		b.pass(t)
		want := []string{"1.1s [1 2 3]", "1.201s [4 5]", "3.1s [6]", "5s [7]"} // nothing comes after the last
		var got []string
		for _, g := range l.all() {
			got = append(got, fmt.Sprint(g.at.Sub(start), " ", g.ids))
		}
		if !slices.Equal(got, want) {
			t.Errorf("want groups written 100ms after their first outcome, or when nothing more can come: %v, got %v", want, got)
		}
	})
}

func TestGroupsAreAtMost500(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 64, 1000} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l ledger
				b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
					switch {
					case id(r) == 1: // its settlement is slow, all others end meanwhile
						return nil
					case id(r) == 5000:
						wait(ctx, time.Minute)
					}
					wait(ctx, 150*time.Millisecond)
					return nil
				})
				b.Concurrency = concurrency
				h := b.hook()
				h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
					l.note(group)
					wait(ctx, 200*time.Millisecond)
					return h.Store.Settle(ctx, group)
				}
				b.add(t, "NEW", 1, 5000, 0)
				rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
				if err != nil || rep.Succeeded != 5000 {
					t.Errorf("want 5,000 records done, got %s, error %v", outcomes(rep), err)
				}
				for _, g := range l.all() {
					if len(g.ids) > backlog.MaxGroup {
						t.Errorf("want groups of at most %d, got one of %d", backlog.MaxGroup, len(g.ids))
					}
				}
			})
		})
	}
}

// When the last handlers end, there may be more to write than one group.
func TestAllIsWrittenAtTheEnd(t *testing.T) {
	for range 10 { // for the luck of a select
		synctest.Test(t, func(t *testing.T) {
			var l ledger
			b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
				if id(r) > 1 {
					wait(ctx, 200*time.Millisecond)
				}
				return nil
			})
			b.Concurrency = 1000
			h := b.hook()
			h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
				l.note(group)
				wait(ctx, 500*time.Millisecond) // all handlers end while the first one's is written
				return h.Store.Settle(ctx, group)
			}
			b.add(t, "NEW", 1, 1000, 0)
			rep := b.pass(t)
			if rep.Succeeded != 1000 || b.statuses()["SUCCESS"] != 1000 {
				t.Errorf("want all 1,000 outcomes written, got %s and %v", outcomes(rep), b.statuses())
			}
			var sizes []int
			for _, g := range l.all() {
				sizes = append(sizes, len(g.ids))
			}
			if want := []int{1, 500, 499}; !slices.Equal(sizes, want) {
				t.Errorf("want groups of %v, got %v", want, sizes)
			}
		})
	}
}

// A group that is large enough is not kept waiting, also when there is room
// for more.
func TestLargeGroupIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if id(r) <= 300 {
				wait(ctx, time.Second)
			} else {
				wait(ctx, time.Minute)
			}
			return nil
		})
		b.Concurrency = 400
		l.keep(b)
		b.add(t, "NEW", 1, 400, 0)
		start := time.Now()
		b.pass(t)
		if g := l.all()[0]; g.at.Sub(start) != time.Second || len(g.ids) < backlog.MaxGroup*2/5 {
			t.Errorf("want two fifths of a group and more, of the 300 outcomes after a second, written at once, got %d after %v", len(g.ids), g.at.Sub(start))
		}
	})
}

func TestFastHandlersAreSettledInLargeGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 10_000 {
				wait(ctx, time.Minute)
			}
			return nil
		})
		b.Concurrency = 8
		l.keep(b)
		b.add(t, "NEW", 1, 10_000, 0)
		start := time.Now()
		b.pass(t)
		groups := l.all()
		if n := len(groups); n > 200 {
			t.Errorf("want 10,000 outcomes that come at once settled in groups of fifty and more, got %d groups", n)
		}
		for _, g := range groups[:len(groups)-2] {
			if at := g.at.Sub(start); at != 0 {
				t.Errorf("want full groups written at once, got one of %d after %v", len(g.ids), at)
			}
		}
	})
}

// No call of the store is under way while only handlers are: the table is free
// for others however long they take.
func TestNothingIsHeldWhileHandlersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Hour, succeed))
		b.Concurrency = 2
		var mu sync.Mutex
		var open int
		enter := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			open += n
		}
		h := b.hook()
		h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
			enter(1)
			defer enter(-1)
			wait(ctx, time.Second)
			return h.Store.Pending(ctx, q)
		}
		h.settle = func(ctx context.Context, g []backlog.Settlement) ([]backlog.Unsettled, error) {
			enter(1)
			defer enter(-1)
			wait(ctx, time.Second)
			return h.Store.Settle(ctx, g)
		}
		b.add(t, "NEW", 1, 100, 0)
		var pass sync.WaitGroup
		pass.Go(func() { b.pass(t) })
		for range 49 {
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			mu.Lock()
			if open != 0 || b.calls.running() != 2 {
				t.Errorf("want two handlers and no call of the store under way, got %d and %d", b.calls.running(), open)
			}
			mu.Unlock()
			time.Sleep(30 * time.Minute)
		}
		pass.Wait()
	})
}

// What a crash repeats at most is bounded, also when the store takes its time.
func TestHandedOutAndNotSettledIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ concurrency, passes, want int }{{1, 1, 500}, {50, 1, 500}, {50, 3, 500}, {600, 1, 600}} {
		t.Run(fmt.Sprintf("concurrency=%d/passes=%d", c.concurrency, c.passes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				b.Concurrency = c.concurrency
				var mu sync.Mutex
				var handed, written, most int
				h := b.hook()
				h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
					// So short that the store does not count as away, so
					// long that all that may be handed out is.
					wait(ctx, 500*time.Millisecond)
					mu.Lock()
					written += len(group)
					mu.Unlock()
					var left []backlog.Unsettled
					for part := range slices.Chunk(group, backlog.MaxGroup) {
						more, err := h.Store.Settle(ctx, part)
						if err != nil || len(more) > 0 {
							t.Errorf("want every outcome written, got %v, error %v", more, err)
						}
					}
					return left, nil
				}
				b.calls.do = func(context.Context, *backlog.Record) error {
					mu.Lock()
					defer mu.Unlock()
					handed++
					most = max(most, handed-written)
					return nil
				}
				b.add(t, "NEW", 1, 3000, 0)
				var all sync.WaitGroup
				for range c.passes {
					all.Go(func() { b.pass(t) })
				}
				all.Wait()
				if most > c.want {
					t.Errorf("want at most %d records handed out and not settled, got %d", c.want, most)
				}
				if most < 400 {
					t.Errorf("want the bound of %d to be what holds the pass back, got at most %d", c.want, most)
				}
				if done := b.statuses()["SUCCESS"]; done != 3000 {
					t.Errorf("want all 3,000 records done, got %d", done)
				}
			})
		})
	}
}

// A pass that waits for another's outcomes to be written does not wait for
// their 100 ms.
func TestFullHouseIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Concurrency = 4
		b.add(t, "NEW", 1, 2000, 0)
		var all sync.WaitGroup
		start := time.Now()
		for range 4 { // four groups, none of them full
			all.Go(func() { b.pass(t) })
		}
		all.Wait()
		if took := time.Since(start); took >= 100*time.Millisecond {
			t.Errorf("want instant handlers and an instant store to take no time, got %v", took)
		}
	})
}

func TestSettleFailsForGood(t *testing.T) {
	full := errors.New("database or disk is full")
	for _, c := range []struct {
		name    string
		records int
		running bool // a handler, when the first group fails
	}{
		{"in the middle", 50, true},
		{"after the last record was handed out", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(300*time.Millisecond, succeed))
				b.Concurrency = 2
				h := b.hook()
				h.settle = func(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) { return nil, full }
				b.add(t, "NEW", 1, c.records, 0)
				rep, err := b.Pass(t.Context(), backlog.Pass{Tier: "1d", MaxAge: day})
				checkSum(t, rep)
				if !errors.Is(err, full) {
					t.Errorf("want the pass to end with the store's error, got %v", err)
				}
				if rep.Unwritten == 0 || rep.Unwritten != rep.Selected {
					t.Errorf("want every outcome counted as unwritten, got %d of %d selected", rep.Unwritten, rep.Selected)
				}
				if c.running && rep.Selected > 6 {
					t.Errorf("want nothing handed out after the failure, got %d records", rep.Selected)
				}
				if rep.Stopped != backlog.StoppedError || rep.Complete {
					t.Errorf("want a report stopped by an error and not complete, got stopped %q, complete %t", rep.Stopped, rep.Complete)
				}
				if got := b.statuses()["NEW"]; got != c.records {
					t.Errorf("want all %d rows as they were, got %d", c.records, got)
				}
				events := b.events.of(backlog.Unwritten)
				if len(events) != rep.Unwritten {
					t.Errorf("want an Unwritten event for each of %d outcomes, got %d", rep.Unwritten, len(events))
				}
				for _, ev := range events {
					testkit.Equal(t, "outcome of the event", ev.Outcome, backlog.Succeeded)
					testkit.Equal(t, "tier of the event", ev.Tier, "1d")
					if ev.Record == nil || !errors.Is(ev.Err, full) {
						t.Errorf("want an event with its record and the store's error, got %+v", ev)
					}
				}
				h.settle = nil
				if rep := b.pass(t); rep.Succeeded != c.records {
					t.Errorf("want the next pass to find all %d records pending, got %s", c.records, outcomes(rep))
				}
			})
		})
	}
}
