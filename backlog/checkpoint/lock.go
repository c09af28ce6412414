package checkpoint

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"backlog/backlog"
)

// RunLocker returns what takes the run lock of a server, and after it a file of this
// machine beside the checkpoint, which every process has locked as long as its passes
// have not ended. A process whose connection breaks loses the server's lock with it,
// and may learn that some seconds later; until its handlers have ended the next one
// waits for the file.
func (f *File) RunLocker(server backlog.Locker) backlog.Locker {
	return hereLocker{server, f.Path + ".run"}
}

type hereLocker struct {
	backlog.Locker
	path string
}

// TryLock implements backlog.Locker. The file alone keeps nobody off: a process
// that has it for longer than handlers go on after a lost lock stands still, or
// cannot write its outcomes.
func (l hereLocker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	lock, err := l.Locker.TryLock(ctx, name)
	if err != nil || name != backlog.RunLock {
		return lock, err
	}
	os.MkdirAll(filepath.Dir(l.path), 0o755)
	file := flock.New(l.path, flock.SetPermissions(0o644))
	if got, err := file.TryLock(); got || err != nil {
		return hereLock{lock, file}, nil
	}
	wctx, cancel := context.WithTimeout(ctx, backlog.TakeOverAfter)
	defer cancel()
	file.TryLockContext(wctx, 50*time.Millisecond)
	err = ctx.Err()
	if err == nil {
		err = lock.Check(ctx)
	}
	if err != nil {
		hereLock{lock, file}.Unlock()
		return nil, err
	}
	return hereLock{lock, file}, nil
}

type hereLock struct {
	backlog.Lock
	file *flock.Flock
}

// Unlock implements backlog.Lock.
func (l hereLock) Unlock() error {
	err := l.Lock.Unlock()
	l.file.Close()
	return err
}
