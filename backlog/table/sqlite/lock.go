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

// Lock implements db.Server: it locks a file beside the database. The operating
// system lets go of it when the process ends, however it ends; the file itself
// stays.
func (s *server) Lock(ctx context.Context, c *db.Catalog, l db.LockName) (backlog.Lock, error) {
	if s.path == inMemory {
		m := memoryLock{s.existing, strings.ToLower(c.Name), l.String()}
		if _, taken := memoryLocks.LoadOrStore(m, true); taken {
			return nil, backlog.ErrLockedHere
		}
		return m, nil
	}
	path, err := s.lockPath(c, l)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); s.readOnly && errors.Is(err, fs.ErrNotExist) {
		return memoryLock{}, nil // nobody has ever had it
	}
	file := fileLock{flock.New(path, flock.SetPermissions(0o644))}
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
	case file.Check(ctx) != nil: // another process replaces it just now
		file.Flock.Unlock()
		return nil, backlog.ErrLockedHere
	}
	if !s.readOnly {
		_ = file.Mark(ctx, l.Work) // without marks it is a lock all the same
	}
	return file, nil
}

// lockPath returns the lock's file: the same by whatever name the database is opened. A
// comma is in no escaped name of a table.
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

// lookAt compares the work with the marks of the file, if it is locked.
func lookAt(path string, w backlog.Work) (*backlog.Rival, error) {
	text, _ := os.ReadFile(path) // of none there are no marks
	var marks []backlog.Mark
	if json.Unmarshal(text, &marks) != nil || len(marks) == 0 {
		return nil, nil // an older version holds it, or one that leaves none
	}
	file := flock.New(path)
	defer file.Close()
	if free, err := file.TryRLock(); free || err != nil {
		return nil, err
	}
	return w.Rival(func(m backlog.Mark) bool { return slices.Contains(marks, m) }), nil
}

type fileLock struct{ *flock.Flock }

var _ backlog.Marker = fileLock{}

// Mark implements backlog.Marker: the marks are what the file has in it.
func (l fileLock) Mark(ctx context.Context, w backlog.Work) error {
	if err := l.Check(ctx); err != nil {
		return err // the file is another's
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
		_ = l.Mark(context.Background(), backlog.Work{}) // who comes next may leave none
	}
	return l.Flock.Unlock()
}

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
