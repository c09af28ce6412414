package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// A settler is a handler that settles its own successes, in the table of the
// bench. do may keep it from that.
type settler struct {
	*bench
	do backlog.HandlerFunc
}

// settle makes the bench's handler one that settles, and its table one that
// must not be given a success.
func (b *bench) settle(t testing.TB, do backlog.HandlerFunc) *hooked {
	b.Handler = settler{b, do}
	h := b.hook()
	h.Store = b.table
	h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
		for _, s := range group {
			if s.Target == backlog.RowSuccess {
				t.Errorf("the table was given the success of record %d", id(s.Record))
			}
		}
		return h.Store.Settle(ctx, group)
	}
	return h
}

func (s settler) Handle(context.Context, *backlog.Record) error {
	panic("Handle was called, not HandleAndSettle")
}

func (s settler) HandleAndSettle(ctx context.Context, r *backlog.Record, now func() time.Time) error {
	n := s.calls.begin(r)
	defer s.calls.end(n)
	if err := s.do(ctx, r); err != nil {
		return err
	}
	left, err := s.table.Settle(context.WithoutCancel(ctx), []backlog.Settlement{{Record: r, Target: backlog.RowSuccess, At: now()}})
	if err == nil && len(left) > 0 {
		err = left[0].Err
	}
	return err
}

// newSettlingBench returns a bench with n records that are fresh, the first the
// youngest.
func newSettlingBench(t testing.TB, n int, do backlog.HandlerFunc) *bench {
	b := newBench(t, memory.Options{Dead: "DEAD"}, nil)
	b.settle(t, do)
	b.add(t, "NEW", 1, n, time.Minute)
	return b
}

// TestSettlingOutcomes: successes are counted and told at once, and everything
// else is settled as ever.
func TestSettlingOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSettlingBench(t, 7, func(_ context.Context, r *backlog.Record) error {
			switch id(r) {
			case 2:
				return errBroken
			case 3:
				return backlog.Reject(errBroken)
			case 4:
				return backlog.Skip
			case 5:
				panic("boom")
			case 6:
				return fmt.Errorf("the work is undone: %w", backlog.ErrConflict)
			}
			return nil
		})
		b.Concurrency = 3
		rep := b.pass(t)
		want := "2 succeeded, 2 failed, 1 rejected, 1 skipped, 1 conflicts"
		if got := outcomes(rep); got != want || !rep.Complete {
			t.Errorf("got %s, complete: %v, want %s", got, rep.Complete, want)
		}
		for n, want := range map[int]string{1: "SUCCESS", 2: "ERROR", 3: "DEAD", 4: "NEW", 5: "ERROR", 6: "NEW", 7: "SUCCESS"} {
			if got := b.status(t, n); got != want {
				t.Errorf("record %d: got the status %s, want %s", n, got, want)
			}
		}
		ended := make(map[int]backlog.Outcome)
		for _, ev := range b.events.of(backlog.AttemptEnded) {
			ended[id(ev.Record)] = ev.Outcome
		}
		for n, want := range map[int]backlog.Outcome{1: backlog.Succeeded, 2: backlog.Errored, 3: backlog.Rejected, 4: backlog.Skipped, 5: backlog.Errored, 6: backlog.Skipped, 7: backlog.Succeeded} {
			if got, ok := ended[n]; !ok || got != want {
				t.Errorf("record %d: its attempt ended as %v, want %v", n, got, want)
			}
		}
		c := b.events.of(backlog.Conflicted)
		if len(c) != 1 {
			t.Fatalf("Conflicted: got %+v, want one", c)
		}
		testkit.Equal(t, "record in conflict", id(c[0].Record), 6)
		testkit.Equal(t, "its outcome", c[0].Outcome, backlog.Succeeded)
		if !errors.Is(c[0].Err, backlog.ErrConflict) {
			t.Errorf("its error is %v, want %v", c[0].Err, backlog.ErrConflict)
		}
	})
}

// TestSettlingNothingTwice: what has been settled by its handler is handed out
// by no page that was read before, and whatever else counts records in hand is
// given back: many more than may be unsettled go through.
func TestSettlingNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5 * backlog.MaxGroup
		b := newSettlingBench(t, n, slowly(time.Millisecond, succeed))
		b.Concurrency = 8
		all := make(chan backlog.Report)
		for range 3 {
			go func() { all <- b.pass(t) }()
		}
		total := 0
		for range 3 {
			total += (<-all).Succeeded
		}
		if got := b.calls.attempts(); total != n || len(got) != n || len(b.calls.all()) != n {
			t.Errorf("%d successes by %d calls on %d records, want %d of each", total, len(b.calls.all()), len(got), n)
		}
	})
}

// TestSettlingStreak: a success of such a handler ends a series of failures.
// What is no attempt is no part of one.
func TestSettlingStreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSettlingBench(t, 12, func(_ context.Context, r *backlog.Record) error {
			switch n := id(r); {
			case n == 3 || n == 6:
				return nil
			case n == 8:
				return backlog.ErrConflict
			}
			return errBroken
		})
		b.AbortAfter = 3
		rep := b.pass(t)
		if got, want := outcomes(rep), "2 succeeded, 7 failed, 1 conflicts"; got != want || rep.Stopped != backlog.StoppedAbortAfter {
			t.Errorf("got %s, stopped by %q, want %s, stopped by abort_after", got, rep.Stopped, want)
		}
	})
}

