package table_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
	"backlog/backlog/table/sqlite"
	"backlog/internal/testkit"
)

// ownPool opens the database as a program does that has never heard of us.
func ownPool(tb testing.TB, driver, dsn string, connections int) *sql.DB {
	tb.Helper()
	db := testkit.OpenPool(tb, driver, dsn)
	db.SetMaxOpenConns(connections)
	return db
}

// pools are what programs open.
var pools = []struct {
	name, dsn   string // FILE stands for the path
	connections int
	journal     string
}{
	{"log", "FILE", 0, "wal"},
	{"log, one connection", "FILE", 1, "wal"},
	{"journal", "FILE", 0, "delete"},
	{"journal, one connection", "FILE", 1, "delete"},
	{"immediate", "file:FILE?_txlock=immediate", 3, "delete"},
	{"memory", ":memory:", 1, ""},
	{"shared memory", "file:FILE?mode=memory&cache=shared", 1, ""},
}

// eachPool runs the test on each of them.
func eachPool(t *testing.T, driver, script string, test func(t *testing.T, pool *sql.DB)) {
	for _, p := range pools {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			pool := ownPool(t, driver, strings.ReplaceAll(p.dsn, "FILE", path), p.connections)
			before := ""
			if p.journal != "" {
				before = "PRAGMA journal_mode = " + p.journal + "; "
			}
			if _, err := pool.Exec(before + script); err != nil {
				t.Fatal(err)
			}
			test(t, pool)
		})
	}
}

