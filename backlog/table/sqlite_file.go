package table

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"backlog/backlog"
)

// A watchedFile notices that the database file is gone or another one, such as
// a backup put in its place: SQLite itself would go on with the old one, which
// nobody sees any more.
type watchedFile struct {
	path string

	mu   sync.Mutex
	info os.FileInfo // of the one that connections have open; nil until the first look
}

// look reports whether the file is another one than at the last look. It does
// not open it: closing it again would end the locks that all connections of
// this process have on it.
func (w *watchedFile) look() (replaced bool, err error) {
	info, err := os.Stat(w.path)
	if err != nil {
		return false, fmt.Errorf("%w: the database file %s is gone", backlog.ErrAway, w.path)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	replaced = w.info != nil && !os.SameFile(w.info, info)
	w.info = info
	return replaced, nil
}

// there makes sure that the database is where it was. Connections to another
// file that has been there are closed.
func (db *DB) there() error {
	if db.file == nil {
		return nil
	}
	replaced, err := db.file.look()
	if err != nil || !replaced {
		return err
	}
	for _, p := range []*sql.DB{db.read, db.write} {
		if p != nil {
			most := p.Stats().MaxOpenConnections
			p.SetMaxIdleConns(-1) // closes them
			p.SetMaxIdleConns(most)
		}
	}
	return nil
}

// inFolder says where a file is looked for, if its path does not.
func inFolder(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil || filepath.IsAbs(path) {
		return ""
	}
	return " in " + filepath.Dir(abs)
}
