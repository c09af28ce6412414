package backlog_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A pause ends the pass under way when its running handlers have ended. The ticks that
// come meanwhile are one pass after it, also for a daemon that starts in the pause.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(10*time.Second, succeed))
		b.add(t, "NEW", 1, 10, time.Hour)
		var paused atomic.Bool
		state := new(keeper)
		run := func() (stop func()) {
			l := b.loop(schedule(t, "1d 5m", "7d 20m"))
			l.State, l.Engine.Paused = state, paused.Load
			return start(t, l)
		}
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
