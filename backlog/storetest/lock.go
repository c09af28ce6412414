package storetest

import (
	"errors"

	"backlog/backlog"
)

// testLock checks both locks between users of one store.
func testLock(f *fixture) { f.testLocks(f.h.Store(), "another user of the store") }

// testLockOfAnotherProcess checks them between two stores on one table.
func testLockOfAnotherProcess(f *fixture) { f.testLocks(f.another(), "another process") }

func (f *fixture) testLocks(another backlog.Store, who string) {
	f.Helper()
	ours, ok := f.h.Store().(backlog.Locker)
	if !ok {
		f.Skip("the store is no backlog.Locker")
	}
	theirs := another.(backlog.Locker)

	run := f.lock(ours, backlog.RunLock, "us")
	f.wantLocked(theirs, backlog.RunLock, who)
	leader := f.lock(theirs, backlog.LeaderLock, who) // the two are independent
	f.wantLocked(ours, backlog.LeaderLock, "us")
	f.wantHeld(run, backlog.RunLock, "which others have tried to take")

	f.unlock(run, backlog.RunLock)
	f.wantHeld(leader, backlog.LeaderLock, "after Unlock of the run lock")
	run = f.lock(theirs, backlog.RunLock, who)
	f.wantLocked(ours, backlog.RunLock, "us")
	f.unlock(run, backlog.RunLock)
	f.unlock(leader, backlog.LeaderLock)
	f.unlock(f.lock(ours, backlog.LeaderLock, "us"), backlog.LeaderLock)
}

// lock takes a lock that is free.
func (f *fixture) lock(l backlog.Locker, name string, who string) backlog.Lock {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if err != nil {
		f.Fatalf("TryLock of the free %s lock by %s: want the lock, got error: %v", name, who, err)
	}
	f.wantHeld(lock, name, "just taken by "+who)
	return lock
}

func (f *fixture) wantHeld(l backlog.Lock, name string, when string) {
	f.Helper()
	if err := l.Check(f.Context()); err != nil {
		f.Errorf("Check of the %s lock, %s: want nil, got %v", name, when, err)
	}
}

func (f *fixture) wantLocked(l backlog.Locker, name string, who string) {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if !errors.Is(err, backlog.ErrLocked) {
		f.Errorf("TryLock of the held %s lock by %s: want ErrLocked, got error %v", name, who, err)
	}
	if err == nil {
		f.unlock(lock, name)
	}
}

func (f *fixture) unlock(l backlog.Lock, name string) {
	f.Helper()
	if err := l.Unlock(); err != nil {
		f.Fatalf("Unlock of the %s lock: want nil, got %v", name, err)
	}
}
