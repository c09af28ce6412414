package table_test

import (
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// A mysqlReader is a store that is kept open, and what it reads.
type mysqlReader struct {
	name  string
	parts int // of its query, one for each count of failures
	lane  backlog.Lane
	db    *db.DB
	store *table.Table
}

// TestMySQLPlansOverDays: statements that stay prepared while a table fills and
// is worked off read no more than their pages, whatever the statistics say that
// the server has made before or after.
func TestMySQLPlansOverDays(t *testing.T) {
	t.Parallel()
	const n, few, page = 30_000, 60, 1000
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		plain, rawURL := newMySQL(t)
		defer plain.Close()
		execMySQL(t, plain, `CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL, payload VARCHAR(200),
			failures INT NOT NULL DEFAULT 0, last_failure DATETIME, next_try DATETIME, in_retry INT NOT NULL DEFAULT 0)`)
		kinds, status := map[string]*backlog.Policy{"progressive": nil}, "NEW"
		if lane == backlog.Failed {
			kinds["counted"], kinds["planned"], status = fibonacci(), planning(3, time.Minute), "ERROR"
		}
		var readers []mysqlReader
		for name, policy := range kinds {
			m := plainMapping()
			if policy != nil {
				m = retryMapping(policy)
			}
			indexMySQL(t, plain, rawURL, m)
			r := mysqlReader{name: name + ", " + status, parts: 1, lane: lane}
			if name == "counted" {
				r.parts = 3
			}
			r.db, r.store = mysqlStore(t, rawURL, m)
			readers = append(readers, r)
		}
		for _, x := range []struct {
			state, change string
			pending       int
		}{
			{"empty", "DO 0", 0},
			{"every row pending", "INSERT INTO BACKLOG SELECT seq, '" + status + "', '2026-02-10 11:00:00' - INTERVAL seq SECOND, 'some payload', 1 + seq % 3, " +
				"'2026-02-09 11:00:00' - INTERVAL seq SECOND, '2026-02-09 12:00:00' - INTERVAL seq SECOND, 1 FROM seq_1_to_" + fmt.Sprint(n), n},
			{"every row pending, analyzed", "ANALYZE TABLE BACKLOG", n},
			{"hardly any pending", fmt.Sprintf("UPDATE BACKLOG SET status = 'SUCCESS' WHERE id %% %d <> 0", n/few), few},
			{"hardly any pending, analyzed", "ANALYZE TABLE BACKLOG", few},
		} {
			execMySQL(t, plain, x.change)
			for _, r := range readers {
				r.wantCheap(t, x.state, x.pending, page)
			}
		}
	}
}

// wantCheap reads the lane, its first page again and again. What a page reads is
// what its rows cost, a few times over where parts are merged, and not the table.
func (r mysqlReader) wantCheap(t *testing.T, state string, pending, page int) {
	t.Helper()
	what := r.name + ", " + state
	wantGoodPlans(t, what, r.store)
	most := 4*r.parts*min(pending, page) + 500
	began := mysqlReads(t, r.db)
	for range 8 {
		if _, err := r.store.Pending(t.Context(), backlog.Query{Lane: r.lane, Now: noon, Since: noon.Add(-ages), Limit: page}); err != nil {
			t.Fatal(err)
		}
	}
	if got := (mysqlReads(t, r.db) - began) / 8; got > most {
		t.Errorf("%s: %d reads for a first page of %d, want at most %d", what, got, page, most)
	}
	began = mysqlReads(t, r.db)
	records, _ := readAll(t, r.store, backlog.Query{Lane: r.lane, Limit: page})
	if len(records) != pending {
		t.Errorf("%s: %d records, want %d", what, len(records), pending)
	}
	pages := pending/page + 1
	if got := (mysqlReads(t, r.db) - began) / pages; got > most {
		t.Errorf("%s: %d reads for each of %d pages of %d, want at most %d", what, got, pages, page, most)
	}
}