// TestSettlingTimeout: the handler's time is bounded, its error says so, and it
// is the record's.
func TestSettlingTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSettlingBench(t, 2, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		b.Timeout = time.Second
		if got, want := outcomes(b.pass(t)), "1 succeeded, 1 failed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for _, ev := range b.events.of(backlog.AttemptEnded) {
			if id(ev.Record) == 1 && ev.Err.Error() != "timed out after 1s" {
				t.Errorf("got the error %q", ev.Err)
			}
		}
	})
}

// TestSettlingAway: a handler finds the database away. The record is tried
// again when it is back, nothing else is handed out until then, and neither is
// a failure.
func TestSettlingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, nil)
		o := &outage{Store: b.table, trouble: everything}
		b.settle(t, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 3 && len(b.calls.of(3)) == 1 {
				o.begin()
				time.AfterFunc(time.Minute, o.end)
			}
			return o.meet(ctx, true)
		})
		b.Store = o
		b.Concurrency, b.AbortAfter = 2, 1
		b.add(t, "NEW", 1, 20, time.Minute)
		start := time.Now()
		rep := b.pass(t)
		if got, want := outcomes(rep), "20 succeeded"; got != want || !rep.Complete {
			t.Errorf("got %s, complete: %v, want %s", got, rep.Complete, want)
		}
		for _, c := range b.calls.all() {
			if at := c.at.Sub(start); at > 0 && at < time.Minute {
				t.Errorf("record %d was handed out %v after the start, while the database was away", c.id, at)
			}
		}
		if a, k := len(b.events.of(backlog.StoreUnavailable)), len(b.events.of(backlog.StoreBack)); a != 1 || k != 1 {
			t.Errorf("the store was away %d times and back %d times, want once", a, k)
		}
	})
}

// TestSettlingAlwaysAway: one record for which the database is always away,
// though it is not, is left as it was and holds the others up for moments
// only, but is not asked for again at once, whether the store can be asked or not.
func TestSettlingAlwaysAway(t *testing.T) {
	for _, canPing := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newSettlingBench(t, 9, func(_ context.Context, r *backlog.Record) error {
				if id(r) == 4 {
					return errAway
				}
				return nil
			})
			if !canPing {
				b.Store = unpingable{b.Store}
			}
			b.AbortAfter = 1
			start := time.Now()
			rep := b.pass(t)
			if got, want := outcomes(rep), "8 succeeded, 1 skipped"; got != want || !rep.Complete {
				t.Errorf("got %s, complete: %v, want %s", got, rep.Complete, want)
			}
			if calls := len(b.calls.of(4)); calls != 3 || b.status(t, 4) != "NEW" {
				t.Errorf("record 4 was tried %d times and is %s, want 3 times and NEW", calls, b.status(t, 4))
			}
			if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
				t.Errorf("the pass took %v", took)
			}
		})
	}
}

// TestSettlingAwayAndStopped: a stop ends the wait for the database.
func TestSettlingAwayAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, nil)
		o := &outage{Store: b.table, trouble: everything}
		b.settle(t, func(ctx context.Context, _ *backlog.Record) error { o.begin(); return errAway })
		b.Store = o
		b.add(t, "NEW", 1, 5, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if got, want := outcomes(rep), "1 skipped"; err != nil || got != want || rep.Stopped != backlog.StoppedSignal {
			t.Errorf("got %s, %v, stopped by %q, want %s", got, err, rep.Stopped, want)
		}
		if took := time.Since(start); took > time.Minute+time.Second {
			t.Errorf("the stop took %v", took-time.Minute)
		}
		checkSum(t, rep)
	})
}

// TestSettlingStopped: what a handler writes while it is being stopped counts,
// and what it does not is no attempt.
func TestSettlingStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSettlingBench(t, 3, func(ctx context.Context, r *backlog.Record) error {
			<-ctx.Done()
			switch id(r) {
			case 1:
				return nil
			case 2:
				return errAway
			}
			return ctx.Err()
		})
		b.Concurrency, b.ShutdownTimeout = 3, time.Second
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if got, want := outcomes(rep), "1 succeeded, 2 interrupted"; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		if got := b.statuses(); got["SUCCESS"] != 1 || got["NEW"] != 2 {
			t.Errorf("got the statuses %v", got)
		}
	})
}

// TestSettlingTellsTheTime: the handler is given the engine's clock.
func TestSettlingTellsTheTime(t *testing.T) {
	var asked atomic.Int64
	b := newSettlingBench(t, 1, func(context.Context, *backlog.Record) error { return nil })
	b.Now = func() time.Time { asked.Add(1); return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	b.Handler = clocked{t, b.Handler.(settler)}
	if _, err := b.Pass(t.Context(), backlog.Pass{MaxAge: 100 * 365 * day}); err != nil || asked.Load() == 0 {
		t.Error(err)
	}
}

type clocked struct {
	t testing.TB
	settler
}

func (c clocked) HandleAndSettle(ctx context.Context, r *backlog.Record, now func() time.Time) error {
	if got := now(); got.Year() != 2026 || got.YearDay() != 1 {
		c.t.Errorf("got the time %v, want the engine's", got)
	}
	return c.settler.HandleAndSettle(ctx, r, now)
}
