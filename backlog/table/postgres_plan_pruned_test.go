package table_test

import (
	"context"
	"strings"
	"testing"
)

// TestPostgresPlansOfNothing: of a table of which no partition reaches into the
// range of a pass, or that has none yet, what is missing is told from the
// indexes, and is missing once.
func TestPostgresPlansOfNothing(t *testing.T) {
	const statement = "CREATE TABLE jobs (id bigint, status text NOT NULL, created timestamptz, PRIMARY KEY (id, created)) PARTITION BY RANGE (created)"
	m := jobs()
	m.ID = []string{"id", "created"}
	for _, x := range []struct {
		name   string
		before []string
	}{
		{"no partition", nil},
		{"an old partition", []string{"CREATE TABLE jobs_old PARTITION OF jobs FOR VALUES FROM ('2025-12-01') TO ('2026-01-01')"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			ctx := context.Background()
			s := newPostgresSchema(t, append([]string{statement}, x.before...)...)
			steps, err := missing(ctx, s.url, m, noon)
			for _, step := range steps { // whoever runs them has another search_path
				if !strings.HasPrefix(step, "-- keeps writers waiting") || !strings.Contains(step, " ON "+s.name("jobs")+" ") {
					t.Errorf("the table is not named with its schema: %s", step)
				}
			}
			role := s.role()
			s.exec("GRANT SELECT, UPDATE ON jobs TO " + role)
			wantProblem(t, create(ctx, s.as(role+":s3cret"), steps), "must be owner of table jobs; let the owner run what `backlog init --print` prints")
			if err == nil {
				err = create(ctx, s.url, steps)
			}
			if err != nil || len(steps) != 2 {
				t.Fatalf("%q, %v", steps, err)
			}
			if again, err := missing(ctx, s.url, m, noon); len(again) > 0 || err != nil {
				t.Errorf("missing is again %q, %v", again, err)
			}
			got, err := s.open(s.url, m)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range plans(t, got) {
				if p.Problem != "" || p.Index == "" {
					t.Errorf("%s: %q by %q: %s", p.What, p.Steps, p.Index, p.Problem)
				}
			}
		})
	}
	t.Run("an index of its owner", func(t *testing.T) {
		s := newPostgresSchema(t, statement, "CREATE TABLE jobs_old PARTITION OF jobs FOR VALUES FROM ('2025-12-01') TO ('2026-01-01')",
			"CREATE INDEX ON jobs (status, created, id)")
		if steps, err := missing(context.Background(), s.url, m, noon); len(steps) > 0 || err != nil {
			t.Errorf("missing is %q, %v", steps, err)
		}
	})
}
