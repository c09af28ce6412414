package simulate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/memory"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
	"backlog/backlog/table/sqlite"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// An entry is one attempt in a log.
type entry struct {
	at      time.Time
	tier    string
	id      int
	success bool
}

func (e entry) same(o entry) bool {
	return e.at.Equal(o.at) && e.tier == o.tier && e.id == o.id && e.success == o.success
}

func sorted(log []entry) []entry {
	slices.SortFunc(log, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	return log
}

// The daemon's loop works off a real table, as long as it takes by a clock that
// does not; the simulation is given the same records.
func TestSimulationIsTheDaemon(t *testing.T) {
	bubble := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when synctest's clock begins
	list, drawn := retry.New("list").(*retry.List), retry.New("exponential").(*retry.Exponential)
	fibonacci := retry.New("fibonacci").(*retry.Fibonacci)
	fibonacci.MaxDelay = time.Hour // a query has a part for each shorter delay
	list.Intervals = []time.Duration{0, 10 * time.Minute, time.Hour}
	drawn.Interval, drawn.MaxRetries = 3*time.Minute, 6
	down := []simulate.Outage{
		{From: bubble.Add(90*time.Minute + 3*time.Second), To: bubble.Add(95 * time.Minute)}, // no tick is missed
		{From: bubble.Add(8*time.Hour + 100*time.Second), To: bubble.Add(8*time.Hour + 41*time.Minute)},
		{From: bubble.Add(11 * time.Hour).Add(50 * time.Minute), To: bubble.Add(20 * time.Hour).Add(7 * time.Second)},
	}
	waiting := []simulate.Outage{{From: bubble.Add(90*time.Minute + 20*time.Second), To: bubble.Add(95 * time.Minute)}}
	for _, c := range []struct {
		name, policy string
		settings     retry.Settings // nil: the defaults
		tiers        int            // 0: all. With several handlers or a rate it would be chance which of two passes has the next
		simulate.Options
	}{
		{name: "progressive", policy: "progressive"},
		{name: "fibonacci", policy: "fibonacci", settings: fibonacci},
		{name: "list", policy: "list", settings: list},
		{name: "exponential", policy: "exponential", settings: drawn},
		{name: "capped", policy: "progressive", Options: simulate.Options{MaxRecords: 6}},
		{name: "capped fibonacci", policy: "fibonacci", settings: fibonacci, Options: simulate.Options{MaxRecords: 3}},
		{name: "capped exponential", policy: "exponential", settings: drawn, Options: simulate.Options{MaxRecords: 3}},
		{name: "aborted", policy: "progressive", Options: simulate.Options{AbortAfter: 4}},
		{name: "overlap", policy: "progressive", Options: simulate.Options{CallTime: 47 * time.Second}},
		{name: "overlap of several", policy: "progressive", tiers: 1, Options: simulate.Options{CallTime: 211 * time.Second, Concurrency: 3}},
		{name: "overlap fibonacci", policy: "fibonacci", settings: fibonacci, Options: simulate.Options{CallTime: 47 * time.Second}},
		{name: "overlap exponential", policy: "exponential", settings: drawn, Options: simulate.Options{CallTime: 47 * time.Second}},
		{name: "overlap capped", policy: "progressive", Options: simulate.Options{CallTime: 47 * time.Second, MaxRecords: 16}},
		{name: "overlap aborted", policy: "progressive", Options: simulate.Options{CallTime: 47 * time.Second, AbortAfter: 4}},
		{name: "overlap aborted exponential", policy: "exponential", settings: drawn, Options: simulate.Options{CallTime: 7 * time.Second, AbortAfter: 15}},
		{name: "overlap capped by more", policy: "progressive", Options: simulate.Options{CallTime: 5 * time.Second, MaxRecords: 70}},
		{name: "rate", policy: "progressive", tiers: 1, Options: simulate.Options{CallTime: 7 * time.Second, Rate: 0.03}},
		{name: "rate, stopped while a handler waits for it", policy: "progressive", tiers: 1, Options: simulate.Options{CallTime: 7 * time.Second, Rate: 0.03, Down: waiting}},
		{name: "missed ticks", policy: "progressive", Options: simulate.Options{Down: down}},
		{name: "missed ticks fibonacci", policy: "fibonacci", settings: fibonacci, Options: simulate.Options{Down: down}},
		{name: "missed ticks exponential", policy: "exponential", settings: drawn, Options: simulate.Options{Down: down}},
		{name: "missed ticks of passes cut short", policy: "progressive", Options: simulate.Options{CallTime: 17 * time.Second, Down: down}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // much of the time the disk is waited for
			var policy *backlog.Policy
			if s := cmp.Or(c.settings, retry.New(c.policy)); s != nil {
				var err error
				if policy, err = retry.Policy(s); err != nil {
					t.Fatal(err)
				}
			}
			list := []tiers.Tier{{MaxAge: 6 * time.Hour, Every: 10 * time.Minute}, {MaxAge: 18 * time.Hour, Every: time.Hour}, {MaxAge: 2 * day, Every: 6 * time.Hour, Offset: time.Hour}}
			if c.tiers > 0 {
				list = list[:c.tiers]
			}
			s := testkit.Schedule(t, list...)
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				w := &simulate.Workload{From: from, To: from.Add(21 * time.Hour), Success: 0.4, Outages: []simulate.Outage{{From: from.Add(2 * time.Hour), To: from.Add(5 * time.Hour)}}}
				for i := range 300 {
					// Whole seconds, as the table has them, also such as are a tick.
					age := time.Duration(i*i*i%4000) * 37 * time.Second
					w.Records = append(w.Records, simulate.Record{Inserted: from.Add(-age), Poison: i%4 == 0, Seed: uint64(1000 + i)})
				}
				var want []entry
				o := c.Options
				o.SetCallTime(func(i, try int) time.Duration { return callTime(o.CallTime, w.Records[i].Seed, try) })
				o.Schedule, o.Policy, o.Bucket, o.NewTable = s, policy, day, inSeconds(policy)
				o.Observe = func(at time.Time, tier string, i int, success bool) { want = append(want, entry{at, tier, i, success}) }
				r, err := simulate.Run(t.Context(), w, o)
				if err != nil {
					t.Fatal(err)
				}
				got := daemon(t, filepath.Join(t.TempDir(), "backlog.db"), w, o)
				if !slices.EqualFunc(sorted(got), sorted(want), entry.same) {
					t.Errorf("%d attempts of the daemon, %d of the simulation; the first that differ:\n%s", len(got), len(want), difference(got, want))
				}
				if len(want) != r.Attempts || len(want) < 50 {
					t.Errorf("%d attempts, %d in the report", len(want), r.Attempts)
				}
			})
		})
	}
}

