package daemon_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/daemon"
)

// Where nobody can have led, the first daemon leads at once. A second one stands by, and takes over
// when the first one ends.
func TestLeadAndStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a, z := &session{of: b, name: "a"}, &session{of: b, name: "z"}
		first, second := b.worker(a, time.Second), b.worker(z, time.Second)
		first.Leaders = b.table
		second.Leaders = b.table
		if first.Role() != daemon.Waiting {
			t.Errorf("before Run it is %q", first.Role())
		}
		b.until(5 * time.Minute)
		stopFirst := b.start(first)
		b.until(5*time.Minute + time.Second)
		stopSecond := b.start(second)
		b.until(6 * time.Minute)
		stopFirst()
		b.until(7 * time.Minute)
		stopSecond()
		b.wantStory("5m0s a: leader", "5m1s z: standby", "6m0s a: waiting",
			"6m1s z: taking over after 5m59s", "6m6s z: leader",
			"6m6s z: pass 1d", "6m6s z: 0 done", "7m0s z: waiting")
	})
}

// However the leader loses its lock, the standby takes over when no handler of it can be at
// work any more, and goes on with its pass. The other one stands by when it can.
func TestTakeOver(t *testing.T) {
	for _, x := range []struct {
		name  string
		lose  func(*session) (mend func())
		story []string
	}{
		{"cut off", func(s *session) func() {
			s.cutOff(true)
			return func() { s.cutOff(false) }
		}, []string{
			"1h0m17s z: taking over after 1h0m15s", "1h0m17.5s a: demoted", "1h0m18s a: 1 done", "1h0m19s a: waiting", "1h0m19s a: unavailable",
			"1h0m22s z: leader", "1h0m22s z: pass 1d", "1h0m43s a: standby", "1h0m52s z: 3 done",
		}},
		{"session ended", func(s *session) func() {
			s.end()
			return func() {}
		}, []string{
			"1h0m16s a: demoted", "1h0m17s z: taking over after 1h0m15s", "1h0m18s a: 1 done", "1h0m18s a: waiting", "1h0m18s a: standby",
			"1h0m22s z: leader", "1h0m22s z: pass 1d", "1h0m52s z: 3 done",
		}},
		{"stopped process", (*session).freeze, []string{
			"1h0m17s z: taking over after 1h0m15s", "1h0m22s z: leader", "1h0m22s z: pass 1d",
			"1h0m41.5s a: 1 done", "1h0m43s a: demoted", "1h0m43s a: waiting", "1h0m43s a: standby", "1h0m52s z: 3 done",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.add(1, 4)
				a, z := &session{of: b, name: "a"}, &session{of: b, name: "z"}
				b.until(59 * time.Minute)
				stopA := b.start(b.worker(a, 10*time.Second))
				b.until(59*time.Minute + time.Second)
				stopZ := b.start(b.worker(z, 10*time.Second))
				b.until(time.Hour + 15*time.Second + 100*time.Millisecond) // in the middle of the second record
				mend := x.lose(a)
				b.until(time.Hour + 41500*time.Millisecond)
				mend()
				b.until(time.Hour + 9*time.Minute)
				stopA()
				stopZ()
				b.wantStory(slices.Concat([]string{"59m0s a: leader", "59m1s z: standby", "1h0m0s a: pass 1d"}, x.story, []string{"1h9m0s a: waiting", "1h9m0s z: waiting"})...)
			})
		})
	}
}

