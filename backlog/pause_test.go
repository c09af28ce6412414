package backlog_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// runPausable runs a loop of two tiers that keeps its state and can be paused.
func runPausable(t *testing.T, b *bench, state *keeper, paused *atomic.Bool) (stop func()) {
	l := b.loop(schedule(t, "1d 5m", "7d 20m"))
	l.State = state
	l.Engine.Paused = paused.Load
	return start(t, l)
}

// A pause ends the pass under way when its running handlers have ended. The ticks that
// come meanwhile are one pass after it, also for a daemon that starts in the pause.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
		b.add(t, "NEW", 1, 10, time.Hour)
		var paused atomic.Bool
		state := new(keeper)
		run := func() (stop func()) { return runPausable(t, b, state, &paused) }
		stop := run()
		until(5*time.Minute + 12500*time.Millisecond)
		paused.Store(true)
		until(5*time.Minute + 25*time.Second)
		if n := len(b.events.of(backlog.AttemptEnded)); n != 2 {
			t.Errorf("%d records were handled, want those that were begun before the pause, 2", n)
		}
		until(21 * time.Minute)
		stop()
		stop = run()
		until(26*time.Minute - 500*time.Millisecond) // it is looked at each second
		paused.Store(false)
		until(26*time.Minute + 2*time.Second)
		b.wantStory(t, passKinds, "5m0s started 1d", "26m0s started 7d")
		until(29 * time.Minute)
		stop()
		ended := b.events.of(backlog.PassEnded)
		if len(ended) != 2 || ended[0].Report.Stopped != backlog.StoppedPause || ended[1].Report.Selected != 8 {
			t.Errorf("passes ended: %+v", ended)
		}
	})
}

// A wide pass that ends in a pause does not make up for a narrow tick that came in the pause, after the
// pass had begun: also a daemon that starts anew in the pause runs that tier after it.
func TestPauseKeepsTicksApartFromThePassUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(8*time.Minute, fail))
		b.add(t, "NEW", 1, 1, time.Hour)
		var paused atomic.Bool
		state := new(keeper)
		run := func() (stop func()) { return runPausable(t, b, state, &paused) }
		until(19 * time.Minute)
		stop := run()
		until(22 * time.Minute)
		paused.Store(true)
		until(29 * time.Minute)
		if ended := b.events.of(backlog.PassEnded); len(ended) != 1 || !ended[0].Report.Complete {
			t.Fatalf("want the wide pass complete in the pause, got %+v", ended)
		}
		stop()
		stop = run()
		until(29*time.Minute + 30500*time.Millisecond) // the pause is looked at each second
		paused.Store(false)
		until(29*time.Minute + 50*time.Second)
		b.wantStory(t, passKinds, "20m0s started 7d", "29m31s started 1d")
		stop()
	})
}