// callTime is the length of a call, half as long as the mean one up to half as long again.
// No two events have the same time, so that what happens is not left to chance.
func callTime(mean time.Duration, seed uint64, try int) time.Duration {
	return time.Duration((0.5 + simulate.Roll(seed^1<<40, try)) * float64(mean))
}

func difference(got, want []entry) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !got[i].same(want[i]) {
			return fmt.Sprintf("daemon:\n%vsimulation:\n%v", lines(got, i), lines(want, i))
		}
	}
	return ""
}

// lines are those of the log around the i-th.
func lines(log []entry, i int) string {
	var b strings.Builder
	for _, e := range log[max(0, i-6):min(i+6, len(log))] {
		fmt.Fprintf(&b, "  %v %s %d %v\n", e.at.UTC().Format("02 15:04:05"), e.tier, e.id, e.success)
	}
	return b.String()
}

// daemon runs the loop over a table with the workload's records and returns its
// attempts. The service answers as the workload says.
func daemon(t *testing.T, path string, w *simulate.Workload, o simulate.Options) []entry {
	t.Helper()
	policy := o.Policy
	ctx := context.Background()
	m := mapping.Mapping{
		Name: "BACKLOG", ID: []string{"id"}, Status: "status", Inserted: mapping.Time{Column: "date_inserted"}, Columns: []string{},
		New: value("NEW"), Error: value("ERROR"), Success: value("SUCCESS"),
	}
	if policy != nil {
		m.Policy = &mapping.PolicyColumns{Count: "failures", Last: "last_failure", Retries: policy.Retries}
		if policy.Planned {
			m.Policy.Next, m.Policy.InRetry = "next", "in_retry"
		} else {
			m.Policy.Waits = policy.Waits()
		}
	}
	url := "sqlite:" + path
	steps, err := doctor.Missing(ctx, sqlite.Dialect, url, doctor.Requirements{Mapping: m, CreateTable: true, Now: w.From})
	if err == nil {
		var rows []string
		for i, r := range w.Records {
			rows = append(rows, fmt.Sprintf("(%d, 'NEW', '%s')", i+1, r.Inserted.UTC().Format(time.DateTime)))
		}
		err = doctor.Create(ctx, sqlite.Dialect, url, append(steps, "INSERT INTO BACKLOG (id, status, date_inserted) VALUES "+strings.Join(rows, ", ")))
	}
	if err != nil {
		t.Fatal(err)
	}
	opened, err := db.Open(ctx, sqlite.Dialect, url, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	store, err := table.New(ctx, opened, m)
	if err == nil {
		err = store.Prove(ctx, w.From)
	}
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log []entry
	var luck float64
	tries := make(map[int]int)
	e := &backlog.Engine{
		Store: store, Policy: policy, MaxRecords: o.MaxRecords, AbortAfter: o.AbortAfter, Rate: o.Rate, Concurrency: o.Concurrency,
		Random: func() float64 { // of the attempt that has just ended: there is one at a time
			mu.Lock()
			defer mu.Unlock()
			return luck
		},
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			i, now := int(r.Key.Part(0).(int64))-1, time.Now()
			mu.Lock()
			tries[i]++
			n, rec := tries[i], w.Records[i]
			luck = simulate.Roll(rec.Seed, 2*n+1)
			out := slices.ContainsFunc(w.Outages, func(o simulate.Outage) bool { return !now.Before(o.From) && now.Before(o.To) })
			ok := !out && !rec.Poison && simulate.Roll(rec.Seed, 2*n) < w.Success
			log = append(log, entry{now, r.Tier, i, ok})
			mu.Unlock()
			time.Sleep(callTime(o.CallTime, rec.Seed, n))
			if !ok {
				return errors.New("down")
			}
			return nil
		}),
	}
	state := new(remembered)
	run := func(until time.Time) {
		stop, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if err := (&backlog.Loop{Schedule: o.Schedule, Engine: e, State: state}).Run(stop); err != nil {
			t.Error(err)
		}
	}
	for _, d := range o.Down {
		run(d.From)
		time.Sleep(time.Until(d.To))
	}
	run(w.To.Add(time.Second))
	mu.Lock()
	defer mu.Unlock()
	return slices.DeleteFunc(log, func(e entry) bool { return e.at.After(w.To) })
}

