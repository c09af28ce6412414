package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

func TestFreshBeforeFailedNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{New: []string{"NEW", "QUEUED"}}, succeed)
		now := time.Now()
		for _, r := range []struct {
			id     int
			status string
			age    time.Duration
		}{
			{1, "ERROR", time.Second}, // the newest of all
			{2, "NEW", 30 * time.Second},
			{3, "QUEUED", 20 * time.Second},
			{4, "NEW", 10 * time.Second},
			{5, "NEW", 30 * time.Second}, // as old as 2: the greater key first
			{6, "ERROR", time.Minute},
			{7, "NEW", time.Hour},
			{8, "ERROR", time.Hour},
			{9, "SUCCESS", 0},
			{10, "OTHER", 0},
		} {
			if err := b.table.Insert(memory.Row{Key: key(r.id), Status: r.status, Inserted: now.Add(-r.age)}); err != nil {
				t.Fatal(err)
			}
		}
		rep := b.pass(t)
		if got, want := b.calls.ids(), []int{4, 3, 5, 2, 7, 1, 6, 8}; !slices.Equal(got, want) {
			t.Errorf("want the fresh records newest first, then the failed ones newest first: %v, got %v", want, got)
		}
		if !rep.Complete || rep.Stopped != "" || !rep.Resume.IsZero() {
			t.Errorf("want a complete pass with nothing to go on from, got %+v", rep)
		}
	})
}

func TestOrderHoldsOverManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 3000, 0)
		b.add(t, "ERROR", 5001, 3000, 0)
		b.pass(t)
		if got, want := b.calls.ids(), append(numbers(1, 3000), numbers(5001, 8000)...); !slices.Equal(got, want) {
			t.Errorf("want 3,000 fresh and 3,000 failed records each once and in order, got %d calls: %.200v", len(got), got)
		}
	})
}

func TestMaxAgeIsInclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		now := time.Now()
		for i, age := range []time.Duration{day + 1, day, day - 1, 0, -time.Hour} {
			for j, status := range []string{"NEW", "ERROR"} {
				if err := b.table.Insert(memory.Row{Key: key(10*j + i), Status: status, Inserted: now.Add(-age)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		b.passOf(t, backlog.Pass{MaxAge: day, Now: now})
		if got, want := b.calls.ids(), []int{4, 3, 2, 1, 14, 13, 12, 11}; !slices.Equal(got, want) {
			t.Errorf("want all records up to a day old by the pass's clock, that age included: %v, got %v", want, got)
		}
	})
}

func TestPassReadsTheClockOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Hour, succeed))
		b.Now = func() time.Time { return time.Now().Add(100 * day) }
		seen := make(map[time.Time]int)
		h := b.hook()
		h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
			seen[q.Now]++
			return h.Store.Pending(ctx, q)
		}
		b.add(t, "NEW", 1, 30, -100*day)
		started := b.Now()
		rep := b.pass(t)
		if !rep.Started.Equal(started) || rep.Duration != 30*time.Hour {
			t.Errorf("want a pass started at %v by the engine's clock that took 30h, got %v, %v", started, rep.Started, rep.Duration)
		}
		if len(seen) != 1 || seen[started] < 3 {
			t.Errorf("want every page asked for with the clock of the start, %v, got %v", started, seen)
		}
	})
}

func TestReportAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, func(_ context.Context, r *backlog.Record) error {
			switch id(r) % 8 {
			case 0:
				return nil
			case 1, 2:
				return errBroken
			case 3:
				return backlog.Reject(errBroken)
			case 4, 5:
				return backlog.Skip
			case 6:
				b.table.Update(r.Key, func(row *memory.Row) { row.Status = "HELD" }) // somebody else did
				return nil
			}
			panic("boom")
		})
		b.Concurrency = 16
		b.hook().refuse(8, errors.New("value too long"))
		b.add(t, "NEW", 1, 400, 0)
		b.add(t, "ERROR", 401, 400, 0)
		rep := b.pass(t)
		if got, want := outcomes(rep), "99 succeeded, 300 failed, 100 rejected, 200 skipped, 100 conflicts, 1 refused"; got != want {
			t.Errorf("want %s, got %s", want, got)
		}
		testkit.Equal(t, "selected", rep.Selected, 800)
		testkit.Equal(t, "the pass is complete", rep.Complete, true)
		testkit.Equal(t, "tier", rep.Tier, "1d")
		testkit.Equal(t, "age", rep.MaxAge, day)
		counted := make(map[backlog.Outcome]int)
		for _, ev := range b.events.of(backlog.AttemptEnded) {
			counted[ev.Outcome]++
		}
		want := map[backlog.Outcome]int{backlog.Succeeded: 200, backlog.Errored: 300, backlog.Rejected: 100, backlog.Skipped: 200}
		if !maps.Equal(counted, want) {
			t.Errorf("want one AttemptEnded per handler call, by outcome %v, got %v", want, counted)
		}
	})
}

func TestEventsOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 2 {
				return errBroken
			}
			return nil
		}))
		b.add(t, "NEW", 1, 2, 0)
		start := time.Now()
		rep := b.pass(t)
		type line struct {
			kind    backlog.EventKind
			at      time.Duration
			tier    string
			id      int
			outcome backlog.Outcome
			err     error
		}
		want := []line{
			{backlog.PassStarted, 0, "1d", 0, 0, nil},
			{backlog.AttemptEnded, time.Second, "1d", 1, backlog.Succeeded, nil},
			{backlog.Settled, 1100 * time.Millisecond, "1d", 0, 0, nil},
			{backlog.AttemptEnded, 2 * time.Second, "1d", 2, backlog.Errored, errBroken},
			{backlog.Settled, 2 * time.Second, "1d", 0, 0, nil},
			{backlog.PassEnded, 2 * time.Second, "1d", 0, 0, nil},
		}
		var got []line
		for _, ev := range b.events.list {
			l := line{ev.Kind, ev.At.Sub(start), ev.Tier, 0, ev.Outcome, ev.Err}
			if ev.Record != nil {
				l.id = id(ev.Record)
			}
			got = append(got, l)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("want the events\n%v\ngot\n%v", want, got)
		}
		if last := b.events.list[5].Report; last == nil || !reflect.DeepEqual(*last, rep) {
			t.Errorf("want PassEnded to have the report %+v, got %+v", rep, last)
		}
	})
}

func TestConcurrencyIsTheMostCallsAtATime(t *testing.T) {
	for _, c := range []struct{ concurrency, want int }{{0, 1}, {1, 1}, {7, 7}, {300, 200}} {
		t.Run(fmt.Sprint(c.concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
				b.Concurrency = c.concurrency
				b.add(t, "NEW", 1, 200, 0)
				b.pass(t)
				most := 0
				for _, call := range b.calls.all() {
					most = max(most, call.handed+1)
				}
				if most != c.want {
					t.Errorf("want at most, and at times, %d of 200 calls running, got %d", c.want, most)
				}
			})
		})
	}
}

// A pause between two calls would cost the throughput of every fast handler.
func TestHandlersAreKeptBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.Concurrency = 10
		b.add(t, "NEW", 1, 1000, 0)
		if rep := b.pass(t); rep.Duration != 100*time.Second {
			t.Errorf("want 1,000 records of a second each, ten at a time, to take 100s, got %v", rep.Duration)
		}
	})
}

func TestConflictsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, func(_ context.Context, r *backlog.Record) error {
			switch id(r) {
			case 1:
				b.table.Update(r.Key, func(row *memory.Row) { row.Status = "CANCELLED" })
			case 2:
				b.table.Delete(r.Key)
			case 3:
				b.table.Update(r.Key, func(row *memory.Row) { row.Status = "CANCELLED" })
				return errBroken
			}
			return nil
		})
		b.add(t, "NEW", 1, 4, 0)
		rep := b.pass(t)
		if got, want := outcomes(rep), "1 succeeded, 3 conflicts"; got != want {
			t.Errorf("want %s, got %s", want, got)
		}
		if got, want := b.statuses(), map[string]int{"CANCELLED": 2, "SUCCESS": 1}; !maps.Equal(got, want) {
			t.Errorf("want what somebody else wrote to stand, %v, got %v", want, got)
		}
		var ids []int
		for _, ev := range b.events.of(backlog.Conflicted) {
			ids = append(ids, id(ev.Record))
			if ev.Tier != "1d" {
				t.Errorf("want the event to name tier 1d, got %q", ev.Tier)
			}
		}
		slices.Sort(ids)
		if want := []int{1, 2, 3}; !slices.Equal(ids, want) {
			t.Errorf("want a Conflicted event for records %v, got %v", want, ids)
		}
	})
}

func TestRefusedRow(t *testing.T) {
	for _, do := range []backlog.HandlerFunc{succeed, fail} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, memory.Options{}, do)
			b.Concurrency = 4
			reason := errors.New("new row violates check constraint")
			b.hook().refuse(3, reason)
			b.add(t, "NEW", 1, 5, 0)
			rep := b.pass(t)
			if rep.Refused != 1 || rep.Succeeded+rep.Failed != 4 {
				t.Errorf("want one refused row and the other four of its group written, got %s", outcomes(rep))
			}
			if got := b.status(t, 3); got != "NEW" {
				t.Errorf("want the refused row as it was, got %s", got)
			}
			events := b.events.of(backlog.Refused)
			if len(events) != 1 {
				t.Fatalf("want one Refused event, got %+v", events)
			}
			testkit.Equal(t, "record of the event", id(events[0].Record), 3)
			testkit.Equal(t, "outcome of the event", events[0].Outcome, backlog.OutcomeOf(do(nil, nil)))
			if events[0].Err != reason {
				t.Errorf("want the event to have the reason, got %v", events[0].Err)
			}
			// It would be done again at every tick for ever.
			for range 2 {
				b.pass(t)
			}
			if n := len(b.calls.of(3)); n != 1 {
				t.Errorf("want a refused row not handed out again by the same engine, got %d attempts", n)
			}
			b.Engine = &backlog.Engine{Store: b.table, Handler: b.calls}
			b.pass(t)
			if n := len(b.calls.of(3)); n != 2 {
				t.Errorf("want another engine to try it again, got %d attempts in all", n)
			}
		})
	}
}
