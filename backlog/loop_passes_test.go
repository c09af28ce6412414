package backlog_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A pass of the wide tier takes 2h20m, in which no hand is ever free. The
// narrow one goes on as ever, also at the ticks that the wide one would have
// covered.
func TestLongPassBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if r.Tier == "7d" {
				wait(ctx, 20*time.Second)
			}
			return nil
		})
		b.Concurrency = 2
		b.add(t, "ERROR", 1, 839, 3*day) // three a minute with each hand
		until(58 * time.Minute)
		stop := start(t, b.loop(schedule(t, "1d 20m", "7d 1h")))
		until(2*time.Hour + time.Minute)
		b.add(t, "NEW", 1001, 1, 0)
		until(4*time.Hour + 10*time.Minute)
		stop()
		b.wantStory(t, kinds(backlog.PassStarted, backlog.TierSkipped, backlog.TierCovered),
			"1h0m0s covered 1d", "1h0m0s started 7d",
			"1h20m0s started 1d", "1h40m0s started 1d",
			"2h0m0s skipped 7d", "2h0m0s started 1d",
			"2h20m0s started 1d", "2h40m0s started 1d",
			"3h0m0s skipped 7d", "3h0m0s started 1d",
			"3h20m0s started 1d", "3h40m0s started 1d",
			"4h0m0s covered 1d", "4h0m0s started 7d",
		)
		if late := b.calls.of(1001)[0].at.Sub(midnight.Add(2*time.Hour + 20*time.Minute)); late < 0 || late > 20*time.Second {
			t.Errorf("want a new record tried at the narrow tier's next tick, as soon as a hand is free, got it %v after", late)
		}
	})
}

// All tiers that are due are busy: nothing starts, and each of them says so.
func TestAllTiersBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(50*time.Minute, succeed))
		b.add(t, "NEW", 1, 1, 0)
		b.add(t, "NEW", 2, 1, 3*day)
		b.Concurrency = 2
		until(18 * time.Minute)
		stop := start(t, b.loop(schedule(t, "1d 20m", "7d 30m")))
		until(61 * time.Minute)
		stop()
		b.wantStory(t, append(passKinds, backlog.TierCovered),
			"20m0s started 1d", "30m0s started 7d", "40m0s skipped 1d", "1h0m0s skipped 1d", "1h0m0s skipped 7d")
	})
}

// A stop in the middle of a pass: after the restart it is taken up at once,
// where it was.
func TestStoppedPassIsTakenUpAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := new(keeper)
		b := newBench(t, memory.Options{}, slowly(10*time.Second, fail))
		b.add(t, "ERROR", 1, 60, 3*day)
		life := func() (stop func()) {
			b.Engine = &backlog.Engine{Store: b.table, Handler: b.calls, Observe: b.events.observe}
			l := b.loop(schedule(t, "1d 5m", "7d 1h"))
			l.State = state
			return start(t, l)
		}
		until(58 * time.Minute)
		stop := life()
		until(time.Hour + 95*time.Second) // the tenth handler is running
		stop()
		if got, want := b.calls.ids(), numbers(1, 10); !slices.Equal(got, want) {
			t.Fatalf("want %v handled before the stop, got %v", want, got)
		}
		until(time.Hour + 2*time.Minute)
		stop = life()
		until(time.Hour + 19*time.Minute)
		stop()
		b.wantStory(t, kinds(backlog.PassStarted),
			"1h0m0s started 7d", "1h2m0s started 7d", "1h5m0s started 1d", "1h10m0s started 1d", "1h15m0s started 1d")
		if got, want := b.calls.ids()[10:], append(numbers(11, 60), numbers(1, 10)...); !slices.Equal(got, want) {
			t.Errorf("want the pass to go on behind the tenth record and wrap round, got %v", got)
		}
		if s, _ := state.Load(); len(s.Unfinished) != 0 || len(s.Resume) != 0 {
			t.Errorf("want nothing left to go on with, got %+v", s)
		}
		stop = life() // once is enough
		until(time.Hour + 19*time.Minute + 50*time.Second)
		stop()
		if n := len(b.events.of(backlog.PassStarted)); n != 5 {
			t.Errorf("want no further pass after another restart, got %d in all", n)
		}
	})
}

