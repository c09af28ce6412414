package table_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// TestURLsWithSecrets are refused without a part of them, and shown as little.
func TestURLsWithSecrets(t *testing.T) {
	const (
		user      = "the database URL has a user; a file has no user and host; write sqlite:PATH"
		parameter = "the database URL has a parameter that is not known; synchronous is the only one there is"

		postgresCure = "write postgres://USER:PASSWORD@HOST:5432/DATABASE, what is none of a-z, 0-9 and -._~ in the user and the password as %XX; the password may instead be in PGPASSWORD or ~/.pgpass"
	)
	for _, x := range []struct{ url, want, shown string }{
		{url: "sqlite://u:s3cret@h/x", want: user, shown: "sqlite:…"},
		{url: "SQLITE3://:s3cret@h", want: user, shown: "SQLITE3:…"},
		{url: "sqlite://s3cret@h/x", want: user, shown: "sqlite:…"},
		{url: "sqlite://me:s3/cret@h/x", want: user, shown: "sqlite:…"},
		{url: "sqlite://me:s3\ncret@h/x", want: user, shown: "sqlite:…"},
		{url: "sqlite://me:s3cret@h/x?synchronous=full", want: user, shown: "sqlite:…"},
		{url: "sqlite:x.db?password=s3cret", want: parameter, shown: "sqlite:…"},
		{url: "sqlite:x.db?synchronous=normal&_auth_pass=s3cret", want: parameter, shown: "sqlite:…"},
		{url: "sqlite:x.db?_auth_pass=s3cret&synchronous=normal", want: parameter, shown: "sqlite:…"},
		{url: "sqlite:a?.db?key=s3cret/?x=y", want: parameter, shown: "sqlite:…"},
		{url: "sqlite:x.db?a&s3cret=1", want: parameter, shown: "sqlite:…"},
		{url: "sqlite:x.db?s3cret=", want: parameter, shown: "sqlite:…"},
		{
			url:   "sqlite:x.db?synchronous=s3cret",
			want:  "the database URL has a synchronous that is not known; write one of full normal",
			shown: "sqlite:…",
		},
		{url: "sqlite:~/x.db?key=s3cret", want: parameter, shown: "sqlite:…"},
		{url: "Postgres://me:s3cret@h/x/y", want: "the database URL cannot be read; " + postgresCure, shown: "Postgres:…"},
		{url: "postgres://me:s3/cret@h/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://me:12/s3cret@h/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://me:12?s3cret@h/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://me:12#s3cret@h/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://me:s3%cret@h/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://me:s3 cret@h:p/x", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{url: "postgres://h/x?s3cret=%", want: "the database URL cannot be read; " + postgresCure, shown: "postgres:…"},
		{
			url:   "postgres://h/x?password=s3cret&sslmode=s3cret",
			want:  "the database URL has a sslmode that is not known; write one of disable allow prefer require verify-ca verify-full",
			shown: "postgres:…",
		},
		{url: "postgresql:x", want: "the database URL cannot be read; " + postgresCure, shown: "postgresql:…"},
		{
			url:   "s3cret",
			want:  "the database is not a URL of a known kind; write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE",
			shown: "…",
		},
	} {
		_, err := openDB(context.Background(), x.url, table.Options{})
		if p := (*table.Problem)(nil); !errors.As(err, &p) || err.Error() != x.want {
			t.Errorf("%s: got %v\nwant %s", x.url, err, x.want)
		}
		if got := db.RedactURL(x.url, dialects...); got != x.shown {
			t.Errorf("%s is shown as %s, want %s", x.url, got, x.shown)
		}
	}
}

// TestShownServers: what is shown of the URL of a server tells which database it
// is, and nothing of who uses it how.
func TestShownServers(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://me:s3cret@db.example.com:5433/shop?sslmode=require": "postgres://db.example.com:5433/shop",
		"postgresql://s3cret@[::1]/shop_2":                              "postgresql://[::1]/shop_2",
		"postgres://me:s%403%2Fcret@h1:1,h2:2/shop":                     "postgres://h1:1,h2:2/shop",
		"postgres:///shop?password=s3cret":                              "postgres:///shop",
		"postgres://me@h":                                               "postgres://h",
		"postgres://me:s3@cret@h/shop":                                  "postgres:…",
		"postgres://me:s3cret@h/shop?password=s3@cret":                  "postgres:…",
	} {
		if got := db.RedactURL(url, dialects...); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

// TestNamesOfFiles: what begins like a user or a parameter can be a file's name.
func TestNamesOfFiles(t *testing.T) {
	for _, url := range []string{
		"SQLite:a bc#d%20.db", "sqlite:me:you@home.db", "sqlite:///srv/me:you@home/x.db",
		"sqlite://c:/me@home/x.db", "sqlite:a=b&c.db?synchronous=normal", "sqlite:a.db?synchronous=FULL&synchronous=normal", "sqlite:~/a.db", "sqlite::memory:",
	} {
		if got := db.RedactURL(url, dialects...); got != url {
			t.Errorf("%s is shown as %s", url, got)
		}
		_, err := openDB(context.Background(), url, table.Options{})
		if err == nil || strings.Contains(err.Error(), "URL") {
			t.Errorf("%s: got %v", url, err)
		}
	}
	url := "sqlite:" + filepath.Join(t.TempDir(), "a#b%20.db")
	if err := create(context.Background(), url, []string{"CREATE TABLE t (x)"}); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(context.Background(), url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}
