//go:build cgo_sqlite

package sqlite

import (
	"errors"

	driver "github.com/mattn/go-sqlite3"
)

// The driver in C, with the build tag cgo_sqlite.
const (
	driverName = "sqlite3"
	// Driver is the Go module of the driver.
	Driver = "github.com/mattn/go-sqlite3"
	// messagesEndInCode says whether the messages of errors end in the result code.
	messagesEndInCode = false
	// Transactions begin as writers. One that begins by reading could fail to become a writer
	// (SQLITE_BUSY_SNAPSHOT), regardless of the timeout. SQLite's mutexes are off: database/sql lets
	// only one goroutine at a time use a connection, and every statement is closed explicitly.
	driverParams = "_txlock=immediate&_mutex=no&_busy_timeout=%d&_synchronous=%s"
	// The driver has no parameter that makes SQLite refuse a text in double quotes.
	readParams = ""
)

// codeOf returns the extended result code of an error, 0 if the error is not SQLite's:
// https://sqlite.org/rescode.html
func codeOf(err error) int {
	if e := (driver.Error{}); errors.As(err, &e) {
		return int(e.ExtendedCode)
	}
	return 0
}
