package table_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/internal/testkit"
)

// role makes a role that may log in and use the schema, and returns its name.
func (s *postgresSchema) role() string {
	s.Helper()
	name := "backlog_test_" + strings.ToLower(rand.Text()[:12])
	s.exec("CREATE ROLE "+name+" LOGIN PASSWORD 's3cret'", "DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO "+name+"', current_schema()); END $$")
	s.Cleanup(func() { s.exec("DROP OWNED BY "+name, "DROP ROLE "+name) })
	return name
}

// TestPostgresRights: a role that may not do what a pass does is told what to
// grant, before any record is handed out; with just that it works.
func TestPostgresRights(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', secret text); INSERT INTO jobs VALUES (1)")
	role := s.role()
	m := jobs()
	m.Columns = []string{"id"}
	for _, x := range []struct{ grant, want string }{
		{"", `table jobs: the role ` + role + ` may not read it; GRANT USAGE ON SCHEMA "Backlog-test-`},
		{"GRANT SELECT (id) ON jobs TO ROLE", "has not enough rights: permission denied for table jobs"},
		{"GRANT SELECT (id, status, created) ON jobs TO ROLE", "the user " + role + " has not enough rights: permission denied for table jobs; let its owner grant this"},
		{"GRANT UPDATE (status) ON jobs TO ROLE", ""},
	} {
		if x.grant != "" {
			s.exec(strings.Replace(x.grant, "ROLE", role, 1))
		}
		_, err := s.open(s.as(role+":s3cret"), m)
		wantProblem(t, err, x.want)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in it: %v", err)
		}
	}
	s.exec("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY", "CREATE POLICY mine ON jobs USING (false)")
	_, err := s.open(s.as(role+":s3cret"), m)
	wantProblem(t, err, "row level security applies to the role "+role)
	if _, err := s.open(s.url, m); err != nil {
		t.Errorf("it does not apply to the owner: %v", err)
	}
}

// TestPostgresRowSecurityLater: rows that a policy hides while the program runs
// are an error, not records that are gone.
func TestPostgresRowSecurityLater(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z'); INSERT INTO jobs VALUES (1)")
	role := s.role()
	s.exec("GRANT SELECT, UPDATE ON jobs TO " + role)
	got, err := s.open(s.as(role+":s3cret"), jobs())
	if err != nil {
		t.Fatal(err)
	}
	s.exec("ALTER TABLE jobs ENABLE ROW LEVEL SECURITY", "CREATE POLICY mine ON jobs USING (false)")
	_, err = got.Pending(context.Background(), backlog.Query{Lane: backlog.Fresh, Limit: 1, Now: noon, Since: noon.Add(-ages)})
	wantProblem(t, err, "row-level security")
}

// TestPostgresOpen: what a person has to mend is a Problem, what passes is
// ErrUnavailable, and no password is in any of it.
func TestPostgresOpen(t *testing.T) {
	s := newPostgresSchema(t)
	role := s.role()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	s.exec("ALTER ROLE " + role + " CONNECTION LIMIT 0")
	for _, x := range []struct {
		url, want string
		away      bool
	}{
		{
			url:  "postgres://u:s3cret@" + nobody.Addr().String() + "/x",
			want: "the PostgreSQL server at " + nobody.Addr().String() + " cannot be reached: connect: connection refused; start it there, or correct host and port in the database URL",
			away: true,
		},
		{
			url:  "postgres://u:s3cret@" + silent.Addr().String() + "/x?sslmode=disable",
			want: "the PostgreSQL server at " + silent.Addr().String() + " broke the connection off",
			away: true,
		},
		{
			url:  "postgres://u:s3cret@name.invalid/x",
			want: "the PostgreSQL server at name.invalid:5432: its name is not found; correct the host in the database URL",
			away: true,
		},
		{url: s.with(func(u *url.URL) { u.Path = "/no_such" }), want: "has no database no_such: database \"no_such\" does not exist; name another"},
		{url: s.as("no_such:s3cret"), want: "no_such"},
		{url: s.url + "&no_such_setting=1", want: "does not take a parameter of the URL: unrecognized configuration parameter \"no_such_setting\""},
		{url: s.url + "&work_mem=x", want: "does not take a parameter of the URL: invalid value for parameter \"work_mem\""},
	} {
		db, err := openDB(context.Background(), x.url, table.Options{})
		if err == nil {
			db.Close()
			t.Errorf("%s was opened", x.want)
			continue
		}
		testkit.Equal(t, x.want+": it says that the server is away", errors.Is(err, backlog.ErrUnavailable), x.away)
		testkit.Equal(t, x.want+": it is a Problem", errors.As(err, new(*table.Problem)), !x.away)
		testkit.Contains(t, "error", err.Error(), x.want)
		testkit.NotContains(t, "error", err.Error(), "s3cret")
	}
	_, err = openDB(context.Background(), s.as(role+":s3cret"), table.Options{})
	if !errors.Is(err, backlog.ErrUnavailable) || !strings.Contains(err.Error(), "too many connections for role") {
		t.Errorf("too many connections: %v", err)
	}
}

