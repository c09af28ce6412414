package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// An outage is a table that is away for a while: the calls it concerns fail,
// or hang until it is over.
type outage struct {
	*memory.Store
	trouble

	mu   sync.Mutex
	over chan struct{} // nil: not away
}

// A trouble says which calls an outage concerns and what becomes of them.
type trouble struct {
	pending, settle, ping bool
	hangs                 bool // else they fail
}

var everything = trouble{pending: true, settle: true, ping: true}

var errAway = fmt.Errorf("dial tcp: connection refused: %w", backlog.ErrUnavailable)

func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = make(chan struct{})
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.over)
	o.over = nil
}

// meet is what becomes of a call that the outage concerns.
func (o *outage) meet(ctx context.Context, concerned bool) error {
	o.mu.Lock()
	over := o.over
	o.mu.Unlock()
	if over == nil || !concerned {
		return nil
	}
	if !o.hangs {
		return errAway
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), backlog.ErrUnavailable)
	}
}

func (o *outage) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if err := o.meet(ctx, o.pending); err != nil {
		return backlog.Page{}, err
	}
	return o.Store.Pending(ctx, q)
}

func (o *outage) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if err := o.meet(ctx, o.settle); err != nil {
		return nil, err
	}
	return o.Store.Settle(ctx, group)
}

func (o *outage) Ping(ctx context.Context) error {
	if err := o.meet(ctx, o.ping); err != nil {
		return err
	}
	return o.Store.Ping(ctx)
}

// unpingable hides Ping.
type unpingable struct{ backlog.Store }

func TestStoreIsAwayForAWhile(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      trouble
		noPing  bool
		takes   time.Duration
		passes  int
		handing bool // goes on, as the store takes outcomes
	}{
		{name: "everything fails", of: everything, takes: 250 * time.Millisecond, passes: 1},
		{name: "everything fails, instant handlers at a rate", of: everything, passes: 1},
		{name: "everything fails, slow handlers", of: everything, takes: 7 * time.Second, passes: 1},
		{name: "everything fails, three passes", of: everything, takes: 250 * time.Millisecond, passes: 3},
		{name: "everything fails, no ping", of: trouble{pending: true, settle: true}, noPing: true, takes: 250 * time.Millisecond, passes: 1},
		{name: "everything hangs", of: trouble{pending: true, settle: true, ping: true, hangs: true}, takes: 250 * time.Millisecond, passes: 1},
		{name: "everything hangs, slow handlers", of: trouble{pending: true, settle: true, ping: true, hangs: true}, takes: 7 * time.Second, passes: 1},
		{name: "everything hangs, no ping", of: trouble{pending: true, settle: true, hangs: true}, noPing: true, takes: 250 * time.Millisecond, passes: 1},
		{name: "settling and ping fail", of: trouble{settle: true, ping: true}, takes: 250 * time.Millisecond, passes: 1},
		{name: "settling fails", of: trouble{settle: true}, takes: 250 * time.Millisecond, passes: 1},
		{name: "settling hangs", of: trouble{settle: true, hangs: true}, takes: 250 * time.Millisecond, passes: 1},
		{name: "settling hangs, instant handlers at a rate", of: trouble{settle: true, hangs: true}, passes: 1},
		{name: "reading fails", of: trouble{pending: true}, takes: 250 * time.Millisecond, passes: 1, handing: true},
		{name: "reading hangs", of: trouble{pending: true, hangs: true}, takes: 250 * time.Millisecond, passes: 1, handing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 200
				b := newBench(t, memory.Options{}, slowly(c.takes, succeed))
				b.Concurrency = 4
				if c.takes == 0 {
					b.Rate = 20
				}
				store := &outage{Store: b.table, trouble: c.of}
				b.Store = store
				if c.noPing {
					b.Store = unpingable{store}
				}
				b.add(t, "NEW", 1, n, 0)
				var all sync.WaitGroup
				for range c.passes {
					all.Go(func() { b.pass(t) })
				}

				time.Sleep(3050 * time.Millisecond)
				gone := time.Now()
				store.begin()
				time.Sleep(time.Minute)
				store.end()
				back := time.Now()
				all.Wait()

				for _, call := range b.calls.all() {
					if late := call.at.Sub(gone); !c.handing && late > 2*time.Second && call.at.Before(back) {
						t.Errorf("want nothing handed out later than 2s after the store went away, got record %d after %v", call.id, late)
					}
				}
				if done := b.statuses()["SUCCESS"]; done != n || len(b.calls.all()) != n {
					t.Errorf("want each outcome kept and written: %d records done with a call each, got %d with %d calls", n, done, len(b.calls.all()))
				}
			})
		})
	}
}

