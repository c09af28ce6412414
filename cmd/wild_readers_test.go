package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backlog/internal/testkit"
)

// wildReaders are the commands that only read a table.
var wildReaders = [][]string{
	{"status"},
	{"explain", "1"},
	{"once", "--dry-run", "--max-age", "7d"},
	{"simulate", "--live", "--for", "3h"},
}

// TestWildReaders: the right to read is enough for commands that only read, and
// where rows are hidden none of them says that all is well.
func TestWildReaders(t *testing.T) {
	const jobs = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL); INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00'); "
	for _, x := range []struct {
		name         string
		on           []wildKind
		sql, as, cfg string
		refused      string
	}{
		{
			name: "a user who may only read",
			on:   []wildKind{inPostgres, inMySQL},
			sql:  jobs,
			as:   "GRANT SELECT ON jobs TO THEROLE",
			cfg:  "table: {name: jobs}",
		},
		{
			name: "a user who may only read some columns",
			on:   []wildKind{inPostgres, inMySQL},
			sql:  jobs + "ALTER TABLE jobs ADD secret int",
			as:   "GRANT SELECT (id, status, date_inserted) ON jobs TO THEROLE",
			cfg:  "table: {name: jobs, columns: [status]}",
		},
		{
			name:    "hidden rows",
			on:      []wildKind{inPostgres},
			sql:     jobs + "ALTER TABLE jobs ENABLE ROW LEVEL SECURITY",
			as:      "GRANT SELECT ON jobs TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "table jobs: row level security applies to the role OURS: …",
		},
		{
			name:    "a view",
			on:      wildKinds,
			sql:     jobs + "CREATE VIEW v AS SELECT * FROM jobs",
			cfg:     "table: {name: v}",
			refused: "v is a view: outcomes cannot be written to it; name the table behind it",
		},
	} {
		for _, k := range x.on {
			t.Run(x.name+"/"+k.name, func(t *testing.T) {
				t.Parallel()
				db, at := k.make(t)
				mustExec(t, db, x.sql)
				if x.as != "" {
					at = k.asRole(t, db, at, x.as)
				}
				file := filepath.Join(t.TempDir(), "schedule.yaml")
				text := "database: " + at + "\n" + x.cfg + "\nstate: none\ntiers: [{max_age: 7d, every: 1h}]\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				for _, args := range wildReaders {
					var out, errs bytes.Buffer
					status := Main(append(args, "--config", file, "--now", "2026-02-10T12:00:00Z"), strings.NewReader(""), &out, &errs)
					said := withoutAddress(errs.String())
					if x.refused == "" && status != exitDone {
						t.Errorf("%s: exit status %d: %s", args, status, said)
					} else if x.refused != "" && (status != exitFailed || !testkit.Matches(said, "backlog: "+x.refused+"\n")) {
						t.Errorf("%s: exit status %d, want it refused:\n got %s\nwant %s", args, status, said, x.refused)
					}
				}
			})
		}
	}
}