// TestPostgresSession: times are in UTC, no statement is without an end, and
// whoever only reads cannot write.
func TestPostgresSession(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z'); INSERT INTO jobs VALUES (1)")
	role := s.role()
	s.exec("GRANT SELECT, UPDATE ON jobs TO "+role, "ALTER ROLE "+role+" SET timezone = 'Asia/Kolkata'", "ALTER ROLE "+role+" SET datestyle = 'German'",
		"ALTER ROLE "+role+" SET default_transaction_isolation = 'serializable'", "ALTER ROLE "+role+" SET standard_conforming_strings = off")
	got, err := s.open(s.as(role+":s3cret"), jobs())
	if err != nil {
		t.Fatal(err)
	}
	records, _ := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 5})
	if len(records) != 1 || !records[0].Inserted.Equal(time.Date(2026, 2, 10, 11, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v", records)
	}
	s.exec("ALTER ROLE " + role + " SET default_transaction_read_only = on")
	_, err = s.open(s.as(role+":s3cret"), jobs())
	wantProblem(t, err, "the sessions of the user "+role+" are read only on the PostgreSQL server at ")
}

// TestPostgresSnoozeOfNumbers: while no row shows what the numbers of table.eligible count, the row does not
// keep a snooze. A later time that another program has written in the meantime stays.
func TestPostgresSnoozeOfNumbers(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', run_at bigint); INSERT INTO jobs VALUES (1)")
	m := jobs()
	m.Eligible = &mapping.Time{Column: "run_at"}
	ctx := context.Background()
	open := func() (*table.Table, *backlog.Record) {
		store, err := s.open(s.url, m)
		if err != nil {
			t.Fatal(err)
		}
		page, err := store.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Limit: 9, Now: noon, Since: noon.Add(-ages)})
		if err != nil || len(page.Records) != 1 {
			t.Fatal(page.Records, err)
		}
		return store, &page.Records[0]
	}
	if store, r := open(); store.KeepsSnooze(r) {
		t.Error("a row keeps a snooze whose form is a guess")
	}
	s.exec("UPDATE jobs SET run_at = 1700000000")
	store, r := open()
	later := noon.Add(5 * time.Hour).Unix()
	s.exec(fmt.Sprintf("UPDATE jobs SET run_at = %d", later))
	for _, wait := range []time.Duration{time.Hour, 6 * time.Hour} {
		settlement := backlog.Settlement{Record: r, Target: backlog.RowOther, At: noon, Until: noon.Add(wait)}
		if unsettled, err := store.Settle(ctx, []backlog.Settlement{settlement}); err != nil || len(unsettled) != 0 {
			t.Errorf("snoozed for %v: %v, %v", wait, unsettled, err)
		}
		var got int64
		if err := s.plain.QueryRow("SELECT run_at FROM jobs").Scan(&got); err != nil || got != max(later, noon.Add(wait).Unix()) {
			t.Errorf("snoozed for %v: %d, %v", wait, got, err)
		}
	}
}

// TestPostgresRightToSnooze: a role that may not write the column of table.eligible works on the
// table, but its snoozes are refused, which check says before. The grants that check prints suffice.
func TestPostgresRightToSnooze(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', run_at timestamptz); INSERT INTO jobs VALUES (1), (2)")
	role := s.role()
	s.exec("GRANT SELECT ON jobs TO "+role, "GRANT UPDATE (status) ON jobs TO "+role)
	m := jobs()
	m.Eligible = &mapping.Time{Column: "run_at"}
	ctx := context.Background()
	open := func() (*table.Table, []backlog.Settlement) {
		store, err := s.open(s.as(role+":s3cret"), m)
		if err != nil {
			t.Fatal(err)
		}
		page, err := store.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Limit: 9, Now: noon, Since: noon.Add(-ages)})
		if err != nil {
			t.Fatal(err)
		}
		var group []backlog.Settlement
		for i := range page.Records {
			group = append(group, backlog.Settlement{Record: &page.Records[i], Target: backlog.RowOther, At: noon, Until: noon.Add(time.Hour)})
		}
		return store, group
	}
	store, group := open()
	unsettled, err := store.Settle(ctx, group)
	if err != nil || len(unsettled) != 2 {
		t.Errorf("got %v, %v; want each snooze refused by itself", unsettled, err)
	}
	group[0].Target, group[0].Until = backlog.RowSuccess, time.Time{}
	unsettled, err = store.Settle(ctx, group)
	if err != nil || len(unsettled) != 1 || unsettled[0].Index != 1 || !strings.Contains(unsettled[0].Err.Error(), "permission denied") {
		t.Errorf("got %v, %v; want the snooze alone refused", unsettled, err)
	}
	var found inspect.Findings
	doctor.CheckTrial(ctx, &found, doctor.Trial{Table: store, Now: noon}, "")
	told := slices.ContainsFunc(found, func(f inspect.Finding) bool {
		return f.OK && f.Warning && strings.HasPrefix(f.Detail, "NEW: if a handler snoozes a record, only the process remembers it, not the row: ") && strings.Contains(f.Detail, "permission denied")
	})
	if !told {
		t.Errorf("check does not say so: %+v", found)
	}
	for _, grant := range doctor.Grants(store) {
		s.exec(grant)
	}
	store, group = open()
	unsettled, err = store.Settle(ctx, group)
	if err != nil || len(group) != 1 || len(unsettled) != 0 {
		t.Errorf("with the grants: %d records, %v, %v", len(group), unsettled, err)
	}
	page, err := store.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Limit: 9, Now: noon.Add(time.Hour - time.Second), Since: noon.Add(-ages)})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("a second before its time: %v, %v", page.Records, err)
	}
}
