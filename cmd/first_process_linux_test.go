package cmd_test

import (
	"syscall"
	"testing"

	"backlog/internal/testkit"
)

// A daemon that is the first process of a container reaps what its handlers leave behind, and
// ends as any other: it needs no init.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./leave.sh], concurrency: 4}\ntiers: [{max_age: 1d, every: 1s}]\n",
		// What is left behind ends when the script has: at once, and after that in a session of its own.
		"leave.sh": "#!/bin/sh\n: &\nsetsid sleep 0.2 </dev/null >/dev/null 2>&1 &\n[ \"$BACKLOG_ID\" -gt 20 ] && echo working >>working && sleep 1\nexit 0\n",
	})
	s.mustRun("init", "--create-table")
	s.sql("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO BACKLOG (id) SELECT i FROM n")
	s.sys = testkit.FirstProcess(t)
	d := s.start("run")
	succeeded := func() string { return s.rows("SELECT count(*) FROM BACKLOG WHERE status = 'SUCCESS'") }
	if !eventually(func() bool { return succeeded() == "20\n" }) {
		t.Fatalf("not every handler has succeeded:\n%s", d.log)
	}
	testkit.NoZombies(t, d.cmd.Process.Pid)

	s.sql("INSERT INTO BACKLOG (id) VALUES (21)")
	if !eventually(func() bool { return s.read("working") != "" }) {
		t.Fatalf("the last handler does not start:\n%s", d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	if got := succeeded(); got != "21\n" {
		t.Errorf("%s have succeeded, want all 21:\n%s", got, d.log)
	}
}
