package http

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// Through a proxy Check connects to the server behind it.
func TestHTTPCheckThroughProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer, want string
	}{
		{"HTTP/1.1 200 Connection established\r\n\r\n", "http: hooks.example.org:443: the connection was closed without an answer; is http:// meant, or another port?"},
		{"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "http: hooks.example.org:443: Proxy Authentication Required"},
		{"", "http: hooks.example.org:443: the connection was closed without an answer; is http:// meant, or another port?"},
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
		p, err := h.client()
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
		h.cached = nil
	}
}
