package table_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"backlog/backlog/table"
)

// A clock that is set wrong is told from the server's.
func TestSkew(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (*sql.DB, string){"sqlite": onSQLite.open, "postgres": onPostgres.open, "mysql": onMySQL.open} {
		t.Run(name, func(t *testing.T) {
			plain, url := open(t)
			defer plain.Close()
			db, err := openDB(context.Background(), url, table.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
				ahead, err := db.Skew(context.Background(), func() time.Time { return time.Now().Add(wrong) })
				want := wrong
				if name == "sqlite" {
					want = 0
				}
				if err != nil || (ahead-want).Abs() > time.Minute {
					t.Errorf("%v wrong: %v ahead, %v", wrong, ahead, err)
				}
			}
		})
	}
}
