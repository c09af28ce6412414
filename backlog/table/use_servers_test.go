package table_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/storetest"
	"backlog/backlog/table"
	"backlog/internal/testserver"
)

// TestUseWorksOnServers passes whatever the pool is like, with a handler that
// uses it too, and leaves its sessions as they were.
func TestUseWorksOnServers(t *testing.T) {
	eachServerPool(t, func(t *testing.T, kind serverKind, pool, plain *sql.DB) {
		ctx := t.Context()
		before := fmt.Sprint(sessions(t, pool, kind.session))
		s, err := table.Use(ctx, pool, table.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		rep := pass(t, s, func(r *backlog.Record) error {
			var n int
			if err := pool.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM orders WHERE id = %v", r.Key)).Scan(&n); err != nil || n != 1 {
				t.Errorf("row %v: %d, %v", r.Key, n, err)
			}
			if id, _ := r.Key.Part(0).(int64); id%3 == 0 {
				return errors.New("no")
			}
			return nil
		})
		if rep.Succeeded != 1600 || rep.Failed != 800 || rep.Conflicts != 0 || !rep.Complete {
			t.Errorf("got %+v", rep)
		}
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%d connections are in use after the pass", n)
		}
		if after := fmt.Sprint(sessions(t, pool, kind.session)); after != before {
			t.Errorf("the sessions are\n%s\nthey were\n%s", after, before)
		}
		var n int
		if err := plain.QueryRow("SELECT count(*) FROM orders WHERE status = CASE id % 3 WHEN 0 THEN 'ERROR' ELSE 'SUCCESS' END").Scan(&n); err != nil || n != 2400 {
			t.Errorf("%d rows are as they should be, %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := pool.Ping(); err != nil {
			t.Errorf("the pool after the table was closed: %v", err)
		}
	})
}

// TestUseSettlesWhatStaysAsItWas: a row is found though nothing in it changes,
// whatever the pool counts; one that somebody else has changed is not.
func TestUseSettlesWhatStaysAsItWas(t *testing.T) {
	eachServerPool(t, func(t *testing.T, kind serverKind, pool, plain *sql.DB) {
		if _, err := plain.Exec("ALTER TABLE orders ADD note varchar(100)"); err != nil {
			t.Fatal(err)
		}
		s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders", LastError: "note"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		var group []backlog.Settlement
		for _, r := range lane(t, s, backlog.Fresh)[:20] {
			group = append(group, backlog.Settlement{Record: &r, Outcome: backlog.Errored, Error: "no", At: noon})
		}
		for range 2 {
			if left, err := s.Settle(t.Context(), group); err != nil || len(left) > 0 {
				t.Fatalf("%v, %v", left, err)
			}
			records := lane(t, s, backlog.Failed)
			for i := range group {
				group[i].Record = &records[i]
			}
		}
		if _, err := plain.Exec("UPDATE orders SET status = 'HELD' WHERE id = 7"); err != nil {
			t.Fatal(err)
		}
		left, err := s.Settle(t.Context(), group)
		if err != nil || len(left) != 1 || !errors.Is(left[0].Err, backlog.ErrConflict) || group[left[0].Index].Record.Key.String() != "7" {
			t.Errorf("got %v, %v; want a conflict of 7", left, err)
		}
	})
}

// TestUseStaysWithItsTable though the program's sessions look elsewhere now.
func TestUseStaysWithItsTable(t *testing.T) {
	eachServerPool(t, func(t *testing.T, kind serverKind, pool, plain *sql.DB) {
		pool.SetMaxOpenConns(1)
		s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(kind.elsewhere); err != nil {
			t.Fatal(err)
		}
		records := lane(t, s, backlog.Fresh)
		if err := settle(t, s, records[0], backlog.Succeeded, ""); err != nil {
			t.Error(err)
		}
		var n int
		if err := plain.QueryRow("SELECT count(*) FROM orders WHERE status = 'SUCCESS'").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows have succeeded, %v", n, err)
		}
	})
}

