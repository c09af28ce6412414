package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// `once` ends at once, with the reason, where the database takes no writes and no outcome
// waits to be written: cron mails nothing before the end. No handler is called, and the tick
// is still due.
func TestOnceWithoutWrites(t *testing.T) {
	t.Parallel()
	const text = `
state: state.json
handler: {exec: [sh, -c, 'echo $BACKLOG_ID >>handled.log']}
tiers: [{max_age: 1d, every: 5m}]
`
	ends := func(t *testing.T, s *shop, want string) {
		t.Helper()
		s.write("state.json", `{"last_wake": "2025-01-01T00:00:00Z"}`)
		for _, args := range [][]string{{"once", "--max-age", "1d"}, {"once", "--due"}, {"once", "--due"}, {"once", "--id", "1"}} {
			began := time.Now()
			status, out, log := s.run(args...)
			if status != 1 || !strings.Contains(log, "backlog: "+want) {
				t.Errorf("%q: want the exit status 1 and %q, got %d:\n%s%s", args, want, status, out, log)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%q: want the end at once, got it after %v", args, took)
			}
		}
		if log := s.read("handled.log"); log != "" {
			t.Errorf("want no handler called, got\n%s", log)
		}
	}
	t.Run("postgres", func(t *testing.T) {
		s := newSite(t, onPostgres, nil)
		s.fillNew(3)
		q := s.server.Query()
		q.Set("default_transaction_read_only", "on")
		s.server.RawQuery = q.Encode()
		s.write("schedule.yaml", "database: "+s.url(nil)+text)
		ends(t, s.shop, "the database takes no writes: cannot execute ")
	})
	t.Run("sqlite on a full disk", func(t *testing.T) {
		s := newShop(t, map[string]string{"schedule.yaml": "database: sqlite:disk/backlog.db" + text})
		disk := s.smallDisk()
		s.mustRun("init", "--create-table")
		x := &site{shop: s, kind: onSQLite}
		var err error
		if x.db, err = openDB(filepath.Join(disk, "backlog.db")); err != nil {
			t.Fatal(err)
		}
		x.fillNew(3)
		x.db.Close()
		if err := os.WriteFile(filepath.Join(disk, "full"), make([]byte, 4<<20), 0o644); err == nil {
			t.Fatal("the disk does not get full")
		}
		ends(t, s, "the disk takes no writes: disk I/O error")
	})
}
