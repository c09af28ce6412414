package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
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

// A fresh record that fails is one of the failed before the pass comes to
// them.
func TestOneAttemptPerPass(t *testing.T) {
	t.Parallel()
	for _, o := range []memory.Options{{}, {ErrorKeep: true}} {
		for _, concurrency := range []int{1, 8} {
			for _, handler := range []struct {
				name string
				err  error
			}{{"errors", errBroken}, {"rejections", backlog.Reject(errBroken)}, {"skips", backlog.Skip}} {
				t.Run(fmt.Sprintf("%s/keep=%t/concurrency=%d", handler.name, o.ErrorKeep, concurrency), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBench(t, o, slowly(time.Second, func(context.Context, *backlog.Record) error { return handler.err }))
						b.Concurrency = concurrency
						b.add(t, "NEW", 1, 40, time.Minute)
						want := numbers(1, 40)
						if !o.ErrorKeep {
							b.add(t, "ERROR", 41, 40, 0) // in between the fresh ones by age
							want = numbers(1, 80)
						}
						for n := 1; n <= 3; n++ {
							rep := b.pass(t)
							if !rep.Complete {
								t.Errorf("want a complete pass, got %+v", rep)
							}
							for _, id := range want {
								if got := b.calls.attempts()[id]; got != n {
									t.Errorf("want record %d tried once in each of %d passes, got %d attempts", id, n, got)
								}
							}
						}
					})
				})
			}
		}
	}
}

// Somebody else marks the record as failed while its handler runs, so that the
// failed lane shows it to the same pass.
func TestOneAttemptPerPassAlsoAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, slowly(time.Second, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				b.table.SetStatus(r.Key, "ERROR")
			}
			return nil
		}))
		b.add(t, "NEW", 1, 5, 0)
		rep := b.pass(t)
		if n := len(b.calls.of(1)); n != 1 {
			t.Errorf("want one attempt on a record in one pass, got %d", n)
		}
		if got, want := outcomes(rep), "4 succeeded, 1 conflicts"; got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	})
}

// Where the failed lane goes by the last failure, longest-waiting first, a
// record that fails moves to its end, and a policy may call it due at once.
func TestOneAttemptPerPassWhereFailedRecordsMoveToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 30
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := newBench(t, memory.Options{}, nil)
		b.calls.do = func(context.Context, *backlog.Record) error {
			if len(b.calls.all()) > 10*n {
				cancel() // it would go on for ever
			}
			wait(ctx, time.Second)
			return errBroken
		}
		b.Store = &queue{waiting: numbers(1, n)}
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := b.calls.ids(), numbers(1, n); !slices.Equal(got, want) || !rep.Complete {
			t.Errorf("want a complete pass with an attempt on each of %d records, got %d attempts, complete %t", n, len(got), rep.Complete)
		}
	})
}

// A queue is a table whose failed lane goes by the last failure.
type queue struct {
	mu      sync.Mutex
	waiting []int // the place in it is the record's in the lane; 0: it has moved
}

func (q *queue) Pending(_ context.Context, query backlog.Query) (page backlog.Page, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	page.Next = query.After
	if query.Lane == backlog.Fresh {
		return page, nil
	}
	from := 0
	if !query.After.IsZero() {
		from = int(query.After.Order.(int64)) + 1
	}
	for i := from; i < len(q.waiting); i++ {
		if len(page.Records) == query.Limit {
			page.More = true
			break
		}
		if n := q.waiting[i]; n != 0 {
			c := backlog.Cursor{Order: int64(i), Key: key(n)}
			page.Records = append(page.Records, backlog.Record{Key: key(n), Status: "ERROR", Lane: backlog.Failed, Cursor: c})
			page.Next = c
		}
	}
	return page, nil
}

func (q *queue) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range group {
		q.waiting[slices.Index(q.waiting, id(s.Record))] = 0
		q.waiting = append(q.waiting, id(s.Record))
	}
	return nil, nil
}

