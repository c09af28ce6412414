package http

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A file that is being written is waited for, one that stays bad only once.
func TestWatchedSettles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "word")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	w := &watched[string]{paths: []string{path}, parse: func(contents [][]byte) (string, error) {
		if len(contents[0]) < 3 {
			return "", errors.New("is too short")
		}
		return string(contents[0]), nil
	}}
	synctest.Test(t, func(t *testing.T) {
		want := func(value, text string, after time.Duration) {
			t.Helper()
			began := time.Now()
			got, err := w.get()
			if said := ""; err != nil {
				if said = err.Error(); said != text {
					t.Errorf("error %q, want %q", said, text)
				}
			} else if got != value || text != "" {
				t.Errorf("%q, want %q and error %q", got, value, text)
			}
			if waited := time.Since(began); waited != after {
				t.Errorf("after %v, want %v", waited, after)
			}
		}
		missing := path + " does not exist; create it or correct the path"
		want("", missing, 0)
		write("on")
		want("", "is too short", 0)
		write("one")
		want("one", "", 0)

		write("")
		time.AfterFunc(time.Second-time.Millisecond, func() { write("a second") })
		want("a second", "", time.Second)

		write("")
		want("", "is too short", 2*time.Second)
		want("", "is too short", 0)
		os.Remove(path)
		want("", missing, 0)
		write("the third")
		want("the third", "", 0)
		os.Remove(path)
		time.AfterFunc(time.Millisecond, func() { write("and the fourth") })
		want("and the fourth", "", lookAgain)
	})
}

// Through a proxy Check connects to the server behind it.
func TestHTTPCheckThroughProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer, want string
	}{
		{"HTTP/1.1 200 Connection established\r\n\r\n", "http: TLS with hooks.example.org fails: the connection was closed without an answer; is http:// meant, or another port?"},
		{"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "http: the proxy does not connect to hooks.example.org:443: Proxy Authentication Required"},
		{"", "http: the proxy does not connect to hooks.example.org:443: the connection was closed without an answer"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		asked := make(chan *http.Request, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				asked <- r
				io.WriteString(c, tt.answer)
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			}
		}()
		h := &Handler{Settings: Settings{URL: "https://hooks.example.org/x"}}
		p, err := h.plan()
		if err != nil {
			t.Fatal(err)
		}
		p.transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String(), User: url.UserPassword("u", "secret")})
		if err := h.Check(t.Context()); err == nil || err.Error() != tt.want {
			t.Errorf("error %v, want %q", err, tt.want)
		}
		if r := <-asked; r.Method != "CONNECT" || r.Host != "hooks.example.org:443" || r.Header.Get("Proxy-Authorization") != "Basic dTpzZWNyZXQ=" {
			t.Errorf("asked for %s %s %v", r.Method, r.Host, r.Header)
		}
		l.Close()
		h.made = nil
	}
}
