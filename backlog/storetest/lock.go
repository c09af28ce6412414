package storetest

import (
	"errors"

	"backlog/backlog"
)

func (f *fixture) locker(s backlog.Store) backlog.Locker {
	f.Helper()
	l, ok := s.(backlog.Locker)
	if !ok {
		f.Skip("the store is no backlog.Locker")
	}
	return l
}

// lock takes a lock that is free.
func (f *fixture) lock(l backlog.Locker, name backlog.LockName, who string) backlog.Lock {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if err != nil {
		f.Fatalf("TryLock of the free %s lock by %s: want the lock, got error: %v", name, who, err)
	}
	if err := lock.Check(f.Context()); err != nil {
		f.Errorf("Check of the %s lock just taken by %s: want nil, got %v", name, who, err)
	}
	return lock
}

func (f *fixture) wantLocked(l backlog.Locker, name backlog.LockName, who string) {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if !errors.Is(err, backlog.ErrLocked) {
		f.Errorf("TryLock of the held %s lock by %s: want ErrLocked, got error %v", name, who, err)
	}
	if err == nil {
		f.unlock(lock, name)
	}
}

func (f *fixture) unlock(l backlog.Lock, name backlog.LockName) {
	f.Helper()
	if err := l.Unlock(); err != nil {
		f.Fatalf("Unlock of the %s lock: want nil, got %v", name, err)
	}
}

// testLock checks both locks between users of one store.
func testLock(f *fixture) {
	f.testLocks(f.h.Store(), "another user of the store")
}

// testLockOfAnotherProcess checks them between two stores on one table.
func testLockOfAnotherProcess(f *fixture) {
	opener, ok := f.h.(Opener)
	if !ok {
		f.Skip("the harness cannot open its table twice")
	}
	other, err := opener.Open()
	if err != nil {
		f.Fatalf("harness: open the table again: %v", err)
	}
	f.testLocks(other, "another process")
}

func (f *fixture) testLocks(another backlog.Store, who string) {
	f.Helper()
	ours, theirs := f.locker(f.h.Store()), f.locker(another)

	run := f.lock(ours, backlog.RunLock, "us")
	f.wantLocked(theirs, backlog.RunLock, who)
	leader := f.lock(theirs, backlog.LeaderLock, who) // the two are independent
	f.wantLocked(ours, backlog.LeaderLock, "us")
	if err := run.Check(f.Context()); err != nil {
		f.Errorf("Check of the run lock, which others have tried to take: want nil, got %v", err)
	}

	f.unlock(run, backlog.RunLock)
	if err := leader.Check(f.Context()); err != nil {
		f.Errorf("Check of the leader lock after Unlock of the run lock: want nil, got %v", err)
	}
	run = f.lock(theirs, backlog.RunLock, who)
	f.wantLocked(ours, backlog.RunLock, "us")
	f.unlock(run, backlog.RunLock)
	f.unlock(leader, backlog.LeaderLock)
	f.unlock(f.lock(ours, backlog.LeaderLock, "us"), backlog.LeaderLock)
}
