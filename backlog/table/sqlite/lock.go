package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// Lock implements db.Server: it locks a file beside the database. The operating
// system lets go of it when the process ends, however it ends; the file itself
// stays.
func (s *server) Lock(ctx context.Context, c *db.Catalog, name string) (backlog.Lock, error) {
	if s.path == inMemory {
		l := memoryLock{s.own, strings.ToLower(c.Name), name}
		if _, taken := memoryLocks.LoadOrStore(l, true); taken {
			return nil, backlog.ErrLockedHere
		}
		return l, nil
	}
	// All names of the database file lead to the same lock.
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	path += "-backlog-" + url.PathEscape(strings.ToLower(c.Name)) + "-" + name + ".lock"
	if _, err := os.Stat(path); s.look && errors.Is(err, fs.ErrNotExist) {
		return memoryLock{}, nil // nobody has ever had it
	}
	l := flock.New(path, flock.SetPermissions(0o644))
	ok, err := l.TryLock()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, db.Deniedf("give this user the right to create files in that folder, as SQLite itself needs it", "the lock file cannot be opened: %v", err)
	case err != nil:
		return nil, fmt.Errorf("lock file: %w", err)
	case !ok || fileLock{l}.Check(ctx) != nil: // or somebody replaces it just now
		l.Unlock()
		return nil, backlog.ErrLockedHere
	}
	return fileLock{l}, nil
}

type fileLock struct{ *flock.Flock }

// Check finds out whether the file has been removed or replaced: another
// process would then lock the new one.
func (l fileLock) Check(context.Context) error {
	held, err := l.Stat()
	now, missing := os.Stat(l.Path())
	if err = cmp.Or(err, missing); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if !os.SameFile(held, now) {
		return fmt.Errorf("lock file: %s was replaced", l.Path())
	}
	return nil
}

// A memoryLock locks a table in a database that only one pool can reach.
type memoryLock struct{ pool, table, name any }

// memoryLocks are the ones that are held.
var memoryLocks sync.Map

// Check returns nil: nobody can take it away.
func (memoryLock) Check(context.Context) error { return nil }

func (l memoryLock) Unlock() error {
	memoryLocks.Delete(l)
	return nil
}
