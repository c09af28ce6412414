package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"backlog/backlog"
)

// tryLock locks a file beside the database. The operating system lets go of it
// when the process ends, however it ends; the file itself stays.
func (d sqlite) tryLock(ctx context.Context, _, table string, name backlog.LockName) (backlog.Lock, error) {
	path, err := d.lockPath(table, string(name))
	if err != nil {
		return nil, err
	}
	l := flock.New(path, flock.SetPermissions(0o644))
	ok, err := l.TryLock()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, problem("give this user the right to create files in that folder, as SQLite itself needs it", "the lock file cannot be opened: %v", err)
	case err != nil:
		return nil, fmt.Errorf("lock file: %w", err)
	case !ok:
		return nil, backlog.ErrLocked
	}
	info, err := l.Stat() // of the file that is held, whichever has its name by now
	if err != nil {
		l.Unlock()
		return nil, fmt.Errorf("lock file: %w", err)
	}
	held := &fileLock{l, info}
	if held.Check(ctx) != nil {
		l.Unlock()
		return nil, backlog.ErrLocked // somebody replaces it just now
	}
	return held, nil
}

type fileLock struct {
	*flock.Flock
	info fs.FileInfo
}

// Check finds out whether the file has been removed or replaced: another
// process would then lock the new one.
func (l *fileLock) Check(context.Context) error {
	info, err := os.Stat(l.Path())
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if !os.SameFile(info, l.info) {
		return fmt.Errorf("lock file: %s was replaced", l.Path())
	}
	return nil
}

// lockPath is the file whose lock stands for the table's. All names of the
// database file lead to the same one.
func (d sqlite) lockPath(table, name string) (string, error) {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path + "-backlog-" + url.PathEscape(strings.ToLower(table)) + "-" + name + ".lock", nil
}