// The same of a pass that had handed out all its records when the stop ended
// their handlers.
func TestInterruptedPassIsTakenUpAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := new(keeper)
		b := newBench(t, memory.Options{}, slowly(20*time.Minute, succeed))
		b.add(t, "ERROR", 1, 1, 3*day)
		life := func() (stop func()) {
			b.Engine = &backlog.Engine{Store: b.table, Handler: b.calls, Observe: b.events.observe}
			l := b.loop(schedule(t, "7d 1h"))
			l.State = state
			return start(t, l)
		}
		until(58 * time.Minute)
		stop := life()
		until(61 * time.Minute)
		stop()
		until(63 * time.Minute)
		stop = life()
		until(64 * time.Minute)
		stop()
		b.wantStory(t, kinds(backlog.PassStarted), "1h0m0s started 7d", "1h3m0s started 7d")
	})
}

// A slow keeper is a keeper of which one update comes late.
type slowKeeper struct {
	keeper
	mu   sync.Mutex
	from time.Time // the first update after it does
}

func (s *slowKeeper) Update(change func(*backlog.Checkpoint)) error {
	s.mu.Lock()
	late := !s.from.IsZero() && !time.Now().Before(s.from)
	if late {
		s.from = time.Time{}
	}
	s.mu.Unlock()
	if late {
		time.Sleep(2 * time.Second)
	}
	return s.keeper.Update(change)
}

// The stop comes while a wake writes the state. What it says of passes that
// were cut short must not be lost.
func TestStopDuringAWakeKeepsWhatIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := new(slowKeeper)
		b := newBench(t, memory.Options{}, succeed)
		b.Rate = 0.01
		b.add(t, "ERROR", 1, 60, 3*day)
		l := b.loop(schedule(t, "7d 1h"))
		l.State = state
		until(58 * time.Minute)
		stop := start(t, l)
		until(time.Hour + 5*time.Minute + time.Second)
		state.mu.Lock()
		state.from = time.Now()
		state.mu.Unlock()
		until(time.Hour + 5*time.Minute + 31*time.Second) // the wake of 5m30s is at it
		stop()
		if s, _ := state.Load(); !slices.Equal(s.Unfinished, []string{"7d"}) {
			t.Errorf("want the pass that was stopped noted as unfinished, got %+v", s)
		}
	})
}

// A pass that is owed is covered like one that ticked.
func TestOwedPassIsCoveredByAWiderOne(t *testing.T) {
	for _, c := range []struct {
		name string
		owed []string
		at   time.Duration // of the start; the last wake was at 58m
		want []string
	}{
		{"one", []string{"1d"}, 59 * time.Minute, []string{"59m0s started 1d"}},
		{"two", []string{"7d", "1d"}, 59 * time.Minute, []string{"59m0s covered 1d", "59m0s started 7d"}},
		{"covered by one that ticked", []string{"1d"}, 61 * time.Minute, []string{"1h1m0s covered 1d", "1h1m0s started 7d"}},
		{"ticked itself", []string{"7d"}, 61 * time.Minute, []string{"1h1m0s covered 1d", "1h1m0s started 7d"}},
		{"no tier any more", []string{"2d"}, 59 * time.Minute, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				l := b.loop(schedule(t, "1d 20m", "7d 1h"))
				l.State = new(keeper)
				l.State.Update(func(s *backlog.Checkpoint) {
					s.LastWake, s.Unfinished = midnight.Add(58*time.Minute), c.owed
				})
				until(c.at)
				stop := start(t, l)
				time.Sleep(50 * time.Second)
				stop()
				b.wantStory(t, append(passKinds, backlog.TierCovered), c.want...)
			})
		})
	}
}

// A capped pass goes on at its tier's next tick, not at another's.
func TestResumePointIsTheTiersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, fail)
		b.MaxRecords = 2
		b.add(t, "ERROR", 1, 5, time.Hour)
		b.add(t, "ERROR", 101, 5, 3*day)
		l := b.loop(schedule(t, "1d 20m", "7d 1h"))
		l.State = new(keeper)
		until(18 * time.Minute)
		stop := start(t, l)
		until(121 * time.Minute)
		stop()
		want := []int{
			1, 2, // 1d, 0:20
			3, 4, // 1d, 0:40
			1, 2, // 7d, 1:00
			5, 1, // 1d, 1:20
			2, 3, // 1d, 1:40
			3, 4, // 7d, 2:00
		}
		if got := b.calls.ids(); !slices.Equal(got, want) {
			t.Errorf("want each tier to go on where its own last pass stopped: %v, got %v", want, got)
		}
		s, _ := l.State.Load()
		if len(s.Resume) != 2 {
			t.Errorf("want a resume point for each of the two tiers, got %v", s.Resume)
		}
	})
}

