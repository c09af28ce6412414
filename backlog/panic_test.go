package backlog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A fuse panics when it is reached for the n-th time, and never again.
type fuse struct{ n atomic.Int64 }

func newFuse(n int64) *fuse {
	f := new(fuse)
	f.n.Store(n)
	return f
}

func (f *fuse) reach() {
	if f.n.Add(-1) == 0 {
		panic("boom")
	}
}

// fused is a table of which one method panics once.
type fused struct {
	*memory.Store
	pending, settle, ping, expire, lock *fuse
}

var (
	_ backlog.Locker = fused{}
)

func burn(f *fuse) {
	if f != nil {
		f.reach()
	}
}

func (f fused) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	burn(f.pending)
	return f.Store.Pending(ctx, q)
}

func (f fused) Settle(ctx context.Context, g []backlog.Settlement) ([]backlog.Unsettled, error) {
	burn(f.settle)
	return f.Store.Settle(ctx, g)
}

func (f fused) Ping(ctx context.Context) error {
	burn(f.ping)
	return f.Store.Ping(ctx)
}

func (f fused) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	burn(f.expire)
	return f.Store.Expire(ctx, x)
}

func (f fused) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	burn(f.lock)
	return f.Store.TryLock(ctx, name)
}

// fusedKeeper is a state keeper of which one method panics once.
type fusedKeeper struct {
	keeper
	load, update *fuse
}

func (f *fusedKeeper) Load() (backlog.Checkpoint, error) {
	burn(f.load)
	return f.keeper.Load()
}

func (f *fusedKeeper) Update(change func(*backlog.Checkpoint)) error {
	burn(f.update)
	return f.keeper.Update(change)
}

// nilError is the error of a handler that returns a nil pointer as an error.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// Whatever panics, once, the daemon lives on: the next ticks are as ever, no
// tier and no handler is lost, no goroutine is left over, and the panic is
// told.
func TestPanicDoesNotStopTheLoop(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(b *bench, l *backlog.Loop)
	}{
		{"handler", func(b *bench, _ *backlog.Loop) {
			f := newFuse(2)
			b.calls.do = func(context.Context, *backlog.Record) error { f.reach(); return errBroken }
		}},
		{"handler's error", func(b *bench, _ *backlog.Loop) {
			var once atomic.Bool
			b.calls.do = func(context.Context, *backlog.Record) error {
				if once.CompareAndSwap(false, true) {
					var none *nilError
					return none
				}
				return errBroken
			}
		}},
		{"Pending", func(b *bench, _ *backlog.Loop) { b.Store = fused{Store: b.table, pending: newFuse(3)} }},
		{"Settle", func(b *bench, _ *backlog.Loop) { b.Store = fused{Store: b.table, settle: newFuse(2)} }},
		{"Ping", func(b *bench, _ *backlog.Loop) { b.Store = fused{Store: b.table, ping: newFuse(1)} }},
		{"Expire", func(b *bench, _ *backlog.Loop) { b.Store = fused{Store: b.table, expire: newFuse(1)} }},
		{"TryLock", func(b *bench, l *backlog.Loop) { l.Locker = fused{Store: b.table, lock: newFuse(1)} }},
		{"state at the start", func(_ *bench, l *backlog.Loop) { l.State = &fusedKeeper{load: newFuse(1)} }},
		{"state at the first pass", func(_ *bench, l *backlog.Loop) { l.State = &fusedKeeper{load: newFuse(2)} }},
		{"state at the first wake", func(_ *bench, l *backlog.Loop) { l.State = &fusedKeeper{update: newFuse(1)} }},
		{"state at a wake", func(_ *bench, l *backlog.Loop) { l.State = &fusedKeeper{update: newFuse(8)} }},
		{"observer of the start of a pass", func(b *bench, l *backlog.Loop) { b.explode(l, backlog.PassStarted) }},
		{"observer of an attempt", func(b *bench, l *backlog.Loop) { b.explode(l, backlog.AttemptEnded) }},
		{"observer of the end of a pass", func(b *bench, l *backlog.Loop) { b.explode(l, backlog.PassEnded) }},
		{"observer of a covered tier", func(b *bench, l *backlog.Loop) { b.explode(l, backlog.TierCovered) }},
		{"observer of a wake", func(b *bench, l *backlog.Loop) { b.explode(l, backlog.Woke) }},
		{"observer of everything for ten minutes", func(b *bench, l *backlog.Loop) {
			b.Observe = func(ev backlog.Event) {
				b.events.observe(ev)
				if time.Since(midnight) < 10*time.Minute {
					panic("boom")
				}
			}
			l.Observe = b.Observe
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			isolated(t, func(t *testing.T) {
				b := newBench(t, memory.Options{Dead: "DEAD"}, slowly(5*time.Second, fail))
				b.Concurrency = 2
				b.add(t, "NEW", 1, 3, 0)
				b.add(t, "NEW", 11, 3, 3*day)
				l := b.loop(schedule(t, "1d 5m", "7d 10m"))
				c.setUp(b, l)
				l.Engine = b.Engine
				stop := start(t, l)
				until(31 * time.Minute)
				stop()
				// By then every tier has had ticks after the panic.
				last := make(map[string]time.Duration)
				for _, call := range b.calls.all() {
					if call.id == 3 || call.id == 13 {
						last[call.rec.Tier] = call.at.Sub(midnight)
					}
				}
				if last["1d"] < 25*time.Minute || last["7d"] < 30*time.Minute {
					t.Errorf("want the records tried at the ticks of both tiers to the end, at 25m and 30m, got them last at %v", last)
				}
				told := slices.ContainsFunc(b.events.list, func(ev backlog.Event) bool { return ev.Err != nil && mentions(ev.Err, "panic") })
				if !told {
					t.Error("want the panic told in some event's error: that of an attempt, of a pass, or of the loop")
				}
			})
		})
	}
}

// mentions reports whether the error's text, if it has one, has the word.
func mentions(err error, word string) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return strings.Contains(err.Error(), word)
}

// explode makes the observer panic at the first event of a kind.
func (b *bench) explode(l *backlog.Loop, kind backlog.EventKind) {
	f := newFuse(1)
	b.Observe = func(ev backlog.Event) {
		b.events.observe(ev)
		if ev.Kind == kind {
			f.reach()
		}
	}
	l.Observe = b.Observe
}

// The panic of a handler is that of one attempt.
func TestPanickingHandlerInTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(context.Context, *backlog.Record) error { panic(errors.New("boom")) })
		b.add(t, "NEW", 1, 3, 0)
		stop := start(t, b.loop(schedule(t, "1d 5m")))
		until(16 * time.Minute)
		stop()
		if n := len(b.calls.ids()); n != 9 {
			t.Errorf("want three records tried at each of three ticks, got %d calls", n)
		}
		if n := len(b.events.of(backlog.Panicked)); n != 0 {
			t.Errorf("want no word about the loop, got %d events", n)
		}
	})
}
