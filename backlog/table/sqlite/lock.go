package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// Lock implements db.Server. It locks a file next to the database. The operating system releases the
// lock when the process ends for any reason; the file stays.
func (s *server) Lock(ctx context.Context, c *db.Catalog, l db.LockName) (backlog.Lock, error) {
	if s.path == inMemory {
		m := memoryLock{s.foreignPool, strings.ToLower(c.Name), l.String()}
		if _, taken := memoryLocks.LoadOrStore(m, true); taken {
			return nil, backlog.ErrLockedHere
		}
		return m, nil
	}
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	path, err := s.lockPath(c, l)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); s.readOnly && errors.Is(err, fs.ErrNotExist) {
		return memoryLock{}, nil // without the file there is no lock on it
	}
	file := fileLock{flock.New(path, flock.SetPermissions(s.permissions())), s}
	ok, err := file.TryLock()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, db.Deniedf("give this user the right to create files in that folder, as SQLite itself needs it", "the lock file cannot be opened: %v", err)
	case err != nil:
		return nil, fmt.Errorf("lock file: %w", err)
	case !ok:
		if rival, err := s.Rival(ctx, nil, c, l); err == nil && rival != nil {
			return nil, rival
		}
		return nil, backlog.ErrLockedHere
	case file.Check(ctx) != nil: // another process is just replacing the file
		file.Flock.Unlock()
		return nil, backlog.ErrLockedHere
	}
	if !s.readOnly {
		_ = file.Mark(ctx, l.Work) // a lock without marks is a lock too
	}
	return file, nil
}

// permissions returns the permissions of the database file, as SQLite gives them to its journal. An account that can read a
// lock file can hold the lock, so the file is not for more accounts than the database is.
func (s *server) permissions() fs.FileMode {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0o600
	}
	return info.Mode().Perm()
}

// lockPath returns the path of the lock file, which is the same for every path of the database. A comma
// separates the table from the work, because escaped names contain no comma.
func (s *server) lockPath(c *db.Catalog, l db.LockName) (string, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	path += "-backlog-" + url.PathEscape(strings.ToLower(c.Name))
	if l.Work.Name != "" {
		path += "," + l.Work.Name
	}
	return path + "-" + l.Name + ".lock", nil
}

// Rival implements db.Server.
func (s *server) Rival(ctx context.Context, _ db.Querier, c *db.Catalog, l db.LockName) (*backlog.Rival, error) {
	if s.path == inMemory || len(l.Work.Marks) == 0 {
		return nil, nil
	}
	path, err := s.lockPath(c, l)
	if err != nil {
		return nil, err
	}
	return db.ConfirmRival(ctx, func() (*backlog.Rival, error) { return lookAt(path, l.Work) })
}

// lookAt compares the work with the marks in the lock file, if that is locked.
func lookAt(path string, w backlog.Work) (*backlog.Rival, error) {
	text, _ := os.ReadFile(path) // a file that cannot be read has no marks
	var marks []backlog.Mark
	if json.Unmarshal(text, &marks) != nil || len(marks) == 0 {
		return nil, nil // the holder leaves no marks, such as an older version
	}
	file := flock.New(path)
	defer file.Close()
	if free, err := file.TryRLock(); free || err != nil {
		return nil, err
	}
	return w.Rival(func(m backlog.Mark) bool { return slices.Contains(marks, m) }), nil
}

// A fileLock is a lock on a file.
type fileLock struct {
	*flock.Flock
	server *server
}

var _ backlog.Marker = fileLock{}

// Mark implements backlog.Marker. It writes the marks into the lock file.
func (l fileLock) Mark(ctx context.Context, w backlog.Work) error {
	if err := l.Check(ctx); err != nil {
		return err // the file is another process's
	}
	var text []byte
	if len(w.Marks) > 0 {
		text, _ = json.Marshal(w.Marks)
	}
	file, err := os.OpenFile(l.Path(), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// Unlock implements backlog.Lock.
func (l fileLock) Unlock() error {
	if info, err := l.Stat(); err == nil && info.Size() > 0 {
		_ = l.Mark(context.Background(), backlog.Work{}) // the next holder may be a version without marks
	}
	return l.Flock.Unlock()
}

// Check verifies that neither the database file nor the lock file was removed or replaced. Another process could lock
// a new one.
func (l fileLock) Check(context.Context) error {
	if err := l.server.checkFiles(); err != nil {
		return err
	}
	held, err := l.Stat()
	now, missing := os.Stat(l.Path())
	err = cmp.Or(err, missing)
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if !os.SameFile(held, now) {
		return fmt.Errorf("lock file: %s was replaced", l.Path())
	}
	return nil
}

// A memoryLock locks a table of a database in memory, which only one pool can reach.
type memoryLock struct{ pool, table, name any }

// memoryLocks has the memory locks that are held.
var memoryLocks sync.Map

// Check returns nil, since only Unlock ends the lock.
func (memoryLock) Check(context.Context) error { return nil }

func (l memoryLock) Unlock() error {
	memoryLocks.Delete(l)
	return nil
}