func TestNote(t *testing.T) {
	at := backlog.Resume{FailedLast: backlog.Cursor{Order: int64(5), Key: key(5)}}
	var s backlog.Checkpoint
	note := func(r backlog.Report, resumes int, unfinished ...string) {
		t.Helper()
		s.Note(r)
		if len(s.Resume) != resumes || !slices.Equal(s.Unfinished, unfinished) {
			t.Errorf("after %q, stopped %q: want %d resume points and %v unfinished, got %+v", r.Tier, r.Stopped, resumes, unfinished, s)
		}
	}
	note(backlog.Report{Tier: "1d", Complete: true}, 0)
	note(backlog.Report{Tier: "1d", Stopped: backlog.StoppedMaxRecords, Resume: at}, 1)
	note(backlog.Report{Tier: "7d", Stopped: backlog.StoppedSignal, Resume: at}, 2, "7d")
	note(backlog.Report{Tier: "7d", Stopped: backlog.StoppedSignal, Resume: at}, 2, "7d")
	note(backlog.Report{Tier: "1d", Stopped: backlog.StoppedReload}, 1, "7d", "1d")
	note(backlog.Report{Tier: "7d", Complete: true}, 0, "7d", "1d")
}

// to is what Loop.Reload is to go on with.
func to(s *tiers.Schedule, e *backlog.Engine) func() (*tiers.Schedule, *backlog.Engine) {
	return func() (*tiers.Schedule, *backlog.Engine) { return s, e }
}

// A reload in the middle of a pass waits for its handlers; then the new schedule
// and the new engine are in force, and no record is in the hands of both.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			if r.Lane == backlog.Fresh && id(r) <= 2 {
				wait(ctx, 12*time.Minute)
				return errBroken
			}
			return nil
		})
		var mu sync.Mutex
		hands := make(map[string][]int) // which engine had which record
		by := func(name string) backlog.HandlerFunc {
			return func(ctx context.Context, r *backlog.Record) error {
				mu.Lock()
				hands[name] = append(hands[name], id(r))
				mu.Unlock()
				return b.calls.Handle(ctx, r)
			}
		}
		b.Handler = by("old")
		b.Concurrency = 2
		b.add(t, "NEW", 1, 2, 0)
		l := b.loop(schedule(t, "1d 10m", "7d 20m"))
		l.State = new(keeper)
		until(18 * time.Minute)
		stop := start(t, l)
		until(21 * time.Minute) // the records are in the old engine's hands until 0:32
		b.add(t, "NEW", 11, 1, 0)
		l.Reload(to(schedule(t, "1d 2m", "7d 30m"), &backlog.Engine{Store: b.table, Handler: by("new"), Observe: b.events.observe, Concurrency: 1}))
		until(41 * time.Minute)
		stop()

		b.wantStory(t, kinds(backlog.PassStarted, backlog.TierSkipped),
			"20m0s started 7d", "32m0s started 7d", // for the ticks meanwhile
			"34m0s started 1d", "36m0s started 1d", "38m0s started 1d", "40m0s started 1d")
		mu.Lock()
		defer mu.Unlock()
		old, again := sorted(hands["old"]), hands["new"]
		testkit.Equal(t, "the old engine ends what it began", old, []int{1, 2})
		if len(again) != 3 {
			t.Fatalf("the new engine took the records %v, want three", again)
		}
		testkit.Equal(t, "the new engine takes first the new record", again[0], 11)
		testkit.Equal(t, "and later those that failed", sorted(again[1:]), []int{1, 2})
		if got := b.statuses()["SUCCESS"]; got != 3 {
			t.Errorf("want all three records done in the end, got %v", b.statuses())
		}
		if old := b.events.of(backlog.PassEnded)[0].Report; old.Failed != 2 || !old.Complete {
			t.Errorf("want the old pass complete with its two records, got %+v", old)
		}
	})
}

