package table_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// TestLostCommit: the server has made a commit, and the connection breaks before its
// answer comes. Made again, the call finds that its outcome is written, also where that
// is the work of statements, which is done once.
func TestLostCommit(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			plain, rawURL := newDatabase(t, kind)
			for _, s := range []string{
				"CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted varchar(30))",
				"INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00'), (2, 'NEW', '2026-02-10 11:00:00'), (3, 'NEW', '2026-02-10 11:00:00')",
				"CREATE TABLE done (id int)",
			} {
				if _, err := plain.Exec(s); err != nil {
					t.Fatal(err)
				}
			}
			u, err := url.Parse(rawURL)
			if err != nil {
				t.Fatal(err)
			}
			p := newDeafProxy(t, u.Host)
			u.Host = p.addr
			if kind == "postgres" { // the proxy reads what passes
				q := u.Query()
				q.Set("sslmode", "disable")
				u.RawQuery = q.Encode()
			}
			d, err := openDB(t.Context(), u.String(), table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			m := plainMapping()
			m.Name = "jobs"
			s, err := table.New(t.Context(), d, m)
			if err != nil {
				t.Fatal(err)
			}
			records := lane(t, s, backlog.Fresh)
			group := successes(records[:2])
			call := func(what string, f func() (int, error)) {
				t.Helper()
				p.armed.Store(true)
				if _, err := f(); !errors.Is(err, backlog.ErrUnavailable) || p.armed.Load() {
					t.Fatalf("%s, whose commit is lost: %v", what, err)
				}
				if conflicts, err := f(); conflicts > 0 || err != nil {
					t.Errorf("%s again: %d conflicts, %v", what, conflicts, err)
				}
			}
			if kind == "postgres" { // where the statement is the transaction
				p.answer.Store([]byte("SELECT 1\x00"))
			}
			call("Settle", func() (int, error) {
				left, err := s.Settle(t.Context(), group)
				return len(left), err
			})
			p.answer.Store([]byte(nil))
			w := newWork(t, s, "INSERT INTO done SELECT :id")
			call("HandleAndSettle", func() (int, error) { return 0, w.HandleAndSettle(context.Background(), &records[2], atNoon) })
			for q, want := range map[string]int{"SELECT count(*) FROM jobs WHERE status = 'SUCCESS'": 3, "SELECT count(*) FROM done": 1} {
				var got int
				if err := plain.QueryRow(q).Scan(&got); err != nil || got != want {
					t.Errorf("%s: %d, %v, want %d", q, got, err, want)
				}
			}
		})
	}
}

// A deafProxy passes everything on. Once it is armed, it breaks a connection off when
// the answer to a COMMIT comes, or an answer with the bytes of answer.
type deafProxy struct {
	addr   string
	armed  atomic.Bool
	answer atomic.Value // []byte, empty: none
}

func newDeafProxy(tb testing.TB, to string) *deafProxy {
	tb.Helper()
	p := new(deafProxy)
	p.addr = newProxy(tb, to, func(client, server net.Conn) {
		var lost atomic.Bool // what the server says next
		go passOn(client, server, func(b []byte) bool {
			text := strings.ToUpper(string(b)) // which may ask for READ COMMITTED
			if strings.Contains(text, "COMMIT") && !strings.Contains(text, "COMMITTED") && p.armed.CompareAndSwap(true, false) {
				lost.Store(true)
			}
			return true
		})
		go passOn(server, client, func(b []byte) bool {
			answer, _ := p.answer.Load().([]byte)
			if len(answer) > 0 && bytes.Contains(b, answer) && p.armed.CompareAndSwap(true, false) {
				lost.Store(true)
			}
			return !lost.Load()
		})
	})
	return p
}

// newProxy returns the address of a proxy, which calls join for each client and the
// connection to the server that it has made for it.
func newProxy(tb testing.TB, to string, join func(client, server net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				return
			}
			tb.Cleanup(func() { client.Close(); server.Close() })
			join(client, server)
		}
	}()
	return l.Addr().String()
}

// passOn passes on what may be, and closes both connections at the end.
func passOn(from, to net.Conn, may func([]byte) bool) {
	defer from.Close()
	defer to.Close()
	for b := make([]byte, 32<<10); ; {
		n, err := from.Read(b)
		if err != nil || !may(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
