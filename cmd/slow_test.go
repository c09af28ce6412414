package cmd_test

import (
	"strings"
	"syscall"
	"testing"
)

const idle = "handler: {exec: ['true']}\ntiers: [{max_age: 1d, every: 1h}]"

// unindex drops the indexes of a site.
var unindex = map[*siteKind][]string{
	onSQLite:   {"DROP INDEX fresh", "DROP INDEX failed"},
	onPostgres: {"DROP INDEX fresh, failed"},
	onMySQL:    {`DROP INDEX pending ON "BACKLOG"`},
}

// A daemon says at its start which index is missing, and nothing of that where
// none is.
func TestMissingIndexAtStart(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, nil)
		s.configure("a", nil, idle)
		leads := func() string {
			t.Helper()
			d := s.start("run", "--config", "a.yaml")
			d.says(`"msg":"leading"`)
			d.signal(syscall.SIGTERM)
			d.ends()
			return d.log.String()
		}
		const warning = `"level":"WARN","msg":"an index is missing; ` + "`backlog init`" + ` creates it","why":"fresh records, `
		if log := leads(); strings.Contains(log, "index") {
			t.Errorf("no index is missing:\n%s", log)
		}
		for _, text := range unindex[kind] {
			s.mustExec(text)
		}
		if log := leads(); strings.Count(log, warning) != 1 || !strings.Contains(log, "BACKLOG_backlog_") {
			t.Errorf("an index is missing:\n%s", log)
		}
	})
}

// A statement that runs into its time limit is no server that is away.
func TestSlowAtStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, onPostgres, nil)
	s.mustExec(`INSERT INTO "BACKLOG" SELECT i, 'DONE', now() FROM generate_series(1, 100000) i`)
	for _, text := range unindex[onPostgres] {
		s.mustExec(text)
	}
	q := s.server.Query()
	q.Set("statement_timeout", "5")
	s.server.RawQuery = q.Encode()
	s.configure("a", nil, idle)
	d := s.start("run", "--config", "a.yaml")
	d.says("a statement takes longer than its time limit: ")
	d.says("; probably an index is missing: `backlog check` tells which, `backlog init` creates it")
	d.signal(syscall.SIGTERM)
	d.ends()
}
