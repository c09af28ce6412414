package table_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

// faulty returns a schema with a table of ten new rows, its records as they were
// read, and the store.
func faulty(t *testing.T, parameters string, create ...string) (*postgresSchema, *table.Table, []backlog.Record) {
	t.Helper()
	s := newPostgresSchema(t, "CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', amount int); INSERT INTO jobs SELECT i FROM generate_series(1, 10) i")
	s.exec(create...)
	got, err := s.open(s.url+parameters, jobs())
	if err != nil {
		t.Fatal(err)
	}
	records, _ := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 100})
	if len(records) != 10 {
		t.Fatalf("%d records", len(records))
	}
	return s, got, records
}

func successes(records []backlog.Record) (group []backlog.Settlement) {
	for i := range records {
		group = append(group, backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess, At: noon})
	}
	return group
}

func (s *postgresSchema) wantStatuses(want string) {
	s.Helper()
	var got string
	if err := s.plain.QueryRow("SELECT string_agg(n, ', ') FROM (SELECT status || ' ' || count(*) AS n FROM jobs GROUP BY status ORDER BY status) x").Scan(&got); err != nil {
		s.Fatal(err)
	}
	if got != want {
		s.Errorf("the table has %s, want %s", got, want)
	}
}

const shout = "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NEW; END $$"

// TestPostgresRefusedRows are told one by one, also by what would speak up only
// at the commit; the others are settled.
func TestPostgresRefusedRows(t *testing.T) {
	for name, create := range map[string]string{
		"a trigger":                  "CREATE TRIGGER a BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION shout()",
		"a constraint at the commit": "CREATE CONSTRAINT TRIGGER a AFTER UPDATE ON jobs INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION shout()",
	} {
		t.Run(name, func(t *testing.T) {
			s, got, records := faulty(t, "", fmt.Sprintf(shout, "IF NEW.id % 5 = 0 THEN RAISE EXCEPTION 'never'; END IF"), create)
			left, err := got.Settle(context.Background(), successes(records))
			if err != nil || len(left) != 2 || !strings.Contains(left[0].Err.Error(), "never") {
				t.Errorf("left are %v, %v", left, err)
			}
			s.wantStatuses("NEW 2, SUCCESS 8")
		})
	}
}

// TestPostgresAgain: what passes in a moment is tried again by itself.
func TestPostgresAgain(t *testing.T) {
	for _, code := range []string{"40001", "40P01", "55P03"} {
		t.Run(code, func(t *testing.T) {
			s, got, records := faulty(t, "", "CREATE SEQUENCE times", fmt.Sprintf(shout, "IF nextval('times') < 3 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '"+code+"'; END IF"),
				"CREATE TRIGGER a BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION shout()")
			if left, err := got.Settle(context.Background(), successes(records)); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
			s.wantStatuses("SUCCESS 10")
		})
	}
}

// TestPostgresMendedBetweenRows: a table that is missing for the first rows of a group, and there
// for the others, leaves no outcome refused.
func TestPostgresMendedBetweenRows(t *testing.T) {
	s, got, records := faulty(t, "", "CREATE SEQUENCE times",
		fmt.Sprintf(shout, "IF nextval('times') <= 4 THEN PERFORM 1 FROM nowhere; END IF"), // one of the group as a whole, and three rows
		"CREATE TRIGGER a BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION shout()")
	if left, err := got.Settle(context.Background(), successes(records)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	s.wantStatuses("SUCCESS 10")
}

// TestPostgresLockedRow: rows that another program has locked are waited for in
// turns, in which no other row is kept locked.
func TestPostgresLockedRow(t *testing.T) {
	s, got, records := faulty(t, "&lock_timeout=50")
	tx, err := s.plain.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("SELECT FROM jobs WHERE id = 7 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error)
	go func() {
		_, err := got.Settle(context.Background(), successes(records))
		settled <- err
	}()
	for free := 0; free < 3; { // another row is free again and again
		if _, err := s.plain.Exec("SELECT FROM jobs WHERE id = 1 FOR UPDATE NOWAIT"); err == nil {
			free++
		}
	}
	tx.Rollback()
	if err := <-settled; err != nil {
		t.Error(err)
	}
	s.wantStatuses("SUCCESS 10")
}

// TestPostgresAway: what ends connections and statements is ErrUnavailable, and the next
// call finds the server again.
func TestPostgresAway(t *testing.T) {
	s, got, records := faulty(t, "&application_name=cut&statement_timeout=300", fmt.Sprintf(shout, "PERFORM pg_sleep(0.1)"))
	ctx := context.Background()
	for range 3 {
		s.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut' AND pid <> pg_backend_pid()")
		for start := time.Now(); ; {
			_, err := got.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Limit: 10, Now: noon, Since: noon.Add(-ages)})
			if err == nil {
				break
			}
			if !errors.Is(err, backlog.ErrUnavailable) || time.Since(start) > 5*time.Second {
				t.Fatal(err)
			}
		}
	}
	s.exec("CREATE TRIGGER a BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION shout()")
	if _, err := got.Settle(ctx, successes(records)); !errors.Is(err, backlog.ErrUnavailable) {
		t.Errorf("a statement that takes too long: %v", err)
	}
	s.wantStatuses("NEW 10")
	s.exec("DROP TRIGGER a ON jobs")
	if left, err := got.Settle(ctx, successes(records)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	s.wantStatuses("SUCCESS 10")
}

// TestPostgresAltered: statements that the server has planned outlive a change of
// the table; a table that is gone is told.
func TestPostgresAltered(t *testing.T) {
	s, got, _ := faulty(t, "")
	ctx, q := context.Background(), backlog.Query{Lane: backlog.Fresh, Limit: 10, Now: noon, Since: noon.Add(-ages)}
	for _, change := range []string{"ALTER TABLE jobs ALTER amount TYPE numeric", "ALTER TABLE jobs ADD more int", "ALTER TABLE jobs ALTER id TYPE bigint", "VACUUM FULL jobs"} {
		s.exec(change)
		for range 3 {
			if p, err := got.Pending(ctx, q); err != nil || len(p.Records) != 10 {
				t.Errorf("%s: %d records, %v", change, len(p.Records), err)
			}
		}
	}
	name := strings.ReplaceAll(s.name("jobs"), `"`, "")
	s.exec("ALTER TABLE jobs RENAME TO jobs_of_old")
	_, err := got.Pending(ctx, q)
	wantProblem(t, err, `the table is not as it was: relation "`+name+`" does not exist`)
}

// TestPostgresReadOnly: whoever only looks cannot write, even by mistake.
func TestPostgresReadOnly(t *testing.T) {
	s, _, records := faulty(t, "")
	db, err := openDB(context.Background(), s.url, table.Options{ReadOnly: true, Pool: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := table.New(context.Background(), db, jobs())
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Prove(context.Background(), noon); err != nil {
		t.Error(err)
	}
	again, _ := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 3})
	if len(again) != len(records) {
		t.Errorf("%d records", len(again))
	}
	if _, err := got.Count(context.Background(), noon, []time.Duration{time.Hour}); err != nil {
		t.Error(err)
	}
}
