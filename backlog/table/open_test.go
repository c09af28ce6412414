package table_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"backlog/backlog/table"
)

// TestURLsWithSecrets are refused without a part of them, and shown as little.
func TestURLsWithSecrets(t *testing.T) {
	const (
		user      = "the database URL has a user; a file has no user and host; write sqlite:PATH"
		parameter = "the database URL has a parameter"
		only      = "; synchronous is the only one there is"
	)
	for _, x := range []struct{ url, want, shown string }{
		{"sqlite://u:s3cret@h/x", user, "sqlite:…"},
		{"SQLITE3://:s3cret@h", user, "SQLITE3:…"},
		{"sqlite://s3cret@h/x", user, "sqlite:…"},
		{"sqlite://me:s3/cret@h/x", user, "sqlite:…"},
		{"sqlite://me:s3\ncret@h/x", user, "sqlite:…"},
		{"sqlite://me:s3cret@h/x?synchronous=full", user, "sqlite:…"},
		{"sqlite:x.db?password=s3cret", parameter + " password" + only, "sqlite:…"},
		{"sqlite:x.db?synchronous=normal&_auth_pass=s3cret", parameter + " _auth_pass" + only, "sqlite:…"},
		{"sqlite:x.db?_auth_pass=s3cret&synchronous=normal", parameter + " _auth_pass" + only, "sqlite:…"},
		{"sqlite:a?.db?key=s3cret/?x=y", parameter + " key" + only, "sqlite:…"},
		{"sqlite:x.db?a&s3cret=1", parameter + " a" + only, "sqlite:…"},
		{"sqlite:x.db?s3cret=", parameter + " that is not known" + only, "sqlite:…"},
		{"sqlite:x.db?synchronous=s3cret", "the database URL asks for a synchronous that is neither full nor normal; write full or normal", "sqlite:…"},
		{"sqlite:~/x.db?key=s3cret", parameter + " key" + only, "sqlite:…"},
		{"Postgres://me:s3cret@h/x", "databases of the kind postgres are not supported yet; write sqlite:PATH, such as sqlite:backlog.db", "Postgres:…"},
		{"postgresql:x", "databases of the kind postgresql are not supported yet; write sqlite:PATH, such as sqlite:backlog.db", "postgresql:…"},
		{"mysql:x", "databases of the kind mysql are not supported yet; write sqlite:PATH, such as sqlite:backlog.db", "mysql:…"},
		{"mariadb:x", "databases of the kind mariadb are not supported yet; write sqlite:PATH, such as sqlite:backlog.db", "mariadb:…"},
		{"s3cret", "the database is not a URL; write sqlite:PATH, such as sqlite:backlog.db", "…"},
	} {
		_, err := table.Open(context.Background(), x.url, table.Options{})
		if p := (*table.Problem)(nil); !errors.As(err, &p) || err.Error() != x.want {
			t.Errorf("%s: got %v\nwant %s", x.url, err, x.want)
		}
		if got := table.Shown(x.url); got != x.shown {
			t.Errorf("%s is shown as %s, want %s", x.url, got, x.shown)
		}
	}
}

// TestNamesOfFiles: what begins like a user or parameters can be a file's name.
func TestNamesOfFiles(t *testing.T) {
	for _, url := range []string{
		"sqlite:a?.db", "sqlite3:what?/x=1.db", "SQLite:a b?c#d%20.db", "sqlite:me:you@home.db", "sqlite:///srv/me:you@home/x.db",
		"sqlite://c:/me@home/x.db", "sqlite:a=b&c.db?synchronous=normal", "sqlite:a?.db?synchronous=FULL&synchronous=normal", "sqlite:~/a.db", "sqlite::memory:",
	} {
		if got := table.Shown(url); got != url {
			t.Errorf("%s is shown as %s", url, got)
		}
		_, err := table.Open(context.Background(), url, table.Options{})
		if err == nil || strings.Contains(err.Error(), "URL") {
			t.Errorf("%s: got %v", url, err)
		}
	}
	url := "sqlite:" + filepath.Join(t.TempDir(), "a?.db")
	if err := table.Create(context.Background(), url, []string{"CREATE TABLE t (x)"}); err != nil {
		t.Fatal(err)
	}
	db, err := table.Open(context.Background(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}
