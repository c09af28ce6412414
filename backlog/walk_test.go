package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

func TestWidestPassExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, succeed)
		now := time.Now()
		for i, age := range []time.Duration{day + 1, day, 2 * day, 0} {
			if err := b.table.Insert(memory.Row{Key: key(i), Status: "ERROR", Inserted: now.Add(-age)}); err != nil {
				t.Fatal(err)
			}
		}
		if rep := b.passOf(t, backlog.Pass{MaxAge: day / 2}); rep.Expired != 0 {
			t.Errorf("want a pass that is not the widest's to expire nothing, got %d", rep.Expired)
		}
		rep := b.passOf(t, backlog.Pass{MaxAge: day, Widest: true})
		if rep.Expired != 2 {
			t.Errorf("want the two records older than a day expired, got %d", rep.Expired)
		}
		for i, want := range []string{"DEAD", "SUCCESS", "DEAD", "SUCCESS"} {
			if got := b.status(t, i); got != want {
				t.Errorf("want record %d to be %s, got %s", i, want, got)
			}
		}
		if got, want := b.calls.ids(), []int{3, 1}; !slices.Equal(got, want) {
			t.Errorf("want %v handled and no expired record, got %v", want, got)
		}
	})
}

func TestWidestPassTakesWhatHasNoDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{NullDate: "oldest"}, succeed)
		if err := b.table.Insert(memory.Row{Key: key(1), Status: "NEW"}); err != nil {
			t.Fatal(err)
		}
		if rep := b.passOf(t, backlog.Pass{MaxAge: 360 * day}); rep.Selected != 0 {
			t.Errorf("want a record that counts as oldest left to the widest pass, got %d selected", rep.Selected)
		}
		if rep := b.passOf(t, backlog.Pass{MaxAge: day, Widest: true}); rep.Selected != 1 {
			t.Errorf("want the widest pass to take it, got %d selected", rep.Selected)
		}
	})
}

func TestUnreadableRowsAreCountedAndNeverHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		h := b.hook()
		var n int
		h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
			page, err := h.Store.Pending(ctx, q)
			n++
			row := backlog.Unreadable{Key: key(1000 + n), Err: fmt.Errorf("date_inserted: %d is no time", n)}
			page.Unreadable = append(page.Unreadable, row)
			if q.After.IsZero() && q.Lane == backlog.Fresh {
				// A page may hold nothing else and not be the last.
				page.Records, page.Next, page.More = nil, backlog.Cursor{Order: int64(1 << 62), Key: key(0)}, true
			}
			return page, err
		}
		b.add(t, "NEW", 1, 3, 0)
		b.add(t, "ERROR", 11, 3, 0)
		rep := b.pass(t)
		if got, want := outcomes(rep), "6 succeeded, 3 unreadable"; got != want || rep.Selected != 6 {
			t.Errorf("want %s, 6 selected, got %s, %d selected", want, got, rep.Selected)
		}
		events := b.events.of(backlog.UnreadableRow)
		for i, ev := range events {
			if ev.Record == nil {
				t.Fatalf("want an event that names row %d, got %+v", 1001+i, ev)
			}
			testkit.Equal(t, "row of the event", id(ev.Record), 1001+i)
			testkit.Equal(t, "tier of the event", ev.Tier, "1d")
			testkit.Contains(t, "reason of the event", fmt.Sprint(ev.Err), "is no time")
		}
		if len(events) != 3 {
			t.Errorf("want 3 events, got %d", len(events))
		}
	})
}

// Where handlers take minutes a page is read again, and with it the rows of it
// that cannot be read.
func TestUnreadableRowsAreCountedOncePerPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(10*time.Minute, succeed))
		h := b.hook()
		pages := 0
		h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
			page, err := h.Store.Pending(ctx, q)
			if slices.ContainsFunc(page.Records, func(r backlog.Record) bool { return id(&r) == 8 }) { // it stands before that
				page.Unreadable = append(page.Unreadable, backlog.Unreadable{Key: key(99), Err: errors.New("date_inserted: 99 is no time")})
				pages++
			}
			return page, err
		}
		b.add(t, "NEW", 1, 30, 0)
		rep := b.pass(t)
		if rep.Succeeded != 30 || rep.Unreadable != 1 {
			t.Errorf("want 30 succeeded, 1 unreadable, got %s", outcomes(rep))
		}
		if n := len(b.events.of(backlog.UnreadableRow)); n != 1 || pages < 2 {
			t.Errorf("want one event for a row that is read several times, got %d for %d", n, pages)
		}
	})
}

// A table may have many such rows in a row: pages of nothing else take no time
// and are soon as long as they may be.
func TestPagesOfUnreadableRowsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20_000
		b := newBench(t, memory.Options{}, succeed)
		h := b.hook()
		pages := 0
		h.pending = func(ctx context.Context, q backlog.Query) (page backlog.Page, err error) {
			if q.Lane == backlog.Failed {
				return h.Store.Pending(ctx, q)
			}
			pages++
			from := 0
			if !q.After.IsZero() {
				from = id(&backlog.Record{Key: q.After.Key})
			}
			for i := from + 1; i <= min(from+q.Limit, n); i++ {
				page.Unreadable = append(page.Unreadable, backlog.Unreadable{Key: key(i), Err: errBroken})
				page.Next = backlog.Cursor{Order: int64(0), Key: key(i)}
			}
			page.More = from+q.Limit < n
			return page, nil
		}
		if rep := b.pass(t); rep.Unreadable != n || !rep.Complete {
			t.Errorf("want a complete pass with %d rows that cannot be read, got %+v", n, rep)
		}
		if pages > 30 {
			t.Errorf("want pages of a thousand rows, some thirty in all, got %d", pages)
		}
	})
}

func TestPendingFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("no such table: BACKLOG")
		b := newBench(t, memory.Options{}, succeed)
		h := b.hook()
		h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
			if q.Lane == backlog.Failed && !q.After.IsZero() {
				return backlog.Page{}, gone
			}
			return h.Store.Pending(ctx, q)
		}
		b.add(t, "NEW", 1, 3, 0)
		b.add(t, "ERROR", 11, 30, 0)
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if !errors.Is(err, gone) {
			t.Errorf("want the pass to end with the store's error, got %v", err)
		}
		checkSum(t, rep)
		if rep.Complete || rep.Stopped != backlog.StoppedError {
			t.Errorf("want the report to say that an error ended the pass, got %+v", rep)
		}
		if rep.Succeeded < 3 || rep.Succeeded == 33 || b.statuses()["SUCCESS"] != rep.Succeeded {
			t.Errorf("want what was handed out before settled, got %s and %v", outcomes(rep), b.statuses())
		}
		if ends := b.events.of(backlog.PassEnded); len(ends) != 1 || !errors.Is(ends[0].Err, gone) {
			t.Errorf("want PassEnded to say why, got %+v", ends)
		}

		h.pending = nil
		before := len(b.calls.ids())
		b.passOf(t, backlog.Pass{MaxAge: day, Resume: throughJSON(t, rep.Resume)})
		if got, want := b.calls.ids()[before:], numbers(11+rep.Succeeded-3, 40); !slices.Equal(got, want) {
			t.Errorf("want the next pass to go on with %v, got %v", want, got)
		}
	})
}

func TestExpireFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Store = failingExpirer{b.table}
		b.add(t, "NEW", 1, 3, 0)
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day, Widest: true})
		if !errors.Is(err, errBroken) || rep.Stopped != backlog.StoppedError || rep.Selected != 0 {
			t.Errorf("want the pass to end with the store's error before it selects, got %v, %+v", err, rep)
		}
	})
}

type failingExpirer struct{ *memory.Store }

func (failingExpirer) Expire(context.Context, backlog.Expiry) (int, error) {
	return 0, errBroken
}

// The page is to be about a second's worth, so that records are handed out as
// they were a moment ago.
func TestPagesAreReadAsTheyAreUsed(t *testing.T) {
	for _, c := range []struct {
		name        string
		takes       time.Duration
		concurrency int
		atMost      int // records read at the end, beyond those handed out
	}{
		{"a slow handler", 10 * time.Second, 1, 20},
		{"a handler of 20ms", 20 * time.Millisecond, 1, 100},
		{"many hands", time.Second, 100, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				b := newBench(t, memory.Options{}, slowly(c.takes, succeed))
				b.Concurrency = c.concurrency
				h := b.hook()
				read := 0
				h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
					page, err := h.Store.Pending(ctx, q)
					read += len(page.Records)
					return page, err
				}
				b.add(t, "NEW", 1, 20_000, 0)
				time.AfterFunc(60*c.takes+time.Millisecond, cancel)
				rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
				if err != nil {
					t.Fatal(err)
				}
				if ahead := read - rep.Selected; ahead > c.atMost {
					t.Errorf("want at most %d records read ahead of the handlers, got %d", c.atMost, ahead)
				}
			})
		})
	}
}

// Handlers that take minutes are not given rows as they were hours ago: what
// somebody else has taken back meanwhile is not done.
func TestRowTakenBackWhileItWaitsIsNotHandled(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(10*time.Minute, succeed))
				b.Concurrency = concurrency
				n := 30 * concurrency // five hours
				b.add(t, "NEW", 1, n, 0)
				taken := numbers(12*concurrency, n) // their turn is in two hours and more
				time.AfterFunc(5*time.Minute, func() {
					for _, id := range taken {
						b.table.Update(key(id), func(row *memory.Row) { row.Status = "CANCELLED" })
					}
				})
				rep := b.pass(t)
				for _, id := range taken {
					if calls := b.calls.of(id); len(calls) > 0 {
						t.Errorf("want record %d, cancelled after 5m, not handled, it was after %v", id, calls[0].at.Sub(midnight))
					}
				}
				if rep.Conflicts > 0 {
					t.Errorf("want no outcome lost, got %s", outcomes(rep))
				}
			})
		})
	}
}

// Records are bounded by their bytes, too, those read ahead and those at handlers
// alike; one record always passes.
func TestLargeRecordsAreBoundedByBytes(t *testing.T) {
	for _, c := range []struct{ size, page, flying int }{{1 << 20, 8, 15}, {40 << 20, 1, 1}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(10*time.Millisecond, succeed))
				b.Concurrency = 100
				h := b.hook()
				pages, largest := 0, 0
				h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
					page, err := h.Store.Pending(ctx, q)
					if pages++; pages > 2 { // the first ones are small anyhow
						largest = max(largest, len(page.Records))
					}
					return page, err
				}
				payload := strings.Repeat("x", c.size)
				for i := range 100 {
					row := memory.Row{Key: key(i), Status: "NEW", Inserted: time.Now(), Columns: map[string]any{"payload": payload}}
					if err := b.table.Insert(row); err != nil {
						t.Fatal(err)
					}
				}
				if rep := b.pass(t); rep.Succeeded != 100 {
					t.Errorf("want all done, got %s", outcomes(rep))
				}
				most := 0
				for _, call := range b.calls.all() {
					most = max(most, call.handed+1)
				}
				if largest > c.page || most > c.flying {
					t.Errorf("want at most %d records in a page and %d at handlers, got %d and %d", c.page, c.flying, largest, most)
				}
			})
		})
	}
}
