//go:build cgo_sqlite

package table

import (
	"errors"

	driver "github.com/mattn/go-sqlite3"
)

// The cgo driver, with the build tag cgo_sqlite.
const (
	sqliteDriver = "sqlite3"
	// SQLiteDriver is the name of the module that speaks to SQLite.
	SQLiteDriver = "github.com/mattn/go-sqlite3"
	// Every transaction is for writing: one that begins by reading could
	// not become one later (SQLITE_BUSY_SNAPSHOT, whatever the timeout).
	sqliteParams = "_txlock=immediate&_busy_timeout=%d&_synchronous=%s"
)

func sqliteCode(err error) (int, bool) {
	if e := (driver.Error{}); errors.As(err, &e) {
		return int(e.Code), true
	}
	return 0, false
}
