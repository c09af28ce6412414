package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// hourly is a plan: every attempt has a minute, a failure is tried again at once, and
// the third is the last.
type hourly struct{}

func (hourly) Start(s backlog.Memory, now time.Time, uid string) (backlog.Memory, error) {
	if s.Rule == "bad" {
		return s, errors.New("the rule is bad")
	}
	s.UID, s.Started, s.Deadline, s.AttemptNo = uid, now, now.Add(time.Minute), s.AttemptNo+1
	s.Next = now.Add(time.Hour)
	return s, nil
}

func (hourly) End(s backlog.Memory, o backlog.Outcome, now time.Time, text string, before *backlog.Memory) (backlog.Memory, bool) {
	s.UID, s.Deadline = "", time.Time{}
	switch {
	case o == backlog.Skipped:
		s.Next, s.AttemptNo = before.Next, before.AttemptNo
	case o == backlog.Succeeded:
		s.Next, s.AttemptNo = now.Add(time.Hour), 0
	case s.AttemptNo >= 3 || o == backlog.Rejected:
		s.Next, s.Disabled, s.Reason = time.Time{}, true, "given up: "+text
		return s, true
	default:
		s.Next = now
	}
	return s, false
}

// newRefreshBench returns a bench of n rows that are due now.
func newRefreshBench(t *testing.T, n int, do backlog.HandlerFunc) *bench {
	policy := &backlog.Policy{Name: "refresh", Retries: -1, Refresher: hourly{}}
	b := newBench(t, memory.Options{Policy: policy}, do)
	b.Policy = policy
	for i := range n {
		if err := b.table.Insert(memory.Row{Key: key(i + 1), Status: "NEW", Memory: backlog.Memory{Next: time.Now()}}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) refreshOf(t *testing.T, n int) backlog.Memory {
	t.Helper()
	row, ok := b.table.Row(key(n))
	if !ok {
		t.Fatalf("there is no row %d", n)
	}
	return row.Memory
}

// Deadlines begin with handlers, not with the queue.
func TestRefreshBeginsWithItsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newRefreshBench(t, 20, slowly(30*time.Second, func(_ context.Context, r *backlog.Record) error {
			if in := b.refreshOf(t, id(r)); in.UID != r.AttemptID || r.Memory.UID != r.AttemptID || !in.Deadline.Equal(r.Memory.Deadline) {
				t.Errorf("the row has %+v, the handler %+v", in, *r.Memory)
			}
			if left := time.Until(r.Memory.Deadline); left < 29*time.Second || left > 30*time.Second {
				t.Errorf("record %d has %v left", id(r), left)
			}
			return nil
		}))
		b.Concurrency = 2
		if r := b.pass(t); r.Succeeded != 20 || r.Overdue != 0 || r.Conflicts != 0 {
			t.Errorf("%+v", r)
		}
		got := b.refreshOf(t, 20)
		testkit.Equal(t, "UID", got.UID, "")
		testkit.Equal(t, "number of the attempt", got.AttemptNo, 0)
		testkit.Equal(t, "deadline", got.Deadline, time.Time{})
		if next := time.Until(got.Next); next < 59*time.Minute {
			t.Errorf("the next start is in %v, want an hour", next)
		}
	})
}

// What nobody answered fails at its deadline, and may start again in the same pass. What
// a handler of this process has is left to that.
func TestRefreshOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 1, func(context.Context, *backlog.Record) error { return backlog.Accepted })
		if r := b.pass(t); r.Accepted != 1 || r.Selected != 1 || r.Succeeded+r.Failed != 0 {
			t.Errorf("%+v", r)
		}
		first := b.refreshOf(t, 1)
		time.Sleep(59 * time.Second)
		if r := b.pass(t); r.Selected+r.Overdue != 0 || b.refreshOf(t, 1) != first {
			t.Errorf("before the deadline: %+v", r)
		}
		time.Sleep(time.Second)
		if r := b.pass(t); r.Overdue != 1 || r.Accepted != 1 {
			t.Errorf("%+v", r)
		}
		if got := b.refreshOf(t, 1); got.AttemptNo != 2 || got.UID == first.UID {
			t.Errorf("%+v", got)
		}
	})
}

