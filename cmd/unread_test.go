package cmd_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// fullPipe returns the end to write to of a pipe that has no room left.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := w.Write(make([]byte, 1<<20)); err == nil {
		t.Fatalf("%d bytes have room in a pipe", n)
	}
	return r, w
}

// A log that nobody reads costs log lines only: records are handled, a lost lock
// is noticed and taken again, and SIGTERM ends the program.
func TestLogNobodyReads(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, map[string]string{"handler.sh": "#!/bin/sh\necho $BACKLOG_ID >>handled.log\nexit 1\n"})
		s.configure("a", nil, "handler: {exec: [./handler.sh]}\ntiers: [{max_age: 1d, every: 1s}]")
		s.fillNew(3)
		_, w := fullPipe(t)
		c := s.command("run", "--config", "a.yaml")
		c.Stderr = w
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		t.Cleanup(func() { c.Process.Kill() })
		goesOn := func(when string) {
			t.Helper()
			before := strings.Count(s.read("handled.log"), "\n")
			if !eventually(func() bool { return strings.Count(s.read("handled.log"), "\n") > before+6 }) {
				t.Fatalf("no record is handled %s", when)
			}
		}
		goesOn("from the start")
		if kind != onSQLite {
			s.endSessions() // and the lock with them
			goesOn("after the lock was lost")
		}
		c.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("SIGTERM does not end it")
		}
	})
}

// The report of a pass is no log: it comes, and so does the pass's end.
func TestOnceWithLogNobodyReads(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "handler: {exec: ['false']}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	s.sql("INSERT INTO BACKLOG (id) VALUES (1), (2)")
	var out testkit.Buffer
	_, w := fullPipe(t)
	c := s.command("once", "--max-age", "1d")
	c.Stdout, c.Stderr = &out, w
	began := time.Now()
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if want := "1d: 2 records selected, 2 failed in "; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the report is %q, want %q", out.String(), want)
	}
}

// A report that nobody reads is waited for, but by nobody who says that it may end.
func TestOnceWithReportNobodyReads(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": "handler: {exec: ['true']}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n"})
	s.mustRun("init", "--create-table")
	s.sql("INSERT INTO BACKLOG (id) VALUES (1)")
	_, w := fullPipe(t)
	c := s.command("once", "--max-age", "1d")
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { c.Process.Kill() })
	if !eventually(func() bool { return strings.Contains(s.rows("SELECT status FROM BACKLOG"), "SUCCESS") }) {
		t.Fatal("the record is not handled")
	}
	s.mustRun("once", "--max-age", "1d", "--wait", "10s") // when the other's pass has ended
	c.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("SIGTERM does not end it")
	}
}