// TestUseLocksOnServers: a lock takes a connection of the pool, which is closed
// at the end; without one to spare it is refused.
func TestUseLocksOnServers(t *testing.T) {
	eachServerPool(t, func(t *testing.T, kind serverKind, pool, plain *sql.DB) {
		use := func() *table.Table {
			s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders"}, noon)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		first, second := use(), use()
		if pool.Stats().MaxOpenConnections == 1 {
			_, err := first.TryLock(t.Context(), backlog.RunLock)
			if p := (*table.Problem)(nil); !errors.As(err, &p) || !strings.HasPrefix(p.What, "the pool has 1 connection at most") {
				t.Errorf("got %v", err)
			}
			return
		}
		before := fmt.Sprint(sessions(t, pool, kind.session))
		held := lock(t, first)
		wantLocked(t, "while it is held", second)
		if err := held.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if n := pool.Stats().InUse; n != 1 {
			t.Errorf("%d connections are in use while a lock is held", n)
		}
		leader, err := first.TryLock(t.Context(), backlog.LeaderLock)
		if err != nil || pool.Stats().InUse > 2 {
			t.Fatalf("%d in use, %v", pool.Stats().InUse, err)
		}
		lane(t, first, backlog.Fresh) // there is one left for the work
		unlock(t, leader)
		unlock(t, held)
		unlock(t, lock(t, second))
		if after := fmt.Sprint(sessions(t, pool, kind.session)); after != before || pool.Stats().InUse != 0 {
			t.Errorf("%d in use; the sessions are\n%s\nthey were\n%s", pool.Stats().InUse, after, before)
		}
	})
}

// TestUseOfServersRefuses says what the program has to do.
func TestUseOfServersRefuses(t *testing.T) {
	_, address := newMySQL(t)
	_, postgres := openPostgres(t)
	for _, x := range []struct {
		name string
		pool *sql.DB
		want string
	}{
		{"columns with another name", ownMySQL(t, address, serverPool{settings: "columnsWithAlias=true"}), "the pool names columns in a way of its own; leave columnsWithAlias out of its DSN"},
		{"no table", ownPostgres(t, postgres, serverPool{}), "there is no table orders in …"},
		{"no such user", ownPool(t, "mysql", "nobody:s3cret@tcp("+testserver.MySQLURL(t).Host+")/test", 0), "the database server does not let this user in: …"},
	} {
		_, err := table.Use(t.Context(), x.pool, table.Mapping{Name: "orders"}, noon)
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !matches(err.Error(), x.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v\nwant %s", x.name, err, x.want)
		}
	}
	_, err := table.Use(t.Context(), ownPool(t, "pgx", "postgres://me:s3cret@127.0.0.1:1/x", 0), table.Mapping{Name: "orders"}, noon)
	if !errors.Is(err, backlog.ErrAway) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("no server: got %v", err)
	}
}

