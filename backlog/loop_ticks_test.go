package backlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/tiers"
)

// passKinds tell which passes were started and why.
var passKinds = kinds(backlog.PassStarted, backlog.TicksMissed, backlog.TierSkipped)

// A movable clock is one that is put forward and back.
type movable struct{ offset atomic.Int64 }

func (m *movable) now() time.Time       { return time.Now().Add(time.Duration(m.offset.Load())) }
func (m *movable) move(d time.Duration) { m.offset.Add(int64(d)) }

func TestTicksLieOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		until(3*time.Minute + 20*time.Second) // whenever it is started
		stop := start(t, b.loop(schedule(t, "1d 5m")))
		until(17 * time.Minute)
		stop()
		b.wantStory(t, passKinds, "5m0s started 1d", "10m0s started 1d", "15m0s started 1d")
	})
}

func TestWiderTierCoversNarrowerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		until(50 * time.Minute)
		stop := start(t, b.loop(schedule(t, "1d 5m", "7d 20m", "30d 1h")))
		until(time.Hour + 7*time.Minute)
		stop()
		b.wantStory(t, append(passKinds, backlog.TierCovered),
			"55m0s started 1d", "1h0m0s covered 1d", "1h0m0s covered 7d", "1h0m0s started 30d", "1h5m0s started 1d")
		for _, ev := range b.events.of(backlog.PassEnded) {
			want := map[string]time.Duration{"1d": day, "30d": 30 * day}[ev.Tier]
			if ev.Report.MaxAge != want {
				t.Errorf("want the pass of tier %s to take records up to %v old, got %v", ev.Tier, want, ev.Report.MaxAge)
			}
		}
	})
}

// Only the pass of the widest tier may expire records.
func TestWidestTierExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, fail)
		b.add(t, "ERROR", 1, 1, 8*day)
		stop := start(t, b.loop(schedule(t, "1d 5m", "7d 1h")))
		until(59 * time.Minute)
		if got := b.status(t, 1); got != "ERROR" {
			t.Errorf("want the record left alone by the narrow tier, got %s", got)
		}
		until(61 * time.Minute)
		stop()
		if got := b.status(t, 1); got != "DEAD" {
			t.Errorf("want the record dead at the widest tier's tick, got %s", got)
		}
	})
}

func TestFirstStartWaitsForTheNextTick(t *testing.T) {
	broken := errors.New("state.json: permission denied")
	for _, c := range []struct {
		name  string
		state backlog.CheckpointKeeper
		at    time.Duration
	}{
		{"no keeper", nil, 7 * time.Minute},
		{"an empty state", new(keeper), 7 * time.Minute},
		{"a state that cannot be read", failingKeeper{broken}, 7 * time.Minute},
		{"at the very tick", new(keeper), 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				l := b.loop(schedule(t, "1d 5m", "7d 1h"))
				l.State = c.state
				until(c.at)
				stop := start(t, l)
				until(11 * time.Minute)
				stop()
				b.wantStory(t, passKinds, "10m0s started 1d")
				failed := b.events.of(backlog.StateFailed)
				if _, fails := c.state.(failingKeeper); fails != (len(failed) > 0) {
					t.Errorf("want StateFailed exactly when the keeper fails, got %d", len(failed))
				}
				for _, ev := range failed {
					if !errors.Is(ev.Err, broken) {
						t.Errorf("want the keeper's error in StateFailed, got %v", ev.Err)
					}
				}
			})
		})
	}
}

type failingKeeper struct{ err error }

func (f failingKeeper) Load() (backlog.Checkpoint, error)      { return backlog.Checkpoint{}, f.err }
func (f failingKeeper) Update(func(*backlog.Checkpoint)) error { return f.err }

// missedTicks counts by looking at every second.
func missedTicks(after, upTo time.Time) (widest string, missed int) {
	for _, rung := range ladder {
		n := 0
		for s := after.Unix() + 1; s <= upTo.Unix(); s++ {
			if s%rung.seconds == 0 {
				n++
			}
		}
		if n > 0 {
			widest = rung.name
			missed += n - 1 // the pass makes up for one
		}
	}
	return widest, missed
}

