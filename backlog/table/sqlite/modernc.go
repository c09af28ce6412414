//go:build !cgo_sqlite

package sqlite

import (
	"errors"

	driver "modernc.org/sqlite"
)

// The pure Go driver, the default.
const (
	driverName = "sqlite"
	// Driver is the name of the module that speaks to SQLite.
	Driver = "modernc.org/sqlite"
	// codeInText says that messages end in the code.
	codeInText = true
	// Every transaction is for writing: one that begins by reading could
	// not become one later (SQLITE_BUSY_SNAPSHOT, whatever the timeout).
	driverParams = "_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(%s)"
	// A name in double quotes that is no column's is an error of what reads, where SQLite would
	// take it for a text: a column that is gone would have its own name as its value. What
	// writes does without, since it runs the triggers of others, and these may have such texts.
	readParams = "&_dqs=0"
)

// codeOf returns the extended result code, 0 if the error is not of SQLite:
// https://sqlite.org/rescode.html
func codeOf(err error) int {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
