package backlog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A keeper keeps the state of a daemon over its lives. What it gives has been
// through JSON.
type keeper struct {
	mu    sync.Mutex
	state backlog.Checkpoint
}

func (k *keeper) Load() (s backlog.Checkpoint, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, err := json.Marshal(k.state)
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(text, &s)
	return s, err
}

func (k *keeper) Update(change func(*backlog.Checkpoint)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.state)
	return nil
}

// schedule returns the schedule of tiers given as "max_age every" each.
func schedule(t testing.TB, lines ...string) *tiers.Schedule {
	t.Helper()
	var list []tiers.Tier
	for _, line := range lines {
		age, every, _ := strings.Cut(line, " ")
		tier := tiers.Tier{Name: age}
		var err error
		if tier.MaxAge, err = tiers.ParseDuration(age); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(every, "*") {
			tier.Cron = every
		} else if tier.Every, err = tiers.ParseDuration(every); err != nil {
			t.Fatal(err)
		}
		list = append(list, tier)
	}
	return testkit.Schedule(t, list...)
}

// loop returns a loop over the bench that tells it its events.
func (b *bench) loop(s *tiers.Schedule) *backlog.Loop {
	return &backlog.Loop{Schedule: s, Engine: b.Engine, Observe: b.events.observe}
}

// start runs the loop until stop is called, which returns when it has ended.
func start(t testing.TB, l *backlog.Loop) (stop func()) {
	t.Helper()
	parent := t.Context()
	if l.Held != nil {
		parent = l.Held.Context()
	}
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.Run(ctx); err != nil {
			t.Errorf("want Run to return no error, got %v", err)
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			cancel()
			<-done
		})
	}
}

// until sleeps to the given time after midnight, when every bubble begins.
func until(at time.Duration) { time.Sleep(time.Until(midnight.Add(at))) }

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// clock returns a time as the time of day since midnight of the first day.
func clock(at time.Time) string { return at.Sub(midnight).Round(time.Millisecond).String() }