// TestUseReadsDates that the driver would make times of: one that is zero, and
// one that the pool's own zone has skipped.
func TestUseReadsDates(t *testing.T) {
	plain, address := newMySQL(t)
	for _, text := range []string{
		"SET sql_mode = ''; CREATE TABLE jobs (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME(3))",
		"INSERT INTO jobs VALUES (1, 'NEW', '2025-03-30 02:30:00.125'), (2, 'NEW', '2025-03-30 03:30:00'), (3, 'NEW', '0000-00-00')",
	} {
		for _, one := range strings.Split(text, "; ") {
			if _, err := plain.Exec(one); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := table.Use(t.Context(), ownMySQL(t, address, mysqlPools[1]), table.Mapping{Name: "jobs", Inserted: table.Time{Column: "date_inserted", Zero: "newest"}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Pending(t.Context(), backlog.Query{Now: noon, MaxAge: 2 * 365 * 24 * time.Hour, Limit: 10})
	if err != nil || len(p.Records) != 1 || p.Records[0].Key.String() != "3" {
		t.Fatalf("first %v, %v", p.Records, err)
	}
	p, err = s.Pending(t.Context(), backlog.Query{Now: noon, MaxAge: 2 * 365 * 24 * time.Hour, Limit: 10, After: p.Next})
	if err != nil || len(p.Records) != 2 {
		t.Fatalf("then %v, %v", p.Records, err)
	}
	if got, want := p.Records[1].Inserted, time.Date(2025, 3, 30, 2, 30, 0, 125e6, time.UTC); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestUsedStoreOnServers runs the conformance suite on pools of programs, which
// may do no more than what Grants names.
func TestUsedStoreOnServers(t *testing.T) {
	for _, x := range []struct {
		kind serverKind
		pool serverPool
		form timeForm
		user func(h *harness) (name, url string)
	}{
		{serverKinds[0], serverPool{settings: "timezone=Europe/Berlin"}, postgresForms[0], postgresUser},
		{serverKinds[1], serverPool{settings: mysqlPools[1].settings}, mysqlTimeForms[2], mysqlUser},
	} {
		t.Run(x.kind.name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T, want storetest.Table) storetest.Harness {
				d := x.kind.db
				d.user = x.user
				h := newHarness(t, d, x.form, want)
				return &usedHarness{harness: h, pool: x.kind.own(t, h.url, x.pool)}
			})
		})
	}
}

// TestUseOfWork: the statements of a Work and the settlement are one transaction
// on a connection of the pool; a number may be bound where text is expected.
func TestUseOfWork(t *testing.T) {
	eachServerPool(t, func(t *testing.T, kind serverKind, pool, plain *sql.DB) {
		if _, err := plain.Exec("CREATE TABLE parcels (label varchar(20), number int, CHECK (number <> 7))"); err != nil {
			t.Fatal(err)
		}
		s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders", Where: []table.Condition{{Column: "id", Values: []table.Value{{Text: "7"}, {Text: "8"}}}}}, noon)
		if err != nil {
			t.Fatal(err)
		}
		work, err := table.NewWork(s, []string{"INSERT INTO parcels VALUES (:id, :id)"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := work.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := &backlog.Engine{Store: s, Handler: work, Now: func() time.Time { return noon }}
		rep, err := e.Pass(t.Context(), backlog.Pass{MaxAge: 24 * time.Hour})
		if err != nil || rep.Succeeded != 1 || rep.Failed != 1 {
			t.Errorf("got %+v, %v", rep, err)
		}
		var label, statuses string
		if err := plain.QueryRow("SELECT min(label), (SELECT concat(min(status), max(status)) FROM orders WHERE id IN (7, 8)) FROM parcels").Scan(&label, &statuses); err != nil || label != "8" || statuses != "ERRORSUCCESS" {
			t.Errorf("got %q and %q, %v", label, statuses, err)
		}
	})
}

// TestUseNoticesALostLock: one whose connection was ended is no longer held, and
// the pool goes on.
func TestUseNoticesALostLock(t *testing.T) {
	for i, end := range []string{
		"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = current_schema())",
		"KILL %d",
	} {
		kind := serverKinds[i]
		plain, address := kind.db.open(t)
		for _, text := range strings.Split(kind.many, ";") {
			if _, err := plain.Exec(text); err != nil {
				t.Fatal(err)
			}
		}
		var p serverPool
		if i == 0 {
			var name string
			if err := plain.QueryRow("SELECT current_schema()").Scan(&name); err != nil {
				t.Fatal(err)
			}
			p.settings = "application_name=" + name
		}
		pool := kind.own(t, address, p)
		s, err := table.Use(t.Context(), pool, table.Mapping{Name: "orders"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		held := lock(t, s)
		if i == 1 {
			var id int
			if err := plain.QueryRow("SELECT IS_USED_LOCK(?)", table.MySQLLockText(strings.TrimPrefix(mustURL(t, address).Path, "/"), "orders", string(backlog.RunLock))).Scan(&id); err != nil {
				t.Fatal(err)
			}
			end = fmt.Sprintf(end, id)
		}
		if _, err := plain.Exec(end); err != nil {
			t.Fatal(err)
		}
		if err := held.Check(t.Context()); err == nil {
			t.Errorf("%s: the lock is still held", kind.name)
		}
		held.Unlock()
		wait, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		again, err := backlog.WaitLock(wait, s, backlog.RunLock, nil) // the server may still be ending the session
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, again)
		if n := pool.Stats().InUse; n != 0 {
			t.Errorf("%s: %d connections are in use", kind.name, n)
		}
	}
}

// TestUseLeavesNoTransaction to the program, whoever has forgotten to end it.
func TestUseLeavesNoTransaction(t *testing.T) {
	plain, address := newMySQL(t)
	if _, err := plain.Exec("CREATE TABLE jobs (id INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	pool := ownMySQL(t, address, serverPool{connections: 1})
	lent := table.LendMySQL(pool)
	defer lent.Close()
	conn, err := lent.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"START TRANSACTION READ WRITE", "INSERT INTO jobs VALUES (1)"} {
		if _, err := conn.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	conn.Close()
	if _, err := pool.Exec("INSERT INTO jobs VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	var n, first int
	if err := plain.QueryRow("SELECT count(*), min(id) FROM jobs").Scan(&n, &first); err != nil || n != 1 || first != 2 {
		t.Errorf("%d rows from %d on, %v; want the program's alone", n, first, err)
	}
}