// Whatever was missed while the daemon was down is one pass, at once.
func TestMissedTicksAreOnePass(t *testing.T) {
	for _, c := range []struct{ runs, down time.Duration }{
		{67 * time.Minute, 3 * day},
		{67 * time.Minute, 20 * day},
		{25 * time.Hour, 3 * time.Hour},
		{5*day + time.Second, 9 * day},
		{67 * time.Minute, 13 * time.Minute},
		{66 * time.Minute, 5 * time.Minute}, // one tick missed
		{61 * time.Minute, 3 * time.Minute}, // none
	} {
		t.Run(fmt.Sprintf("after %v for %v", c.runs, c.down), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				state := new(keeper)
				life := func(d time.Duration) *bench {
					b := newBench(t, memory.Options{}, succeed)
					l := b.loop(ladderSchedule(t))
					l.State = state
					stop := start(t, l)
					time.Sleep(d)
					stop()
					return b
				}
				until(10 * time.Second)
				life(c.runs)
				from := time.Now()
				time.Sleep(c.down)
				up := time.Now()
				next := up.Add(time.Second).Truncate(5 * time.Minute).Add(5 * time.Minute)
				b := life(next.Sub(up) - time.Second)

				tier, missed := missedTicks(from, up)
				var want []string
				if missed > 0 {
					want = append(want, fmt.Sprint(clock(up), " missed ", tier, " ", missed))
				}
				if tier != "" {
					want = append(want, fmt.Sprint(clock(up), " started ", tier))
				}
				b.wantStory(t, passKinds, want...)
			})
		})
	}
}

// Since takes the place of the state's last wake.
func TestSinceSaysFromWhenTicksCount(t *testing.T) {
	for _, c := range []struct {
		name        string
		since, woke time.Duration // before the start; 0: not given
		want        []string
	}{
		{"alone", 31 * time.Minute, 0, []string{"1h2m0s missed 7d 5", "1h2m0s started 7d"}},
		{"later than the state", 2*time.Minute + time.Second, 10 * time.Hour, []string{"1h2m0s missed 7d 0", "1h2m0s started 7d"}},
		{"earlier than the state", 31 * time.Minute, time.Second, []string{"1h2m0s missed 7d 5", "1h2m0s started 7d"}},
		{"none, but a state", 0, 31 * time.Minute, []string{"1h2m0s missed 7d 5", "1h2m0s started 7d"}},
		{"in the future", -10 * time.Hour, time.Hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until(62 * time.Minute)
				b := newBench(t, memory.Options{}, succeed)
				l := b.loop(schedule(t, "1d 5m", "7d 1h"))
				if c.since != 0 {
					l.Since = time.Now().Add(-c.since)
				}
				if c.woke != 0 {
					l.State = new(keeper)
					l.State.Update(func(s *backlog.Checkpoint) { s.LastWake = time.Now().Add(-c.woke) })
				}
				stop := start(t, l)
				time.Sleep(time.Minute)
				stop()
				want := slices.DeleteFunc(slices.Clone(c.want), func(s string) bool { return strings.HasSuffix(s, " 0") })
				b.wantStory(t, passKinds, want...)
			})
		})
	}
}

func TestLoopWakesEvery30Seconds(t *testing.T) {
	for _, every := range []string{"96h", "5m", "45s", "7s"} {
		t.Run(every, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				until(time.Minute + 13*time.Second)
				l := b.loop(schedule(t, "360d "+every))
				l.State = new(keeper)
				stop := start(t, l)
				last := time.Now()
				until(20*time.Minute + time.Second/2)
				if late := time.Since(l.LastWake()); late > 30*time.Second {
					t.Errorf("want LastWake at most 30s ago, got %v", late)
				}
				if s, _ := l.State.Load(); !s.LastWake.Equal(l.LastWake()) {
					t.Errorf("want the state to have the last wake, %v, got %v", l.LastWake(), s.LastWake)
				}
				stop()
				woke := b.events.of(backlog.Woke)
				for _, ev := range woke {
					if gap := ev.At.Sub(last); gap > 30*time.Second {
						t.Errorf("want the loop to wake every 30s, got %v between two", gap)
					}
					last = ev.At
				}
				if len(woke) < 37 {
					t.Errorf("want at least 37 wakes in 19 minutes, got %d", len(woke))
				}
			})
		})
	}
}

// Others may ask at any time, also while the state is still being read.
func TestLastWakeWhileTheLoopStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 5m"))
		l.State = lateKeeper{}
		stop := start(t, l)
		time.Sleep(time.Second)
		l.LastWake() // the race detector's business
		time.Sleep(2 * time.Second)
		if got := l.LastWake(); !got.Equal(midnight.Add(2 * time.Second)) {
			t.Errorf("want the first wake when the state was read, after 2s, got %v", got)
		}
		stop()
	})
}

// A late keeper takes two seconds to answer.
type lateKeeper struct{}

func (lateKeeper) Load() (backlog.Checkpoint, error) {
	time.Sleep(2 * time.Second)
	return backlog.Checkpoint{LastWake: midnight.Add(-time.Minute)}, nil
}

func (lateKeeper) Update(func(*backlog.Checkpoint)) error { return nil }