// story returns the events of the given kinds, a line each.
func (r *recorder) story(kinds ...backlog.EventKind) (lines []string) {
	names := map[backlog.EventKind]string{
		backlog.PassStarted: "started", backlog.PassEnded: "ended", backlog.TicksMissed: "missed", backlog.TierSkipped: "skipped",
		backlog.TierCovered: "covered", backlog.LockWaiting: "waiting", backlog.ClockSetBack: "set back", backlog.NoTick: "no tick",
		backlog.Panicked: "panicked", backlog.StateFailed: "state failed",
		backlog.StoreUnavailable: "away", backlog.StoreBack: "back", backlog.LockLost: "lock lost",
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range r.list {
		if slices.Contains(kinds, ev.Kind) {
			line := clock(ev.At) + " " + names[ev.Kind]
			if ev.Tier != "" {
				line += " " + ev.Tier
			}
			if ev.N > 0 {
				line += fmt.Sprint(" ", ev.N)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// wantStory compares the events of some kinds with what they should be.
func (b *bench) wantStory(t testing.TB, kinds []backlog.EventKind, want ...string) {
	t.Helper()
	if got := b.events.story(kinds...); !slices.Equal(got, want) {
		t.Errorf("want\n\t%s\ngot\n\t%s", strings.Join(want, "\n\t"), strings.Join(got, "\n\t"))
	}
}

// kinds is there for shorter lines.
func kinds(list ...backlog.EventKind) []backlog.EventKind { return list }

// The ladder of the documentation, in the test's own words: ages and intervals
// in seconds.
var ladder = []struct {
	name         string
	age, seconds int64
}{
	{"1d", 86400, 300},
	{"7d", 7 * 86400, 3600},
	{"14d", 14 * 86400, 12 * 3600},
	{"30d", 30 * 86400, 24 * 3600},
	{"180d", 180 * 86400, 96 * 3600},
	{"360d", 360 * 86400, 192 * 3600},
}

func ladderSchedule(t testing.TB) *tiers.Schedule {
	return schedule(t, "1d 5m", "7d 1h", "14d 12h", "30d 24h", "180d 96h", "360d 192h")
}

// A guest is a record of the loop test.
type guest struct {
	inserted time.Time // what its row says
	comes    time.Time // when the row is there
	takes    time.Duration
	outcomes []error // of its attempts, the last one for all that follow
}

func (g guest) outcome(attempt int) error { return g.outcomes[min(attempt, len(g.outcomes)-1)] }

// An attempt is one line of the loop test's log.
type attempt struct {
	at   time.Time
	tier string
}

func (a attempt) String() string { return clock(a.at) + " " + a.tier }

// expected computes from the rules alone which attempts the guests get in
// (from, to]: every tier ticks at the whole multiples of its interval since
// 1970; of those that tick together the widest tries what is pending and at
// most as old as it says.
func expected(from, to time.Time, guests []guest) [][]attempt {
	widest := make(map[int64]int)
	for i, rung := range ladder { // narrow to wide: the widest stays
		for s := from.Unix() - from.Unix()%rung.seconds; s <= to.Unix(); s += rung.seconds {
			if s > from.Unix() {
				widest[s] = i
			}
		}
	}
	var ticks []int64
	for s := range widest {
		ticks = append(ticks, s)
	}
	slices.Sort(ticks)
	log := make([][]attempt, len(guests))
	gone := make([]bool, len(guests))
	calls := make([]int, len(guests))
	for _, s := range ticks {
		now, rung := time.Unix(s, 0), ladder[widest[s]]
		for i, g := range guests {
			if gone[i] || g.comes.After(now) || now.Sub(g.inserted) > time.Duration(rung.age)*time.Second {
				continue
			}
			log[i] = append(log[i], attempt{now.UTC(), rung.name})
			o := backlog.OutcomeOf(g.outcome(calls[i]))
			gone[i] = o == backlog.Succeeded || o == backlog.Rejected
			calls[i]++
		}
	}
	return log
}

// loopGuests are records that come before the start, at ticks and between
// them, and that behave in different ways.
func loopGuests(start time.Time) (guests []guest) {
	behaviours := [][]error{
		{errBroken},
		{nil},
		{errBroken, nil},
		append(slices.Repeat([]error{errBroken}, 288), nil),
		append(slices.Repeat([]error{errBroken}, 400), backlog.Reject(errBroken)),
		{backlog.Skip, backlog.Skip, errBroken, backlog.Skip, nil},
	}
	add := func(inserted, comes time.Time) {
		for i, b := range behaviours {
			takes := time.Duration(i%3) * time.Second // some are instant
			guests = append(guests, guest{inserted: inserted, comes: comes, takes: takes, outcomes: b})
		}
	}
	const hour = time.Hour
	for _, age := range []time.Duration{time.Minute, 23*hour + 50*time.Minute, 5 * day, 13 * day, 25 * day, 100 * day, 359 * day, 400 * day} {
		add(start.Add(-age), start)
	}
	// On a tick of the day, with the row there just before it and just after.
	noon := start.Truncate(day).Add(2*day + 12*hour)
	add(noon, noon.Add(-time.Millisecond))
	add(noon, noon.Add(time.Millisecond))
	add(noon.Add(-300*day), noon.Add(time.Millisecond)) // old already when it comes
	for i := range 4 {
		at := start.Add(time.Duration(i)*7*day + 3*hour + 33*time.Minute + 20*time.Second + time.Duration(i))
		add(at, at)
	}
	slices.SortStableFunc(guests, func(a, b guest) int { return a.comes.Compare(b.comes) })
	return guests
}

// The daemon on the ladder of the documentation for thirty days.
func TestLoopTriesEachRecordAsTheLadderSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(7*time.Minute + 13*time.Second + 5)
		began := time.Now()
		guests := loopGuests(began)
		got := make([][]attempt, len(guests))
		var mu sync.Mutex
		b := newBench(t, memory.Options{Dead: "DEAD"}, func(ctx context.Context, r *backlog.Record) error {
			g := guests[id(r)]
			mu.Lock()
			err := g.outcome(len(got[id(r)]))
			got[id(r)] = append(got[id(r)], attempt{time.Now().UTC(), r.Tier})
			mu.Unlock()
			wait(ctx, g.takes)
			return err
		})
		b.Concurrency = len(guests) // all of a pass begin at its tick
		b.Observe = nil
		l := &backlog.Loop{Schedule: ladderSchedule(t), Engine: b.Engine, State: new(keeper)}
		stop := func() {}
		for i, g := range guests {
			if g.comes.After(began) && stop != nil {
				time.Sleep(time.Until(g.comes))
			}
			if err := b.table.Insert(memory.Row{Key: key(i), Status: "NEW", Inserted: g.inserted}); err != nil {
				t.Fatal(err)
			}
			if i+1 < len(guests) && !g.comes.After(began) && guests[i+1].comes.After(began) {
				stop = start(t, l)
			}
		}
		time.Sleep(time.Until(began.Add(30*day + 17*time.Second)))
		end := time.Now()
		stop()

		want := expected(began, end, guests)
		total := 0
		for i, g := range guests {
			total += len(want[i])
			// Those that failed, or are to expire, may have left by the
			// widest tier's age: the rules above say so as well.
			if slices.Equal(got[i], want[i]) {
				continue
			}
			n := 0
			for n < min(len(got[i]), len(want[i])) && got[i][n] == want[i][n] {
				n++
			}
			t.Errorf("record %d, inserted %s, there at %s: want %d attempts, got %d; from the %d. on want %v, got %v", i, clock(g.inserted), clock(g.comes),
				len(want[i]), len(got[i]), n+1, head(want[i][n:], 5), head(got[i][n:], 5))
		}
		if total < 9000 {
			t.Errorf("want a test of at least 9,000 attempts, got %d", total)
		}
	})
}

func head[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// A record that is never done: what the whole ladder comes to is in the
// documentation.
func TestExpectedAttemptsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	inserted := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	log := expected(inserted, inserted.Add(400*day), []guest{{inserted: inserted, comes: inserted, outcomes: []error{errBroken}}})[0]
	by := make(map[string]int)
	for _, a := range log {
		age := a.at.Sub(inserted)
		i, _ := slices.BinarySearchFunc(ladder, int64(age.Seconds()), func(r struct {
			name         string
			age, seconds int64
		}, s int64) int {
			return cmp.Compare(r.age, s)
		})
		by[ladder[i].name]++
	}
	if len(log) != 522 || by["1d"] != 288 {
		t.Errorf("want 522 attempts in all, 288 on the first day, got %d, %v", len(log), by)
	}
}
