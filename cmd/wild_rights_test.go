package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestWildRights: with exactly what `check --sql` grants, every command works,
// whatever the configuration has that writes; what the statements of the handler
// take is for their author to grant.
func TestWildRights(t *testing.T) {
	const table = "table: {name: jobs, columns: [n], where: {queue: mail}, eligible: send_after, expires: expires, attempts: attempts, last_error: note, touch: {changed: now}}\n" +
		"statuses: {dead: DEAD}\ntiers: [{max_age: 7d, every: 1h}]\nstate: none\n"
	for _, x := range []struct {
		policy, columns string
		failed          string // what the policy has left behind, as a condition
	}{
		{policy: "fibonacci", columns: "failures int, last_failure timestamp NULL", failed: "failures = 2 AND last_failure > '2026-02-10 12:00:00'"},
		{
			policy:  "exponential",
			columns: "attempt_count int, last_attempt_time timestamp NULL, next_attempt_time timestamp NULL, in_retry boolean",
			failed:  "attempt_count = 2 AND next_attempt_time > last_attempt_time",
		},
	} {
		for _, k := range []wildKind{inPostgres, inMySQL} {
			t.Run(x.policy+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				db, at := k.make(t)
				mustExec(t, db, "CREATE TABLE jobs (id int PRIMARY KEY, n int, status varchar(20), date_inserted timestamp NULL, queue varchar(20), send_after timestamp NULL, expires timestamp NULL, "+
					"attempts int, note varchar(100), changed timestamp NULL, secret varchar(20), "+x.columns+"); CREATE TABLE done (n int, CHECK (n <> 2)); "+
					"INSERT INTO jobs (id, n, status, date_inserted, queue, expires) VALUES (1, 1, 'NEW', '2026-02-10 11:00:00', 'mail', NULL), (2, 2, 'NEW', '2026-02-10 11:00:00', 'mail', NULL), "+
					"(3, 3, 'NEW', '2026-02-10 11:00:00', 'mail', '2026-02-10 11:59:00'), (4, 4, 'NEW', '2026-02-01 11:00:00', 'mail', NULL), (5, 5, 'NEW', '2026-02-10 11:00:00', 'fax', NULL)")
				dir := t.TempDir()
				dead := filepath.Join(dir, "dead")
				file := filepath.Join(dir, "schedule.yaml")
				run := func(at, now string, args ...string) string {
					t.Helper()
					text := "database: " + at + "\n" + table + "policy: " + x.policy + "\nhandler: {sql: 'INSERT INTO done VALUES (:n)'}\non_dead: {exec: [sh, -c, 'echo $BACKLOG_ID >>" + dead + "']}\n"
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					var out, errs bytes.Buffer
					if status := Main(append(args, "--config", file, "--now", now), strings.NewReader(""), &out, &errs); status != exitDone {
						t.Fatalf("%s: exit status %d: %s%s", args, status, out.String(), errs.String())
					}
					return out.String()
				}
				const noon, later = "2026-02-10T12:00:00Z", "2026-02-10T18:00:00Z"
				grants := "GRANT INSERT, SELECT ON done TO THEROLE"
				for line := range strings.Lines(run(at, noon, "check", "--sql")) {
					if what, _, ok := strings.Cut(line, " TO "); ok && strings.HasPrefix(line, "GRANT ") {
						grants += "; " + what + " TO THEROLE"
					}
				}
				role := k.asRole(t, db, at, grants)
				for _, args := range append(wildReaders, []string{"check", "--sql"}) {
					run(role, noon, args...)
				}
				run(role, noon, "once", "--max-age", "7d")
				run(role, later, "once", "--max-age", "7d")
				if got := rowsOf(t, db, "SELECT id, status, attempts FROM jobs WHERE id <> 2 OR ("+x.failed+")"); !reflect.DeepEqual(got, []string{"1|SUCCESS|1", "2|ERROR|2", "3|DEAD|", "4|DEAD|", "5|NEW|"}) {
					t.Errorf("after two passes: %q", got)
				}
				if ids, _ := os.ReadFile(dead); strings.Join(strings.Fields(string(ids)), " ") != "3 4" && strings.Join(strings.Fields(string(ids)), " ") != "4 3" {
					t.Errorf("on_dead was called for %q", ids)
				}
				run(role, later, "retry", "--all", "--yes")
				if got := rowsOf(t, db, "SELECT id FROM jobs WHERE status = 'NEW'"); !reflect.DeepEqual(got, []string{"2", "3", "4", "5"}) {
					t.Errorf("new again: %q", got)
				}
			})
		}
	}
}