// Whoever kept its state where the new leader does leaves what is unfinished there. Of another
// one nothing is known: a pass of the widest tier is owed, and ticks are missed since it was seen.
func TestTakeOverOfTicks(t *testing.T) {
	for _, x := range []struct {
		name   string
		shared bool
		story  []string
	}{
		{"one state", true, nil},
		{"a state each", false, []string{"5m7s z: pass 1d", "5m7s z: 0 done"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				first, second := b.worker(&session{of: b, name: "a"}, time.Second), b.worker(&session{of: b, name: "z"}, time.Second)
				first.Loop.State = new(checkpoint.File)
				second.Loop.State = first.Loop.State
				if !x.shared { // but one of long ago
					second.Loop.State = new(checkpoint.File)
					if err := second.Loop.State.Update(func(c *backlog.Checkpoint) { c.LastWake = b.began.Add(-48 * time.Hour) }); err != nil {
						t.Fatal(err)
					}
				}
				stopFirst := b.start(first)
				synctest.Wait()
				stopSecond := b.start(second)
				b.until(5*time.Minute + time.Second)
				stopFirst()
				b.until(9 * time.Minute)
				stopSecond()
				b.wantStory(slices.Concat(
					[]string{"0s a: leader", "0s z: standby", "5m1s a: waiting", "5m2s z: taking over after 5m0s", "5m7s z: leader"},
					x.story, []string{"9m0s z: waiting"})...)
			})
		})
	}
}

// A daemon that could not ask for the lock does not know whether another one led until now: it
// waits, and so does one that could not reach the database before. Otherwise nobody is waited for.
func TestDoubt(t *testing.T) {
	for _, x := range []struct {
		name     string
		cut      time.Duration // from the start
		doubtful bool
		story    []string
	}{
		{"a quiet database", 0, false, []string{"0s z: leader"}},
		{"a database that was away at the start", 0, true, []string{"0s z: taking over", "5s z: leader"}},
		{"a lock that could not be asked for", 59 * time.Second, false, []string{"0s z: unavailable", "1m0s z: taking over", "1m5s z: leader"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				z := &session{of: b, name: "z", cut: x.cut > 0}
				d := b.worker(z, time.Second)
				d.Doubtful = x.doubtful
				stop := b.start(d)
				if x.cut > 0 {
					b.until(x.cut)
					z.cutOff(false)
				}
				b.until(2*time.Minute + time.Second)
				stop()
				b.wantStory(append(x.story, "2m1s z: waiting")...)
			})
		})
	}
}

// The other one leads, and loses the lock at the very moment at which a daemon can ask for it
// for the first time.
func TestDoubtWhileAnotherLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 1)
		a, z := &session{of: b, name: "a"}, &session{of: b, name: "z", cut: true}
		b.until(59 * time.Minute)
		stopA := b.start(b.worker(a, time.Minute))
		b.until(59*time.Minute + 30*time.Second)
		stopZ := b.start(b.worker(z, time.Minute))
		b.until(time.Hour + 29500*time.Millisecond)
		z.cutOff(false)
		a.cutOff(true) // its handler is at work for up to four seconds
		b.until(time.Hour + 70*time.Second)
		stopA()
		stopZ()
		b.wantStory("59m0s a: leader", "59m30s z: unavailable", "1h0m0s a: pass 1d",
			"1h0m30s z: taking over", "1h0m31.5s a: demoted", "1h0m32s a: 0 done", "1h0m33s a: waiting", "1h0m33s a: unavailable", "1h0m35s z: leader",
			"1h1m10s a: waiting", "1h1m10s z: waiting")
	})
}

// A lock of which no probe is answered is lost after four seconds, and what is told of it does not
// wait for an answer either.
func TestLossWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 2)
		a := &session{of: b, name: "a"}
		d := b.daemon(a)
		d.Loop.Engine = b.engine(a, time.Minute)
		d.Loop.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.LockLost {
				t.Error("the loss of the run lock is told beside that of the leader lock")
			}
		}
		var roles []daemon.Role
		d.Changed = func(c daemon.Change) { roles = append(roles, c.Role) }
		b.until(59 * time.Minute)
		stop := b.start(d)
		b.until(time.Hour + 15*time.Second)
		b.mu.Lock()
		a.silent = true
		b.mu.Unlock()
		b.until(time.Hour + 24*time.Second)
		stop()
		want := []daemon.Role{daemon.Leader, daemon.Demoted, daemon.Waiting, daemon.TakingOver, daemon.Waiting}
		if !slices.Equal(roles, want) {
			t.Errorf("it was %q, want %q", roles, want)
		}
	})
}

