//go:build !cgo_sqlite

package sqlite

import (
	"errors"

	driver "modernc.org/sqlite"
)

// The driver in pure Go, which is the default.
const (
	driverName = "sqlite"
	// Driver is the Go module of the driver.
	Driver = "modernc.org/sqlite"
	// messagesEndInCode says whether the messages of errors end in the result code.
	messagesEndInCode = true
	// Transactions begin as writers. One that begins by reading could fail to become a writer
	// (SQLITE_BUSY_SNAPSHOT), regardless of the timeout.
	driverParams = "_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(%s)"
	// Reading connections treat a name in double quotes that is not a column's as an error. By default
	// SQLite takes it for a text, so a dropped column would have its own name as its value. Writing
	// connections keep the default, because they run triggers, which may have such texts.
	readParams = "&_dqs=0"
)

// codeOf returns the extended result code of an error, 0 if the error is not SQLite's:
// https://sqlite.org/rescode.html
func codeOf(err error) int {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