// A reload in the middle of a pass, which pauses for an hour: the pause is over,
// and the new engine takes up what the old one has not come to, at once and as of the
// same time. What that has tried is not tried again.
func TestReloadTakesUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(context.Context, *backlog.Record) error {
			return backlog.RetryAfter(time.Hour, errBroken)
		})
		b.add(t, "NEW", 1, 50, 0)
		l := b.loop(schedule(t, "1d 10m"))
		l.State = new(keeper)
		until(18 * time.Minute)
		stop := start(t, l)
		until(21 * time.Minute)
		done := 0
		l.Reload(to(schedule(t, "1d 10m"), &backlog.Engine{Store: b.table, Observe: b.events.observe, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error {
			done++
			return nil
		})}))
		until(22 * time.Minute)
		stop()
		if done != 49 || b.statuses()["SUCCESS"] != 49 {
			t.Errorf("want 49 of 50 records taken up a minute after the reload, got %d: %v", done, b.statuses())
		}
		ended := b.events.of(backlog.PassEnded)
		if len(ended) != 2 {
			t.Fatalf("want two passes, got %+v", ended)
		}
		testkit.Equal(t, "the first was stopped by", ended[0].Report.Stopped, backlog.StoppedReload)
		testkit.Equal(t, "the second is complete", ended[1].Report.Complete, true)
		testkit.Equal(t, "the second has the start of the first", ended[1].Report.Started, ended[0].Report.Started)
	})
}

// Rows that the database refuses are not tried by every new engine in turn.
func TestReloadKeepsRefusedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.hook().refuse(1, errors.New("CHECK constraint failed"))
		b.add(t, "ERROR", 1, 3, 0)
		l := b.loop(schedule(t, "1d 10m"))
		stop := start(t, l)
		until(11 * time.Minute)
		l.Reload(to(schedule(t, "1d 10m"), &backlog.Engine{Store: b.Store, Handler: b.calls, Observe: b.events.observe}))
		until(21 * time.Minute)
		stop()
		if n := len(b.calls.of(1)); n != 1 {
			t.Errorf("want the row that is refused not tried again by the new engine, got %d attempts", n)
		}
	})
}

// A reload may be the cure of a table that refuses every outcome, and does not wait for that. It waits for one that is
// unavailable.
func TestReloadWhileOutcomesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		after time.Duration // how long the reload takes
		calls int
	}{
		"refused":     {backlog.ErrRefusesAll, 30 * time.Second, 2},
		"unavailable": {backlog.ErrUnavailable, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				b.add(t, "NEW", 1, 1, 0)
				back := time.Now().Add(13 * time.Minute)
				b.hook().settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
					if time.Now().Before(back) {
						return nil, tt.err
					}
					return b.table.Settle(ctx, group)
				}
				l := &backlog.Loop{Schedule: schedule(t, "1d 10m"), Engine: b.Engine}
				stop := start(t, l)
				time.Sleep(12 * time.Minute)
				began := time.Now()
				l.Reload(to(schedule(t, "1d 10m"), &backlog.Engine{Store: b.table, Handler: b.calls, Observe: b.events.observe}))
				if took := time.Since(began).Round(6 * time.Second); took != tt.after {
					t.Errorf("the reload takes %v, want %v", took, tt.after)
				}
				time.Sleep(10 * time.Minute)
				stop()
				testkit.Equal(t, "the status", b.status(t, 1), "SUCCESS")
				testkit.Equal(t, "the calls", len(b.calls.of(1)), tt.calls)
			})
		})
	}
}

// A stop while a reload waits for handlers is a stop.
func TestStopDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Hour, succeed))
		b.add(t, "NEW", 1, 2, 0)
		l := b.loop(schedule(t, "1d 10m"))
		stop := start(t, l)
		until(11 * time.Minute)
		reloaded := make(chan struct{})
		go func() {
			defer close(reloaded)
			l.Reload(to(schedule(t, "1d 10m"), &backlog.Engine{Store: b.table, Handler: b.calls}))
		}()
		until(15*time.Minute + time.Second)
		if late := time.Since(l.LastWake()); late > 30*time.Second {
			t.Errorf("want the loop alive while it waits, it looked at the clock %v ago", late)
		}
		stopped := time.Now()
		stop()
		<-reloaded
		if took := time.Since(stopped); took != 30*time.Second {
			t.Errorf("want the handler ended after the shutdown timeout, got %v", took)
		}
		if ev := b.events.of(backlog.PassEnded); len(ev) != 1 || ev[0].Report.Stopped != backlog.StoppedSignal {
			t.Errorf("want one pass stopped by a signal, got %+v", ev)
		}
	})
}

// After a reload the loop looks at the new schedule within thirty seconds.
func TestReloadIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		l := b.loop(schedule(t, "360d 192h"))
		stop := start(t, l)
		until(time.Minute + time.Second)
		l.Reload(to(schedule(t, "1d 2m"), &backlog.Engine{Store: b.table, Handler: b.calls, Observe: b.events.observe}))
		until(5 * time.Minute)
		stop()
		b.wantStory(t, passKinds, "2m0s started 1d", "4m0s started 1d")
	})
}
