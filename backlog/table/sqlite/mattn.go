//go:build cgo_sqlite

package sqlite

import (
	"errors"

	driver "github.com/mattn/go-sqlite3"
)

// The cgo driver, with the build tag cgo_sqlite.
const (
	driverName = "sqlite3"
	// Driver is the name of the module that speaks to SQLite.
	Driver = "github.com/mattn/go-sqlite3"
	// codeInText says that messages end in the code.
	codeInText = false
	// Every transaction is for writing: one that begins by reading could
	// not become one later (SQLITE_BUSY_SNAPSHOT, whatever the timeout).
	// SQLite need not lock each call: database/sql lets one goroutine at a
	// time use a connection, and every statement is closed by hand.
	driverParams = "_txlock=immediate&_mutex=no&_busy_timeout=%d&_synchronous=%s"
	// The driver cannot tell SQLite that a name in double quotes is no text.
	readParams = ""
)

// codeOf returns the extended result code, 0 if the error is not of SQLite:
// https://sqlite.org/rescode.html
func codeOf(err error) int {
	if e := (driver.Error{}); errors.As(err, &e) {
		return int(e.ExtendedCode)
	}
	return 0
}
