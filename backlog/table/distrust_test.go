package table_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"backlog/backlog/table"
	"backlog/internal/testserver"
)

// A server without TLS, or with a certificate that is not trusted, does not learn the name of the user, let alone the
// password.
func TestServerIsNotTrusted(t *testing.T) {
	_, mysqlURL := testserver.MySQL(t, "backlog_test_")
	_, postgresURL := testserver.Postgres(t, "backlog_test_")
	for parameter, with := range map[string]*url.URL{"tls=true": mysqlURL, "sslmode=verify-full": postgresURL} {
		var mu sync.Mutex
		var said strings.Builder
		with.Host = newProxy(t, with.Host, func(client, server net.Conn) {
			go passOn(client, server, func(b []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				said.Write(b)
				return true
			})
			go passOn(server, client, func([]byte) bool { return true })
		})
		q := with.Query()
		name, value, _ := strings.Cut(parameter, "=")
		q.Set(name, value)
		with.RawQuery = q.Encode()
		_, err := openDB(t.Context(), with.String(), table.Options{})
		if err == nil {
			t.Fatalf("%s: want the server refused", parameter)
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(said.String(), with.User.Username()) {
			t.Errorf("%s: the server has learnt the user: %q, %v", parameter, said.String(), err)
		}
	}
}

// A server of MySQL may answer any statement by a request for a file of this machine, as it does here to LOAD DATA
// LOCAL. It does not get one.
func TestMySQLAsksForAFile(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE got (line VARCHAR(100))")
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(t.Context(), rawURL, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Write.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE '"+path+"' INTO TABLE got")
	if err == nil || !strings.Contains(err.Error(), "is not registered") {
		t.Errorf("want the file refused by the driver, got %v", err)
	}
	var n int
	if err := plain.QueryRow("SELECT count(*) FROM got").Scan(&n); err != nil || n > 0 {
		t.Errorf("the server has got %d lines, %v", n, err)
	}
}
