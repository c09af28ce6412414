package table_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// TestMySQLURLs: what is misread could be a part of the password.
func TestMySQLURLs(t *testing.T) {
	const cure = "; write mysql://user:password@host:3306/database, in the password %40 for @, %2F for /, %3A for :, %23 for #, %3F for ? and %25 for %"
	const unreadable = "the database URL cannot be read" + cure
	for _, x := range []struct{ url, want, shown string }{
		{"mysql:x", unreadable, "mysql:…"},
		{"mariadb://", unreadable, "mariadb:…"},
		{"mysql:///x", unreadable, "mysql:…"},
		{"mysql://me:s3c/ret@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:3/s3cret@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:s3cret#x@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:12?s3cret@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:s3c@ret@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:s3c%ret@127.0.0.1/x", unreadable, "mysql:…"},
		{"mysql://me:s3cret@127.0.0.1/x/y", unreadable, "mysql:…"},
		{"mysql://me:s3cret@tcp(127.0.0.1:3306)/x", unreadable, "mysql:…"},
		{"mysql://me:s3cret@h/x?parseTime=true", "the database URL has a parameter that is not known; tls and socket are the ones there are", "mysql:…"},
		{"mysql://me:s3cret@h/x?s3=cret", "the database URL has a parameter that is not known; tls and socket are the ones there are", "mysql:…"},
		{"mysql://me:s3cret@h/x?tls=s3cret", "the database URL has a tls that is not known; write one of true false skip-verify preferred", "mysql:…"},
	} {
		_, err := openDB(context.Background(), x.url, table.Options{})
		if p := (*table.Problem)(nil); !errors.As(err, &p) || err.Error() != x.want {
			t.Errorf("%s: got %v\nwant %s", x.url, err, x.want)
		}
		if got := db.RedactURL(x.url, dialects...); got != x.shown {
			t.Errorf("%s is shown as %s, want %s", x.url, got, x.shown)
		}
	}
	for given, want := range map[string]string{
		"mysql://me:s3cret@db.example.org:3307/shop": "mysql://db.example.org:3307/shop",
		"mariadb://me@[::1]/":                        "mariadb://[::1]/",
		"mysql://me:s3%40cret@h/x?tls=true":          "mysql://h/x",
	} {
		if got := db.RedactURL(given, dialects...); got != want {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}

func FuzzMySQLURL(f *testing.F) {
	f.Add("s3cret", "h:3306/x?tls=true")
	f.Add("3/s3cret", "h/x")
	f.Add("1?x#@s3cret", "h/x")
	f.Fuzz(func(t *testing.T, password, rest string) {
		if len(password) < 4 || strings.Contains(rest, password) || strings.Contains("mysql://", password) {
			return
		}
		without, err := url.Parse("mysql://" + rest)
		if err == nil && strings.Contains(without.String(), password) { // as 2000 is in the %2000 of " 00"
			return
		}
		given := "mysql://me:" + password + "@" + rest
		shown := db.RedactURL(given, dialects...)
		if strings.Contains(shown, password) || strings.Contains(shown, "me") && !strings.Contains(rest, "me") {
			t.Errorf("%q is shown as %q", given, shown)
		}
	})
}

// TestMySQLRefusals: what a person has to mend is a Problem, what may pass is
// ErrUnavailable, and neither has the password in it.
func TestMySQLRefusals(t *testing.T) {
	server := testserver.MySQLURL(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, x := range []struct {
		name   string
		change func(u *url.URL)
		want   string
		away   bool
	}{
		{
			name:   "wrong password",
			change: func(u *url.URL) { u.User = url.UserPassword("backlog_nobody", "s3cret") },
			want:   "the database server does not let this user in: Access denied for user 'backlog_nobody'",
		},
		{
			name:   "no such database",
			change: func(u *url.URL) { u.Path = "/backlog_none" },
			want:   "the database server has no such database: Unknown database 'backlog_none'; create it, or name another in the URL",
		},
		{
			name:   "unreachable",
			change: func(u *url.URL) { u.Host, u.User = closed.Addr().String(), url.UserPassword("me", "s3cret") },
			want:   "connection refused",
			away:   true,
		},
		{name: "ends at once", change: func(u *url.URL) { u.Host, u.User = mute.Addr().String(), url.UserPassword("me", "s3cret") }, away: true},
	} {
		u := *server
		x.change(&u)
		_, err := openDB(t.Context(), u.String(), table.Options{})
		if err == nil {
			t.Errorf("%s: got no error, want %q", x.name, x.want)
			continue
		}
		testkit.Equal(t, x.name+": it says that the server is away", errors.Is(err, backlog.ErrUnavailable), x.away)
		testkit.Equal(t, x.name+": it is a Problem", errors.As(err, new(*table.Problem)), !x.away)
		testkit.Contains(t, x.name, err.Error(), x.want)
		testkit.NotContains(t, x.name, err.Error(), "s3cret")
	}
}

// TestMySQLSessions are the same whatever the server's settings are.
func TestMySQLSessions(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	for _, readOnly := range []bool{false, true} {
		db, err := openDB(t.Context(), rawURL, table.Options{ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var zone, mode, isolation string
		err = db.Read.QueryRow("SELECT @@time_zone, @@sql_mode").Scan(&zone, &mode)
		if err == nil {
			var name string // which differs
			err = db.Read.QueryRow("SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')").Scan(&name, &isolation)
		}
		if err != nil {
			t.Errorf("read only %t: %v", readOnly, err)
		}
		testkit.Equal(t, "time_zone", zone, "+00:00")
		testkit.Contains(t, "sql_mode", mode, "STRICT_ALL_TABLES")
		testkit.Equal(t, "isolation", isolation, "READ-COMMITTED")
		_, err = db.Read.Exec("CREATE TABLE t (a INT) ENGINE = InnoDB")
		if err == nil {
			_, err = db.Read.Exec("INSERT INTO t VALUES (1)")
		}
		if (err != nil) != readOnly {
			t.Errorf("read only %t: writing: got %v", readOnly, err)
		}
	}
}

// TestMySQLPasswords of a server's own default kind, such as
// caching_sha2_password, are taken with TLS and without.
func TestMySQLPasswords(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	for _, tls := range []string{"", "?tls=preferred", "?tls=False"} {
		user := "backlog_" + strings.ToLower(rand.Text()[:12]) // the server has not seen its password before
		execMySQL(t, plain, "CREATE USER "+user+" IDENTIFIED BY 's3c@r/et'")
		defer execMySQL(t, plain, "DROP USER "+user)
		execMySQL(t, plain, "GRANT SELECT ON *.* TO "+user)
		u, _ := url.Parse(rawURL)
		u.User = url.UserPassword(user, "s3c@r/et")
		for range 2 {
			db, err := openDB(t.Context(), u.String()+tls, table.Options{})
			if err != nil {
				t.Fatalf("%s: %v", tls, err)
			}
			db.Close()
		}
		execMySQL(t, plain, "ALTER USER "+user+" ACCOUNT LOCK")
		_, err := openDB(t.Context(), u.String()+tls, table.Options{})
		if p := (*table.Problem)(nil); !errors.As(err, &p) || !strings.HasSuffix(err.Error(), "; let its administrator renew the account, or name another user in the database URL") {
			t.Errorf("%s: a locked account: got %v", tls, err)
		}
	}
}
