package backlog

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/internal/testkit"
	"backlog/tiers"
)

func twoTiers(t *testing.T) *tiers.Schedule {
	t.Helper()
	return testkit.Schedule(t, tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour})
}

// An empty table has nothing to do.
type emptyTable struct{}

func (emptyTable) Pending(context.Context, Query) (Page, error)              { return Page{}, nil }
func (emptyTable) Settle(context.Context, []Settlement) ([]Unsettled, error) { return nil, nil }

// An observer may ask for LastWake, or call Reload: the loop's lock must be
// free. The first wake is alone in having to do with it.
func TestObserveIsCalledWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour + time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := &Loop{Schedule: twoTiers(t), Engine: &Engine{Store: emptyTable{}}}
		var readings atomic.Int64
		l.Now = func() time.Time { // set back between the reading at the start and that of the first wake
			if readings.Add(1) == 1 {
				return time.Now().Add(10 * time.Second)
			}
			return time.Now()
		}
		l.Since = time.Now().Add(5 * time.Second)
		var seen []EventKind
		l.Observe = func(ev Event) {
			if slices.Contains(seen, Woke) {
				return
			}
			seen = append(seen, ev.Kind)
			if ev.Kind == Woke {
				cancel()
				return
			}
			if !l.mu.TryLock() {
				t.Errorf("want Observe called without the loop's lock held, it is held at an event of kind %s", ev.Kind)
				return
			}
			l.mu.Unlock()
		}
		l.Run(ctx)
		if want := []EventKind{ClockSetBack, Woke}; !slices.Equal(seen, want) {
			t.Errorf("want the events %v of the first wake, got %v", want, seen)
		}
	})
}

func TestNextWake(t *testing.T) {
	l := &Loop{Schedule: twoTiers(t)}
	for _, c := range []struct{ now, want time.Duration }{
		{time.Minute, 30 * time.Second},                     // nothing within thirty seconds
		{4*time.Minute + 30*time.Second, 30 * time.Second},  // a tick in exactly thirty
		{4*time.Minute + 50*time.Second, 10 * time.Second},  // a tick within thirty seconds
		{5*time.Minute - time.Nanosecond, time.Nanosecond},  // at once
		{5 * time.Minute, 30 * time.Second},                 // right after one
		{59*time.Minute + 45*time.Second, 15 * time.Second}, // two tiers together
	} {
		now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(c.now)
		if got := (cronSchedule{l}).Next(now).Sub(now); got != c.want {
			t.Errorf("at %v: want the next wake in %v, got %v", c.now, c.want, got)
		}
	}
}

// The timer is set by the difference of two readings of a clock that may be
// set back in between. Only the monotonic one tells how long to wait then, and
// a tick by itself does not have it.
func TestNextWakeIsOnTheMonotonicClock(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 1000 * time.Hour} {
		s, err := tiers.New(tiers.Tier{MaxAge: time.Hour, Every: every})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		next := cronSchedule{&Loop{Schedule: s}}.Next(now)
		if !strings.Contains(next.String(), " m=") {
			t.Errorf("every %v: want a time with a monotonic reading, got %v", every, next)
		}
		if tick := s.Next(now); every == time.Second && !next.Round(0).Equal(tick) {
			t.Errorf("want the tick %v, got %v", tick, next)
		}
	}
}
