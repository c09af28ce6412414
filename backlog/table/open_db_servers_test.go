package table_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/mysql"
	"backlog/backlog/table/postgres"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A serverKind is a server with a pool that is set up as documented.
type serverKind struct {
	name    string
	dialect db.Server
	db      testDatabase
	form    timeForm
	user    func(h *harness) (name, url string)
	own     func(tb testing.TB, address, settings string) *sql.DB
	set     string // as documented
}

var serverKinds = []serverKind{
	{"PostgreSQL", postgres.Dialect, onPostgres, postgresForms[0], postgresUser, func(tb testing.TB, address, settings string) *sql.DB {
		return ownPool(tb, "pgx", address+"&"+settings, 0)
	}, "timezone=UTC&row_security=off&plan_cache_mode=force_custom_plan&lock_timeout=2000"},
	{"MySQL", mysql.Dialect, onMySQL, mysqlTimeForms[2], mysqlUser, func(tb testing.TB, address, settings string) *sql.DB {
		u, err := url.Parse(address)
		if err != nil {
			tb.Fatal(err)
		}
		return ownPool(tb, "mysql", testserver.DSN(u, settings), 0)
	}, "clientFoundRows=true&time_zone=%27%2B00%3A00%27&sql_mode=%27STRICT_ALL_TABLES%27&innodb_lock_wait_timeout=5"},
}

// TestStoreOfAPoolOnServers runs the cases about times on pools of programs, whose
// sessions the store has not set up; TestStoreOfAPool runs the whole suite.
func TestStoreOfAPoolOnServers(t *testing.T) {
	t.Parallel()
	for _, k := range serverKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			d := k.db
			d.user = k.user
			d.open(t) // or skips all: a case cannot skip what it shares
			storetest.RunTimes(t, shared(t, func(t *testing.T, want storetest.Table) *harness {
				h := newHarness(t, d, k.form, want)
				h.dialect = k.dialect
				h.connect = func(t *testing.T, url string) *sql.DB { return k.own(t, url, k.set) }
				return h
			}))
		})
	}
}

// TestOpenDBLocksOnServers: the locks take a connection of the pool.
func TestOpenDBLocksOnServers(t *testing.T) {
	for _, k := range serverKinds {
		plain, address := k.db.open(t)
		if _, err := plain.Exec("CREATE TABLE orders (id int PRIMARY KEY, status varchar(20), date_inserted timestamp)"); err != nil {
			t.Fatal(err)
		}
		pool := k.own(t, address, k.set)
		use := func() *table.Table {
			s, err := table.OpenDB(t.Context(), pool, k.dialect, mapping.Mapping{Name: "orders"}, noon)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first, second := use(), use()
		held := lock(t, first)
		wantLocked(t, k.name, second)
		if err := held.Check(t.Context()); err != nil {
			t.Error(err)
		}
		leader, err := first.TryLock(t.Context(), backlog.LeaderLock)
		if err != nil || pool.Stats().InUse != 2 {
			t.Fatalf("%s: %d in use, %v", k.name, pool.Stats().InUse, err)
		}
		unlock(t, leader)
		unlock(t, held)
		unlock(t, lock(t, second))
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%s: %d in use", k.name, n)
		}
		pool.SetMaxOpenConns(1)
		_, err = first.TryLock(t.Context(), backlog.RunLock)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !strings.HasPrefix(p.What, "the pool has 1 connection at most") {
			t.Errorf("%s: got %v", k.name, err)
		}
		if _, err := plain.Exec("INSERT INTO orders VALUES (1, 'NEW', '2026-02-10 11:00:00')"); err != nil {
			t.Fatal(err)
		}
		if rep := pass(t, use(), func(*backlog.Record) error { return nil }); rep.Succeeded != 1 || !rep.Complete { // all but locks works
			t.Errorf("%s: got %+v", k.name, rep)
		}
	}
}

