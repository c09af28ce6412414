package sqlite_test

import (
	"path/filepath"
	"testing"

	"backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
)

// A commit is to be on the disk when it has returned, in either journal mode. For that the folder must be
// synced after the rollback journal is removed, which SQLite does only with EXTRA (3).
func TestSynchronous(t *testing.T) {
	for suffix, want := range map[string]int{"": 3, "?synchronous=full": 3, "?synchronous=normal": 1} {
		pools, err := sqlite.Dialect.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "shop.db")+suffix, db.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		var got int
		if err := pools.Write.QueryRow("PRAGMA synchronous").Scan(&got); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", suffix, got, err, want)
		}
	}
}