// However many calls fail, it is one story: away, and back.
func TestStoreUnavailableAndBackAreSaidOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		of     trouble
		passes int
	}{
		{"everything", everything, 1},
		{"everything, three passes", everything, 3},
		{"everything hangs", trouble{pending: true, settle: true, ping: true, hangs: true}, 1},
		{"settling and ping", trouble{settle: true, ping: true}, 1},
		{"settling alone", trouble{settle: true}, 1},
		{"reading alone", trouble{pending: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(250*time.Millisecond, succeed))
				b.Concurrency = 4
				store := &outage{Store: b.table, trouble: c.of}
				b.Store = store
				b.add(t, "NEW", 1, 200, 0)
				var all sync.WaitGroup
				for range c.passes {
					all.Go(func() { b.pass(t) })
				}
				time.Sleep(3050 * time.Millisecond)
				gone := time.Now()
				store.begin()
				time.Sleep(time.Minute)
				store.end()
				end := time.Now()
				all.Wait()

				away, back := b.events.of(backlog.StoreUnavailable), b.events.of(backlog.StoreBack)
				if len(away) != 1 || len(back) != 1 {
					t.Fatalf("want one StoreUnavailable and one StoreBack, got %d and %d", len(away), len(back))
				}
				if late := away[0].At.Sub(gone); late < 0 || late > 2*time.Second || away[0].Err == nil {
					t.Errorf("want StoreUnavailable within 2s and with the error, got it after %v with %v", late, away[0].Err)
				}
				if late := back[0].At.Sub(end); late < 0 || late > 5*time.Second+100*time.Millisecond {
					t.Errorf("want StoreBack when it is back, at most the 5s between two tries later, got it after %v", late)
				}
			})
		})
	}
}

// While a record waits for the end of a pause, or for the rate, the store may
// go away.
func TestStoreGoesAwayWhileARecordWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		do    backlog.HandlerFunc
		rate  float64
		until time.Duration // the record waits
	}{
		{"for the end of a pause", pausing(1, 10*time.Minute), 0, 10 * time.Minute},
		{"for the rate", pausing(0, 0), 0.1, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, c.do)
				b.Concurrency, b.Rate = 4, c.rate
				store := &outage{Store: b.table, trouble: everything}
				b.Store = store
				b.add(t, "NEW", 1, 20, 0)
				var pass sync.WaitGroup
				pass.Go(func() { b.pass(t) })
				time.Sleep(3 * time.Second)
				gone := time.Now()
				store.begin()
				time.Sleep(c.until + 5*time.Minute)
				store.end()
				back := time.Now()
				pass.Wait()
				for _, call := range b.calls.all() {
					if late := call.at.Sub(gone); late > 2*time.Second && call.at.Before(back) {
						t.Errorf("want nothing handed out later than 2s after the store went away, got record %d after %v", call.id, late)
					}
				}
			})
		})
	}
}

