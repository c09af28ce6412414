package table_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/doctor"
)

// mysqlStore opens the table as passes do, on one connection only.
func mysqlStore(tb testing.TB, rawURL string, m mapping.Mapping) (*db.DB, *table.Table) {
	tb.Helper()
	db, err := openDB(tb.Context(), rawURL, table.Options{Pool: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	s, err := table.New(tb.Context(), db, m)
	if err == nil {
		err = s.Prove(tb.Context(), noon)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return db, s
}

var mysqlSequence = regexp.MustCompile(`seq_1_to_[0-9]+`)

// execMySQL runs a statement, in which seq_1_to_N is a table of the numbers from
// 1 to N, as MariaDB has them and MySQL has not.
func execMySQL(tb testing.TB, db *sql.DB, text string, args ...any) {
	tb.Helper()
	text = mysqlSequence.ReplaceAllStringFunc(text, func(name string) string {
		n := strings.TrimPrefix(name, "seq_1_to_")
		sum, from := "1", ""
		for i := range n {
			sum += fmt.Sprintf(" + t%d.d * 1e%d", i, i)
			from += fmt.Sprintf(", digits t%d", i)
		}
		return "(WITH digits(d) AS (SELECT 0 UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) " +
			"SELECT CAST(" + sum + " AS SIGNED) AS seq FROM " + from[2:] + " HAVING seq <= " + n + ") AS " + name
	})
	if _, err := db.Exec(text, args...); err != nil {
		tb.Fatalf("%.200s: %v", text, err)
	}
}

// mysqlReads returns how many rows and entries of indexes the connection has
// read.
func mysqlReads(tb testing.TB, db *db.DB) (total int) {
	tb.Helper()
	rows, err := db.Read.Query("SHOW SESSION STATUS LIKE 'Handler_read%'")
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			tb.Fatal(err)
		}
		if name != "Handler_read_rnd_deleted" {
			total += n
		}
	}
	return total
}

// indexMySQL does what init does.
func indexMySQL(tb testing.TB, plain *sql.DB, rawURL string, m mapping.Mapping) {
	tb.Helper()
	_, s := mysqlStore(tb, rawURL, m)
	steps, err := doctor.MissingIndexes(tb.Context(), s, noon)
	if err != nil {
		tb.Fatal(err)
	}
	for _, step := range steps {
		execMySQL(tb, plain, step)
	}
}

// TestMySQLPagesAreRead: with the index to have, a page costs what its rows
// cost, wherever in the lane it is and whatever the planner knows.
func TestMySQLPagesAreRead(t *testing.T) {
	const n, page = 6000, 200
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	for i, x := range []struct {
		name, status, failures, last string
		policy                       *backlog.Policy
		lane                         backlog.Lane
		want                         int
	}{
		{"every row new", "'NEW'", "0", "2026-02-09", nil, backlog.Fresh, n},
		{"hardly any new", "IF(seq % 100 = 0, 'NEW', 'SUCCESS')", "0", "2026-02-09", nil, backlog.Fresh, n / 100},
		{"two statuses", "IF(seq % 2 = 0, 'NEW', 'AGAIN')", "0", "2026-02-09", nil, backlog.Fresh, n},
		{"all failed", "'ERROR'", "1", "2026-02-09", nil, backlog.Failed, n},
		{"counted, all failed once", "'ERROR'", "1", "2026-02-09", fibonacci(), backlog.Failed, n},
		{"counted, all failed often", "'ERROR'", "90", "2025-11-01", fibonacci(), backlog.Failed, n},
		{"planned", "'ERROR'", "1", "2026-02-09", planning(3, time.Minute), backlog.Failed, n},
	} {
		name := fmt.Sprintf("t%d", i)
		execMySQL(t, plain, "CREATE TABLE "+name+` (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL, payload VARCHAR(200),
			failures INT NOT NULL DEFAULT 0, last_failure DATETIME, next_try DATETIME, in_retry INT NOT NULL DEFAULT 0)`)
		execMySQL(t, plain, "INSERT INTO "+name+" SELECT seq, "+x.status+", '2026-02-10 11:00:00' - INTERVAL seq SECOND, 'some payload', "+x.failures+
			", '"+x.last+" 11:00:00' - INTERVAL seq SECOND, '2026-02-09 12:00:00' - INTERVAL seq SECOND, 1 FROM seq_1_to_"+fmt.Sprint(n))
		m := plainMapping()
		if x.policy != nil {
			m = retryMapping(x.policy)
		}
		m.Name, m.New = name, is(text("NEW"), text("AGAIN"))
		indexMySQL(t, plain, rawURL, m)
		for _, before := range []string{"SELECT 1", "ANALYZE TABLE " + name} {
			execMySQL(t, plain, before)
			db, s := mysqlStore(t, rawURL, m)
			wantGoodPlans(t, x.name, s)
			for range 2 { // each page's statement is run many times
				began := mysqlReads(t, db)
				records, _ := readAll(t, s, backlog.Query{Lane: x.lane, Limit: page})
				if len(records) != x.want {
					t.Errorf("%s: %d records, want %d", x.name, len(records), x.want)
				}
				// Rows of merged parts are read once more, and then sorted.
				if got, most := mysqlReads(t, db)-began, 5*x.want+3*page*(x.want/page+1)+500; got > most {
					t.Errorf("%s, %s: %d reads for %d rows in pages of %d, want at most %d", x.name, before, got, x.want, page, most)
				}
			}
			db.Close()
		}
	}
}

// TestMySQLLongStatus: an index is not asked for again and again that cannot
// serve.
func TestMySQLLongStatus(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status TEXT NOT NULL, date_inserted DATETIME NOT NULL)")
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' - INTERVAL seq SECOND FROM seq_1_to_6000")
	indexMySQL(t, plain, rawURL, plainMapping())
	_, s := mysqlStore(t, rawURL, plainMapping())
	wantGoodPlans(t, "a status that is TEXT", s)
	if notes := s.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "column status is text, of which an index has only the beginnings") {
		t.Errorf("the notes are %q", notes)
	}
	if records, _ := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: 2000}); len(records) != 6000 {
		t.Errorf("got %d records", len(records))
	}
}

