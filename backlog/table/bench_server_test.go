package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// A benchServer is a server as the loops that are written by hand use it.
type benchServer struct {
	name, table string // the table as the database wants its name written
	open        func(testing.TB) (plain *sql.DB, url string)
	// numbers is what the numbers from 1 to n are selected from, as i; age is
	// how long before 2026 something happened so many seconds ago.
	numbers func(n int) string
	age     string
	// settled is run when the table has been written to as a whole.
	settled []string
	// first reads all that is fresh.
	first string
	// page reads the next keys, and update writes them, bound as args has it.
	page, update string
	args         func(keys []any) []any
}

const benchPage = 1000

var benchServers = []benchServer{
	{
		name: "PostgreSQL", table: `"BACKLOG"`,
		open:    func(tb testing.TB) (*sql.DB, string) { return openPostgres(tb) },
		numbers: func(n int) string { return fmt.Sprintf("generate_series(1, %d) i", n) },
		age:     "'2026-01-01Z'::timestamptz - (%s) * interval '1 s'",
		settled: []string{`VACUUM ANALYZE "BACKLOG"`, "CHECKPOINT"},
		first:   `SELECT id, status, date_inserted FROM "BACKLOG" WHERE status = 'NEW' AND date_inserted >= '2000-01-01Z' ORDER BY date_inserted DESC, id DESC LIMIT 1000`,
		page:    `SELECT date_inserted::text AS at, id, status FROM "BACKLOG" WHERE status = 'NEW' AND (date_inserted, id) < ($1, $2) ORDER BY date_inserted DESC, id DESC LIMIT 1000`,
		update:  `UPDATE "BACKLOG" SET status = 'SUCCESS' WHERE id = ANY ($1)`,
		args: func(keys []any) []any {
			list := make([]int64, len(keys))
			for i, k := range keys {
				list[i] = k.(int64)
			}
			return []any{list}
		},
	},
	{
		name: "MySQL", table: "BACKLOG",
		open: newMySQL,
		numbers: func(n int) string { // n is a power of ten
			sum, from := "1", []string{}
			for unit := 1; unit < n; unit *= 10 {
				sum += fmt.Sprintf(" + %d * d%d.x", unit, unit)
				from = append(from, fmt.Sprintf("(SELECT 0 x UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) d%d", unit))
			}
			return "(SELECT " + sum + " AS i FROM " + strings.Join(from, ", ") + ") s"
		},
		age:     "'2026-01-01' - INTERVAL (%s) SECOND",
		settled: []string{"ANALYZE TABLE BACKLOG"},
		first:   "SELECT id, status, date_inserted FROM BACKLOG WHERE status = 'NEW' AND date_inserted >= '2000-01-01' ORDER BY date_inserted DESC, id DESC LIMIT 1000",
		// A comparison of pairs reads the index from its end; a second apart, the
		// time alone will do.
		page:   "SELECT date_inserted, id, status FROM BACKLOG WHERE status = 'NEW' AND date_inserted < ? AND id <> ? ORDER BY date_inserted DESC, id DESC LIMIT 1000",
		update: "UPDATE BACKLOG SET status = 'SUCCESS' WHERE id IN (?" + strings.Repeat(", ?", benchPage-1) + ")",
		args:   func(keys []any) []any { return keys },
	},
}

// make fills a table as init would make it: n rows one second apart, the newest
// last. Those have failed that the condition on the number i of the row holds for.
func (s benchServer) make(tb testing.TB, n int, failed string) (plain *sql.DB, url string) {
	tb.Helper()
	ctx := context.Background()
	plain, url = s.open(tb)
	tb.Cleanup(func() { plain.Close() })
	steps, err := missing(ctx, url, plainMapping(), noon)
	if err == nil {
		err = create(ctx, url, steps[:1]) // the indexes are faster made afterwards
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.exec(tb, plain, fmt.Sprintf("INSERT INTO %s (id, status, date_inserted) SELECT i, CASE WHEN %s THEN 'ERROR' ELSE 'NEW' END, %s FROM %s",
		s.table, failed, fmt.Sprintf(s.age, fmt.Sprintf("%d - i", n)), s.numbers(n)))
	if err := create(ctx, url, steps[1:]); err != nil {
		tb.Fatal(err)
	}
	s.exec(tb, plain, s.settled...)
	return plain, url
}

func (benchServer) exec(tb testing.TB, plain *sql.DB, list ...string) {
	tb.Helper()
	for _, text := range list {
		if _, err := plain.Exec(text); err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
	}
}

// pass is the limit: a page is read by its keys and written by one update.
func (s benchServer) pass(tb testing.TB, plain *sql.DB) (n int) {
	read, err := plain.Prepare(s.page)
	if err != nil {
		tb.Fatal(err)
	}
	defer read.Close()
	write, err := plain.Prepare(s.update)
	if err != nil {
		tb.Fatal(err)
	}
	defer write.Close()
	at, id := "9999-01-01", int64(0)
	keys := make([]any, benchPage)
	for {
		rows, err := read.Query(at, id)
		if err != nil {
			tb.Fatal(err)
		}
		i := 0
		for ; rows.Next(); i++ {
			var status string
			if err := rows.Scan(&at, &id, &status); err != nil {
				tb.Fatal(err)
			}
			keys[i] = id
		}
		rows.Close()
		if i == 0 {
			return n
		}
		for rest := range keys[i:] {
			keys[i+rest] = id
		}
		res, err := write.Exec(s.args(keys)...)
		if err != nil {
			tb.Fatal(err)
		}
		done, _ := res.RowsAffected()
		n += int(done)
	}
}

// BenchmarkPassOnServers works off a million pending rows with a handler that
// does nothing. Limit: engine/bare >= 0.6.
func BenchmarkPassOnServers(b *testing.B) {
	for _, s := range benchServers {
		b.Run(s.name, func(b *testing.B) {
			n := benchSize(1_000_000)
			plain, url := s.make(b, n, "1 = 0")
			reset := func() {
				s.exec(b, plain, "UPDATE "+s.table+" SET status = 'NEW' WHERE status <> 'NEW'")
				s.exec(b, plain, s.settled...)
			}
			comparePasses(b, n, reset, func() int { return s.pass(b, plain) }, func() int { return enginePass(b, url) })
		})
	}
}

// BenchmarkFirstFreshOnServers is BenchmarkFirstFresh there.
func BenchmarkFirstFreshOnServers(b *testing.B) {
	for _, s := range benchServers {
		for _, n := range benchSizes(100_000, 10_000_000) {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				plain, url := s.make(b, n, "i % 10 = 0")
				// Of the others all but 100, spread over all ages, are done.
				s.exec(b, plain, fmt.Sprintf("UPDATE %s SET status = 'SUCCESS' WHERE status = 'NEW' AND id %% %d <> 1", s.table, n/100))
				s.exec(b, plain, s.settled...)
				compareFirstFresh(b, plain, url, s.first)
			})
		}
	}
}
