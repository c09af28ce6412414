package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
)

// The benchmarks compare with hand-written loops in the same run, since
// machines differ and are shared. Run them with: make bench

// TestMain lets the heap grow as main does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// backlogTable fills a table of n rows as init would make it, one second
// apart, the newest last, in which the rows with the given condition on the
// number i of the row (1 is the oldest) have the status ERROR.
func backlogTable(tb testing.TB, n int, failed string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "bench.db")
	ctx := context.Background()
	m := plainMapping()
	steps, err := missing(ctx, "sqlite:"+path, m, noon)
	if err == nil {
		err = create(ctx, "sqlite:"+path, steps[:2]) // the indexes are faster made afterwards
	}
	if err != nil {
		tb.Fatal(err)
	}
	db := openPlain(tb, path)
	_, err = db.Exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
		INSERT INTO BACKLOG (id, status, date_inserted) SELECT i, CASE WHEN %s THEN 'ERROR' ELSE 'NEW' END, datetime('2026-01-01', (i - %d) || ' seconds') FROM s`, n, failed, n))
	if err != nil {
		tb.Fatal(err)
	}
	db.Close()
	if err := create(ctx, "sqlite:"+path, steps[2:]); err != nil {
		tb.Fatal(err)
	}
	return path
}

var benchNow = time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)

func plainMapping() mapping.Mapping {
	value := func(s string) mapping.State { return mapping.State{Values: []mapping.Value{{Text: s}}} }
	return mapping.Mapping{
		Name: "BACKLOG", ID: []string{"id"}, Status: "status", Inserted: mapping.Time{Column: "date_inserted"},
		New: value("NEW"), Error: value("ERROR"), Success: value("SUCCESS"),
	}
}

// openPlain opens the file as any program would, with the settings that the
// bare loops are given.
func openPlain(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	driver, params := "sqlite", "?_pragma=busy_timeout(10000)&_pragma=synchronous(normal)&_txlock=immediate"
	if strings.Contains(sqlite.Driver, "mattn") {
		driver, params = "sqlite3", "?_busy_timeout=10000&_synchronous=normal&_txlock=immediate"
	}
	db, err := sql.Open(driver, "file:"+path+params)
	if err != nil {
		tb.Fatal(err)
	}
	return db
}

func openBacklog(tb testing.TB, url string) (*db.DB, *table.Table) {
	tb.Helper()
	ctx := context.Background()
	db, err := openDB(ctx, url, table.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	t, err := table.New(ctx, db, plainMapping())
	if err == nil {
		err = t.Prove(ctx, benchNow)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return db, t
}

// normally is the URL of the file with the settings of openPlain.
func normally(path string) string { return "sqlite:" + path + "?synchronous=normal" }

func resetStatus(tb testing.TB, path string) {
	tb.Helper()
	db := openPlain(tb, path)
	defer db.Close()
	for _, s := range []string{"UPDATE BACKLOG SET status = 'NEW' WHERE status <> 'NEW'", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := db.Exec(s); err != nil {
			tb.Fatal(err)
		}
	}
}

// barePass is the limit: the next keyset page of 1,000 is read on one
// connection while one update of the last 1,000 is written on another.
func barePass(tb testing.TB, path string) int {
	read, write := openPlain(tb, path), openPlain(tb, path)
	defer read.Close()
	defer write.Close()
	const page = 1000
	type row struct {
		id     int64
		status string
		at     string
	}
	pages := make(chan []row, 1)
	go func() {
		defer close(pages)
		stmt, err := read.Prepare(`SELECT id, status, +date_inserted FROM BACKLOG WHERE status = 'NEW' AND (date_inserted, id) < (?, ?) ORDER BY date_inserted DESC, id DESC LIMIT ?`)
		if err != nil {
			panic(err)
		}
		at, id := "9", int64(0)
		for {
			rows, err := stmt.Query(at, id, page)
			if err != nil {
				panic(err)
			}
			list := make([]row, 0, page)
			for rows.Next() {
				var r row
				if err := rows.Scan(&r.id, &r.status, &r.at); err != nil {
					panic(err)
				}
				list = append(list, r)
			}
			rows.Close()
			if len(list) == 0 {
				return
			}
			at, id = list[len(list)-1].at, list[len(list)-1].id
			pages <- list
		}
	}()
	update, err := write.Prepare(`UPDATE BACKLOG SET status = 'SUCCESS' WHERE (status = 'NEW') IS TRUE AND id IN (?` + strings.Repeat(",?", page-1) + `)`)
	if err != nil {
		tb.Fatal(err)
	}
	n := 0
	args := make([]any, page)
	for list := range pages {
		for i := range args {
			args[i] = list[min(i, len(list)-1)].id
		}
		res, err := update.Exec(args...)
		if err != nil {
			tb.Fatal(err)
		}
		k, _ := res.RowsAffected()
		n += int(k)
	}
	return n
}

func enginePass(tb testing.TB, url string) int {
	db, t := openBacklog(tb, url)
	defer db.Close()
	e := &backlog.Engine{
		Store: t, Concurrency: 4,
		Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil }),
	}
	r, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: 360 * 24 * time.Hour, Now: benchNow})
	if err != nil {
		tb.Fatal(err)
	}
	return r.Succeeded
}

// BenchmarkPass works off a million pending rows with a handler that does
// nothing. Limit: engine/bare >= 0.5.
func BenchmarkPass(b *testing.B) {
	n := benchSize(1_000_000)
	path := backlogTable(b, n, "0")
	comparePasses(b, n, func() { resetStatus(b, path) }, func() int { return barePass(b, path) }, func() int { return enginePass(b, normally(path)) })
}

// benchSize is n, the number of rows that a figure in the documentation stands
// for, or so few with -short that a benchmark only shows that it still runs.
func benchSize(n int) int {
	if testing.Short() {
		return min(n, 10_000)
	}
	return n
}

// benchSizes is benchSize of each, without repeats.
func benchSizes(list ...int) []int {
	for i, n := range list {
		list[i] = benchSize(n)
	}
	return slices.Compact(list)
}

// comparePasses has the bare loop and the engine work off all n records in turn.
// Other work on the machine changes the time of a loop, but hardly its CPU time.
func comparePasses(b *testing.B, n int, reset func(), bare, engine func() int) {
	measure := func(f func() int) (perSecond, cpuMicroseconds float64) {
		reset()
		start, cpu := time.Now(), cpuTime(b)
		if got := f(); got != n {
			b.Fatalf("%d records were settled, not %d", got, n)
		}
		return float64(n) / time.Since(start).Seconds(), float64((cpuTime(b) - cpu).Nanoseconds()) / 1000 / float64(n)
	}
	figures := make(map[string][]float64)
	for b.Loop() {
		for range 3 {
			x, xCPU := measure(bare)
			y, yCPU := measure(engine)
			for name, value := range map[string]float64{
				"bare-records/s": x, "engine-records/s": y, "engine/bare": y / x,
				"bare-cpu-µs/record": xCPU, "engine-cpu-µs/record": yCPU, "cpu-engine/bare": yCPU / xCPU,
			} {
				figures[name] = append(figures[name], value)
			}
		}
	}
	for name, list := range figures {
		b.ReportMetric(median(list), name)
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	u := usage(b)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// usage is what this process has used of the machine.
func usage(b *testing.B) (u syscall.Rusage) {
	b.Helper()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkPassMemory is the peak memory of a whole process that works off a
// million rows. Limit: 64 MiB. With BENCH_PASS it works off the table in that file instead,
// which testdata/growth.sh makes, in this process.
func BenchmarkPassMemory(b *testing.B) {
	if path := os.Getenv("BENCH_PASS"); path != "" {
		before := cpuTime(b)
		n := enginePass(b, normally(path))
		b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1000/float64(n), "cpu-µs/record")
		b.ReportMetric(float64(usage(b).Maxrss)/1024, "peak-MiB")
		return
	}
	path := backlogTable(b, benchSize(1_000_000), "0")
	var peak int64
	for b.Loop() {
		resetStatus(b, path)
		c := exec.Command(os.Args[0], "-test.short="+fmt.Sprint(testing.Short()), "-test.run=^$", "-test.bench=^BenchmarkPassMemory$", "-test.benchtime=1x")
		c.Env = append(os.Environ(), "BENCH_PASS="+path)
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		peak = max(peak, c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	}
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
}

// BenchmarkFirstFresh is the time from the pass's start to its first fresh
// record, with a million failed records (or a tenth of the table) and 100 fresh ones, against the
// bare query. The trial write of the first record is in it. Limit: 1 ms more than the
// query, and no growth with the table.
func BenchmarkFirstFresh(b *testing.B) {
	for _, n := range benchSizes(100_000, 10_000_000) {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := backlogTable(b, n, "i % 10 = 0")
			db := openPlain(b, path)
			// Of the others all but 100, spread over all ages, are done.
			if _, err := db.Exec("UPDATE BACKLOG SET status = 'SUCCESS' WHERE status = 'NEW' AND id % ? <> 1", n/100); err != nil {
				b.Fatal(err)
			}
			db.Close()
			plain := openPlain(b, path)
			defer plain.Close()
			compareFirstFresh(b, plain, normally(path), "SELECT id, status, date_inserted FROM BACKLOG WHERE status = 'NEW' AND date_inserted >= '2025-01-01' ORDER BY date_inserted DESC, id DESC LIMIT 1000")
		})
	}
}

// compareFirstFresh compares the time to the first record with that of the
// statement, which reads the 100 that are fresh.
func compareFirstFresh(b *testing.B, plain *sql.DB, url, query string) {
	db, t := openBacklog(b, url)
	defer db.Close()
	stmt, err := plain.Prepare(query)
	if err != nil {
		b.Fatal(err)
	}
	defer stmt.Close()
	var bare, engine, tried []float64
	for b.Loop() {
		for range 51 {
			bare = append(bare, bareQuery(b, stmt))
			engine = append(engine, firstFresh(b, t, 0))
			tried = append(tried, firstFresh(b, t, ^uint64(0)))
		}
	}
	b.ReportMetric(median(tried), "without-trial-ms")
	b.ReportMetric(median(tried)/median(bare), "without-trial/bare")
	b.ReportMetric(median(bare), "bare-ms")
	b.ReportMetric(median(engine), "first-fresh-ms")
	b.ReportMetric(median(engine)/median(bare), "engine/bare")
}

func bareQuery(b *testing.B, stmt *sql.Stmt) float64 {
	start := time.Now()
	rows, err := stmt.Query()
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id int64
		var status, at string
		if err := rows.Scan(&id, &status, &at); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != 100 {
		b.Fatalf("%d fresh rows", n)
	}
	return time.Since(start).Seconds() * 1000
}

// firstFresh returns the milliseconds until the first record is handed out.
func firstFresh(b *testing.B, t *table.Table, skipped uint64) float64 {
	var first time.Time
	// The pass ends by its cap: what is cancelled costs the connection.
	e := &backlog.Engine{Store: t, MaxRecords: 10, Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		if first.IsZero() {
			first = time.Now()
			if r.Lane != backlog.Fresh {
				b.Errorf("the first record is a failed one")
			}
		}
		return backlog.Skip
	})}
	e.SkipTrials(skipped)
	start := time.Now()
	if _, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: 3600 * 24 * time.Hour, Now: benchNow}); err != nil {
		b.Fatal(err)
	}
	return first.Sub(start).Seconds() * 1000
}
