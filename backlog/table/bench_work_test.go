package table_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/work"
)

const shipIt = "INSERT INTO shipped (id, inserted) VALUES (:id, :date_inserted)"

// bareWork is the limit: page after page is read, and each record is worked
// off in a transaction of its own, on another connection, by statements that
// were prepared once.
func bareWork(tb testing.TB, path string) int {
	read, write := openPlain(tb, path), openPlain(tb, path)
	defer read.Close()
	defer write.Close()
	write.SetMaxOpenConns(1)
	ctx := context.Background()
	page, err := read.Prepare("SELECT id, +date_inserted FROM BACKLOG WHERE status = 'NEW' AND (date_inserted, id) < (?, ?) ORDER BY date_inserted DESC, id DESC LIMIT 1000")
	if err != nil {
		tb.Fatal(err)
	}
	insert, err := write.Prepare("INSERT INTO shipped (id, inserted) VALUES (?, ?)")
	if err != nil {
		tb.Fatal(err)
	}
	update, err := write.Prepare("UPDATE BACKLOG SET status = 'SUCCESS' WHERE id = ? AND status = 'NEW'")
	if err != nil {
		tb.Fatal(err)
	}
	work := func(id int64, at string) error {
		tx, err := write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.StmtContext(ctx, insert).ExecContext(ctx, id, at); err != nil {
			return err
		}
		if _, err := tx.StmtContext(ctx, update).ExecContext(ctx, id); err != nil {
			return err
		}
		return tx.Commit()
	}
	n, lastAt, lastID := 0, "9", int64(0)
	for {
		rows, err := page.Query(lastAt, lastID)
		if err != nil {
			tb.Fatal(err)
		}
		type record struct {
			id int64
			at string
		}
		var list []record
		for rows.Next() {
			var r record
			if err := rows.Scan(&r.id, &r.at); err != nil {
				tb.Fatal(err)
			}
			list = append(list, r)
		}
		rows.Close()
		if len(list) == 0 {
			return n
		}
		for _, r := range list {
			if err := work(r.id, r.at); err != nil {
				tb.Fatal(err)
			}
			n, lastAt, lastID = n+1, r.at, r.id
		}
	}
}

// engineWork is a pass with the statement as the handler.
func engineWork(concurrency int) func(testing.TB, string) int {
	return func(tb testing.TB, path string) int {
		db, t := openBacklog(tb, normally(path))
		defer db.Close()
		w, err := work.New(t, []string{shipIt}, false)
		if err != nil {
			tb.Fatal(err)
		}
		e := &backlog.Engine{Store: t, Handler: w, Concurrency: concurrency, Timeout: 30 * time.Second}
		r, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: 360 * 24 * time.Hour, Now: benchNow})
		if err != nil {
			tb.Fatal(err)
		}
		return r.Succeeded
	}
}

// BenchmarkWork works off pending rows, each in a transaction with its
// settlement. Limit: engine/bare >= 0.5. SQLite has one writer: concurrency
// gives nothing, and must cost little.
func BenchmarkWork(b *testing.B) {
	n := benchSize(20_000)
	for _, concurrency := range []int{1, 4} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			path := backlogTable(b, n, "0")
			plain := openPlain(b, path)
			defer plain.Close()
			if _, err := plain.Exec("CREATE TABLE shipped (id INTEGER PRIMARY KEY, inserted TEXT)"); err != nil {
				b.Fatal(err)
			}
			rate := func(f func(testing.TB, string) int) float64 {
				if _, err := plain.Exec("DELETE FROM shipped"); err != nil {
					b.Fatal(err)
				}
				resetStatus(b, path)
				start := time.Now()
				got := f(b, path)
				took := time.Since(start)
				var shipped int
				if err := plain.QueryRow("SELECT count(*) FROM shipped").Scan(&shipped); err != nil || got != n || shipped != n {
					b.Fatalf("%d records were settled and %d shipped (%v), not %d", got, shipped, err, n)
				}
				return float64(n) / took.Seconds()
			}
			var bare, engine, ratio []float64
			for b.Loop() {
				for range 3 {
					x, y := rate(bareWork), rate(engineWork(concurrency))
					bare, engine, ratio = append(bare, x), append(engine, y), append(ratio, y/x)
				}
			}
			b.ReportMetric(median(bare), "bare-records/s")
			b.ReportMetric(median(engine), "engine-records/s")
			b.ReportMetric(median(ratio), "engine/bare")
		})
	}
}
