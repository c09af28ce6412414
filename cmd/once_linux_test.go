package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pass that is stopped while it waits for its database, which another
// program has locked, has nothing to report but that.
func TestStopBeforeTheFirstRecord(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: ['true']}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n",
	})
	s.sql("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)")
	db := s.open()
	defer db.Close()
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	d := s.start("once", "--max-age", "1d", "--now", "2026-01-05T12:00:00Z", "--json")
	if !eventually(func() bool { return hasOpen(d.cmd.Process.Pid, s.path("backlog.db")) }) {
		t.Fatalf("it does not open the database:\n%s", d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	const want = `{"tier":"1d","max_age_seconds":86400,"started":"2026-01-05T12:00:00Z","duration_seconds":0,` +
		`"selected":0,"succeeded":0,"failed":0,"rejected":0,"skipped":0,"conflicts":0,"expired":0,"complete":false,"stopped":"signal",` +
		`"refused":0,"interrupted":0,"unwritten":0,"unreadable":0,"given_up":0,"accepted":0,"causes":[]}`
	if got := strings.TrimSpace(d.log.String()); got != want {
		t.Errorf("it says\n%s\ninstead of\n%s", got, want)
	}
}

// hasOpen reports whether the process has the file open.
func hasOpen(pid int, path string) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if to, _ := os.Readlink(f); to == path {
			return true
		}
	}
	return false
}
