package table_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// The holder of a lock leaves marks beside it, by which another configuration is found
// out: never the same one, nor a holder without marks, as of an older version. Works with
// names have locks of their own.
func TestRivalAtTheLock(t *testing.T) {
	for _, kind := range []struct {
		name string
		open func(t *testing.T) (ours, theirs *table.Table)
	}{
		{"sqlite", func(t *testing.T) (ours, theirs *table.Table) {
			f := newFile(t, lockTables)
			return locker(t, f.path, "", "BACKLOG").(*table.Table), locker(t, f.path, "", "BACKLOG").(*table.Table)
		}},
		{"postgres", func(t *testing.T) (ours, theirs *table.Table) {
			s, ours, _ := lockable(t)
			theirs, err := s.open(s.url, jobs())
			if err != nil {
				t.Fatal(err)
			}
			return ours, theirs
		}},
		{"mysql", func(t *testing.T) (ours, theirs *table.Table) {
			plain, url := newMySQL(t)
			t.Cleanup(func() { plain.Close() })
			execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME)")
			return mysqlLocker(t, url, "", "BACKLOG").(*table.Table), mysqlLocker(t, url, "", "BACKLOG").(*table.Table)
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := kind.open(t)
			rivals(t, ours, theirs)
			marksBesideChecks(t, ours)
		})
	}
}

// marksBesideChecks has a lock get other marks, as at a reload, while it is looked at. The session has one
// connection for both, and is not lost.
func marksBesideChecks(t *testing.T, ours *table.Table) {
	t.Helper()
	work := func(i int) backlog.Work {
		return backlog.Work{Marks: []backlog.Mark{{What: "where", Digest: fmt.Sprint(i)}, {What: "handler", Digest: "send"}}}
	}
	lock, err := ours.Locker(work(0)).TryLock(t.Context(), backlog.RunLock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	marked := make(chan error, 1)
	go func() {
		for i := range 80 {
			if err := lock.(backlog.Marker).Mark(t.Context(), work(i)); err != nil {
				marked <- err
				return
			}
		}
		marked <- nil
	}()
	for {
		select {
		case err := <-marked:
			if err != nil {
				t.Errorf("the lock cannot be marked: %v", err)
			}
			return
		default:
			if err := lock.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func rivals(t *testing.T, ours, theirs *table.Table) {
	t.Helper()
	marked := func(name, where, handler string) backlog.Work {
		return backlog.Work{Name: name, Marks: []backlog.Mark{{What: "where", Digest: where}, {What: "handler", Digest: handler}}}
	}
	mail, sms, plain := marked("", "mail", "send"), marked("", "sms", "send"), backlog.Work{}
	ctx := t.Context()
	// want asserts what others get who ask for the lock, and what they are told who only look.
	want := func(what string, w backlog.Work, differs ...string) {
		t.Helper()
		lock, err := theirs.Locker(w).TryLock(ctx, backlog.RunLock)
		if !errors.Is(err, backlog.ErrLocked) {
			t.Fatalf("%s: got %v, want it locked", what, err)
		}
		got, _ := errors.AsType[*backlog.Rival](err)
		looked, err := theirs.Rival(ctx, backlog.RunLock, w)
		for _, r := range []*backlog.Rival{got, looked} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			var got []string
			if r != nil {
				got = r.Differs
			}
			if (r != nil) != (len(differs) > 0) || !slices.Equal(got, differs) {
				t.Errorf("%s: got the rival %+v, want one that differs in %v (%v)", what, r, differs, lock)
			}
		}
	}
	take := func(l *table.Table, w backlog.Work) backlog.Lock {
		t.Helper()
		lock, err := l.Locker(w).TryLock(ctx, backlog.RunLock)
		if err != nil {
			t.Fatal(err)
		}
		return lock
	}
	for range 3 { // the marks of a lock that was given back are nobody's
		held := take(ours, mail)
		want("the same", mail)
		want("another where", sms, "where")
		want("all is different", marked("", "sms", "push"), "where", "handler")
		want("who leaves no marks", plain)
		named := take(theirs, marked("sms", "sms", "send"))
		other := take(theirs, marked("mail", "mail", "send"))
		unlock(t, named)
		unlock(t, other)
		if err := held.(backlog.Marker).Mark(ctx, sms); err != nil {
			t.Fatal(err)
		}
		want("the new one", sms)
		want("the old one", mail, "where")
		if err := held.Check(ctx); err != nil {
			t.Error(err)
		}
		unlock(t, held)
		if r, err := theirs.Rival(ctx, backlog.RunLock, mail); r != nil || err != nil {
			t.Errorf("a free lock: %v, %v", r, err)
		}
		held = take(theirs, plain)
		want("beside who leaves none", mail)
		unlock(t, held)
		unlock(t, take(theirs, sms))
	}
}

// The marks in a lock file are those of its holder: what a killed one has left there is
// no reason to refuse others, or to take the next holder for it.
func TestMarksOfAKilledHolder(t *testing.T) {
	f := newFile(t, lockTables)
	ours := locker(t, f.path, "", "BACKLOG").(*table.Table)
	w := backlog.Work{Marks: []backlog.Mark{{What: "where", Digest: "mail"}}}
	path := f.path + "-backlog-backlog-run.lock"
	if err := os.WriteFile(path, []byte(`[{"what":"where","digest":"sms"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := ours.Rival(t.Context(), backlog.RunLock, w); r != nil || err != nil {
		t.Errorf("while it is free: %v, %v", r, err)
	}
	held := lock(t, ours)
	if r, err := ours.Rival(t.Context(), backlog.RunLock, w); r != nil || err != nil {
		t.Errorf("while one without marks has it: %v, %v", r, err)
	}
	unlock(t, held)
	unlock(t, lock(t, ours))
}