// A remembered state lasts as long as the test.
type remembered struct {
	mu    sync.Mutex
	state backlog.Checkpoint
}

func (r *remembered) Load() (backlog.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Resume = maps.Clone(s.Resume)
	return s, nil
}

func (r *remembered) Update(change func(*backlog.Checkpoint)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
	return nil
}

// inMemory is a simulate.Table.
type inMemory struct{ *memory.Store }

func inMemoryWith(p *backlog.Policy) func() simulate.Table {
	return func() simulate.Table { return inMemory{memory.New(memory.Options{Policy: p})} }
}

func (m inMemory) Add(place int, r *simulate.Record) error {
	row := memory.Row{Key: backlog.NewKey(int64(place)), Status: "NEW", Inserted: r.Inserted, Eligible: r.Eligible, Expires: r.Expires, Memory: *cmp.Or(r.Memory, new(backlog.Memory))}
	if r.Failed {
		row.Status = "ERROR"
	}
	return m.Insert(row)
}

// inSeconds has tables that keep times as the daemon's does: without parts of seconds.
func inSeconds(p *backlog.Policy) func() simulate.Table {
	return func() simulate.Table { return wholeSeconds{inMemory{memory.New(memory.Options{Policy: p})}} }
}

type wholeSeconds struct{ inMemory }

func (w wholeSeconds) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	for i := range group {
		if m := group[i].Memory; m != nil {
			m.LastFailure = m.LastFailure.Truncate(time.Second)
			m.Next = m.Next.Truncate(time.Second)
		}
	}
	return w.inMemory.Settle(ctx, group)
}

func value(s string) mapping.State { return mapping.State{Values: []mapping.Value{{Text: s}}} }
