package table_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
)

// ownDriver is the name under which the driver of this package is registered.
var ownDriver = map[bool]string{false: "sqlite", true: "sqlite3"}[strings.Contains(table.SQLiteDriver, "mattn")]

// ownPool opens the database as a program does that has never heard of us.
func ownPool(tb testing.TB, driver, dsn string, connections int) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
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

// manyRows makes a table of 2,400 rows, every third of which fails.
const manyRows = `CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2400)
		INSERT INTO orders SELECT i, 'NEW', datetime('2026-02-10 11:00:00', (-i) || ' seconds') FROM s`

// TestUseWorks passes whatever the pool is like, with a handler that uses it
// too, and leaves it as it was.
func TestUseWorks(t *testing.T) { testUse(t, ownDriver) }

func testUse(t *testing.T, driver string) {
	eachPool(t, driver, manyRows, func(t *testing.T, pool *sql.DB) {
		ctx := t.Context()
		before, connections := timeouts(t, pool), pool.Stats().MaxOpenConnections
		s, err := table.Use(ctx, pool, table.Mapping{Name: "orders"}, noon)
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
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := timeouts(t, pool); got != before || pool.Stats().MaxOpenConnections != connections {
			t.Errorf("the pool has busy timeouts %v and %d connections, it had %v and %d", got, pool.Stats().MaxOpenConnections, before, connections)
		}
		var n int
		if err := pool.QueryRow("SELECT count(*) FROM orders WHERE status = CASE id % 3 WHEN 0 THEN 'ERROR' ELSE 'SUCCESS' END").Scan(&n); err != nil || n != 2400 {
			t.Errorf("%d rows are as they should be, %v", n, err)
		}
	})
}

