package table_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

const lockTables = `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	CREATE TABLE "a/b" (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	CREATE TABLE "a%2Fb" (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	CREATE TABLE "../x" (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
	CREATE TABLE "BACKLOG-run.lock" (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)`

// locker opens a table as another process would.
func locker(tb testing.TB, path, schema, name string) backlog.Locker {
	tb.Helper()
	ctx := context.Background()
	db, err := openDB(ctx, "sqlite:"+path, table.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	m := plainMapping()
	m.Schema, m.Name = schema, name
	s, err := table.New(ctx, db, m)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func lock(tb testing.TB, l backlog.Locker) backlog.Lock {
	tb.Helper()
	held, err := l.TryLock(context.Background(), backlog.RunLock)
	if err != nil {
		tb.Fatal(err)
	}
	if err := held.Check(context.Background()); err != nil {
		tb.Errorf("Check of a lock just taken: %v", err)
	}
	return held
}

func unlock(tb testing.TB, l backlog.Lock) {
	tb.Helper()
	if err := l.Unlock(); err != nil {
		tb.Error(err)
	}
}

func wantLocked(tb testing.TB, what string, l backlog.Locker) {
	tb.Helper()
	held, err := l.TryLock(context.Background(), backlog.RunLock)
	if !errors.Is(err, backlog.ErrLocked) {
		tb.Errorf("%s: got error %v, want ErrLocked", what, err)
	}
	if err == nil {
		held.Unlock()
	}
}

// TestLockIsThatOfTheTable: one table is locked under all of its names, others
// are not.
func TestLockIsThatOfTheTable(t *testing.T) {
	f := newFile(t, lockTables)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(f.path, link); err != nil {
		t.Fatal(err)
	}
	chain := filepath.Join(t.TempDir(), "chain.db")
	if err := os.Symlink(link, chain); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(f.path))
	held := lock(t, locker(t, f.path, "", "BACKLOG"))
	for _, path := range []string{f.path, link, chain, "a.db", "./../" + filepath.Base(filepath.Dir(f.path)) + "/a.db"} {
		for _, name := range []string{"BACKLOG", "backlog"} {
			for _, schema := range []string{"", "main", "MAIN"} {
				wantLocked(t, path+" "+schema+" "+name, locker(t, path, schema, name))
			}
		}
	}
	for _, name := range []string{"a/b", "a%2Fb", "../x", "BACKLOG-run.lock"} {
		other := lock(t, locker(t, f.path, "", name))
		wantLocked(t, name, locker(t, link, "", name))
		defer unlock(t, other)
	}
	unlock(t, held)
	unlock(t, lock(t, locker(t, chain, "main", "backlog")))

	files, err := filepath.Glob(f.path + "-backlog-*.lock")
	if err != nil || len(files) != 5 {
		t.Errorf("the lock files beside the database are %q, %v, want one for each table", files, err)
	}
}

// An account that can read a lock file can hold the lock. The file is open to those that can read the database.
func TestLockFileHasThePermissionsOfTheDatabase(t *testing.T) {
	for _, want := range []os.FileMode{0o600, 0o640, 0o644} {
		f := newFile(t, lockTables)
		if err := os.Chmod(f.path, want); err != nil {
			t.Fatal(err)
		}
		unlock(t, lock(t, locker(t, f.path, "", "BACKLOG")))
		info, err := os.Stat(f.path + "-backlog-backlog-run.lock")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, "the permissions of the lock file", info.Mode().Perm(), want)
	}
}

func TestLockNoticesThatItsFileIsGone(t *testing.T) {
	f := newFile(t, lockTables)
	ctx := context.Background()
	held := lock(t, locker(t, f.path, "", "BACKLOG"))
	path := f.path + "-backlog-backlog-run.lock"
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := held.Check(ctx); err == nil || !strings.HasPrefix(err.Error(), "lock file: ") {
		t.Errorf("Check when the file was removed: got %v", err)
	}
	other := lock(t, locker(t, f.path, "", "BACKLOG")) // of a new file
	if err := held.Check(ctx); err == nil || err.Error() != "lock file: "+path+" was replaced" {
		t.Errorf("Check when another process has a new file: got %v", err)
	}
	unlock(t, held)
	if err := other.Check(ctx); err != nil {
		t.Errorf("Check of the new file's lock when the old one's was given back: %v", err)
	}
	wantLocked(t, "the new file", locker(t, f.path, "", "BACKLOG"))
	unlock(t, other)
}

// A database file that is replaced stays open, and no other program sees what is written to it.
func TestLockNoticesThatTheDatabaseIsReplaced(t *testing.T) {
	f := newFile(t, lockTables)
	ctx := context.Background()
	again := locker(t, f.path, "", "BACKLOG")
	held := lock(t, again)
	if err := os.Rename(f.path, f.path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := held.Check(ctx); !errors.Is(err, backlog.ErrUnavailable) {
		t.Errorf("Check when the database was removed: got %v", err)
	}
	newCopy, err := os.ReadFile(f.path + ".old")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path, newCopy, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := held.Check(ctx); !errors.Is(err, backlog.ErrReplaced) {
		t.Errorf("Check when the database was replaced: got %v", err)
	}
	unlock(t, held)
	if l, err := again.TryLock(ctx, backlog.RunLock); !errors.Is(err, backlog.ErrReplaced) {
		t.Errorf("a lock when the database was replaced: got %v, %v", l, err)
	}
}

// What is written to a write-ahead log that was removed is lost.
func TestLockNoticesThatTheLogIsRemoved(t *testing.T) {
	f := newFile(t, lockTables)
	f.exec("PRAGMA journal_mode = WAL")
	held := lock(t, locker(t, f.path, "", "BACKLOG"))
	if err := os.Remove(f.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := held.Check(context.Background()); !errors.Is(err, backlog.ErrReplaced) {
		t.Errorf("Check when the log was removed: got %v", err)
	}
	held.Unlock()
}

// TestLockDiesWithItsProcess: another process holds it, until it is killed.
func TestLockDiesWithItsProcess(t *testing.T) {
	if path := os.Getenv("BACKLOG_TEST_LOCK"); path != "" {
		held := lock(t, locker(t, path, "", "BACKLOG"))
		defer held.Unlock()
		os.Stdout.WriteString("locked\n")
		os.Stdin.Read(make([]byte, 1)) // until the test kills us or ends itself
		return
	}
	f := newFile(t, lockTables)
	c := exec.Command(os.Args[0], "-test.run=^TestLockDiesWithItsProcess$")
	c.Env = append(os.Environ(), "BACKLOG_TEST_LOCK="+f.path)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	ours := locker(t, f.path, "", "BACKLOG")
	wantLocked(t, "the lock of another process", ours)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	unlock(t, lock(t, ours))
}
