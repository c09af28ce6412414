package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

const postgresBenchRows = 200_000

// barePostgres is the limit: a page of 1,000 is read by its key while one update
// of the last 1,000 is written on another connection.
func barePostgres(tb testing.TB, db *sql.DB) int {
	const page = 1000
	pages := make(chan []any, 1)
	go func() {
		defer close(pages)
		at, id := "infinity", int64(0)
		for {
			rows, err := db.Query("SELECT id, status, created FROM jobs WHERE status = 'NEW' AND (created, id) < ($1, $2) ORDER BY created DESC, id DESC LIMIT 1000", at, id)
			if err != nil {
				panic(err)
			}
			list := make([]any, 0, page)
			var last time.Time
			var status string
			for rows.Next() {
				if err := rows.Scan(&id, &status, &last); err != nil {
					panic(err)
				}
				list = append(list, id)
			}
			rows.Close()
			if len(list) > 0 {
				pages <- list
			}
			if len(list) < page {
				return
			}
			at = last.Format(time.RFC3339Nano)
		}
	}()
	marks := make([]string, page)
	for i := range marks {
		marks[i] = fmt.Sprintf("$%d", i+1)
	}
	text := "UPDATE jobs SET status = 'SUCCESS' WHERE status = 'NEW' AND id IN (" + strings.Join(marks, ", ") + ")"
	n := 0
	for list := range pages {
		res, err := db.Exec(text, list...)
		if err != nil {
			tb.Fatal(err)
		}
		done, err := res.RowsAffected()
		if err != nil {
			tb.Fatal(err)
		}
		n += int(done)
	}
	return n
}

// BenchmarkPostgresPass is a pass over a table of new rows, with a handler that
// does nothing, against a loop written by hand.
func BenchmarkPostgresPass(b *testing.B) {
	s := newPostgresSchema(b, "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, created timestamptz, payload text)",
		fmt.Sprintf("INSERT INTO jobs SELECT i, 'NEW', '2026-02-10Z'::timestamptz - i * interval '1 s', repeat('x', 50) FROM generate_series(1, %d) i", postgresBenchRows),
		"CREATE INDEX ON jobs (created, id) WHERE status = 'NEW'", "ANALYZE jobs")
	m := jobs()
	m.Columns = []string{"id"}
	var bare, ours time.Duration
	for b.Loop() {
		for _, x := range []struct {
			sum *time.Duration
			f   func() int
		}{
			{&bare, func() int { return barePostgres(b, s.plain) }},
			{&ours, func() int {
				t, err := s.open(s.url, m)
				if err != nil {
					b.Fatal(err)
				}
				nothing := backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil })
				e := &backlog.Engine{Store: t, Handler: nothing, Concurrency: 4, Timeout: time.Minute}
				r, err := e.Pass(context.Background(), backlog.Pass{Tier: "all", MaxAge: ages, Widest: true, Now: noon})
				if err != nil {
					b.Fatal(err)
				}
				return r.Succeeded
			}},
		} {
			b.StopTimer()
			s.exec("UPDATE jobs SET status = 'NEW' WHERE status <> 'NEW'", "VACUUM jobs", "CHECKPOINT")
			b.StartTimer()
			began := time.Now()
			if n := x.f(); n != postgresBenchRows {
				b.Fatalf("%d rows", n)
			}
			*x.sum += time.Since(began)
		}
	}
	rows := float64(b.N * postgresBenchRows)
	b.ReportMetric(rows/bare.Seconds(), "bare-rows/s")
	b.ReportMetric(rows/ours.Seconds(), "rows/s")
	b.ReportMetric(bare.Seconds()/ours.Seconds(), "of-bare")
}