// timeouts returns the busy timeouts of the pool's connections, as far as they
// can be had at once.
func timeouts(tb testing.TB, pool *sql.DB) (list [3]int) {
	tb.Helper()
	n := min(pool.Stats().MaxOpenConnections, len(list))
	if n == 0 {
		n = len(list)
	}
	for i := range n {
		c, err := pool.Conn(context.Background())
		if err == nil {
			defer c.Close()
			err = c.QueryRowContext(context.Background(), "PRAGMA busy_timeout").Scan(&list[i])
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return list
}

// TestUseHasTheLock from the start of each transaction: one that begins by
// reading can write, whatever others do.
func TestUseHasTheLock(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		f := newFile(t, "PRAGMA journal_mode = "+mode+"; "+manyRows)
		s, err := table.Use(t.Context(), ownPool(t, ownDriver, f.path, 2), table.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		other := ownPool(t, ownDriver, f.path, 1)
		if _, err := other.Exec("PRAGMA busy_timeout = 0"); err != nil {
			t.Fatal(err)
		}
		err = s.InTx(t.Context(), func(tx *sql.Tx) error {
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil {
				return err
			}
			if _, err := other.Exec("UPDATE orders SET status = 'DONE'"); err == nil {
				t.Errorf("%s: another program has written during the transaction", mode)
			}
			_, err := tx.Exec("UPDATE orders SET status = ?", n)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		f.wantRows("SELECT status, count(*) FROM orders GROUP BY 1", "'2400' 2400")
	}
}

// TestUseWaitsForOthers: no busy timeout is set on the connections, and yet a
// lock is waited for, and its end is noticed soon.
func TestUseWaitsForOthers(t *testing.T) {
	eachJournal(t, 3, func(t *testing.T, f *file, wal bool) {
		s, err := table.Use(t.Context(), ownPool(t, ownDriver, f.path, 2), table.Mapping{Name: "BACKLOG"}, noon)
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

// TestUseEndsItsWaitWithTheContext and leaves the connection as it was.
func TestUseEndsItsWaitWithTheContext(t *testing.T) {
	f := newFile(t, manyRows)
	pool := ownPool(t, ownDriver, f.path, 1)
	s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	records, before := lane(t, s, backlog.Fresh), timeouts(t, pool)
	end := f.exclusive()
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Settle(ctx, []backlog.Settlement{{Record: &records[0], At: noon}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := timeouts(t, pool); got != before {
		t.Errorf("the busy timeouts are %v, they were %v", got, before)
	}
}

// TestUseLocks: a file is locked for all programs, a database in memory for
// those who use the same pool.
func TestUseLocks(t *testing.T) {
	use := func(pool *sql.DB, name string) *table.Table {
		s, err := table.Use(t.Context(), pool, table.Mapping{Name: name}, noon)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f := newFile(t, manyRows)
	inFile := use(ownPool(t, ownDriver, f.path, 0), "orders")
	opened, err := f.open(table.Mapping{Name: "orders", ID: []string{"id"}, Status: "status", Inserted: table.Time{Column: "date_inserted"},
		New: table.Is("NEW"), Success: table.Is("SUCCESS")})
	if err != nil {
		t.Fatal(err)
	}
	memory := ownPool(t, ownDriver, ":memory:", 1)
	if _, err := memory.Exec(manyRows + "; CREATE TABLE other AS SELECT * FROM orders; CREATE UNIQUE INDEX o ON other (id)"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name          string
		first, second backlog.Locker
	}{
		{"file", inFile, opened},
		{"memory", use(memory, "orders"), use(memory, "ORDERS")},
	} {
		held := lock(t, x.first)
		wantLocked(t, x.name, x.second)
		leader, err := x.second.TryLock(t.Context(), backlog.LeaderLock)
		if err != nil {
			t.Errorf("%s: the other lock: %v", x.name, err)
		}
		unlock(t, leader)
		unlock(t, held)
		unlock(t, lock(t, x.second))
	}
	held := lock(t, use(memory, "orders"))
	unlock(t, lock(t, use(memory, "other")))
	unlock(t, held)
}

func TestUseRefuses(t *testing.T) {
	file := func(script string) *sql.DB { return ownPool(t, ownDriver, newFile(t, script).path, 0) }
	closed := file("")
	closed.Close()
	const cure = "; open it with modernc.org/sqlite, github.com/mattn/go-sqlite3, github.com/jackc/pgx/v5/stdlib or github.com/go-sql-driver/mysql"
	for _, x := range []struct {
		name string
		pool *sql.DB
		m    table.Mapping
		want string
	}{
		{"another kind", sql.OpenDB(stranger{}), table.Mapping{Name: "orders"}, "the pool does not answer as a database does that is known" + cure},
		{"closed", closed, table.Mapping{Name: "orders"}, "the pool does not answer as a database does that is known: sql: database is closed" + cure},
		{"memory of many connections", ownPool(t, ownDriver, ":memory:", 2), table.Mapping{Name: "orders"},
			"the database is no file, and each connection of the pool may have one of its own; call its SetMaxOpenConns(1) before the first use"},
		{"memory without a limit", ownPool(t, ownDriver, ":memory:", 0), table.Mapping{Name: "orders"},
			"the database is no file, and each connection of the pool may have one of its own; call its SetMaxOpenConns(1) before the first use"},
		{"no name", file(manyRows), table.Mapping{}, "the mapping names no table; set Name of the mapping"},
		{"no table", ownPool(t, ownDriver, ":memory:", 1), table.Mapping{Name: "orders"},
			"there is no table orders in :memory:; set table.name, or let `backlog init` create it; there are no tables"},
		{"no waits", file(manyRows), table.Mapping{Name: "orders", Retry: &table.Retry{Count: "failures", Last: "last_failure"}},
			"policy: the mapping does not say how long a failed record waits; set Waits and Retries of the mapping's Retry to those of the engine's Policy"},
		{"no key", file("CREATE TABLE orders (no, status, date_inserted)"), table.Mapping{Name: "orders"},
			`table.id: table orders has no column "id"; the columns are: no, status, date_inserted`},
		{"no times", file("CREATE TABLE orders (id INTEGER PRIMARY KEY, status, date_inserted); INSERT INTO orders VALUES (1, 'NEW', 'soon')"), table.Mapping{Name: "orders"},
			"table orders: column date_inserted: …"},
		{"no such status", file("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('NEW', 'SUCCESS')), date_inserted)"), table.Mapping{Name: "orders"},
			"statuses.error: table orders does not take …"},
		{"read only", ownPool(t, ownDriver, "file:"+newFile(t, manyRows).path+"?mode=ro", 0), table.Mapping{Name: "orders"},
			"the database … cannot be written to: …; open it so that it can be written to, and let this user create files in its folder"},
	} {
		_, err := table.Use(t.Context(), x.pool, x.m, noon)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !matches(err.Error(), x.want) {
			t.Errorf("%s: got %v\nwant %s", x.name, err, x.want)
		}
	}
}

// A stranger is a driver of another kind of database, and says too much.
type stranger struct{}

func (stranger) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("cannot reach me:s3cret@host")
}
func (s stranger) Driver() driver.Driver          { return s }
func (stranger) Open(string) (driver.Conn, error) { return nil, errors.New("not this way") }

func TestIs(t *testing.T) {
	f := newFile(t, `CREATE TABLE orders (id INTEGER PRIMARY KEY, state INTEGER, word TEXT, date_inserted TEXT);
		INSERT INTO orders VALUES (1, 0, 'now', '2026-02-10 11:00:00'), (2, 7, '+1', '2026-02-10 11:00:00'), (3, 5, 'x', '2026-02-10 11:00:00')`)
	for _, x := range []struct {
		m    table.Mapping
		want string
	}{
		{table.Mapping{Status: "state", New: table.Is("0", "7"), Error: table.Is("8"), Success: table.Is("9")}, "2 1"},
		{table.Mapping{Status: "word", New: table.Is("+1", "x"), Error: table.Is("+2"), Success: table.Is("now")}, "3 2"},
	} {
		x.m.Name = "orders"
		s, err := table.Use(t.Context(), ownPool(t, ownDriver, f.path, 0), x.m, noon)
		if err != nil {
			t.Fatal(err)
		}
		records := lane(t, s, backlog.Fresh)
		wantKeys(t, x.m.Status, records, x.want)
		if err := settle(t, s, records[0], backlog.Succeeded, ""); err != nil {
			t.Error(err)
		}
	}
	f.wantRows("SELECT state, word FROM orders", "0 'now'", "9 '+1'", "5 'now'")
}

// A usedHarness is a harness whose store is on a pool of the program's.
type usedHarness struct {
	*harness
	pool *sql.DB
	used backlog.Store
}

func (h *usedHarness) Store() backlog.Store {
	if h.used == nil {
		s, err := h.Open()
		if err != nil {
			h.t.Fatal(err)
		}
		h.used = s
	}
	return h.used
}

func (h *usedHarness) Open() (backlog.Store, error) {
	return table.Use(context.Background(), h.pool, h.mapping(), noon)
}

// newUsedHarness returns one on a database of its own. The one connection to a
// database in memory is shared with the suite.
func newUsedHarness(t *testing.T, want storetest.Table, memory bool) *usedHarness {
	h := newHarness(t, onSQLite, timeForms[0], want)
	if !memory {
		unsafe := map[string]string{"sqlite": "?_pragma=synchronous(off)", "sqlite3": "?_synchronous=off"}[ownDriver] // as fast
		return &usedHarness{harness: h, pool: ownPool(t, ownDriver, "file:"+strings.NewReplacer("#", "%23", "?", "%3f").Replace(strings.TrimPrefix(h.url, "sqlite:"))+unsafe, 0)}
	}
	var script string
	if err := h.plain.QueryRow("SELECT sql FROM sqlite_master WHERE type = 'table'").Scan(&script); err != nil {
		t.Fatal(err)
	}
	h.plain = ownPool(t, ownDriver, ":memory:", 1)
	h.exec(script)
	return &usedHarness{harness: h, pool: h.plain}
}

// TestUsedStore runs the conformance suite on pools of programs.
func TestUsedStore(t *testing.T) {
	for name, memory := range map[string]bool{"memory": true, "file": false} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, want storetest.Table) storetest.Harness {
				return newUsedHarness(t, want, memory)
			})
		})
	}
}
