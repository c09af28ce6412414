package storetest

import (
	"errors"

	"backlog/backlog"
)

// testLock checks both locks between users of one store, and between two stores on one
// table.
func testLock(f *fixture) {
	ours, ok := f.h.Store().(backlog.Locker)
	if !ok {
		f.Skip("the store is no backlog.Locker")
	}
	for _, theirs := range []backlog.Locker{ours, f.another().(backlog.Locker)} {
		run := f.lock(ours, backlog.RunLock)
		f.wantLocked(theirs, backlog.RunLock)
		leader := f.lock(theirs, backlog.LeaderLock) // the two are independent
		f.wantLocked(ours, backlog.LeaderLock)
		f.unlock(run)
		f.wantLocked(ours, backlog.LeaderLock)
		run = f.lock(theirs, backlog.RunLock)
		f.wantLocked(ours, backlog.RunLock)
		f.unlock(run)
		f.unlock(leader)
		f.unlock(f.lock(ours, backlog.LeaderLock))
	}
}

// lock takes a lock that is free.
func (f *fixture) lock(l backlog.Locker, name string) backlog.Lock {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if err != nil {
		f.Fatalf("TryLock of the free %s lock: want the lock, got error: %v", name, err)
	}
	return lock
}

func (f *fixture) wantLocked(l backlog.Locker, name string) {
	f.Helper()
	if lock, err := l.TryLock(f.Context(), name); !errors.Is(err, backlog.ErrLocked) {
		f.Fatalf("TryLock of the held %s lock: want ErrLocked, got %v and error %v", name, lock, err)
	}
}

// unlock gives up a lock that must be held until then, whatever others have tried.
func (f *fixture) unlock(l backlog.Lock) {
	f.Helper()
	if err := errors.Join(l.Check(f.Context()), l.Unlock()); err != nil {
		f.Fatalf("Check and Unlock of a held lock: want nil, got %v", err)
	}
}
