package cmd_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// patientHandler notes its record at the start, and ends when it is let go.
const patientHandler = `#!/bin/sh
echo "start $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
until [ -e go ]; do sleep 0.1; done
echo "done $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
`

// A harm is what the program must not do to a server while it waits for a
// handler: query counts what is harmful. None at all is to be there but for
// moments, or never more than most.
type harm struct {
	what, query string
	most        int
}

// OWN stands for the name by which the program's sessions are known.
var harms = map[*siteKind][]harm{
	onPostgres: {
		{"open transactions", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'OWN' AND xact_start IS NOT NULL", 0},
		{"sessions idle in transaction", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'OWN' AND state LIKE 'idle in transaction%'", 0},
		{"locks on the table", `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'OWN' AND relation = '"BACKLOG"'::regclass`, 0},
		{"connections", "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'OWN'", 4},
	},
	onMySQL: {
		{"open transactions", "SELECT count(*) FROM information_schema.INNODB_TRX JOIN information_schema.PROCESSLIST p ON p.id = trx_mysql_thread_id WHERE db = 'OWN' AND p.id <> connection_id()", 0},
		{"locks on rows", "SELECT coalesce(sum(trx_rows_locked), 0) FROM information_schema.INNODB_TRX JOIN information_schema.PROCESSLIST p ON p.id = trx_mysql_thread_id WHERE db = 'OWN' AND p.id <> connection_id()", 0},
		{"connections", "SELECT count(*) FROM information_schema.PROCESSLIST WHERE db = 'OWN' AND id <> connection_id()", 4},
	},
}

// While a pass waits for its handlers, the server has nothing of it but a few
// idle connections: others write the very rows that are being handled.
func TestNoHarm(t *testing.T) {
	t.Parallel()
	onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
		const records = 200
		s := newSite(t, kind, map[string]string{"handler.sh": patientHandler})
		s.configure("a", nil, strings.Replace(handling, "concurrency: 4", "concurrency: 16", 1))
		s.fillNew(records)
		d := s.start("run", "--config", "a.yaml")
		if !eventually(func() bool { return len(s.deeds("handled.log")) == 16 }) {
			t.Fatalf("it hands out %d records:\n%s", len(s.deeds("handled.log")), d.log)
		}
		for _, h := range harms[kind] {
			seen := func() int {
				n, err := strconv.Atoi(strings.TrimSpace(s.rows(strings.ReplaceAll(h.query, "OWN", s.own))))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			if h.most == 0 && !eventually(func() bool { return seen() == 0 }) {
				t.Errorf("%s: they stay while handlers run", h.what)
			}
			for range 40 {
				if n := seen(); h.most > 0 && n > h.most {
					t.Errorf("%s: %d are seen, not more than %d may be", h.what, n, h.most)
				}
			}
		}
		// A program that wants to write its rows need not wait.
		s.mustExec(`UPDATE "BACKLOG" SET date_inserted = date_inserted WHERE id = 1`)
		s.write("go", "")
		if !eventually(func() bool { return s.count("SUCCESS") == records }) {
			t.Fatalf("not all is done:\n%s", d.log)
		}
		d.signal(syscall.SIGTERM)
		d.ends()
		if again := s.judge(records); again > 0 {
			t.Errorf("%d records were handled again", again)
		}
		// The server counts late, but exactly.
		const written = records + 1 + 3 // the test's own, and the outcomes of the trial on one row, rolled back
		if kind == onPostgres && !eventually(func() bool { return s.updates() >= written }) {
			t.Errorf("the server counts %d rows written of %d", s.updates(), written)
		}
		if n := s.updates(); n > written {
			t.Errorf("%d rows were written, more than %d, for %d whose status changed", n, written, records)
		}
	})
}

// updates returns how many rows of the table have been written, each of which
// has left a dead one behind, as far as PostgreSQL has counted by now.
func (s *site) updates() (n int) {
	s.t.Helper()
	if s.kind != onPostgres {
		return 0
	}
	if err := s.db.QueryRow(`SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = '"BACKLOG"'::regclass`).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}