// A pass that found the store away has ended. Another that has nothing to ask
// of a store without Ping must not wait for it to be back for ever.
func TestStoreThatWasAwayForAnotherPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				wait(ctx, 10*time.Second)
				return backlog.Skip // nothing to write
			}
			return nil
		})
		store := &outage{Store: b.table, trouble: trouble{pending: true}}
		b.Store = unpingable{store}
		b.add(t, "NEW", 1, 2, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var pass sync.WaitGroup
		pass.Go(func() {
			if _, err := b.Pass(ctx, backlog.Pass{MaxAge: day}); err != nil {
				t.Errorf("want no error, got %v", err)
			}
		})
		time.Sleep(5 * time.Second)

		store.begin()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Pass(short, backlog.Pass{MaxAge: day}); err != nil {
			t.Errorf("want a stopped pass to return no error, got %v", err)
		}
		store.end()

		pass.Wait()
		if got := b.status(t, 2); got != "SUCCESS" {
			t.Errorf("want the second record done within an hour, got %s", got)
		}
	})
}

func TestStoreStaysAwayAfterTheStop(t *testing.T) {
	for _, c := range []struct {
		name string
		hard bool
		want time.Duration // from the stop to the end of the pass
	}{
		{"waits for it as long as for handlers", false, 10 * time.Second},
		{"waits a second on a hard stop", true, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
				b.Concurrency, b.ShutdownTimeout = 4, 10*time.Second
				hard := make(chan struct{})
				b.Hard = hard
				store := &outage{Store: b.table, trouble: trouble{settle: true, ping: true}}
				b.Store = store
				store.begin()
				b.add(t, "NEW", 1, 50, 0)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var stopped time.Time
				time.AfterFunc(5*time.Second, func() {
					stopped = time.Now()
					cancel()
					if c.hard {
						close(hard)
					}
				})
				rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
				checkSum(t, rep)
				took := time.Since(stopped)
				if !errors.Is(err, backlog.ErrUnavailable) {
					t.Errorf("want the pass to say that the store is away, got %v", err)
				}
				if rep.Unwritten == 0 || rep.Unwritten != rep.Selected {
					t.Errorf("want every outcome counted as unwritten, got %s of %d selected", outcomes(rep), rep.Selected)
				}
				if took < c.want || took > c.want+time.Second {
					t.Errorf("want the pass to give up after %v, got %v", c.want, took)
				}
				if got := b.statuses()["NEW"]; got != 50 {
					t.Errorf("want all rows as they were, got %v", b.statuses())
				}
			})
		})
	}
}

// A store that comes back in time takes what was kept, also after the stop.
func TestStoreIsBackAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.Concurrency = 4
		store := &outage{Store: b.table, trouble: trouble{settle: true, ping: true}}
		b.Store = store
		store.begin()
		b.add(t, "NEW", 1, 50, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		time.AfterFunc(30*time.Second, store.end)
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if err != nil {
			t.Errorf("want no error, got %v", err)
		}
		testkit.Equal(t, "unwritten", rep.Unwritten, 0)
		testkit.Equal(t, "succeeded, of all selected", rep.Succeeded, rep.Selected)
		testkit.Equal(t, "rows with SUCCESS", b.statuses()["SUCCESS"], rep.Selected)
	})
}

func TestExpiryWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, succeed)
		b.add(t, "ERROR", 1, 1, 2*day)
		store := &awayExpirer{Store: b.table, until: time.Now().Add(time.Minute)}
		b.Store = store
		rep := b.passOf(t, backlog.Pass{MaxAge: day, Widest: true})
		if rep.Expired != 1 || rep.Duration < time.Minute {
			t.Errorf("want one record expired when the store is back after a minute, got %d after %v", rep.Expired, rep.Duration)
		}
		if away, back := len(b.events.of(backlog.StoreUnavailable)), len(b.events.of(backlog.StoreBack)); away != 1 || back != 1 {
			t.Errorf("want one StoreUnavailable and one StoreBack, got %d and %d", away, back)
		}
	})
}

type awayExpirer struct {
	*memory.Store
	until time.Time
}

func (a *awayExpirer) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	if time.Now().Before(a.until) {
		return 0, errAway
	}
	return a.Store.Expire(ctx, x)
}
