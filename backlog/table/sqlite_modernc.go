//go:build !cgo_sqlite

package table

import (
	"errors"

	driver "modernc.org/sqlite"
)

// The pure Go driver, the default.
const (
	sqliteDriver = "sqlite"
	// SQLiteDriver is the name of the module that speaks to SQLite.
	SQLiteDriver = "modernc.org/sqlite"
	// Every transaction is for writing: one that begins by reading could
	// not become one later (SQLITE_BUSY_SNAPSHOT, whatever the timeout).
	sqliteParams = "_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(%s)"
)

func sqliteCode(err error) (int, bool) {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return e.Code(), true
	}
	return 0, false
}
