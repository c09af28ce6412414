package cmd_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/backlog/table"
	tabledb "backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
)

// TestManyDueAtOnce: deadlines begin with the handler, not with the queue.
func TestManyDueAtOnce(t *testing.T) {
	t.Parallel()
	manyDue(t, filepath.Join(t.TempDir(), "many.db"), 1000)
}

// BenchmarkManyDueAtOnce is a pass over 100,000 rows that are due at the same time, with
// 4 slots and a handler that does nothing.
func BenchmarkManyDueAtOnce(b *testing.B) {
	n := 100_000
	if testing.Short() {
		n = 2000
	}
	for b.Loop() {
		began := time.Now()
		heap := manyDue(b, filepath.Join(b.TempDir(), "many.db"), n)
		b.ReportMetric(float64(n)/time.Since(began).Seconds(), "records/s")
		b.ReportMetric(heap, "heap-MiB")
	}
}

// manyDue processes n rows that are all due now, and then once more what is overdue when
// the last of them is done: nothing. Each handler takes 100 ms by a clock that only they
// move, and an attempt may take as long as half of them, which is longer than one waits
// for the others to begin. It returns the most memory in use beyond what was before, in MiB.
func manyDue(tb testing.TB, path string, n int) (heap float64) {
	tb.Helper()
	const slots, takes = 4, 100 * time.Millisecond
	ctx, six := context.Background(), time.Date(2026, time.January, 5, 6, 0, 0, 0, time.UTC)
	pool, err := sql.Open(sqliteDriver(), "file:"+path+map[string]string{
		"sqlite":  "?_pragma=synchronous(normal)&_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)",
		"sqlite3": "?_synchronous=normal&_journal_mode=wal&_busy_timeout=10000",
	}[sqliteDriver()])
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	for _, text := range []string{
		`CREATE TABLE tables (id INTEGER PRIMARY KEY, refresh_at INTEGER, attempt_no INTEGER NOT NULL DEFAULT 0,
			deadline_at INTEGER, attempt_uid TEXT)`,
		"CREATE INDEX due ON tables (refresh_at, id) WHERE refresh_at IS NOT NULL AND (deadline_at IS NULL OR attempt_uid IS NULL)",
		"CREATE INDEX running ON tables (deadline_at, id) WHERE deadline_at IS NOT NULL AND attempt_uid IS NOT NULL",
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO tables (id, refresh_at) SELECT i, %d FROM n`, n, six.Unix()),
	} {
		if _, err := pool.Exec(text); err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
	}
	settings := retry.New("refresh").(*retry.Refresh)
	settings.RRule.Text, settings.Timeout = "FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0", time.Duration(n/2)*takes
	policy, err := retry.Policy(settings)
	if err != nil {
		tb.Fatal(err)
	}
	m := mapping.Mapping{Name: "tables", ID: []string{"id"}, Policy: settings.PolicyColumns()}
	opened, err := tabledb.Open(ctx, sqlite.Dialect, "sqlite:"+path+"?synchronous=normal", tabledb.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	defer opened.Close()
	store, err := table.Open(ctx, opened, m, six)
	if err != nil {
		tb.Fatal(err)
	}
	var elapsed, late, calls atomic.Int64
	now := func() time.Time { return six.Add(time.Duration(elapsed.Load())) }
	used := heapInUse()
	var mu sync.Mutex
	engine := &backlog.Engine{
		Store: store, Policy: policy, Concurrency: slots, Now: now,
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			if !r.Memory.Deadline.After(now()) {
				late.Add(1)
			}
			if calls.Add(1)%int64(n/10) == 0 {
				mu.Lock()
				heap = max(heap, heapInUse()-used)
				mu.Unlock()
			}
			elapsed.Add(int64(takes))
			return nil
		}),
	}
	for _, want := range []int{n, 0} {
		report, err := engine.Pass(ctx, backlog.Pass{})
		if err != nil || report.Succeeded != want || report.Overdue > 0 {
			tb.Fatalf("%d succeeded, %d were overdue (%v), want %d and none", report.Succeeded, report.Overdue, err, want)
		}
	}
	var again int
	const waiting = "SELECT count(*) FROM tables WHERE attempt_no = 0 AND attempt_uid IS NULL AND deadline_at IS NULL AND refresh_at > ?"
	if err := pool.QueryRow(waiting, six.Unix()).Scan(&again); err != nil || again != n {
		tb.Errorf("%d rows wait for their next start, want %d (%v)", again, n, err)
	}
	if late.Load() > 0 {
		tb.Errorf("%d attempts were past their deadline when they started", late.Load())
	}
	if heap > 32 {
		tb.Errorf("%.0f MiB were in use", heap)
	}
	return heap
}

// heapInUse returns how many MiB are in use.
func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
