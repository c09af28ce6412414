package table_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

func lockable(t *testing.T) (*postgresSchema, *table.Table, *table.Table) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z'); CREATE TABLE others (LIKE jobs INCLUDING ALL)")
	one, err := s.open(s.url, jobs())
	if err != nil {
		t.Fatal(err)
	}
	m := jobs()
	m.Name = "others"
	other, err := s.open(s.url, m)
	if err != nil {
		t.Fatal(err)
	}
	return s, one, other
}

// TestPostgresLock is one per table and name, whoever names the schema, and
// free again once it was given back or its session has ended.
func TestPostgresLock(t *testing.T) {
	s, one, other := lockable(t)
	ctx := context.Background()
	take := func(x *table.Table, name string) backlog.Lock {
		t.Helper()
		l, err := x.TryLock(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := take(one, backlog.RunLock)
	m := jobs()
	if err := s.plain.QueryRow("SELECT current_schema()").Scan(&m.Schema); err != nil {
		t.Fatal(err)
	}
	same, err := s.open(strings.Replace(s.url, "search_path", "application_name", 1), m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := same.TryLock(ctx, backlog.RunLock); !errors.Is(err, backlog.ErrLocked) {
		t.Errorf("a table by the name of its schema: got %v, want ErrLocked", err)
	}
	take(one, backlog.LeaderLock).Unlock()
	take(other, backlog.RunLock).Unlock()
	if err := l.Check(ctx); err != nil {
		t.Error(err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	l = take(same, backlog.RunLock)
	defer l.Unlock()
	// Nobody but the lock has had nothing to do since then.
	s.exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())" +
		" AND pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = '\"" + m.Schema + "\"')")
	if err := l.Check(ctx); err == nil {
		t.Error("the session has ended, but Check says that it has the lock")
	}
	for start := time.Now(); ; {
		again, err := one.TryLock(ctx, backlog.RunLock)
		if err == nil {
			again.Unlock()
			break
		}
		if !errors.Is(err, backlog.ErrLocked) || time.Since(start) > 5*time.Second {
			t.Fatalf("after its session ended: %v", err)
		}
	}
}
