package table_test

import (
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// TestKeyOfAnotherKind: a page whose keys could not be settled is no page; one of
// other integers is as good as before.
func TestKeyOfAnotherKind(t *testing.T) {
	const create, insert = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), created timestamp NULL)", "INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')"
	test := func(s *table.Table, exec func(string), wider, other string) {
		t.Helper()
		q := backlog.Query{Lane: backlog.Fresh, Limit: 10, Now: noon, MaxAge: ages}
		exec(wider)
		if p, err := s.Pending(t.Context(), q); err != nil || len(p.Records) != 1 {
			t.Errorf("%s: %d records, %v", wider, len(p.Records), err)
		}
		exec(other)
		_, err := s.Pending(t.Context(), q)
		wantProblem(t, err, "table jobs is not as it was: its key was integer and is now text; reload or restart")
	}
	t.Run("postgres", func(t *testing.T) {
		s := newPostgresSchema(t, create, insert)
		got, err := s.open(s.url, jobs())
		if err != nil {
			t.Fatal(err)
		}
		test(got, func(text string) { s.exec(text) }, "ALTER TABLE jobs ALTER id TYPE bigint", "ALTER TABLE jobs ALTER id TYPE text")
	})
	t.Run("mysql", func(t *testing.T) {
		plain, rawURL := newMySQL(t)
		defer plain.Close()
		exec := func(text string) { execMySQL(t, plain, text) }
		exec(create)
		exec(insert)
		got, err := proveMySQL(t, rawURL, jobs())
		if err != nil {
			t.Fatal(err)
		}
		test(got, exec, "ALTER TABLE jobs MODIFY id bigint unsigned", "ALTER TABLE jobs MODIFY id varchar(20)")
	})
}
