package backlog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A probed store answers probes as the test says.
type probed struct {
	*memory.Store
	err atomic.Pointer[error]
}

func (p *probed) set(err error) { p.err.Store(&err) }

func (p *probed) Probe(context.Context) error { return *p.err.Load() }

// What no pass notices is known within seconds, once: a store that is away or locked for longer
// than some seconds, and one whose table is gone, which passes that take the lock do not mend.
func TestProbe(t *testing.T) {
	gone := errors.New("no such table: orders")
	for _, c := range []struct {
		name  string
		err   error
		after time.Duration // is it told
	}{
		{"away", errAway, 12 * time.Second},
		{"gone", gone, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				p := &probed{Store: b.table}
				b.Store = p
				probe := func(err error) (took time.Duration) {
					t.Helper()
					began := time.Now()
					p.set(err)
					if got := b.Probe(t.Context()); (got == nil) != (err == nil) {
						t.Errorf("want %v, got %v", err, got)
					}
					return time.Since(began)
				}
				wait := kinds(backlog.StoreUnavailable, backlog.StoreBack)
				probe(nil)
				b.wantStory(t, wait)
				if took := probe(c.err); took != c.after {
					t.Errorf("want it told after %v, got %v", c.after, took)
				}
				probe(c.err)
				if ev := b.events.of(backlog.StoreUnavailable); len(ev) != 1 || !errors.Is(ev[0].Err, c.err) {
					t.Fatalf("want the trouble told once, with its reason, got %+v", ev)
				}
				if _, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day}); err != nil {
					t.Fatal(err)
				}
				if back := len(b.events.of(backlog.StoreBack)); (back == 0) != (c.err == gone) {
					t.Errorf("want a pass to tell that the store answers, and not that its table is there again, got %d events", back)
				}
				probe(nil)
				if n := len(b.events.of(backlog.StoreBack)); n != 1 {
					t.Errorf("want the end told once, got %d", n)
				}
			})
		})
	}
}

// Another program that locks the store for a moment is no trouble.
func TestProbeOfAStoreThatIsLockedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		p := &probed{Store: b.table}
		p.set(errAway)
		b.Store = p
		time.AfterFunc(5*time.Second, func() { p.set(nil) })
		if err := b.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantStory(t, kinds(backlog.StoreUnavailable, backlog.StoreBack))
	})
}
