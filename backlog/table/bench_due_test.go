package table_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

// BenchmarkFirstDue is the time to select the first page of the failed lane,
// with a tenth of the table failed of which 1,000 are due, or all, against bare
// seeks, one for each number of failures, that are merged in Go. Limit: at most
// 3 times.
func BenchmarkFirstDue(b *testing.B) {
	for _, n := range benchSizes(1_000_000, 10_000_000) {
		for _, due := range slices.Compact([]int{1000, n / 10}) {
			b.Run(fmt.Sprintf("%d/%d", n, due), func(b *testing.B) { benchFirstDue(b, n, due) })
		}
	}
}

func benchFirstDue(b *testing.B, n, due int) {
	ctx, p := context.Background(), fibonacci()
	m := retryMapping(p)
	path := dueTable(b, m, p, n, due)
	db, err := openDB(ctx, "sqlite:"+path, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	t, err := table.New(ctx, db, m)
	if err == nil {
		err = t.Prove(ctx, benchNow)
	}
	if err != nil {
		b.Fatal(err)
	}
	plain := openPlain(b, path)
	defer plain.Close()
	seeks := bareSeeks(b, plain, p)
	q := backlog.Query{Lane: backlog.Failed, Now: benchNow, Since: benchNow.Add(-ages), Limit: duePage}
	var bare, engine []float64
	for b.Loop() {
		for range 21 {
			start := time.Now()
			want := bareDue(b, seeks)
			bare = append(bare, time.Since(start).Seconds()*1000)
			start = time.Now()
			page, err := t.Pending(ctx, q)
			engine = append(engine, time.Since(start).Seconds()*1000)
			if err != nil {
				b.Fatal(err)
			}
			same := slices.EqualFunc(page.Records, want, func(r backlog.Record, row dueRow) bool { return r.Key.Part(0) == row.id })
			if !same || len(want) != duePage {
				b.Fatalf("%d records, and %d by bare seeks; or not the same ones", len(page.Records), len(want))
			}
		}
	}
	b.ReportMetric(median(bare), "bare-ms")
	b.ReportMetric(median(engine), "first-page-ms")
	b.ReportMetric(median(engine)/median(bare), "engine/bare")
}

const duePage = 1000

// dueTable fills a table as init would make it.
func dueTable(b *testing.B, m mapping.Mapping, p *backlog.Policy, n, due int) (path string) {
	b.Helper()
	ctx := context.Background()
	path = filepath.Join(b.TempDir(), "bench.db")
	steps, err := missing(ctx, "sqlite:"+path, m, noon)
	if err == nil {
		err = create(ctx, "sqlite:"+path, steps[:2]) // the indexes are faster made afterwards
	}
	if err != nil {
		b.Fatal(err)
	}
	db := openPlain(b, path)
	defer db.Close()
	exec := func(text string, args ...any) {
		if _, err := db.Exec(text, args...); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
	}
	exec("CREATE TABLE waits (n INTEGER PRIMARY KEY, seconds INTEGER)")
	for k := 1; k <= 30; k++ {
		exec("INSERT INTO waits VALUES (?, ?)", k, int(p.Draw(k, 0).Seconds()))
	}
	// What is due has been so for an hour at most, the rest will be within one.
	exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %[1]d)
		INSERT INTO BACKLOG (id, status, date_inserted, failures, last_failure)
		SELECT i, CASE WHEN i %% 10 = 0 THEN 'ERROR' ELSE 'SUCCESS' END, datetime('2026-01-01', (i - %[1]d) || ' seconds'), CASE WHEN i %% 10 = 0 THEN 1 + (i / 10 + i / 7777) %% 30 ELSE 0 END,
			CASE WHEN i %% 10 = 0 THEN datetime('%[2]s', (SELECT CASE WHEN i / 10 %% %[3]d = 0 THEN -(i %% 3600) ELSE 60 + i %% 3600 END - seconds FROM waits WHERE n = 1 + (i / 10 + i / 7777) %% 30) || ' seconds') END
		FROM s`, n, benchNow.Format(time.DateTime), n/10/due))
	if err := create(ctx, "sqlite:"+path, steps[2:]); err != nil {
		b.Fatal(err)
	}
	return path
}

type dueRow struct {
	id, failures           int64
	status, inserted, last string
}

// A bareSeek is the statement for one number of failures.
type bareSeek struct {
	stmt  *sql.Stmt
	until string
}

func bareSeeks(b *testing.B, db *sql.DB, p *backlog.Policy) (list []bareSeek) {
	waits := p.Waits()
	for k := 1; k < len(waits); k++ {
		cond := fmt.Sprintf("failures = %d", k)
		if k == len(waits)-1 {
			cond = fmt.Sprintf("(failures >= %d) IS TRUE", k) // as the index has it
		}
		stmt, err := db.Prepare(fmt.Sprintf(`SELECT id, status, +date_inserted, failures, +last_failure FROM BACKLOG
			WHERE status = 'ERROR' AND %s AND last_failure <= ? ORDER BY last_failure, id LIMIT %d`, cond, duePage))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { stmt.Close() })
		list = append(list, bareSeek{stmt, benchNow.Add(-waits[k]).Format(time.DateTime)})
	}
	return list
}

// bareDue returns what is due first.
func bareDue(b *testing.B, seeks []bareSeek) (all []dueRow) {
	for _, s := range seeks {
		rows, err := s.stmt.Query(s.until)
		if err != nil {
			b.Fatal(err)
		}
		for rows.Next() {
			var r dueRow
			if err := rows.Scan(&r.id, &r.status, &r.inserted, &r.failures, &r.last); err != nil {
				b.Fatal(err)
			}
			all = append(all, r)
		}
		rows.Close()
	}
	slices.SortFunc(all, func(a, b dueRow) int { return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.id, b.id)) })
	return all[:min(duePage, len(all))]
}
