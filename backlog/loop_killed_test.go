package backlog_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A witness is a keeper that has the state of every moment at which a kill could come: at
// each event, and before and after each update.
type witness struct {
	keeper
	events *recorder

	mu      sync.Mutex
	moments []moment
	ends    bool // the pass has ended by itself
	ended   bool // and the update after that is done
}

// A moment is what a kill would leave behind.
type moment struct {
	state backlog.Checkpoint
	at    string // what has just happened
	owed  bool   // the pass of the wide tier has not ended
}

// rareTick is one of the 96 h and of the 192 h.
var rareTick = midnight.Add(72 * time.Hour)

func (w *witness) note(at string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, _ := w.Load()
	if !s.LastWake.IsZero() { // else it is a first start
		w.moments = append(w.moments, moment{s, clock(time.Now()) + " " + at, !w.ended})
	}
}

func (w *witness) Update(change func(*backlog.Checkpoint)) error {
	w.note("before an update")
	w.mu.Lock()
	err := w.keeper.Update(change)
	w.ended = w.ended || w.ends
	w.mu.Unlock()
	w.note("after an update")
	return err
}

func (w *witness) observe(ev backlog.Event) {
	w.events.observe(ev)
	if ev.Kind == backlog.PassEnded && !ev.Report.CutShort() {
		w.mu.Lock()
		w.ends = true
		w.mu.Unlock()
	}
	w.note(string(ev.Kind))
}

// A kill at any moment between a tick and the end of its pass makes the next start run that
// tier, and after that end it does not. The tier's next tick is days ahead.
func TestKilledPassIsTakenUpAfterARestart(t *testing.T) {
	prepared := map[string]func(b *bench, l *backlog.Loop){ // before the loop runs
		"a pause": func(b *bench, _ *backlog.Loop) {
			b.Paused = func() bool {
				since := time.Since(rareTick)
				return since > 15*time.Second && since < 5*time.Minute
			}
		},
		"abort_after":                 func(b *bench, _ *backlog.Loop) { b.AbortAfter = 2 },
		"a cap":                       func(b *bench, _ *backlog.Loop) { b.MaxRecords = 2 },
		"a database that refuses all": func(b *bench, _ *backlog.Loop) { b.Store = refusingStore{b.Store} },
		"a lock that cannot be taken": func(b *bench, l *backlog.Loop) {
			l.Locker = &troubled{Locker: b.table, errs: []error{errBroken}}
		},
	}
	for _, c := range []struct {
		name   string
		during func(t *testing.T, b *bench, l *backlog.Loop, w *witness)
	}{
		{"plain", func(*testing.T, *bench, *backlog.Loop, *witness) { until(72*time.Hour + 20*time.Minute) }},
		{"after a wait for the lock", func(t *testing.T, b *bench, _ *backlog.Loop, _ *witness) {
			other := b.lockedBy(t)
			until(72*time.Hour + 3*time.Minute)
			other.Unlock()
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a lost lock", func(_ *testing.T, _ *bench, l *backlog.Loop, _ *witness) {
			until(72*time.Hour + 15*time.Second)
			l.Locker.(*losable).lose(errBroken)
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a reload", func(t *testing.T, b *bench, l *backlog.Loop, w *witness) {
			until(72*time.Hour + 15*time.Second)
			l.Reload(to(l.Schedule, &backlog.Engine{Store: b.table, Handler: b.calls, Observe: w.observe}))
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a pause", func(*testing.T, *bench, *backlog.Loop, *witness) { until(72*time.Hour + 20*time.Minute) }},
		{"abort_after", func(*testing.T, *bench, *backlog.Loop, *witness) {
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a cap", func(*testing.T, *bench, *backlog.Loop, *witness) {
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a database that refuses all", func(*testing.T, *bench, *backlog.Loop, *witness) {
			until(72*time.Hour + 20*time.Minute)
		}},
		{"a lock that cannot be taken", func(*testing.T, *bench, *backlog.Loop, *witness) {
			until(72*time.Hour + 20*time.Minute)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, slowly(10300*time.Millisecond, fail)) // no pass ends at a wake
				w := &witness{events: b.events}
				b.Observe = w.observe
				b.add(t, "ERROR", 1, 6, 3*day)
				l := b.loop(schedule(t, "1d 96h", "7d 192h"))
				until(71*time.Hour + 59*time.Minute + 50*time.Second)
				l.Observe, l.State, l.Locker = w.observe, w, &losable{Locker: b.table}
				if prepare := prepared[c.name]; prepare != nil {
					prepare(b, l)
				}
				stop := start(t, l)
				c.during(t, b, l, w)
				stop()
				w.restart(t, b)
			})
		})
	}
}

// restart starts the loop anew from each moment.
func (w *witness) restart(t *testing.T, b *bench) {
	t.Helper()
	owed, free := 0, 0
	for _, m := range w.moments {
		for _, tier := range []string{"7d", "1d"} { // the second where the first is no tier any more
			events := new(recorder)
			s := schedule(t, "1d 96h", "7d 192h")
			if tier == "1d" {
				s = schedule(t, "1d 96h")
			}
			e := &backlog.Engine{Store: b.table, Handler: backlog.HandlerFunc(succeedNot), Observe: events.observe}
			l := &backlog.Loop{Schedule: s, Engine: e, Observe: events.observe, State: new(keeper)}
			l.State.Update(func(c *backlog.Checkpoint) {
				*c = m.state
				c.Unfinished = slices.Clone(c.Unfinished)
			})
			stop := start(t, l)
			time.Sleep(time.Second)
			stop()
			began := events.of(backlog.PassStarted)
			switch {
			case m.owed && (len(began) != 1 || began[0].Tier != tier):
				t.Errorf("killed at %s with %+v: want a pass of tier %s at once, got %v", m.at, m.state, tier, began)
			case !m.owed && len(began) > 0:
				t.Errorf("killed at %s with %+v: want no pass before the next tick, got %v", m.at, m.state, began)
			}
		}
		if m.owed {
			owed++
		} else {
			free++
		}
	}
	if owed < 4 || free < 2 {
		t.Errorf("want moments before and after the end of the pass, got %d and %d", owed, free)
	}
}

func succeedNot(context.Context, *backlog.Record) error { return backlog.Skip }

// A refusingStore takes no outcome.
type refusingStore struct{ backlog.Store }

func (refusingStore) Try(context.Context, backlog.Settlement) error { return errBroken }