func TestRefreshResolve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 4, func(context.Context, *backlog.Record) error { return backlog.Accepted })
		var dead []int
		b.OnDead = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			dead = append(dead, id(r))
			if r.Reason != backlog.ReasonRejected || r.Error != "no such file" || r.Memory.Reason != "given up: no such file" {
				t.Errorf("told %q, %q, %+v", r.Reason, r.Error, r.Memory)
			}
			return nil
		})
		b.Concurrency = 4
		b.pass(t)
		uid := func(n int) string { return b.refreshOf(t, n).UID }
		answers := []backlog.Answer{
			{UID: uid(1), Outcome: backlog.Succeeded}, {UID: uid(2), Outcome: backlog.Errored, Text: "boom"}, {UID: uid(3), Outcome: backlog.Rejected, Text: "no such file"},
			{UID: uid(4), Outcome: backlog.Skipped, Text: "begun"}, {UID: uid(1), Outcome: backlog.Errored}, {UID: "nobody's", Outcome: backlog.Succeeded},
			{UID: uid(4), Outcome: backlog.Skipped, Text: "half done"},
		}
		running := b.refreshOf(t, 4)
		for round := range 2 {
			reasons, err := b.Resolve(t.Context(), answers)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range [][]bool{{true, true, true, true, false, false, true}, {false, false, false, true, false, false, true}}[round] {
				if (reasons[i] == nil) != want || !want && !errors.Is(reasons[i], backlog.ErrConflict) {
					t.Errorf("round %d, answer %d: %v", round, i, reasons[i])
				}
			}
		}
		running.Reason = "half done"
		if got := b.refreshOf(t, 4); got != running {
			t.Errorf("%+v; want %+v", got, running)
		}
		if got := b.refreshOf(t, 1); got.AttemptNo != 0 || got.UID != "" {
			t.Errorf("%+v", got)
		}
		if got := b.refreshOf(t, 3); !got.Disabled || !slices.Equal(dead, []int{3}) {
			t.Errorf("%+v, told of %v", got, dead)
		}
	})
}

// A handler is cancelled within two seconds once its row has got another attempt, and
// its outcome is dropped.
func TestRefreshSuperseded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		saved := backlog.Memory{Next: time.Now().Add(time.Hour)}
		var b *bench
		b = newRefreshBench(t, 2, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 2 {
				wait(ctx, 10*time.Second)
				return ctx.Err() // it is not concerned
			}
			time.Sleep(5 * time.Second)
			b.table.Update(key(1), func(r *memory.Row) { r.Memory = saved })
			began := time.Now()
			<-ctx.Done()
			if took := time.Since(began); took > 2*time.Second || context.Cause(ctx) == nil {
				t.Errorf("cancelled after %v: %v", took, context.Cause(ctx))
			}
			return backlog.Reject(errors.New("nobody wants to know"))
		})
		b.OnDead = backlog.HandlerFunc(func(context.Context, *backlog.Record) error {
			t.Error("somebody was told")
			return nil
		})
		b.Concurrency = 2
		if r := b.pass(t); r.Conflicts != 1 || r.Succeeded != 1 || r.Rejected+r.Failed != 0 {
			t.Errorf("%+v", r)
		}
		if got := b.refreshOf(t, 1); got != saved {
			t.Errorf("%+v", got)
		}
	})
}

// However many attempts run, each is looked at.
func TestRefreshSupersededOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all, saved = 2*backlog.MaxGroup + 200, 300
		var late atomic.Int64
		b := newRefreshBench(t, all, func(ctx context.Context, r *backlog.Record) error {
			if wait(ctx, 10*time.Second) && id(r) <= saved {
				late.Add(1)
			}
			return ctx.Err()
		})
		b.Concurrency = all
		time.AfterFunc(3*time.Second, func() {
			for n := range saved {
				b.table.Update(key(n+1), func(r *memory.Row) { r.Memory = backlog.Memory{Next: time.Now().Add(time.Hour)} })
			}
		})
		if r := b.pass(t); r.Conflicts != saved || r.Succeeded != all-saved || late.Load() != 0 {
			t.Errorf("%d were not cancelled: %+v", late.Load(), r)
		}
	})
}