func TestOutcomes(t *testing.T) {
	const timeout = 5 * time.Second
	var nowhere map[string]int
	returns := func(err error) backlog.HandlerFunc {
		return func(context.Context, *backlog.Record) error { return err }
	}
	for _, c := range []struct {
		name    string
		do      backlog.HandlerFunc
		counted string // in the report
		status  string // of the row, "" for as it was
		text    string // of the row's last error
	}{
		{"success", succeed, "succeeded", "SUCCESS", ""},
		{"error", returns(errors.New("no route")), "failed", "ERROR", "no route"},
		{"reject", returns(backlog.Reject(errors.New("no such street"))), "rejected", "DEAD", "no such street"},
		{"reject without a reason", returns(backlog.Reject(nil)), "rejected", "DEAD", "rejected"},
		{"skip", returns(backlog.Skip), "skipped", "", ""},
		{"skip with a reason", returns(fmt.Errorf("later: %w", backlog.Skip)), "skipped", "", ""},
		{"pause", returns(backlog.RetryAfter(time.Second, errors.New("too many"))), "failed", "ERROR", "too many"},
		{"panic", func(context.Context, *backlog.Record) error { panic("boom") }, "failed", "ERROR", "the handler panicked: boom"},
		{"panic with an error", func(context.Context, *backlog.Record) error { panic(errBroken) }, "failed", "ERROR", "the handler panicked: the service is broken"},
		{"panic of the runtime", func(context.Context, *backlog.Record) error { nowhere["x"] = 1; return nil }, "failed", "ERROR",
			"the handler panicked: assignment to entry in nil map"},
		{"timeout", func(ctx context.Context, _ *backlog.Record) error {
			<-ctx.Done()
			return fmt.Errorf("deliver: %w", context.Cause(ctx))
		}, "failed", "ERROR", "deliver: timed out after 5s"},
		{"success in spite of the timeout", func(ctx context.Context, _ *backlog.Record) error { <-ctx.Done(); return nil }, "succeeded", "SUCCESS", ""},
		{"success just before the timeout", slowly(timeout-1, succeed), "succeeded", "SUCCESS", ""},
	} {
		for lane, status := range []string{backlog.Fresh: "NEW", backlog.Failed: "ERROR"} {
			t.Run(c.name+"/"+backlog.Lane(lane).String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{Dead: "DEAD"}, c.do)
					b.Timeout = timeout
					b.add(t, status, 1, 1, 0)
					before := b.row(t, 1)
					rep := b.pass(t)
					if got, want := outcomes(rep), "1 "+c.counted; got != want || rep.Selected != 1 {
						t.Errorf("want %s of 1 selected, got %s of %d", want, got, rep.Selected)
					}
					want := before
					if c.status != "" {
						want.Status, want.LastError, want.Attempts = c.status, c.text, 1
					}
					if got := b.row(t, 1); !reflect.DeepEqual(got, want) {
						t.Errorf("want the row %+v, got %+v", want, got)
					}
				})
			})
		}
	}
}

func TestNoTimeoutByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, _ *backlog.Record) error {
			if _, ok := ctx.Deadline(); ok {
				t.Error("want no deadline without a Timeout")
			}
			return slowly(1000*time.Hour, succeed)(ctx, nil)
		})
		b.add(t, "NEW", 1, 1, 0)
		if rep := b.pass(t); rep.Succeeded != 1 {
			t.Errorf("want a handler that takes 1,000 hours to succeed, got %+v", rep)
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
				b.table.SetStatus(r.Key, "HELD") // somebody else did
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
		if rep.Selected != 800 || !rep.Complete || rep.Tier != "1d" || rep.MaxAge != day {
			t.Errorf("want 800 selected by a complete pass of tier 1d and a day, got %+v", rep)
		}
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
			{backlog.AttemptEnded, 2 * time.Second, "1d", 2, backlog.Errored, errBroken},
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
		if last := b.events.list[3].Report; last == nil || !reflect.DeepEqual(*last, rep) {
			t.Errorf("want PassEnded to have the report %+v, got %+v", rep, last)
		}
	})
}

func TestRecordCarriesTierAndAttemptID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		for range 3 { // engines, as in three processes
			b := newBench(t, memory.Options{}, fail)
			b.Concurrency = 4
			b.add(t, "NEW", 1, 100, 0)
			b.pass(t)
			b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
			for i, c := range b.calls.all() {
				want := "1d"
				if i >= 100 {
					want = "7d"
				}
				if c.rec.Tier != want {
					t.Errorf("want call %d to carry tier %s, got %q", i, want, c.rec.Tier)
				}
				if c.rec.AttemptID == "" || seen[c.rec.AttemptID] {
					t.Errorf("want every attempt to have an id of its own, got %q again", c.rec.AttemptID)
				}
				seen[c.rec.AttemptID] = true
			}
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
			if ev.Tier != "1d" || ev.Record == nil || id(ev.Record) != 1001+i || !strings.Contains(fmt.Sprint(ev.Err), "is no time") {
				t.Errorf("want an event that names row %d and the reason, got %+v", 1001+i, ev)
			}
		}
		if len(events) != 3 {
			t.Errorf("want 3 events, got %d", len(events))
		}
	})
}

func TestConflictsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, func(_ context.Context, r *backlog.Record) error {
			switch id(r) {
			case 1:
				b.table.SetStatus(r.Key, "CANCELLED")
			case 2:
				b.table.Delete(r.Key)
			case 3:
				b.table.SetStatus(r.Key, "CANCELLED")
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
			if len(events) != 1 || id(events[0].Record) != 3 || events[0].Err != reason || events[0].Outcome != backlog.OutcomeOf(do(nil, nil)) {
				t.Errorf("want one Refused event with record 3, its outcome and the reason, got %+v", events)
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

var _ backlog.Expirer = failingExpirer{}

func (failingExpirer) Expire(context.Context, time.Time, time.Time) (int, error) { return 0, errBroken }

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
