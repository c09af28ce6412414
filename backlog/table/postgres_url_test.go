package table_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// FuzzPostgresURL: whatever is wrong with a URL, its password is neither shown
// nor told.
func FuzzPostgresURL(f *testing.F) {
	for _, s := range []string{"postgres://me:SECRET@127.0.0.1:1/x", "postgres://me:12/SECRET@127.0.0.1:1/x", "postgres://me:1?SECRET=1@127.0.0.1:1/x?sslmode=SECRET", "postgres:SECRET", "postgres://127.0.0.1:1/x?password=SECRET",
		"postgres://me:a@SECRET@127.0.0.1:1/x", "postgres://me:1#SECRET@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?password=SECRET&sslmode=no", "postgres://me:%SECRET@127.0.0.1:1/x",
		"postgres://me:SECRET@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/none&sslcert=/none&sslkey=/none", "postgres://me:SECRET@127.0.0.1:1,127.0.0.1:2/x?target_session_attrs=read-write&connect_timeout=1",
		"postgres://me:SECRET@127.0.0.1:1/x?search_path=a&options=-c%20a%3Db&application_name=x&timezone=UTC&statement_timeout=1&default_query_exec_mode=exec",
		"postgres://me:SECRET@127.0.0.1:1/x?default_query_exec_mode=no&sslmode=require&krbsrvname=x&passfile=/none&connect_timeout=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !strings.HasPrefix(raw, "postgres") || strings.Count(raw, "SECRET") != 1 || isPlain(raw) {
			return
		}
		if shown := db.RedactURL(raw, dialects...); strings.Contains(shown, "SECRET") {
			t.Errorf("%s is shown as %s", raw, shown)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		db, err := openDB(ctx, raw, table.Options{})
		if err == nil {
			db.Close()
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", raw, err)
		}
	})
}

// isPlain reports whether the word stands where anybody may see it: in the name
// of the user, the host or the database of a URL without a doubt, or in a
// parameter that is told by its name, and whether another computer would be asked.
func isPlain(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	for name := range u.Query() {
		if strings.Contains(name, "SECRET") || name == "hostaddr" || name == "port" || name == "user" || name == "host" || name == "dbname" || name == "database" || name == "service" || name == "servicefile" {
			return true
		}
	}
	return u.User != nil && strings.Contains(u.User.Username(), "SECRET") || strings.Contains(u.Host, "SECRET") || u.User != nil && strings.Contains(u.Path, "SECRET") && strings.Count(raw, "@") == 1 ||
		u.Host != "127.0.0.1:1" || strings.Contains(u.Path, "SECRET") && !strings.Contains(raw, "@")
}
