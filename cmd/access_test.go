package cmd_test

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"backlog/internal/testkit"
)

// nobody is a user without any right of its own.
const nobody = 65534

// newPrivateShop returns a shop whose commands are run by somebody who has just
// the rights that the files grant to others. Root has every right, so that
// then takes another user; anybody else takes rights from himself.
func newPrivateShop(t *testing.T, files map[string]string) *shop {
	t.Helper()
	if os.Getuid() != 0 {
		return newShop(t, files)
	}
	// Where the test keeps its own files others may not look.
	dir, err := os.MkdirTemp("/tmp", "backlog-access-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &shop{t: t, dir: dir, program: dir + "/backlog"}
	for name, text := range files {
		s.write(name, text)
	}
	copyProgram(t, s.program)
	s.chmod(0o777, ".")
	s.sys = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return s
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open(released)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, from); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// chmod sets the rights of files in the shop.
func (s *shop) chmod(mode os.FileMode, names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.Chmod(s.path(name), mode); err != nil {
			s.t.Fatal(err)
		}
	}
}

// refuses runs the program, which must end with the status and, beside its log
// and what it finds, the words.
func (s *shop) refuses(status int, words string, args ...string) {
	s.t.Helper()
	got, out, log := s.run(args...)
	said := out
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, `{"time":`) {
			said += line
		}
	}
	if got != status || !strings.Contains(said, words) {
		s.t.Errorf("backlog %s: exit status %d, want %d, and %q in:\n%s%s", strings.Join(args, " "), got, status, words, out, log)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	s := newPrivateShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh]}\ntiers: [{max_age: 1d, every: 5m}]\n",
		"handler.sh":    "#!/bin/sh\necho $BACKLOG_ID >>handled.log\n",
	})
	s.sql("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)",
		"INSERT INTO BACKLOG VALUES (1, 'NEW', datetime('now'))")
	untouched := func(when string) {
		t.Helper()
		if got := s.rows("SELECT status FROM BACKLOG"); got != "NEW\n" {
			t.Errorf("%s: the row is %q", when, got)
		}
		if handled := s.read("handled.log"); handled != "" {
			t.Errorf("%s: the handler was started for %q", when, handled)
		}
	}

	s.chmod(0o200, "schedule.yaml")
	s.refuses(2, "open schedule.yaml: permission denied\n", "once", "--max-age", "1d")
	s.chmod(0o644, "schedule.yaml")

	s.chmod(0o200, "backlog.db")
	const unreadable, cure = "the database file backlog.db cannot be opened: unable to open database file", "give this user the right to read it, and to create files in its folder\n"
	for _, args := range [][]string{{"once", "--max-age", "1d"}, {"status"}} {
		s.refuses(1, "backlog: "+unreadable, args...)
		s.refuses(1, "; "+cure, args...)
	}
	s.refuses(1, "FAIL  database    "+unreadable, "check")
	s.refuses(1, "cure: "+cure, "check")
	s.chmod(0o644, "backlog.db")
	untouched("not readable")

	// What may be read can be looked at.
	s.chmod(0o444, "backlog.db")
	s.chmod(0o555, ".")
	s.refuses(1, "backlog: the lock file cannot be opened: ", "once", "--max-age", "1d")
	s.refuses(1, "FAIL  rights      the database backlog.db cannot be written to: attempt to write a readonly database", "check")
	s.refuses(1, "cure: give this user the right to write the file, and to create others in its folder\n", "check")
	s.refuses(0, "up to 1d          1      0", "status")
	s.refuses(0, "1 record would be handled, in this order\n", "once", "--max-age", "1d", "--dry-run")
	s.refuses(0, "due           yes: ", "explain", "1")
	s.refuses(0, "1 pending record in the table", "simulate", "--live", "--for", "1h")
	s.chmod(0o666, "backlog.db")
	s.refuses(1, "backlog: the lock file cannot be opened: ", "once", "--max-age", "1d")
	s.refuses(1, "cure: give this user the right", "check")
	s.chmod(0o777, ".")
	untouched("not writable")

	s.chmod(0o600, "handler.sh")
	s.refuses(1, "backlog: handler: exec: ./handler.sh may not be executed by this user; run chmod +x ./handler.sh, or see the permissions of its directories and whether they are mounted noexec\n", "once", "--max-age", "1d")
	s.chmod(0o755, "handler.sh")
	untouched("not executable")

	// A state that cannot be kept is no reason not to work.
	s.write("state", "not a folder\n")
	status, out, log := s.run("once", "--max-age", "1d")
	if status != 0 || !strings.HasPrefix(out, "1d: 1 record selected, 1 succeeded in ") || !strings.Contains(log, "the state file cannot be used, a restart may not know what was missed") {
		t.Errorf("exit status %d\n%s%s", status, out, log)
	}
}

// TestRunWaitsForTheRightToWrite: a daemon says what is missing, and goes on when it is
// granted.
func TestRunWaitsForTheRightToWrite(t *testing.T) {
	t.Parallel()
	s := newPrivateShop(t, map[string]string{"schedule.yaml": "handler: {exec: [/bin/true]}\ntiers: [{max_age: 1d, every: 1s}]\n"})
	s.sql("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)",
		"INSERT INTO BACKLOG VALUES (1, 'NEW', datetime('now'))")
	const lock = "backlog.db-backlog-backlog-leader.lock"
	s.write(lock, "")
	s.chmod(0, lock)
	s.chmod(0o444, "backlog.db")
	s.chmod(0o555, ".")
	d := s.start("run")
	d.says(`waiting for the database","error":"the database backlog.db cannot be written to: attempt to write a readonly database`)
	s.chmod(0o666, "backlog.db")
	s.chmod(0o777, ".")
	d.says(`waiting","error":"the lock file cannot be opened: `)
	s.chmod(0o666, lock)
	d.says(`"succeeded":1,`)
}

// Who may not create a file or an index is told so, and sees no statement that
// was not run.
func TestAccessOfInit(t *testing.T) {
	t.Parallel()
	s := newPrivateShop(t, map[string]string{"schedule.yaml": "tiers: [{max_age: 1d, every: 5m}]\n"})
	s.sql("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)")
	s.chmod(0o444, "backlog.db")
	s.chmod(0o555, ".")
	defer s.chmod(0o777, ".")
	for _, x := range []struct{ database, want, cure string }{
		{
			database: "new.db",
			want:     "the database file new.db cannot be opened: unable to open database file",
			cure:     "give this user the right to read it, and to create files in its folder",
		},
		{
			database: "backlog.db",
			want:     "the database backlog.db cannot be written to: attempt to write a readonly database",
			cure:     "give this user the right to write the file, and to create others in its folder",
		},
	} {
		status, out, log := s.run("init", "--create-table", "--database", "sqlite:"+x.database)
		testkit.Equal(t, x.database+": exit status", status, 1)
		testkit.Equal(t, x.database+": output", out, "")
		if !strings.HasPrefix(log, "backlog: "+x.want) {
			t.Errorf("%s: got %q, want backlog: %s…", x.database, log, x.want)
		}
		if !strings.HasSuffix(log, "; "+x.cure+"\n") {
			t.Errorf("%s: got %q, want …; %s", x.database, log, x.cure)
		}
	}
}
