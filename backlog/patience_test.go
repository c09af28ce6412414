package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

var errReadOnly = fmt.Errorf("cannot execute UPDATE in a read-only transaction: %w", backlog.ErrNoWrites)

// A sick store has calls that fail from a moment on.
type sick struct {
	*memory.Store
	from                       time.Time // zero: from the beginning
	try, settle, pending, ping error
}

func (s *sick) now(err error) error {
	if time.Now().Before(s.from) {
		return nil
	}
	return err
}

func (s *sick) Try(context.Context, backlog.Settlement) error { return s.now(s.try) }
func (s *sick) Ping(context.Context) error                    { return s.now(s.ping) }

func (s *sick) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if err := s.now(s.settle); err != nil {
		return nil, err
	}
	return s.Store.Settle(ctx, group)
}

func (s *sick) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if err := s.now(s.pending); err != nil {
		return backlog.Page{}, err
	}
	return s.Store.Pending(ctx, q)
}

// An engine with patience ends its pass at once where the store takes no writes and no outcome
// waits for it, else after the patience. Without one it waits until it is stopped.
func TestPatience(t *testing.T) {
	const patience = 2 * time.Minute
	for _, c := range []struct {
		name      string
		store     sick
		takes     time.Duration // of handlers
		at        time.Duration // the trouble begins
		most      time.Duration // until the end of the pass
		handled   int           // -1: does not matter
		unwritten bool
	}{
		{name: "read only from the beginning", store: sick{try: errReadOnly, settle: errReadOnly}},
		{name: "away from the beginning", store: sick{try: errAway, settle: errAway, pending: errAway, ping: errAway}, most: patience + 5*time.Second},
		{name: "locked from the beginning", store: sick{try: errAway}, most: patience + 5*time.Second},
		{name: "read only with outcomes", store: sick{settle: errReadOnly}, takes: time.Second, at: 3500 * time.Millisecond, most: patience + 10*time.Second, handled: -1, unwritten: true},
		{name: "away with outcomes", store: sick{settle: errAway, pending: errAway, ping: errAway}, takes: time.Second, at: 3500 * time.Millisecond, most: patience + 10*time.Second, handled: -1, unwritten: true},
		{name: "away while a handler is at work", store: sick{settle: errAway, pending: errAway, ping: errAway}, takes: 10 * time.Minute, at: time.Second, most: 13 * time.Minute, handled: 4, unwritten: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(c.takes, succeed))
				b.add(t, "NEW", 1, 40, time.Hour)
				c.store.Store, c.store.from = b.table, time.Now().Add(c.at)
				b.Store, b.Concurrency, b.Patience = &c.store, 4, patience
				began := time.Now()
				r, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
				if took := time.Since(began); took > c.most {
					t.Errorf("want the end after %v at most, got %v", c.most, took)
				}
				if r.Stopped != backlog.StoppedError || !r.CutShort() || !errors.Is(err, backlog.ErrUnavailable) {
					t.Errorf("want a pass that an unavailable store has cut short, got %+v, %v", r, err)
				}
				if n := len(b.calls.ids()); c.handled >= 0 && n != c.handled {
					t.Errorf("want %d handler calls, got %d", c.handled, n)
				}
				if (r.Unwritten > 0) != c.unwritten {
					t.Errorf("want outcomes given up: %t, got %+v", c.unwritten, r)
				}
			})
		})
	}
}

// A store that comes back within the patience costs nothing.
func TestStoreComesBackWithinThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.add(t, "NEW", 1, 40, time.Hour)
		o := &outage{Store: b.table, trouble: everything}
		b.Store, b.Concurrency, b.Patience = o, 4, 2*time.Minute
		time.AfterFunc(3500*time.Millisecond, o.begin)
		time.AfterFunc(100*time.Second, o.end)
		r, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if err != nil || !r.Complete || r.Succeeded != 40 {
			t.Errorf("want a complete pass, got %+v, %v", r, err)
		}
	})
}

// A settlingHandler of a store that takes no writes is given no other record.
func TestPatienceOfAHandlerThatSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 40, time.Hour)
		calls := 0
		b.Handler = settlesNothing{&calls}
		b.Patience = 2 * time.Minute
		began := time.Now()
		r, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		testkit.Equal(t, "calls", calls, 1)
		testkit.Equal(t, "stopped by", r.Stopped, backlog.StoppedError)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the pass took %v, want at most a second", took)
		}
		if !errors.Is(err, backlog.ErrNoWrites) {
			t.Errorf("got the error %v, want %v", err, backlog.ErrNoWrites)
		}
	})
}

type settlesNothing struct{ calls *int }

func (s settlesNothing) Handle(context.Context, *backlog.Record) error { return errReadOnly }

func (s settlesNothing) HandleAndSettle(context.Context, *backlog.Record, func() time.Time) error {
	*s.calls++
	return errReadOnly
}