// A skip, and a handler that a stop has ended, take the start back.
func TestRefreshReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 2, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				return backlog.Skip
			}
			<-ctx.Done()
			return ctx.Err()
		})
		b.Concurrency, b.ShutdownTimeout = 2, time.Second
		before := []backlog.Memory{b.refreshOf(t, 1), b.refreshOf(t, 2)}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := b.Pass(ctx, backlog.Pass{Tier: "1m", MaxAge: day})
		if err != nil {
			t.Errorf("the pass: %v", err)
		}
		testkit.Equal(t, "skipped", r.Skipped, 1)
		testkit.Equal(t, "interrupted", r.Interrupted, 1)
		testkit.Equal(t, "failed", r.Failed, 0)
		for i, want := range before {
			got := b.refreshOf(t, i+1)
			testkit.Equal(t, "UID", got.UID, "")
			testkit.Equal(t, "deadline", got.Deadline, time.Time{})
			testkit.Equal(t, "number of the attempt", got.AttemptNo, want.AttemptNo)
			testkit.Equal(t, "next start", got.Next, want.Next)
		}
	})
}

// A row whose rule cannot be read is reported, and never started.
func TestRefreshUnreadableRule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 2, succeed)
		b.table.Update(key(1), func(r *memory.Row) { r.Memory = backlog.Memory{Next: time.Now(), Rule: "bad"} })
		if r := b.pass(t); r.Unreadable != 1 || r.Succeeded != 1 || r.Selected != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// notReady is a handler that cannot take any record.
type notReady struct{ backlog.HandlerFunc }

func (notReady) Ready(context.Context) error { return errBroken }

// Nothing is started while its handler could not take it.
func TestRefreshHandlerNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 1, succeed)
		b.Handler = notReady{succeed}
		before := b.refreshOf(t, 1)
		r, err := b.Pass(t.Context(), backlog.Pass{Tier: "1m", MaxAge: day})
		if !errors.Is(err, errBroken) || r.Selected != 0 || b.refreshOf(t, 1) != before {
			t.Errorf("%+v, %v, %+v", r, err, b.refreshOf(t, 1))
		}
	})
}

// Whoever is due starts at the next tick, however long the attempts of others take, and
// answers are collected every second.
func TestRefreshLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		began := time.Now()
		var mu sync.Mutex
		var starts []string
		b := newRefreshBench(t, 2, func(ctx context.Context, r *backlog.Record) error {
			mu.Lock()
			starts = append(starts, fmt.Sprintf("%d@%v", id(r), time.Since(began)))
			mu.Unlock()
			if id(r) == 1 {
				wait(ctx, 50*time.Second)
				return nil
			}
			return errBroken
		})
		b.Concurrency = 2
		s, err := tiers.New(tiers.Tier{MaxAge: day, Every: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		c := &collecting{HandlerFunc: b.Handler.Handle}
		b.Handler = c
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		(&backlog.Loop{Schedule: s, Engine: b.Engine, Since: began.Add(-time.Second)}).Run(ctx)
		slices.Sort(starts)
		if got := fmt.Sprint(starts); got != "[1@0s 2@0s 2@10s 2@20s]" {
			t.Errorf("starts %s", got)
		}
		if c.asked < 60 {
			t.Errorf("answers were asked for %d times", c.asked)
		}
	})
}

// collecting is a handler that hears of records again.
type collecting struct {
	backlog.HandlerFunc
	asked int
}

func (c *collecting) Collect(context.Context, func(context.Context, []backlog.Answer) ([]error, error)) error {
	c.asked++
	return nil
}
