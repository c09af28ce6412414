//go:build !cgo_sqlite

package table_test

import (
	"sync/atomic"

	driver "modernc.org/sqlite"
)

// compared counts the comparisons that the collation "counted" was asked for.
var compared atomic.Int64

func init() {
	if err := driver.RegisterCollationUtf8("counted", compareCounted); err != nil {
		panic(err)
	}
}
