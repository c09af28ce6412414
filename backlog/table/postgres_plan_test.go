package table_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog/mapping"
)

// TestPostgresPlans looks at what pages and settlements read of a table in the
// states in which planners go astray: with every
// row new, hardly any, and every one failed; planned for their arguments, and
// for any, as a server does at the sixth time unless it is told not to.
func TestPostgresPlans(t *testing.T) {
	const rows = 60_000
	for _, policy := range []bool{false, true} {
		m := jobs()
		if policy {
			m.Policy = &mapping.PolicyColumns{Count: "failures", Last: "last", Waits: []time.Duration{0, time.Minute, time.Minute, 2 * time.Minute, time.Hour}, Retries: -1}
		}
		for _, x := range []struct{ name, status string }{
			{"every row new", "'NEW'"},
			{"hardly any new", "CASE WHEN i % 5000 = 0 THEN 'NEW' WHEN i % 5000 = 1 THEN 'ERROR' ELSE 'SUCCESS' END"},
			{"every row failed", "'ERROR'"},
		} {
			t.Run(fmt.Sprintf("%s, policy %v", x.name, policy), func(t *testing.T) {
				s := newPostgresSchema(t, "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, created timestamptz, failures int, last timestamptz, payload text); CREATE INDEX ON jobs (status)")
				s.exec(fmt.Sprintf(`INSERT INTO jobs SELECT i, %s, '2026-02-10 11:00Z'::timestamptz - i * interval '1 s', i %% 7, '2026-02-10 11:00Z'::timestamptz - i %% 6000 * interval '1 s', repeat('x', 100) FROM generate_series(1, %d) i`, x.status, rows))
				steps, err := missing(context.Background(), s.url, m, noon)
				if err == nil {
					err = create(context.Background(), s.url, steps)
				}
				if err != nil || len(steps) == 0 {
					t.Fatalf("%d steps, %v", len(steps), err)
				}
				got, err := s.open(s.url, m)
				if err != nil {
					t.Fatal(err)
				}
				wantGoodPlans(t, "without statistics", got)
				s.exec("ANALYZE jobs")
				wantGoodPlans(t, "with statistics", got)
				s.wantCheap("with statistics", got.Statements())
			})
		}
	}
}

// wantCheap runs the statements for 100 rows and checks that each reads not much
// more, and that it changes rows found by their key.
func (s *postgresSchema) wantCheap(what string, statements []string) {
	s.Helper()
	conn, err := s.plain.Conn(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, text := range statements {
			plan, blocks := explained(s, conn, mode, text)
			if blocks > 700 {
				s.Errorf("%s, %s: %d blocks, want at most 700, are read by %s\n%s", what, mode, blocks, text, plan)
			}
			if strings.Contains(plan, "Seq Scan") {
				s.Errorf("%s, %s: want no Seq Scan of %s\n%s", what, mode, text, plan)
			}
			if strings.HasPrefix(text, "UPDATE") && !strings.Contains(plan, `_pkey"`) {
				s.Errorf("%s, %s: want the primary key used by %s\n%s", what, mode, text, plan)
			}
		}
	}
}

// explained runs a statement with arguments by their types.
func explained(t testing.TB, conn *sql.Conn, mode, text string) (plan string, blocks int) {
	t.Helper()
	ctx := context.Background()
	exec := func(text string) {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	exec("SET jit = off; SET plan_cache_mode = " + mode + "; PREPARE p AS " + text)
	defer exec("DEALLOCATE p")
	var types string
	if err := conn.QueryRowContext(ctx, "SELECT array_to_string(parameter_types::text[], ',') FROM pg_prepared_statements WHERE name = 'p'").Scan(&types); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"timestamp with time zone": "'2026-02-10 10:30Z'", "bigint": "100", "text": "'x'", "integer": "1"}
	args := strings.Split(types, ",")
	before := regexp.MustCompile(`\$[0-9]+`).Split(text, -1)
	for i, name := range args {
		args[i] = values[name]
		if strings.HasSuffix(before[i], `"created" >= `) || strings.HasSuffix(before[i], `"date_inserted" >= `) {
			args[i] = "'2026-01-01Z'"
		}
	}
	run := "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE p"
	if args[0] != "" {
		run += " (" + strings.Join(args, ", ") + ")"
	}
	exec("BEGIN")
	defer exec("ROLLBACK")
	if err := conn.QueryRowContext(ctx, run).Scan(&plan); err != nil {
		t.Fatalf("%s: %v", run, err)
	}
	var list []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(plan), &list); err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(plan, "\n"), func(l string) bool {
		return !strings.Contains(l, "Node Type") && !strings.Contains(l, "Cond") && !strings.Contains(l, "Index Name") && !strings.Contains(l, "Filter")
	})
	return strings.Join(lines, "\n"), list[0].Plan.Hit + list[0].Plan.Read
}

// TestPostgresInvalidIndex: what is left of a creation that failed serves nobody, proves
// no key, and keeps its name.
func TestPostgresInvalidIndex(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TABLE jobs (id bigint PRIMARY KEY, status text, created timestamptz, code text); CREATE UNIQUE INDEX codes ON jobs (code)")
	ctx := context.Background()
	made := map[string]bool{}
	for range 3 {
		steps, err := missing(ctx, s.url, jobs(), noon)
		if err == nil {
			err = create(ctx, s.url, steps)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) != 2 {
			t.Fatalf("missing are %q, want two steps", steps)
		}
		if made[steps[0]] {
			t.Fatalf("%q is taken a second time, and so the name of an index", steps[0])
		}
		again, err := missing(ctx, s.url, jobs(), noon)
		if err != nil || len(again) > 0 {
			t.Fatalf("after %q: missing are %q, %v, want none", steps, again, err)
		}
		made[steps[0]] = true
		s.exec("UPDATE pg_index SET indisvalid = false WHERE indrelid = 'jobs'::regclass AND NOT indisprimary")
	}
	m := jobs()
	m.ID = []string{"code"}
	if _, err := s.open(s.url, m); err == nil || !strings.Contains(err.Error(), "table.id: code does not identify a row of jobs") {
		t.Errorf("a key of an index that is not valid: %v", err)
	}
}