// TestMySQLPlans: what is wrong is said with its cure, which cures it; where the
// index is gone again, the pages are still read.
func TestMySQLPlans(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL, queue VARCHAR(20))")
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' - INTERVAL seq SECOND, 'mail' FROM seq_1_to_20000")
	mail := plainMapping()
	mail.Where = []mapping.Condition{cond("queue", text("mail"))}
	for _, x := range []struct {
		m     mapping.Mapping
		index string
		bad   string
	}{
		{plainMapping(), "", "no index serves its pages"},
		{plainMapping(), "CREATE INDEX x ON BACKLOG (status)", "no index serves its pages"},
		{mail, "CREATE INDEX x ON BACKLOG (status, date_inserted)", "no index serves its pages"},
	} {
		if x.index != "" {
			execMySQL(t, plain, x.index)
		}
		_, s := mysqlStore(t, rawURL, x.m)
		p := plans(t, s)[0]
		if p.Problem != x.bad || !strings.HasPrefix(p.Hint, "CREATE INDEX `BACKLOG_backlog_") {
			t.Errorf("%s: got %q and the cure %s, want %q, by %q", x.index, p.Problem, p.Hint, x.bad, p.Steps)
		}
		steps, err := doctor.MissingIndexes(t.Context(), s, noon)
		if err != nil || len(steps) != 1 {
			t.Fatalf("%s: the indexes of both states are %q, %v, want one", x.index, steps, err)
		}
		execMySQL(t, plain, steps[0])
		_, cured := mysqlStore(t, rawURL, x.m)
		wantGoodPlans(t, x.index+", cured", cured)
		if steps, err := doctor.MissingIndexes(t.Context(), cured, noon); len(steps) > 0 || err != nil {
			t.Errorf("%s: after init there are still missing: %q, %v", x.index, steps, err)
		}
		execMySQL(t, plain, strings.Replace(strings.Split(steps[0], " ON ")[0], "CREATE", "DROP", 1)+" ON BACKLOG")
		records, _ := readAll(t, cured, backlog.Query{Lane: backlog.Fresh, Limit: 5000})
		if len(records) != 20000 {
			t.Errorf("%s: without the index there are %d records", x.index, len(records))
		}
		if x.index != "" {
			execMySQL(t, plain, "DROP INDEX x ON BACKLOG")
		}
	}
}

// TestMySQLDescendingIndexes serve if all of their order is turned round.
func TestMySQLDescendingIndexes(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL)")
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' - INTERVAL seq SECOND FROM seq_1_to_20000")
	for _, x := range []struct{ index, bad string }{
		{"b ON BACKLOG (status, date_inserted DESC)", "no index serves its pages"},
		{"a ON BACKLOG (status, date_inserted DESC, id)", "no index serves its pages"},
		{"c ON BACKLOG (status, date_inserted DESC, id DESC)", ""}, // beside those that do not
	} {
		execMySQL(t, plain, "CREATE INDEX "+x.index)
		_, s := mysqlStore(t, rawURL, plainMapping())
		if p := plans(t, s)[0]; p.Problem != x.bad {
			t.Errorf("%s: got %q, want %q, by %q", x.index, p.Problem, x.bad, p.Steps)
		}
	}
	db, s := mysqlStore(t, rawURL, plainMapping())
	began := mysqlReads(t, db)
	if records, _ := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: 1000}); len(records) != 20000 {
		t.Errorf("%d records", len(records))
	}
	if got := mysqlReads(t, db) - began; got > 80_000 {
		t.Errorf("%d reads for 20,000 rows in pages of 1,000", got)
	}
}