// TestOpenDBOfServersRefuses a pool whose sessions are set up otherwise.
func TestOpenDBOfServersRefuses(t *testing.T) {
	for i, list := range [][][2]string{{
		{"timezone=Europe/Berlin&row_security=off", "the pool's sessions have TimeZone = Europe/Berlin, not UTC; add timezone=UTC to its URL; docs/go.md shows how to open the pool"},
		{"timezone=UTC", "the pool's sessions have row_security = on, not off; …"},
		{"timezone=UTC&row_security=off", "table orders does not exist in …"},
	}, {
		{"time_zone=%27-08:00%27", "the pool's sessions have time_zone = -08:00, not +00:00; …"},
		{"time_zone=%27%2B00:00%27&sql_mode=%27%27", "the pool's sessions have sql_mode = , not STRICT_ALL_TABLES; …"},
		{"time_zone=%27%2B00:00%27&sql_mode=%27STRICT_ALL_TABLES%27&autocommit=0", "the pool's sessions have autocommit = 0, not 1; …"},
		{"time_zone=%27%2B00:00%27&sql_mode=%27STRICT_ALL_TABLES%27&parseTime=true", "the pool's sessions have dates (parseTime) = 2000-01-01T00:00:00Z, not 2000-01-01; …"},
		{"time_zone=%27%2B00:00%27&sql_mode=%27STRICT_ALL_TABLES%27", "table orders does not exist in …"},
	}} {
		k := serverKinds[i]
		_, address := k.db.open(t)
		for _, x := range list {
			_, err := table.OpenDB(t.Context(), k.own(t, address, x[0]), k.dialect, mapping.Mapping{Name: "orders"}, noon)
			if p := (*table.Problem)(nil); !errors.As(err, &p) || !testkit.Matches(err.Error(), x[1]) {
				t.Errorf("%s: got %v\nwant %s", x[0], err, x[1])
			}
		}
	}
	_, err := table.OpenDB(t.Context(), sql.OpenDB(stranger{}), postgres.Dialect, mapping.Mapping{Name: "orders"}, noon)
	if p := (*table.Problem)(nil); !errors.As(err, &p) || !testkit.Matches(err.Error(), "the pool's driver is that of table_test.strangeConn, not …; open it by …") {
		t.Errorf("another driver: got %v", err)
	}
	_, err = table.OpenDB(t.Context(), ownPool(t, "pgx", "postgres://me:s3cret@127.0.0.1:1/x", 0), postgres.Dialect, mapping.Mapping{Name: "orders"}, noon)
	if !errors.Is(err, backlog.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("no server: got %v", err)
	}
}

// TestOpenDBWithoutFoundRows: MySQL counts no row that was written as it was, unless the
// DSN of the pool says so.
func TestOpenDBWithoutFoundRows(t *testing.T) {
	k := serverKinds[1]
	plain, address := k.db.open(t)
	for _, text := range []string{"CREATE TABLE orders (id int PRIMARY KEY, status varchar(20), date_inserted timestamp, last_error varchar(20))",
		"INSERT INTO orders VALUES (1, 'ERROR', '2026-02-10 11:00:00', 'look'), (2, 'ERROR', '2026-02-10 11:00:00', 'look')"} {
		if _, err := plain.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	pool := k.own(t, address, "time_zone=%27%2B00:00%27&sql_mode=%27STRICT_ALL_TABLES%27")
	s, err := table.OpenDB(t.Context(), pool, k.dialect, mapping.Mapping{Name: "orders", LastError: "last_error"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	records := lane(t, s, backlog.Failed)
	if err := settle(t, s, records[0], backlog.Errored, "look"); err != nil {
		t.Error(err)
	}
	if _, err := plain.Exec("UPDATE orders SET status = 'ON HOLD'"); err != nil {
		t.Fatal(err)
	}
	if err := settle(t, s, records[1], backlog.Errored, "look"); !errors.Is(err, backlog.ErrConflict) {
		t.Errorf("a row that somebody has changed: %v", err)
	}
}
