package table_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// newPostgresDatabase is newPostgresSchema in a database of its own: what a transaction
// of somebody else's that only reads keeps from being cleaned up is in his.
func newPostgresDatabase(t *testing.T, create ...string) *postgresSchema {
	t.Helper()
	return newPostgresDatabaseWith(t, "", create...)
}

// newPostgresDatabaseWith is newPostgresDatabase with options of CREATE DATABASE.
func newPostgresDatabaseWith(t *testing.T, options string, create ...string) *postgresSchema {
	t.Helper()
	admin, _ := openPostgres(t)
	name := "backlog_test_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.Exec("CREATE DATABASE " + name + " TEMPLATE template0 " + options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(postgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	q := u.Query()
	q.Set("timezone", "UTC")
	u.RawQuery = q.Encode()
	plain := testkit.OpenPool(t, "pgx", u.String())
	plain.SetMaxOpenConns(1) // whose counts of what it has read are asked for
	s := &postgresSchema{t, plain, u.String()}
	s.exec(create...)
	return s
}

// settled waits until every transaction that began before now, in whatever database, has
// ended. Until then snapshots may still see the old versions of rows, so that whoever
// reads an index goes through them each time.
func (s *postgresSchema) settled() {
	s.Helper()
	var now int64
	if err := s.plain.QueryRow("SELECT txid_current()").Scan(&now); err != nil {
		s.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var done bool
		err := s.plain.QueryRow(`SELECT txid_snapshot_xmin(txid_current_snapshot()) > $1
			AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid())`, now).Scan(&done)
		if err != nil {
			s.Fatal(err)
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			s.Fatal("a transaction goes on for a minute")
		}
	}
}

// A postgresReader is a store that is kept open, with its only session.
type postgresReader struct {
	s     *postgresSchema
	name  string
	parts int // of its query, one for each count of failures
	lane  backlog.Lane
	pool  *sql.DB
	store *table.Table
}

// TestPostgresPlansOverDays: statements that one session has prepared, and runs
// again and again while a table fills and is worked off, read no more than their
// pages, whatever the statistics say that were made before or after. With the
// latest ones that is so for plans for any arguments, too. Only before there are
// any at all, which takes the server a minute, a page may cost what it likes.
func TestPostgresPlansOverDays(t *testing.T) {
	t.Parallel()
	const n, few, page = 30_000, 60, 1000
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		s := newPostgresDatabase(t, `CREATE TABLE "BACKLOG" (id bigint PRIMARY KEY, status text NOT NULL, date_inserted timestamptz NOT NULL, payload text,
			failures int NOT NULL DEFAULT 0, last_failure timestamptz, next_try timestamptz, in_retry boolean NOT NULL DEFAULT false) WITH (autovacuum_enabled = off)`)
		kinds, status := map[string]*backlog.Policy{"progressive": nil}, "NEW"
		if lane == backlog.Failed {
			kinds["counted"], kinds["planned"], status = fibonacci(), planning(3, time.Minute), "ERROR"
		}
		var readers []postgresReader
		for name, policy := range kinds {
			r := s.reader(policy)
			r.name, r.lane = name+", "+status, lane
			if name == "counted" {
				r.parts = 3
			}
			readers = append(readers, r)
		}
		for _, x := range []struct {
			state, change string
			pending       int
			known         bool // to the planner, at least once
			analyzed      bool
		}{
			{state: "empty", change: "SELECT", pending: 0, known: true},
			{
				state: "every row pending",
				change: fmt.Sprintf(`INSERT INTO "BACKLOG" SELECT i, '%s', '2026-02-10 11:00Z'::timestamptz - i * interval '1 s', repeat('x', 100), 1 + i %% 3,
				'2026-02-09 11:00Z'::timestamptz - i * interval '1 s', '2026-02-09 12:00Z'::timestamptz - i * interval '1 s', true FROM generate_series(1, %d) i`, status, n),
				pending: n,
			},
			{state: "every row pending, analyzed", change: "ANALYZE", pending: n, known: true, analyzed: true},
			{
				state:   "hardly any pending",
				change:  fmt.Sprintf(`UPDATE "BACKLOG" SET status = 'SUCCESS' WHERE id %% %d <> 0`, n/few),
				pending: few,
				known:   true,
			},
			{state: "hardly any pending, analyzed", change: "VACUUM ANALYZE", pending: few, known: true, analyzed: true},
		} {
			s.exec(x.change)
			s.settled()
			for _, r := range readers {
				wantGoodPlans(t, r.name+", "+x.state, r.store)
				if x.known {
					r.wantCheap(x.state, x.pending, page)
				} else {
					r.wantAll(x.state, x.pending, page)
				}
				if x.analyzed {
					s.wantCheap(r.name+", "+x.state, r.store.Statements())
				}
			}
		}
	}
}

// reader returns a store with the indexes that it wants.
func (s *postgresSchema) reader(policy *backlog.Policy) postgresReader {
	s.Helper()
	ctx := context.Background()
	m := plainMapping()
	if policy != nil {
		m = retryMapping(policy)
	}
	steps, err := missing(ctx, s.url, m, noon)
	if err == nil {
		err = create(ctx, s.url, steps)
	}
	if err != nil {
		s.Fatal(err)
	}
	db, err := openDB(ctx, s.url, table.Options{Pool: 1})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { db.Close() })
	store, err := table.New(ctx, db, m)
	if err == nil {
		err = store.Prove(ctx, noon)
	}
	if err != nil {
		s.Fatal(err)
	}
	return postgresReader{s: s, parts: 1, pool: db.Read, store: store}
}

// wantAll reads the lane to its end.
func (r postgresReader) wantAll(state string, pending, page int) {
	r.s.Helper()
	if records, _ := readAll(r.s, r.store, backlog.Query{Lane: r.lane, Limit: page}); len(records) != pending {
		r.s.Errorf("%s, %s: %d records, want %d", r.name, state, len(records), pending)
	}
	r.reads()
}

// wantCheap reads the lane, its first page again and again. What a page reads is
// what its rows cost, a few times over where parts are merged, and not the table.
func (r postgresReader) wantCheap(state string, pending, page int) {
	t := r.s
	t.Helper()
	what := r.name + ", " + state
	first := func() {
		if _, err := r.store.Pending(context.Background(), backlog.Query{Lane: r.lane, Now: noon, Since: noon.Add(-ages), Limit: page}); err != nil {
			t.Fatal(err)
		}
	}
	most := 4*r.parts*min(pending, page) + 1000
	began := r.reads()
	for range 8 {
		first()
	}
	if got := (r.reads() - began) / 8; got > most {
		t.Errorf("%s: %d reads for a first page of %d, want at most %d", what, got, page, most)
	}
	began = r.reads()
	r.wantAll(state, pending, page)
	pages := pending/page + 1
	if got := (r.reads() - began) / pages; got > most {
		t.Errorf("%s: %d reads for each of %d pages of %d, want at most %d", what, got, pages, page, most)
	}
}

// reads returns how many rows and blocks of the table have been read, if all
// sessions but the reader's and the test's own were asked since their last ones.
func (r postgresReader) reads() (n int) {
	t := r.s
	t.Helper()
	for _, db := range []*sql.DB{t.plain, r.pool} {
		if _, err := db.Exec("SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
	}
	err := t.plain.QueryRow(`SELECT seq_tup_read + idx_tup_fetch + heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
		FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid) WHERE relid = '"BACKLOG"'::regclass`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
