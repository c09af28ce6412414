//go:build cgo_sqlite

package table_test

import (
	"testing"

	_ "modernc.org/sqlite"

	"backlog/backlog/table"
)

// TestUseOfTheOtherDriver: a program may have opened its pool with another
// driver than the one that this package is built with.
func TestUseOfTheOtherDriver(t *testing.T) { testUse(t, "sqlite") }

// TestCodesOfTheOtherDriver are found where that is github.com/mattn/go-sqlite3
// and this package is built without it.
func TestCodesOfTheOtherDriver(t *testing.T) {
	f := newFile(t, manyRows)
	defer f.exclusive()()
	pool := ownPool(t, ownDriver, f.path+"?_busy_timeout=0", 1)
	_, err := pool.Exec("UPDATE orders SET status = 'DONE'")
	if code, ok := table.FieldCode(err); code != 5 || !ok {
		t.Errorf("%v: got the code %d, %v, want 5", err, code, ok)
	}
	if code, ok := table.FieldCode(nil); ok {
		t.Errorf("no error has the code %d", code)
	}
}
