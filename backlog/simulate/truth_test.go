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
	"backlog/backlog/memory"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/tiers"
)

// An entry is one attempt in a log.
type entry struct {
	at      time.Time
	id      int
	success bool
}

func sorted(log []entry) []entry {
	slices.SortFunc(log, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	return log
}

// The daemon's loop works off a real table, as long as it takes by a clock that
// does not; the simulation is given the same records.
func TestSimulationIsTheDaemon(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		settings     map[string]any
		most, abort  int
	}{
		{"progressive", "progressive", nil, 0, 0},
		{"fibonacci", "fibonacci", nil, 0, 0},
		{"list", "list", map[string]any{"intervals": []time.Duration{0, 10 * time.Minute, time.Hour}}, 0, 0},
		{"exponential", "exponential", map[string]any{"interval": 3 * time.Minute, "max_retries": 6}, 0, 0},
		{"capped", "progressive", nil, 6, 0},
		{"capped fibonacci", "fibonacci", nil, 3, 0},
		{"aborted", "progressive", nil, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, err := retry.New(c.policy, c.settings)
			if err != nil {
				t.Fatal(err)
			}
			s := schedule(t, tiers.Tier{MaxAge: 6 * time.Hour, Every: 10 * time.Minute}, tiers.Tier{MaxAge: 18 * time.Hour, Every: time.Hour}, tiers.Tier{MaxAge: 2 * day, Every: 6 * time.Hour, Offset: time.Hour})
			path := filepath.Join(t.TempDir(), "backlog.db")
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				w := &simulate.Workload{From: from, To: from.Add(30 * time.Hour), Success: 0.4, Outages: []simulate.Outage{{From: from.Add(2 * time.Hour), To: from.Add(5 * time.Hour)}}}
				for i := range 40 {
					// Whole seconds, as the table has them, also such as are a tick.
					age := time.Duration(i*i*i%4000) * 37 * time.Second
					w.Records = append(w.Records, simulate.Record{Inserted: from.Add(-age), Poison: i%4 == 0, Seed: uint64(1000 + i)})
				}
				var want []entry
				o := simulate.Options{Schedule: s, Policy: policy, Bucket: day, MaxRecords: c.most, AbortAfter: c.abort, Observe: func(at time.Time, i int, success bool) {
					want = append(want, entry{at, i, success})
				}}
				if c.most+c.abort > 0 {
					o.Table = inMemory{memory.New(memory.Options{Policy: policy})}
				}
				r, err := simulate.Run(t.Context(), w, o)
				if err != nil {
					t.Fatal(err)
				}
				got := daemon(t, path, w, o)
				if !slices.EqualFunc(sorted(got), sorted(want), func(a, b entry) bool { return a.at.Equal(b.at) && a.id == b.id && a.success == b.success }) {
					t.Errorf("%d attempts of the daemon, %d of the simulation; the first that differ:\n%s", len(got), len(want), difference(got, want))
				}
				if len(want) != r.Attempts || len(want) < 50 {
					t.Errorf("%d attempts, %d in the report", len(want), r.Attempts)
				}
			})
		})
	}
}

func difference(got, want []entry) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !got[i].at.Equal(want[i].at) || got[i].id != want[i].id || got[i].success != want[i].success {
			return fmt.Sprintf("%v\n%v", got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
		}
	}
	return ""
}

// daemon runs the loop over a table with the workload's records and returns its
// attempts. The service answers as the workload says.
func daemon(t *testing.T, path string, w *simulate.Workload, o simulate.Options) []entry {
	t.Helper()
	policy := o.Policy
	ctx := context.Background()
	m := table.Mapping{
		Name: "BACKLOG", ID: []string{"id"}, Status: "status", Inserted: table.Time{Column: "date_inserted"}, Columns: []string{},
		New: value("NEW"), Error: value("ERROR"), Success: value("SUCCESS"),
	}
	if policy != nil {
		m.Retry = &table.Retry{Count: "failures", Last: "last_failure", Retries: policy.Retries}
		if policy.Planned {
			m.Retry.Next, m.Retry.InRetry = "next", "in_retry"
		} else {
			m.Retry.Waits = policy.Waits()
		}
	}
	url := "sqlite:" + path
	steps, err := table.Missing(ctx, url, m, w.From)
	if err == nil {
		var rows []string
		for i, r := range w.Records {
			rows = append(rows, fmt.Sprintf("(%d, 'NEW', '%s')", i+1, r.Inserted.UTC().Format(time.DateTime)))
		}
		err = table.Create(ctx, url, append(steps, "INSERT INTO BACKLOG (id, status, date_inserted) VALUES "+strings.Join(rows, ", ")))
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := table.Open(ctx, url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := table.New(ctx, db, m)
	if err == nil {
		_, err = store.Prove(ctx, w.From)
	}
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log []entry
	var luck float64
	tries := make(map[int]int)
	e := &backlog.Engine{
		Store: store, Policy: policy, MaxRecords: o.MaxRecords, AbortAfter: o.AbortAfter, Random: func() float64 { return luck }, // of the attempt that has just ended: there is one at a time
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			mu.Lock()
			defer mu.Unlock()
			i, now := int(r.Key.Part(0).(int64))-1, time.Now()
			tries[i]++
			n, rec := tries[i], w.Records[i]
			luck = simulate.Draw(rec.Seed, 2*n+1)
			out := slices.ContainsFunc(w.Outages, func(o simulate.Outage) bool { return !now.Before(o.From) && now.Before(o.To) })
			ok := !out && !rec.Poison && simulate.Draw(rec.Seed, 2*n) < w.Success
			log = append(log, entry{now, i, ok})
			if !ok {
				return errors.New("down")
			}
			return nil
		}),
	}
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- (&backlog.Loop{Schedule: o.Schedule, Engine: e, State: new(remembered)}).Run(stop) }()
	time.Sleep(time.Until(w.To) + time.Second)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return log
}

// A remembered state lasts as long as the test.
type remembered struct {
	mu    sync.Mutex
	state backlog.State
}

func (r *remembered) Load() (backlog.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Resume = maps.Clone(s.Resume)
	return s, nil
}

func (r *remembered) Update(change func(*backlog.State)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
	return nil
}

// inMemory is a simulate.Table.
type inMemory struct{ *memory.Store }

func (m inMemory) Add(place int, r *simulate.Record) error {
	row := memory.Row{Key: backlog.NewKey(int64(place)), Status: "NEW", Inserted: r.Inserted, Eligible: r.Eligible, Expires: r.Expires, Retry: r.Retry}
	if r.Failed {
		row.Status = "ERROR"
	}
	return m.Insert(row)
}

func value(s string) table.State { return table.State{Values: []table.Value{{Text: s}}} }
