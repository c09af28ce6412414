//go:build unix

package table_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// TestRights looks at files as a user who may not read or write them: in a
// process of its own, as an administrator may everything.
func TestRights(t *testing.T) {
	if dir := os.Getenv("BACKLOG_TEST_RIGHTS"); dir != "" {
		becomeAnother(t)
		testRights(t, dir)
		return
	}
	dir := t.TempDir()
	for _, x := range []struct {
		folder, journal      string
		fileMode, folderMode os.FileMode
	}{
		{"all", "DELETE", 0o666, 0o777},
		{"readable", "DELETE", 0o444, 0o777},
		{"unreadable", "DELETE", 0o000, 0o777},
		{"folder", "DELETE", 0o666, 0o555},
		{"wal", "WAL", 0o666, 0o555},
	} {
		f := newFile(t, "PRAGMA journal_mode = "+x.journal+`; CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
			INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00')`)
		f.plain.Close()
		folder := filepath.Join(dir, x.folder)
		to := filepath.Join(folder, "a.db")
		if err := errors.Join(os.Mkdir(folder, 0o777), os.Rename(f.path, to), os.Chmod(to, x.fileMode), os.Chmod(folder, x.folderMode)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(folder, 0o777) })
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(os.Args[0], "-test.run=^TestRights$", "-test.v")
	c.Env = append(os.Environ(), "BACKLOG_TEST_RIGHTS="+dir)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRights") {
		t.Errorf("%v\n%s", err, out)
	}
}

// becomeAnother gives up an administrator's rights for good.
func becomeAnother(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		t.Fatal(err)
	}
}

func testRights(t *testing.T, dir string) {
	const (
		write = "give this user the right to write the file, and to create others in its folder"
		read  = "give this user the right to read it, and to create files in its folder"
	)
	for _, x := range []struct{ folder, open, prove, lock string }{
		{"all", "", "", ""},
		{"readable", "", "the database FILE cannot be written to: …readonly database…; " + write, ""},
		{"unreadable", "the database file FILE cannot be opened: …unable to open database file…; " + read, "", ""},
		{"folder", "", "the database FILE cannot be written to: …readonly database…; " + write,
			"the lock file cannot be opened: …permission denied; give this user the right to create files in that folder, as SQLite itself needs it"},
		{"wal", "the database file FILE cannot be opened: …readonly database…; " + read, "", ""},
	} {
		path := filepath.Join(dir, x.folder, "a.db")
		want := func(what string, err error, want string) (ok bool) {
			got := "<nil>"
			if err != nil {
				got = strings.ReplaceAll(err.Error(), path, "FILE")
			}
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %s: got %s, want no error", x.folder, what, got)
			case want != "" && !errors.As(err, new(*table.Problem)):
				t.Errorf("%s: %s: got %s, want a Problem", x.folder, what, got)
			case want != "" && !testkit.Matches(got, want):
				t.Errorf("%s: %s:\n got %s\nwant %s", x.folder, what, got, want)
			}
			return err == nil
		}
		ctx := context.Background()
		ro, err := openDB(ctx, "sqlite:"+path, table.Options{ReadOnly: true})
		if want("Open to read", err, x.open) {
			defer ro.Close()
			s, err := table.New(ctx, ro, plainMapping())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Prove(ctx, noon); err != nil {
				t.Errorf("%s: Prove of what is only read: %v", x.folder, err)
			}
		}
		rw, err := openDB(ctx, "sqlite:"+path, table.Options{})
		if !want("Open", err, x.open) {
			continue
		}
		defer rw.Close()
		s, err := table.New(ctx, rw, plainMapping())
		if err != nil {
			t.Fatal(err)
		}
		err = s.Prove(ctx, noon)
		want("Prove", err, x.prove)
		l, err := s.TryLock(ctx, backlog.RunLock)
		if want("TryLock", err, x.lock) {
			l.Unlock()
		}
	}
}
