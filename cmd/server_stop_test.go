package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stubborn does not end when it is told to, and notes that it lives.
const stubborn = `#!/bin/sh
trap '' TERM
while :; do
	echo "$BACKLOG_ATTEMPT_ID $(date +%s%N)" >>alive.log
	sleep 0.05
done
`

// lives returns when each process, by the beginning of its attempts, had the
// first and the last sign of life of a handler.
func (s *site) lives() (first, last map[string]int64) {
	first, last = make(map[string]int64), make(map[string]int64)
	for line := range strings.Lines(s.read("alive.log")) {
		var attempt string
		var at int64
		if n, _ := fmt.Sscan(line, &attempt, &at); n < 2 {
			continue // being written
		}
		process, _, _ := strings.Cut(attempt, "-")
		if first[process] == 0 {
			first[process] = at
		}
		last[process] = max(last[process], at)
	}
	return first, last
}

// Whoever loses the lock has killed its handlers before the standby's first one
// starts, however stubborn they are.
func TestLostLockKillsHandlers(t *testing.T) {
	t.Parallel()
	s := newSite(t, onPostgres, map[string]string{"handler.sh": stubborn})
	s.configure("a", nil, handling)
	s.configure("b", nil, handling)
	a := s.start("run", "--config", "a.yaml")
	a.says(`"msg":"leading"`)
	b := s.start("run", "--config", "b.yaml")
	b.says(`"msg":"standing by: another daemon leads"`)
	s.fillNew(8)
	if !eventually(func() bool { first, _ := s.lives(); return len(first) == 1 }) {
		t.Fatalf("the leader does nothing:\n%s", a.log)
	}
	s.rows(fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND granted AND application_name = '%s'`, s.own))
	if !eventually(func() bool { first, _ := s.lives(); return len(first) == 2 }) {
		t.Fatalf("nobody goes on:\n%s\n%s", a.log, b.log)
	}
	for _, d := range []*daemon{a, b} {
		d.signal(syscall.SIGTERM)
		d.cmd.Process.Signal(syscall.SIGTERM) // unless it has ended
		<-d.end
	}
	var older, newer string
	first, last := s.lives()
	for process, at := range first {
		if older == "" || at < first[older] {
			older, newer = process, older
		} else {
			newer = process
		}
	}
	if free := time.Duration(first[newer] - last[older]); free < 500*time.Millisecond {
		t.Errorf("the last sign of life of the old leader's handlers is %v before the first one of the new leader's", free)
	}
}

// A hundred signals to reload are one or two, and leave one healthy daemon that
// has what it had.
func TestManyReloads(t *testing.T) {
	t.Parallel()
	onSites(t, []*siteKind{onSQLite, onPostgres}, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
		s.configure("a", nil, handling)
		a := s.start("run", "--config", "a.yaml")
		a.says(`"msg":"leading"`)
		s.fillNew(4)
		if !eventually(func() bool { return s.count("SUCCESS") == 4 }) {
			t.Fatalf("nothing is done:\n%s", a.log)
		}
		has := func() (n int) {
			if kind == onSQLite {
				fds, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(a.cmd.Process.Pid), "fd"))
				return len(fds)
			}
			return len(strings.Fields(s.rows(fmt.Sprintf(kind.sessions, s.own))))
		}
		before := has()
		for range 100 {
			a.signal(syscall.SIGHUP)
			time.Sleep(10 * time.Millisecond)
		}
		a.says(`"msg":"configuration reloaded"`)
		s.mustExec(`UPDATE "BACKLOG" SET status = 'NEW'`)
		if !eventually(func() bool { return s.count("SUCCESS") == 4 }) {
			t.Fatalf("nothing is done after the reload:\n%s", a.log)
		}
		// A connection that the pool has just made for a page beside a write is closed again.
		if !eventually(func() bool { return has() <= before+2 }) {
			t.Errorf("it had %d connections or files, and has %d", before, has())
		}
		if n := strings.Count(a.log.String(), "configuration reloaded"); n > 2 {
			t.Errorf("want one or two reloads, got %d", n)
		}
		a.signal(syscall.SIGTERM)
		a.ends()
	})
}

// A stop while the database takes no writes ends, and names what is unwritten.
func TestStopWithoutWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite, map[string]string{"handler.sh": "#!/bin/sh\necho $BACKLOG_ID >>handled.log\nuntil [ -e go ]; do sleep 0.1; done\n"})
	s.configure("a", nil, "shutdown_timeout: 1s\n"+handling)
	a := s.start("run", "--config", "a.yaml")
	a.says(`"msg":"leading"`)
	s.fillNew(2)
	if !eventually(func() bool { return strings.Count(s.read("handled.log"), "\n") == 2 }) {
		t.Fatalf("the handlers do not start:\n%s", a.log)
	}
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE BACKLOG SET status = status"); err != nil {
		t.Fatal(err)
	}
	s.write("go", "")
	time.Sleep(300 * time.Millisecond) // the outcomes are on their way
	a.signal(syscall.SIGTERM)
	began := time.Now()
	<-a.end
	if took := time.Since(began); took < time.Second || took > 6*time.Second {
		t.Errorf("want the end 3s after the last handler's, got %v", took)
	}
	if log := a.log.String(); !strings.Contains(log, `"unwritten":2`) || !strings.Contains(log, "1, 2") && !strings.Contains(log, "2, 1") {
		t.Errorf("want the unwritten outcomes named in the log:\n%s", log)
	}
	if status := a.cmd.ProcessState.ExitCode(); status != 1 {
		t.Errorf("want exit status 1 where outcomes are lost, got %d", status)
	}
}

// The second signal kills handlers at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite, map[string]string{"handler.sh": stubborn})
	s.configure("a", nil, handling)
	a := s.start("run", "--config", "a.yaml")
	a.says(`"msg":"leading"`)
	s.fillNew(2)
	if !eventually(func() bool { first, _ := s.lives(); return len(first) == 1 }) {
		t.Fatalf("the leader does nothing:\n%s", a.log)
	}
	a.signal(syscall.SIGTERM)
	a.says(`"msg":"stopping: `)
	a.signal(syscall.SIGTERM)
	began := time.Now()
	<-a.end
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("want the end within 2s of the second signal, got %v", took)
	}
	_, before := s.lives()
	time.Sleep(200 * time.Millisecond)
	_, after := s.lives()
	for process := range after {
		if after[process] != before[process] {
			t.Errorf("a handler outlives the program:\n%s", a.log)
		}
	}
}
