package table_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

// bareMySQL is a loop as one writes it by hand: the next 1,000 keys by the
// index, then one update of them.
func bareMySQL(tb testing.TB, db *sql.DB) (n int) {
	const page = 1000
	read, err := db.Prepare("SELECT id, status, date_inserted FROM BACKLOG FORCE INDEX (x) WHERE status = 'NEW' AND date_inserted < ? ORDER BY date_inserted DESC, id DESC LIMIT ?")
	if err != nil {
		tb.Fatal(err)
	}
	write, err := db.Prepare("UPDATE BACKLOG SET status = 'SUCCESS' WHERE status = 'NEW' AND id IN (?" + strings.Repeat(",?", page-1) + ")")
	if err != nil {
		tb.Fatal(err)
	}
	for at := "9999-01-01"; ; {
		rows, err := read.Query(at, page)
		if err != nil {
			tb.Fatal(err)
		}
		var args []any
		for rows.Next() {
			var id int64
			var status string
			if err := rows.Scan(&id, &status, &at); err != nil {
				tb.Fatal(err)
			}
			args = append(args, id)
		}
		rows.Close()
		if len(args) == 0 {
			return n
		}
		n += len(args)
		for len(args) < page {
			args = append(args, args[0])
		}
		if _, err := write.Exec(args...); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkMySQLPass works off 200,000 pending rows with a handler that does
// nothing. Limit: engine/bare >= 0.6.
func BenchmarkMySQLPass(b *testing.B) {
	const n = 200_000
	plain, rawURL := newMySQL(b)
	defer plain.Close()
	execMySQL(b, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL, INDEX x (status, date_inserted, id))")
	execMySQL(b, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-01-01' - INTERVAL seq SECOND FROM seq_1_to_200000")
	rate := func(f func() int) float64 {
		execMySQL(b, plain, "UPDATE BACKLOG SET status = 'NEW'")
		start := time.Now()
		if got := f(); got != n {
			b.Fatalf("%d records were settled, not %d", got, n)
		}
		return n / time.Since(start).Seconds()
	}
	engine := func() int {
		db, err := table.Open(b.Context(), rawURL, table.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		t, err := table.New(b.Context(), db, plainMapping())
		if err == nil {
			_, err = t.Prove(b.Context(), benchNow)
		}
		if err != nil {
			b.Fatal(err)
		}
		e := &backlog.Engine{Store: t, Concurrency: 4, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil })}
		r, err := e.Pass(b.Context(), backlog.Pass{Tier: "all", MaxAge: 360 * 24 * time.Hour, Now: benchNow})
		if err != nil {
			b.Fatal(err)
		}
		return r.Succeeded
	}
	var bare, ours, ratio []float64
	for b.Loop() {
		x, y := rate(func() int { return bareMySQL(b, plain) }), rate(engine)
		bare, ours, ratio = append(bare, x), append(ours, y), append(ratio, y/x)
	}
	b.ReportMetric(median(bare), "bare-records/s")
	b.ReportMetric(median(ours), "engine-records/s")
	b.ReportMetric(median(ratio), "engine/bare")
}
