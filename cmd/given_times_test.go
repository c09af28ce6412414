package cmd_test

import (
	"strings"
	"testing"
)

// Times reach a handler as docs/exec.md says.
func TestTimesGiven(t *testing.T) {
	t.Parallel()
	given := map[*siteKind]struct{ moment, wall, want string }{
		onSQLite:   {"timestamp", "datetime", `"moment":"2026-01-05 00:02:03","wall":"2026-01-05 00:02:03"`},
		onPostgres: {"timestamptz", "timestamp", `"moment":"2026-01-05 00:02:03+00","wall":"2026-01-05 00:02:03"`},
		onMySQL:    {"timestamp NULL", "datetime", `"moment":"2026-01-05 00:02:03","wall":"2026-01-05 00:02:03"`},
	}
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		x := given[kind]
		s := newSite(t, kind, nil)
		s.configure("a", nil, "timezone: America/New_York\ntable: {inserted: {column: date_inserted, zone: UTC}}\nhandler: {exec: [cat]}\ntiers: [{max_age: 1d, every: 1h}]")
		s.mustExec(`ALTER TABLE "BACKLOG" ADD moment ` + x.moment)
		s.mustExec(`ALTER TABLE "BACKLOG" ADD wall ` + x.wall)
		s.fillNew(1)
		s.mustExec(`UPDATE "BACKLOG" SET moment = '2026-01-05 00:02:03', wall = '2026-01-05 00:02:03'`)
		if out := s.mustRun("check", "--sample", "1", "--config", "a.yaml"); !strings.Contains(out, x.want) {
			t.Errorf("want %s, got:\n%s", x.want, out)
		}
	})
}