// A probe that does not come back keeps nobody from knowing that the lock is lost.
func TestLossWithoutEndOfTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a := &session{of: b, name: "a"}
		stop := b.start(b.worker(a, time.Second))
		b.until(time.Second)
		thaw := a.freeze()
		b.until(30 * time.Second)
		thaw()
		b.until(40 * time.Second)
		stop()
		b.wantStory("0s a: leader", "4s a: demoted", "4s a: waiting", "31.5s a: taking over", "36.5s a: leader", "40s a: waiting")
	})
}

// A lock that is lost again while the handlers of another leader are waited for is not led under.
func TestTakeOverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a, z := &session{of: b, name: "a"}, &session{of: b, name: "z"}
		stopA := b.start(b.worker(a, time.Second))
		synctest.Wait()
		stopZ := b.start(b.worker(z, time.Second))
		b.until(time.Minute + time.Second)
		stopA()
		b.until(time.Minute + 3*time.Second)
		z.end()
		b.until(time.Minute + 29*time.Second)
		z.end() // later, when nobody else has been seen
		b.until(time.Minute + 40*time.Second)
		stopZ()
		b.wantStory("0s a: leader", "0s z: standby", "1m1s a: waiting",
			"1m2s z: taking over after 1m0s", "1m7s z: standby after 1m0s, not taken over",
			"1m9s z: taking over after 1m0s", "1m14s z: leader", "1m14s z: pass 1d", "1m14s z: 0 done",
			"1m30s z: demoted", "1m30s z: waiting", "1m30s z: taking over", "1m35s z: leader", "1m40s z: waiting")
	})
}

// A leader that loses its lock while nobody else wants it takes it again after the wait, with
// what its passes have left.
func TestLeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 2)
		a := &session{of: b, name: "a"}
		b.until(59 * time.Minute)
		stop := b.start(b.worker(a, 10*time.Second))
		b.until(time.Hour + 3*time.Second)
		a.end()
		b.until(time.Hour + 5*time.Minute)
		stop()
		b.wantStory("59m0s a: leader", "1h0m0s a: pass 1d", "1h0m4s a: demoted", "1h0m6s a: 0 done", "1h0m6s a: waiting",
			"1h0m6s a: taking over", "1h0m11s a: leader", "1h0m16s a: pass 1d", "1h0m36s a: 2 done", "1h5m0s a: waiting")
	})
}

// A run lock that is lost alone is told by the loop, and the daemon goes on leading.
func TestLossOfTheRunLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(1, 2)
		a := &session{of: b, name: "a"}
		d := b.worker(a, 10*time.Second)
		d.Loop.Locker = &session{of: b, name: "passes"}
		b.until(59 * time.Minute)
		stop := b.start(d)
		b.until(time.Hour + 3*time.Second)
		d.Loop.Locker.(*session).end()
		b.until(time.Hour + 5*time.Minute)
		stop()
		b.wantStory("59m0s a: leader", "1h0m0s a: pass 1d", "1h0m4s a: lock lost", "1h0m6s a: 0 done",
			"1h0m35s a: pass 1d", "1h0m55s a: 2 done", "1h5m0s a: waiting")
	})
}

// A missing right may be granted, if the program says so. Once the lock was asked for with success, whatever else
// fails may pass, but for a database that was replaced.
func TestErrorsOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		denied, wrong := errors.New("denied"), errors.New("wrong")
		z := &session{of: b, name: "z"}
		d := b.worker(z, time.Second)
		d.Patient = func(err error) bool { return errors.Is(err, denied) }
		d.Leaders = lockers(func() error {
			switch after := time.Since(b.began); {
			case after < time.Minute:
				return denied
			case after < 2*time.Minute:
				return backlog.ErrLocked
			case after < 3*time.Minute:
				return backlog.ErrUnavailable
			case after < 4*time.Minute:
				return backlog.ErrLocked
			case after < 5*time.Minute:
				return wrong
			}
			return backlog.ErrReplaced
		})
		if err := d.Run(t.Context()); !errors.Is(err, backlog.ErrReplaced) {
			t.Errorf("it ends with %v", err)
		}
		b.wantStory("0s z: unavailable", "1m0s z: standby", "2m0s z: unavailable after 1m58s", "3m0s z: standby after 1m58s",
			"4m0s z: unavailable after 3m58s", "5m0s z: waiting")
	})
}