// TestOpenDBWorks passes whatever the pool is like, with a handler that uses it
// too.
func TestOpenDBWorks(t *testing.T) {
	eachPool(t, ownDriver, manyRows, func(t *testing.T, pool *sql.DB) {
		ctx := t.Context()
		s, err := table.OpenDB(ctx, pool, sqlite.Dialect, mapping.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		rep := pass(t, s, func(r *backlog.Record) error {
			var id int64
			if err := pool.QueryRowContext(ctx, "SELECT id FROM orders WHERE id = ?", r.Key.Part(0)).Scan(&id); errors.Is(err, sql.ErrNoRows) {
				t.Errorf("row %v is gone", r.Key)
			}
			if id, _ := r.Key.Part(0).(int64); id%3 == 0 {
				return errors.New("no")
			}
			return nil
		})
		if rep.Succeeded != 1600 || rep.Failed != 800 || !rep.Complete {
			t.Errorf("got %+v", rep)
		}
		if err := s.DB().Close(); err != nil { // the pool stays open
			t.Error(err)
		}
		var n int
		if err := pool.QueryRow("SELECT count(*) FROM orders WHERE status = CASE id % 3 WHEN 0 THEN 'ERROR' ELSE 'SUCCESS' END").Scan(&n); err != nil || n != 2400 {
			t.Errorf("%d rows are as they should be, %v", n, err)
		}
	})
}

// TestOpenDBHasTheLock from the start of each transaction: one that begins by
// reading can write, whatever others do.
func TestOpenDBHasTheLock(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		f := newFile(t, "PRAGMA journal_mode = "+mode+"; "+manyRows)
		s, err := table.OpenDB(t.Context(), ownPool(t, ownDriver, f.path, 2), sqlite.Dialect, mapping.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		wantOthersKeptOff(t, f, mode, s, ownPool(t, ownDriver, f.path, 1))
	}
}

// TestOpenDBWaitsForOthers: no busy timeout is set on the connections, and yet a
// lock is waited for, and its end is noticed soon.
func TestOpenDBWaitsForOthers(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		s, err := table.OpenDB(t.Context(), ownPool(t, ownDriver, f.path, 2), sqlite.Dialect, mapping.Mapping{Name: "BACKLOG"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		records := lane(t, s, backlog.Fresh)
		for range 3 {
			end := f.exclusive()
			time.AfterFunc(30*time.Millisecond, end)
			if err := settle(t, s, records[0], backlog.Errored, "no"); err != nil {
				t.Fatal(err)
			}
			records[0] = lane(t, s, backlog.Failed)[0]
			end = f.exclusive()
			time.AfterFunc(30*time.Millisecond, end)
			if n := len(lane(t, s, backlog.Fresh)); n != 2 {
				t.Errorf("%d fresh records, want 2", n)
			}
			end()
		}
	})
}

// TestOpenDBLocks: a file is locked for all programs, a database in memory for
// those who use the same pool.
func TestOpenDBLocks(t *testing.T) {
	use := func(pool *sql.DB, name string) *table.Table {
		s, err := table.OpenDB(t.Context(), pool, sqlite.Dialect, mapping.Mapping{Name: name}, noon)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f := newFile(t, manyRows)
	inFile := use(ownPool(t, ownDriver, f.path, 0), "orders")
	opened, err := f.open(mapping.Mapping{Name: "orders", ID: []string{"id"}, Status: "status", Inserted: mapping.Time{Column: "date_inserted"},
		New: mapping.Is("NEW"), Success: mapping.Is("SUCCESS")})
	if err != nil {
		t.Fatal(err)
	}
	held := lock(t, inFile)
	wantLocked(t, "file", opened)
	leader, err := opened.TryLock(t.Context(), backlog.LeaderLock)
	if err != nil {
		t.Fatal(err)
	}
	unlock(t, leader)
	unlock(t, held)
	unlock(t, lock(t, opened))
	memory := ownPool(t, ownDriver, ":memory:", 1)
	if _, err := memory.Exec(manyRows); err != nil {
		t.Fatal(err)
	}
	held = lock(t, use(memory, "orders"))
	wantLocked(t, "memory", use(memory, "ORDERS"))
	if err := held.Check(t.Context()); err != nil {
		t.Error(err)
	}
	unlock(t, held)
}

func TestOpenDBRefuses(t *testing.T) {
	file := func(script string) *sql.DB { return ownPool(t, ownDriver, newFile(t, script).path, 0) }
	for _, x := range []struct {
		name string
		pool *sql.DB
		m    mapping.Mapping
		want string
	}{
		{"another driver", sql.OpenDB(stranger{}), mapping.Mapping{Name: "orders"}, "the pool's driver is …; open it with …"},
		{"memory of many connections", ownPool(t, ownDriver, ":memory:", 2), mapping.Mapping{Name: "orders"},
			"the database is no file, and each connection of the pool may have one of its own; call its SetMaxOpenConns(1) before the first use"},
		{"memory without a limit", ownPool(t, ownDriver, ":memory:", 0), mapping.Mapping{Name: "orders"},
			"the database is no file, and each connection of the pool may have one of its own; call its SetMaxOpenConns(1) before the first use"},
		{"no name", file(manyRows), mapping.Mapping{}, "the mapping names no table; set Name of the mapping"},
		{"no table", ownPool(t, ownDriver, ":memory:", 1), mapping.Mapping{Name: "orders"},
			"table orders does not exist in :memory:; set table.name; `backlog init --create-table` creates it; there are no tables"},
		{"no waits", file(manyRows), mapping.Mapping{Name: "orders", Policy: &mapping.PolicyColumns{Count: "failures", Last: "last_failure"}},
			"policy: the mapping does not say how long a failed record waits; set Waits and Retries of the mapping's Policy to those of the engine's"},
		{"no key", file("CREATE TABLE orders (no, status, date_inserted)"), mapping.Mapping{Name: "orders"},
			`table.id: table orders has no column "id"; the columns are: no, status, date_inserted`},
		{"no times", file("CREATE TABLE orders (id INTEGER PRIMARY KEY, status, date_inserted); INSERT INTO orders VALUES (1, 'NEW', 'soon')"), mapping.Mapping{Name: "orders"},
			"table orders: column date_inserted: …"},
		{"read only", ownPool(t, ownDriver, "file:"+newFile(t, manyRows).path+"?mode=ro", 0), mapping.Mapping{Name: "orders"},
			"the database … cannot be written to: …; give this user the right to write the file, and to create others in its folder"},
	} {
		_, err := table.OpenDB(t.Context(), x.pool, sqlite.Dialect, x.m, noon)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !testkit.Matches(err.Error(), x.want) {
			t.Errorf("%s: got %v\nwant %s", x.name, err, x.want)
		}
	}
}

// A stranger is a driver whose errors have no code.
type stranger struct{}

func (stranger) Connect(context.Context) (driver.Conn, error) { return strangeConn{}, nil }
func (s stranger) Driver() driver.Driver                      { return s }
func (stranger) Open(string) (driver.Conn, error)             { return nil, errors.New("not this way") }

type strangeConn struct{ driver.Conn }

func (strangeConn) Close() error { return nil }

func (strangeConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return nil, errors.New("near SELECT: syntax error")
}

func (strangeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &strangeRows{}, nil
}

// strangeRows are the name of a file.
type strangeRows struct{ done bool }

func (*strangeRows) Columns() []string { return []string{"file"} }
func (*strangeRows) Close() error      { return nil }

func (r *strangeRows) Next(to []driver.Value) error {
	if r.done {
		return io.EOF
	}
	to[0], r.done = "/a.db", true
	return nil
}

// newUsedHarness returns a harness whose store is on a pool of the program's. The
// one connection to a database in memory is shared with the suite.
func newUsedHarness(t *testing.T, want storetest.Table, memory bool) *harness {
	h := newHarness(t, onSQLite, timeForms[0], want)
	h.dialect = sqlite.Dialect
	if !memory {
		unsafe := map[string]string{"sqlite": "?_pragma=synchronous(off)", "sqlite3": "?_synchronous=off"}[ownDriver] // as fast
		h.pool = ownPool(t, ownDriver, "file:"+strings.NewReplacer("#", "%23", "?", "%3f").Replace(strings.TrimPrefix(h.url, "sqlite:"))+unsafe, 0)
		return h
	}
	var script string
	if err := h.plain.QueryRow("SELECT sql FROM sqlite_master WHERE type = 'table'").Scan(&script); err != nil {
		t.Fatal(err)
	}
	h.plain = ownPool(t, ownDriver, ":memory:", 1)
	h.exec(script)
	h.pool = h.plain
	return h
}

// TestStoreOfAPool runs the conformance suite on pools of programs.
func TestStoreOfAPool(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]bool{"memory": true, "file": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, shared(t, func(t *testing.T, want storetest.Table) *harness { return newUsedHarness(t, want, memory) }))
		})
	}
}
