package handler

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Through a proxy Check connects to the server behind it.
func TestHTTPCheckThroughProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer, want string
	}{
		{"HTTP/1.1 200 Connection established\r\n\r\n", ""},
		{"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "http: the proxy 127.0.0.1 does not connect to hooks.example.org: 407 Proxy Authentication Required"},
		{"", "http: the proxy 127.0.0.1 does not connect to hooks.example.org: unexpected EOF"},
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
			}
		}()
		p, err := newHTTPPlan(&HTTP{URL: "https://hooks.example.org/x"})
		if err != nil {
			t.Fatal(err)
		}
		via := &url.URL{Scheme: "http", Host: l.Addr().String(), User: url.UserPassword("u", "secret")}
		c, err := p.connect(t.Context(), &url.URL{Scheme: "https", Host: "hooks.example.org"}, via)
		got := ""
		if err != nil {
			got = strings.Replace(err.Error(), l.Addr().String(), "127.0.0.1", 1)
		}
		if got != tt.want {
			t.Errorf("error %q, want %q", got, tt.want)
		}
		if r := <-asked; r.Method != "CONNECT" || r.Host != "hooks.example.org:443" || r.Header.Get("Proxy-Authorization") != "Basic dTpzZWNyZXQ=" {
			t.Errorf("asked for %s %s %v", r.Method, r.Host, r.Header)
		}
		if err == nil {
			c.Close()
		}
	}
}
