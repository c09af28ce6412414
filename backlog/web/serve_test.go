package web_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog/web"
	"backlog/internal/testkit"
)

// One request asks the database for at most 5 s; the next waits for 2 s. 64 are answered at
// once, and probes beside them.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, "")
		site := newSite(t, f, nil)
		f.block = make(chan struct{})
		start, codes := time.Now(), make(chan string, 64)
		for range 64 {
			go func() {
				w := ask(site, readToken, "GET", "/records", "")
				codes <- fmt.Sprint(w.Code, " after ", time.Since(start))
			}()
		}
		synctest.Wait()
		for path, want := range map[string]int{"/": 429, "/api/v1/status": 429, "/healthz": 200, "/readyz": 200, "/metrics": 404} {
			if w := ask(site, readToken, "GET", path, ""); w.Code != want || want == 429 && w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s beside 64 others: %d, want %d", path, w.Code, want)
			}
		}
		seen := make(map[string]int)
		for range 64 {
			seen[<-codes]++
		}
		if seen["503 after 2s"] != 63 || seen["503 after 5s"] != 1 {
			t.Errorf("answers: %v", seen)
		}
		if w := ask(site, readToken, "GET", "/", ""); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
		if n := site.Answers(); n[2] != 3 || n[4] != 3 || n[5] != 64 {
			t.Errorf("answers by class: %v", n)
		}
	})
}

// Visitors without a token who send their logins slowly keep others from logging in, and from nothing else.
func TestSlowStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, newFake(t, ""), nil)
		session := logIn(t, site, fullToken)
		end := make(chan struct{})
		for range 64 {
			go func() {
				r := httptest.NewRequest("POST", "http://127.0.0.1:8080/login", slowBody{end})
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				site.ServeHTTP(httptest.NewRecorder(), r)
			}()
		}
		synctest.Wait()
		testkit.Equal(t, "a login", visit(site, "POST", "/login", url.Values{"token": {fullToken}}).Code, 429)
		testkit.Equal(t, "a page", visit(site, "GET", "/", nil, session).Code, 200)
		testkit.Equal(t, "the API", ask(site, readToken, "GET", "/api/v1/status", "").Code, 200)
		close(end)
		synctest.Wait()
		testkit.Equal(t, "a login afterwards", visit(site, "POST", "/login", url.Values{"token": {fullToken}}).Code, 303)
	})
}

// A slowBody sends nothing until its channel is closed, and then ends.
type slowBody struct{ end chan struct{} }

func (b slowBody) Read([]byte) (int, error) {
	<-b.end
	return 0, io.EOF
}

// What a database says is not for visitors, and a panic is an answer.
func TestTroubleInside(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	f.err = errors.New("dial db.secret:5432: password=hunter2")
	for _, path := range []string{"/records", "/api/v1/records"} {
		if w := ask(site, readToken, "GET", path, ""); w.Code != 503 || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	log := new(strings.Builder)
	broken := newSiteLogging(t, f, log)
	f.now.Schedule = nil
	if w := ask(broken, readToken, "GET", "/schedule", ""); w.Code != 503 || !strings.Contains(log.String(), "panic") {
		t.Errorf("a panic: %d, log %s", w.Code, log)
	}
}

// run serves the site until the test ends, and says how to end it.
func run(t *testing.T, site *web.Site, listen string) (net.Addr, func() error) {
	t.Helper()
	l, err := web.Listen(listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- site.Serve(ctx, l) }()
	return l.Addr(), func() error { cancel(); return <-served }
}

func TestServe(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFake(t, "")
	site := newSite(t, f, nil)
	address, stop := run(t, site, "127.0.0.1:0")
	send := func(text string) string {
		c, err := net.Dial("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, text)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	head := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
	for text, want := range map[string]string{
		head + "\r\n": "200", head + "X: " + strings.Repeat("x", 17<<10) + "\r\n\r\n": "431", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n": "421",
		"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 70000\r\n\r\ntoken=" + strings.Repeat("x", 70000-6): "413",
	} {
		if got := send(text); !strings.Contains(got, want) {
			t.Errorf("%.60q: %q, want %s", text, got, want)
		}
	}
	// Readers that never read do not keep it from ending.
	for range 20 {
		c, err := net.Dial("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(1)
		io.WriteString(c, strings.Repeat("GET /schedule HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+readToken+"\r\n\r\n", 50))
	}
	start := time.Now()
	if err := stop(); err != nil || time.Since(start) > 3*time.Second {
		t.Errorf("the end took %v: %v", time.Since(start), err)
	}
	http.DefaultClient.CloseIdleConnections()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if time.Sleep(10 * time.Millisecond); i > 300 {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	site := newSite(t, newFake(t, ""), nil)
	if l, err := net.Listen("unix", path); err != nil {
		t.Fatal(err)
	} else {
		l.(*net.UnixListener).SetUnlinkOnClose(false) // as one that was killed
		l.Close()
	}
	_, stop := run(t, site, "unix:"+path)
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	if r, err := client.Get("http://localhost/healthz"); err != nil || r.StatusCode != 200 {
		t.Errorf("over the socket: %v", err)
	} else {
		r.Body.Close()
	}
	if _, err := web.Listen("unix:" + path); err == nil {
		t.Error("two processes listen on one socket")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TLS begins and ends with a reload, on the same listener.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	f := newFake(t, "")
	site := newSite(t, f, nil)
	address, stop := run(t, site, "127.0.0.1:0")
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalECPrivateKey(key)
	testkit.WriteFile(t, dir+"/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	testkit.WriteFile(t, dir+"/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	testkit.WriteFile(t, dir+"/web.token", fullToken)
	plain, secure := *web.NewSettings(), *web.NewSettings()
	secure.TLS = web.TLS{Cert: "cert.pem", Key: "key.pem"}
	tokens, err := secure.ReadTokens(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(url string) bool {
		r, err := client.Get(url + address.String() + "/healthz")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == 200
	}
	for i, set := range []web.Settings{plain, secure, plain} {
		if err := site.Reload(set, dir, tokens); err != nil {
			t.Fatal(err)
		}
		if get("http://") == (i == 1) || get("https://") != (i == 1) {
			t.Errorf("reload %d: http %v, https %v", i, get("http://"), get("https://"))
		}
	}
	secure.TLS.Key = "none.pem"
	if err := site.Reload(secure, dir, tokens); err == nil || !get("http://") {
		t.Errorf("a reload without its key: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
