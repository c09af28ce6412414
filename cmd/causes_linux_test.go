package cmd_test

import (
	"strings"
	"testing"
)

// A flood of failures of one cause does not drown a terminal: what they have in common is
// shown, each at the level debug.
func TestTerminalFlood(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh], concurrency: 2}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n",
		"handler.sh":    "#!/bin/sh\n[ $BACKLOG_ID != 1 ] || exit 0\necho \"order $BACKLOG_ID is lost\" >&2\nexit 1\n",
	})
	s.mustRun("init", "--create-table")
	fill := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO BACKLOG (id) SELECT i FROM n"
	for _, tt := range []struct {
		level string
		shown int
	}{{"info", 0}, {"debug", 39}} {
		s.sql("DELETE FROM BACKLOG")
		s.sql(fill)
		terminal, screen := openTerminal(t)
		c := s.command("once", "--max-age", "1d", "--log-level", tt.level)
		c.Stderr = terminal
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s", err, screen)
		}
		last := ` level=WARN msg="records failed" tier=1d cause="order # is lost" records=39 `
		if !eventually(func() bool { return strings.Contains(screen.String(), last) }) {
			t.Fatalf("the terminal does not show %s: %q", last, screen)
		}
		if n := strings.Count(screen.String(), " level=DEBUG msg=failed tier=1d id="); n != tt.shown {
			t.Errorf("--log-level %s: the terminal shows %d errors, want %d", tt.level, n, tt.shown)
		}
	}
}
