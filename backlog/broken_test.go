package backlog_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A brokenService is down for an hour of the night, in which as many records
// come in as before and after it. There are records it never takes.
type brokenService struct {
	down, back time.Duration // after midnight
	asks       time.Duration // the pause it asks for while it is down; 0: none
}

const (
	goodRecords   = 500
	poisonRecords = 50 // two runs of them, each of more than abort_after
	poisonFrom    = 1000
	serviceTakes  = time.Second
)

func (s brokenService) isDown(at time.Time) bool {
	return !at.Before(midnight.Add(s.down)) && at.Before(midnight.Add(s.back))
}

func (s brokenService) handle(ctx context.Context, r *backlog.Record) error {
	began := time.Now()
	if !wait(ctx, serviceTakes) {
		return ctx.Err()
	}
	switch {
	case s.isDown(began) && s.asks > 0:
		return backlog.RetryAfter(s.asks, errBroken)
	case s.isDown(began):
		return errBroken
	case id(r) >= poisonFrom:
		return errors.New("this one never works")
	}
	return nil
}

// arrive inserts the records as they come in: the good ones every 18 seconds
// from 0:10 to 2:40, half of the poison before the outage and half of it a
// minute before its end, so that they are at the head of the lane then.
func (s brokenService) arrive(t *testing.T, b *bench) {
	insert := func(n int) {
		if err := b.table.Insert(memory.Row{Key: key(n), Status: "NEW", Inserted: time.Now()}); err != nil {
			t.Errorf("Insert: %v", err)
		}
	}
	go func() {
		for i := range goodRecords {
			until(10*time.Minute + time.Duration(i)*18*time.Second)
			insert(i + 1)
		}
	}()
	go func() {
		for i := range poisonRecords {
			at := s.down - 12*time.Minute
			if i >= poisonRecords/2 {
				at = s.back - time.Minute
			}
			until(at + time.Duration(i%(poisonRecords/2))*400*time.Millisecond + time.Millisecond) // no good one in between
			insert(poisonFrom + i)
		}
	}()
}

// A server that is down for an hour is spared, each limit in its way; nothing
// is lost, the poison hides nothing, and all is done soon after it is back.
func TestBrokenService(t *testing.T) {
	t.Parallel()
	const tick, abortAfter, hands, perSecond, asks = 5 * time.Minute, 20, 4, 1.0, 10 * time.Minute
	for _, c := range []struct {
		name  string
		abort int
		rate  float64
		asks  time.Duration
	}{
		{"abort_after", abortAfter, 0, 0},
		{"rate", 0, perSecond, 0},
		{"Retry-After", 0, 0, asks},
		{"all together", abortAfter, perSecond, asks},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := brokenService{down: time.Hour + 2*time.Minute, back: 2*time.Hour + 2*time.Minute, asks: c.asks}
				b := newBench(t, memory.Options{}, s.handle)
				b.Concurrency, b.AbortAfter, b.Rate = hands, c.abort, c.rate
				l := b.loop(schedule(t, "1d 5m", "7d 1h"))
				l.State = new(keeper)
				s.arrive(t, b)
				stop := start(t, l)
				until(4*time.Hour - time.Minute)
				stop()

				if got := b.statuses(); got["SUCCESS"] != goodRecords || got["ERROR"] != poisonRecords {
					t.Errorf("want the %d good records done and the %d others tried, got %v", goodRecords, poisonRecords, got)
				}
				calls := s.callsWhileDown(b)
				most := math.MaxInt
				if c.abort > 0 {
					// A pass ends with its Nth failure in a row and what is
					// in flight then; there is one at each of the hour's
					// twelve ticks, and maybe one at its beginning.
					perPass := c.abort + hands - 1
					most = min(most, 13*perPass)
					for _, ev := range b.events.of(backlog.PassEnded) {
						if began := ev.Report.Started; s.isDown(began) && s.isDown(ev.At) && ev.Report.Selected > perPass {
							t.Errorf("want at most %d calls by a pass that meets nothing but failures, got %d at %s", perPass, ev.Report.Selected, clock(began))
						}
					}
				}
				if c.rate > 0 {
					most = min(most, int(c.rate*(s.back-s.down).Seconds())+1)
				}
				if c.asks > 0 {
					// Each hand has begun one call when the first answer
					// comes.
					most = min(most, hands*int((s.back-s.down)/c.asks+1))
				}
				if calls == 0 || calls > most {
					t.Errorf("want from 1 to %d calls while it was down, got %d", most, calls)
				}

				// Poison can end a pass once for every N failures of it: of
				// each record as a failed one and, of those that came last,
				// as a fresh one before. The pass after that does all the
				// rest. A pause asked for in the last moment, and the pass
				// under way, come first.
				passes := 1
				if c.abort > 0 {
					passes += (poisonRecords + poisonRecords/2) / c.abort
					if !s.poisonEndsAPass(b) {
						t.Error("want a pass ended by poison after the service was back, or this test shows too little")
					}
				}
				work := time.Duration(goodRecords+poisonRecords) * serviceTakes / hands
				if c.rate > 0 {
					work = max(work, time.Duration(float64(goodRecords+poisonRecords)/c.rate*float64(time.Second)))
				}
				bound := c.asks + work + time.Duration(passes)*tick + work
				took := s.recovery(b)
				if took <= 0 || took > bound {
					t.Errorf("want all that had come before the service was back done within %v, got %v", bound, took)
				}
				t.Logf("%d calls while down (at most %d), all done %v after (at most %v)", calls, most, took, bound)
			})
		})
	}
}

// callsWhileDown returns how many calls the service got in its bad hour.
func (s brokenService) callsWhileDown(b *bench) (n int) {
	for _, c := range b.calls.all() {
		if s.isDown(c.at) {
			n++
		}
	}
	return n
}

// poisonEndsAPass reports whether abort_after did while the service was there.
func (s brokenService) poisonEndsAPass(b *bench) bool {
	return slices.ContainsFunc(b.events.of(backlog.PassEnded), func(ev backlog.Event) bool {
		return ev.Report.Stopped == backlog.StoppedAbortAfter && ev.Report.Started.After(midnight.Add(s.back))
	})
}

// recovery returns how long after the service was back the last good record
// that had come before was done. No record is done twice.
func (s brokenService) recovery(b *bench) (took time.Duration) {
	done := make(map[int]bool)
	back := midnight.Add(s.back)
	for _, ev := range b.events.of(backlog.AttemptEnded) {
		if ev.Outcome != backlog.Succeeded {
			continue
		}
		n := id(ev.Record)
		if done[n] {
			b.calls.t.Errorf("want each record done once, record %d was done again at %s", n, clock(ev.At))
		}
		done[n] = true
		if ev.Record.Inserted.Before(back) {
			took = max(took, ev.At.Sub(back))
		}
	}
	return took
}
