//go:build cgo_sqlite

package table_test

import (
	"database/sql"
	"sync/atomic"

	driver "github.com/mattn/go-sqlite3"
)

// compared counts the comparisons that the collation "counted" was asked for.
var compared atomic.Int64

func init() {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.Driver().(*driver.SQLiteDriver).ConnectHook = func(c *driver.SQLiteConn) error {
		return c.RegisterCollation("counted", compareCounted)
	}
}