// The machine sleeps for eight hours: timers stand still, the clock does not.
func TestSuspendIsOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, succeed)
		b.Now = m.now
		l := b.loop(schedule(t, "1d 5m", "7d 1h"))
		l.Now = m.now
		stop := start(t, l)
		until(3*time.Minute + 10*time.Second)
		m.move(8 * time.Hour)
		woken := time.Now()
		until(5*time.Minute - time.Second)
		stop()

		events := b.events.of(backlog.PassStarted)
		if len(events) != 1 || events[0].Tier != "7d" {
			t.Fatalf("want one pass, of the wider tier, got %v", b.events.story(passKinds...))
		}
		if late := events[0].At.Sub(woken.Add(8 * time.Hour)); late > 30*time.Second {
			t.Errorf("want it within 30s, got %v", late)
		}
		// 96 of five minutes, 8 of an hour; the pass makes up for one each.
		if missed := b.events.of(backlog.TicksMissed); len(missed) != 1 || missed[0].N != 102 || missed[0].Tier != "7d" {
			t.Errorf("want 102 ticks missed, got %+v", missed)
		}
	})
}

// A long downtime of a cron tier is counted up to 10,000 ticks.
func TestMissedTicksOfALongDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, succeed)
		b.Now = m.now
		s, err := tiers.New(tiers.Tier{MaxAge: day, Cron: "* * * * *"})
		if err != nil {
			t.Fatal(err)
		}
		l := b.loop(s)
		l.Now = m.now
		stop := start(t, l)
		until(90 * time.Second)
		m.move(30 * day)
		until(3 * time.Minute)
		stop()
		missed := b.events.of(backlog.TicksMissed)
		if len(missed) != 1 || missed[0].N != 9999 || !missed[0].AtLeast {
			t.Errorf("want at least 9,999 ticks missed, got %+v", missed)
		}
	})
}

// Missed ticks of a tier whose pass still runs are not made up for by that of
// a narrower one.
func TestMissedTicksOfABusyTierAreNotCovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, slowly(30*time.Minute, succeed))
		b.Concurrency = 2
		b.Now = m.now
		b.add(t, "ERROR", 1, 1, 3*day)
		l := b.loop(schedule(t, "1d 5m", "7d 1h"))
		l.Now = m.now
		until(59 * time.Minute)
		stop := start(t, l)
		until(61 * time.Minute)
		m.move(8 * time.Hour)
		until(62 * time.Minute)
		stop()
		missed := b.events.of(backlog.TicksMissed)
		if len(missed) != 1 || missed[0].Tier != "1d" || missed[0].N != 95 {
			t.Errorf("want the 95 ticks that the pass of the narrow tier makes up for besides its own, got %+v", missed)
		}
	})
}

func TestClockSetBackDoesNotSilenceTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, succeed)
		b.Now = m.now
		l := b.loop(schedule(t, "1d 5m", "7d 4h"))
		l.Now = m.now
		until(2 * time.Hour)
		stop := start(t, l)
		until(2*time.Hour + 12*time.Minute + 10*time.Second)
		m.move(-time.Hour)
		until(2*time.Hour + 28*time.Minute)
		stop()
		b.wantStory(t, append(passKinds, backlog.ClockSetBack),
			"2h5m0s started 1d", "2h10m0s started 1d", "1h12m30s set back", "1h15m0s started 1d", "1h20m0s started 1d", "1h25m0s started 1d")
		if ev := b.events.of(backlog.ClockSetBack); len(ev) == 1 && !strings.Contains(fmt.Sprint(ev[0].Err), "59m30s") {
			t.Errorf("want the event to say by how much, 59m30s since the last wake, got %v", ev[0].Err)
		}
	})
}

// A clock that is slewed by less than a second is not worth a word.
func TestClockIsSlewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m movable
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "1d 5m"))
		var once sync.Once
		l.Now = func() time.Time {
			if time.Since(midnight) > time.Minute {
				once.Do(func() { m.move(-30*time.Second - 900*time.Millisecond) }) // just before a wake
			}
			return m.now()
		}
		stop := start(t, l)
		until(2 * time.Minute)
		stop()
		if n := len(b.events.of(backlog.ClockSetBack)); n != 0 {
			t.Errorf("want no event for 900ms, got %d", n)
		}
	})
}

// A wake comes a little after its tick. A record as old as the tier reaches at
// the tick is still within.
func TestPassGoesByItsTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, fail)
		b.add(t, "NEW", 1, 1, 0)
		late := new(movable)
		late.move(7 * time.Millisecond)
		l := b.loop(schedule(t, "10m 5m"))
		l.Now = late.now
		stop := start(t, l)
		until(16 * time.Minute)
		stop()
		if n := b.calls.attempts()[1]; n != 2 {
			t.Errorf("want the record tried at the ages of 5 and 10 minutes, got %d attempts", n)
		}
	})
}