// At the start it may be the configuration that is wrong.
func TestErrorOfTheFirstLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wrong := errors.New("wrong")
		d := b.worker(&session{of: b, name: "z"}, time.Second)
		d.Leaders = lockers(func() error { return wrong })
		if err := d.Run(t.Context()); !errors.Is(err, wrong) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A stop while the lock is asked for is a stop, whatever the answer.
func TestStopWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		d := b.daemon(nil)
		d.Leaders = lockerFunc(func(ctx context.Context, _ string) (backlog.Lock, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err := b.run(d, time.Second); err != nil {
			t.Error(err)
		}
	})
}

// A stop ends a wait at once, and handlers of passes may end.
func TestStop(t *testing.T) {
	for _, x := range []struct {
		name  string
		at    time.Duration
		ends  time.Duration
		story []string
	}{
		{"taking over", 3 * time.Second, 3 * time.Second, []string{"0s z: taking over", "3s z: waiting"}},
		{"leading", time.Hour + 4*time.Second, time.Hour + 10*time.Second, []string{"0s z: taking over", "5s z: leader", "1h0m0s z: pass 1d", "1h0m10s z: 1 done", "1h0m10s z: waiting"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				d := b.worker(&session{of: b, name: "z"}, 10*time.Second)
				d.Doubtful = true
				d.Loop.Schedule = widest(t)
				stop := b.start(d)
				b.add(1, 2)
				b.until(x.at)
				stop()
				if took := time.Since(b.began); took != x.ends {
					t.Errorf("it ends after %v, want %v", took, x.ends)
				}
				b.wantStory(x.story...)
			})
		})
	}
}

// What a pass could not write before its lock was lost is written at the end, for as long as handlers
// may take at a stop.
func TestOutcomesAtTheEnd(t *testing.T) {
	for _, x := range []struct {
		name   string
		back   time.Duration // after the stop
		ends   time.Duration
		status string
	}{
		{"the store is back", 5 * time.Second, 5 * time.Second, "SUCCESS"},
		{"the store is not back", time.Minute, 20 * time.Second, "NEW"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.add(1, 1)
				a := &session{of: b, name: "a"}
				d := b.worker(a, 10*time.Second)
				store := &awayStore{Store: b.table}
				d.Loop.Engine.Store = store
				d.Loop.Engine.ShutdownTimeout = 20 * time.Second
				b.until(59 * time.Minute)
				stop := b.start(d)
				b.until(time.Hour + 9*time.Second)
				store.away.Store(true)
				b.until(time.Hour + 11*time.Second)
				a.cutOff(true)
				b.until(time.Hour + 30*time.Second)
				time.AfterFunc(x.back, func() { store.away.Store(false) })
				stopped := time.Now()
				stop()
				if took := time.Since(stopped); took < x.ends || took > x.ends+2*time.Second { // outcomes are tried now and then
					t.Errorf("it ends after %v, want %v", took, x.ends)
				}
				if got := b.table.Rows()[0].Status; got != x.status {
					t.Errorf("the record is %s, want %s", got, x.status)
				}
			})
		})
	}
}

// A leader's marks are replaced while it leads.
func TestMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		a := &session{of: b, name: "a"}
		d := b.daemon(a)
		work := backlog.Work{Name: "mail"}
		if err := d.Mark(t.Context(), work); err != nil {
			t.Error(err)
		}
		stop := b.start(d)
		synctest.Wait()
		if err := d.Mark(t.Context(), work); err != nil || b.locks[backlog.LeaderLock].work.Name != "mail" {
			t.Errorf("the mark is %+v, %v", b.locks[backlog.LeaderLock].work, err)
		}
		stop()
		if err := d.Mark(t.Context(), work); err != nil || d.Role() != daemon.Waiting {
			t.Errorf("after its end it is %q: %v", d.Role(), err)
		}
	})
}
