package backlog_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A hanging keeper is one on a file system that does not answer any more.
type hanging struct {
	keeper
	load, update bool // which of the two hangs
	mu           sync.Mutex
	gone         chan struct{} // nil: it answers
}

func (h *hanging) hang() (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gone := make(chan struct{})
	h.gone = gone
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gone = nil
		close(gone)
	}
}

func (h *hanging) wait(hangs bool) {
	h.mu.Lock()
	gone := h.gone
	h.mu.Unlock()
	if gone != nil && hangs {
		<-gone
	}
}

func (h *hanging) Load() (backlog.Checkpoint, error) {
	h.wait(h.load)
	return h.keeper.Load()
}

func (h *hanging) Update(change func(*backlog.Checkpoint)) error {
	h.wait(h.update)
	return h.keeper.Update(change)
}

// A loop whose ticks lead to nothing is otherwise silent.
func TestNoTickIsSaidWhenTheLoopHangs(t *testing.T) {
	for _, c := range []struct {
		name         string
		load, update bool
		from         time.Duration // when the keeper hangs
	}{
		{"updates of the state", false, true, 12 * time.Minute},
		{"reads of the state", true, false, 12 * time.Minute},
		{"from the first wake on", false, true, time.Minute},
		{"from the start", true, true, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				state := &hanging{load: c.load, update: c.update}
				b := newBench(t, memory.Options{}, succeed)
				l := b.loop(schedule(t, "1d 5m"))
				l.State = state
				stop := func() {}
				if c.from > time.Minute {
					stop = start(t, l)
				}
				until(c.from)
				back := state.hang()
				if c.from == time.Minute {
					stop = start(t, l)
				}
				until(59 * time.Minute)
				said := b.events.of(backlog.NoTick)
				back()
				stop()
				if len(said) != 1 {
					t.Fatalf("want it said once that no tick is handled any more, got %d events", len(said))
				}
				if at := said[0].At.Sub(midnight); at < 10*time.Minute || at > c.from+15*time.Minute {
					t.Errorf("want it said when two intervals of five minutes have gone by and a little, got it at %v", at)
				}
				if said[0].Err == nil || !strings.Contains(said[0].Err.Error(), "no tick was handled for 1") {
					t.Errorf("want it said for how long, got %v", said[0].Err)
				}
			})
		})
	}
}

func TestNoTickIsNotSaidWithoutNeed(t *testing.T) {
	t.Parallel()
	const saturday = 7 * day // the bubble begins on one
	for _, c := range []struct {
		name        string
		loop        []string
		from, lasts time.Duration
	}{
		{"every five minutes", []string{"1d 5m"}, 13 * time.Second, 3 * time.Hour},
		{"every hour", []string{"7d 1h"}, 13 * time.Second, 30 * time.Hour},
		{"every second", []string{"1d 1s"}, 13 * time.Second, 10 * time.Minute},
		{"two tiers", []string{"1d 20m", "7d 1h"}, 13 * time.Second, 6 * time.Hour},
		{"a cron tier that pauses at night", []string{"1d */5 8-17 * * *"}, 17*time.Hour + 53*time.Minute, 25 * time.Minute},
		{"a cron tier that pauses for the weekend", []string{"1d */5 * * * 1-5"}, saturday - 7*time.Minute, 25 * time.Minute},
		{"a cron tier that ticks twice a day", []string{"1d 0,5 3 * * *"}, 3*time.Hour - time.Minute, 25 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				until(c.from)
				stop := start(t, b.loop(schedule(t, c.loop...)))
				time.Sleep(c.lasts)
				stop()
				b.wantStory(t, kinds(backlog.NoTick))
				if len(b.events.of(backlog.PassStarted)) == 0 {
					t.Error("want some passes, got none")
				}
			})
		})
	}
}

// A machine that slept is not a loop that hangs, though it is the watch that
// looks at the clock first.
func TestNoTickIsNotSaidAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 5m"))
		l.Now = m.now
		until(13 * time.Second) // it looks every thirty seconds from here on
		stop := start(t, l)
		until(6*time.Minute + 5*time.Second) // the loop wakes at 6m30s, the watch at 6m13s
		m.move(8 * time.Hour)
		until(8 * time.Minute)
		stop()
		b.wantStory(t, kinds(backlog.NoTick))
		if n := len(b.events.of(backlog.TicksMissed)); n != 1 {
			t.Errorf("want the missed ticks made up for, got %d events", n)
		}
	})
}

// A half-read keeper gives its state once.
type halfRead struct {
	keeper
	err   error
	loads atomic.Int64
}

func (h *halfRead) Load() (backlog.Checkpoint, error) {
	if h.loads.Add(1) > 1 {
		return backlog.Checkpoint{}, h.err
	}
	return h.keeper.Load()
}

// A resume point that cannot be read is a warning; the pass begins anew.
func TestResumePointCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("state.json: permission denied")
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 5m"))
		l.State = &halfRead{err: broken}
		stop := start(t, l)
		until(6 * time.Minute)
		stop()
		b.wantStory(t, kinds(backlog.PassStarted, backlog.StateFailed), "5m0s state failed", "5m0s started 1d")
		if failed := b.events.of(backlog.StateFailed); len(failed) != 1 || !errors.Is(failed[0].Err, broken) {
			t.Errorf("want the keeper's error in StateFailed, got %+v", failed)
		}
	})
}

// A state that cannot be written is a warning; the daemon runs without it.
func TestStateCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("read-only file system")
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 5m"))
		l.State = failingKeeper{broken}
		stop := start(t, l)
		until(11 * time.Minute)
		stop()
		b.wantStory(t, passKinds, "5m0s started 1d", "10m0s started 1d")
		if n := len(b.events.of(backlog.StateFailed)); n == 0 {
			t.Error("want StateFailed, got none")
		}
		if slices.ContainsFunc(b.events.of(backlog.StateFailed), func(ev backlog.Event) bool { return !errors.Is(ev.Err, broken) }) {
			t.Error("want the keeper's error in every StateFailed")
		}
	})
}
