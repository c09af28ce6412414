//go:build unix

package http_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	handler "backlog/backlog/handler/http"
	"backlog/internal/handlertest"
)

// An authority issues certificates, for servers at 127.0.0.1 and for clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.issue(t, template)
	return a
}

// forClient returns the files of a certificate for a client.
func (a *authority) forClient(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	cert, key := a.issue(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return files(t, cert, key)
}

func (a *authority) issue(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	template.NotBefore = time.Now().Add(-2 * time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// files writes a certificate, and its key if it is given, and returns where.
func files(t *testing.T, cert *x509.Certificate, key *ecdsa.PrivateKey) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile = handlertest.File(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})), 0o600)
	if key == nil {
		return certFile, ""
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certFile, handlertest.File(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
}

// serve starts a server with the certificate, and counts its requests.
func (a *authority) serve(t *testing.T, template *x509.Certificate, config *tls.Config) (url string, requests *atomic.Int64) {
	t.Helper()
	cert, key := a.issue(t, template)
	requests = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.ProtoMajor != 2 {
			t.Errorf("a request of %s", r.Proto)
		}
		io.Copy(io.Discard, r.Body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = config
	s.TLS.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, requests
}

func forServer() *x509.Certificate {
	return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func TestHTTPCheck(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	ca, _ := files(t, ours.cert, nil)
	other, _ := files(t, others.cert, nil)
	plain := newHook(t, nil)
	closed := httptest.NewServer(nil)
	closed.Close()
	good, requests := ours.serve(t, forServer(), new(tls.Config))
	misnamed, _ := ours.serve(t, &x509.Certificate{DNSNames: []string{"example.org"}}, new(tls.Config))
	expired := forServer()
	expired.NotAfter = time.Now().Add(-time.Hour)
	stale, _ := ours.serve(t, expired, new(tls.Config))
	old, _ := ours.serve(t, forServer(), &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})

	for _, tt := range []struct {
		name string
		h    *handler.Handler
		want []string // parts of the error; nil: none
	}{
		{name: "http", h: &handler.Handler{Settings: handler.Settings{URL: plain.URL}}},
		{name: "path and query", h: &handler.Handler{Settings: handler.Settings{URL: plain.URL + "/{id}?x={id}"}}},
		{name: "https", h: &handler.Handler{Settings: handler.Settings{URL: good, CAFile: ca}}},
		{name: "host from the record", h: &handler.Handler{Settings: handler.Settings{URL: "{url}", Allow: []string{"hooks.example.org"}}}},
		{
			name: "closed",
			h:    &handler.Handler{Settings: handler.Settings{URL: closed.URL}},
			want: []string{
				"http: " + closed.Listener.Addr().String() + ": connection refused; is the service running, and is the port in url right?"},
		},
		{
			name: "no such host",
			h:    &handler.Handler{Settings: handler.Settings{URL: "http://u:secret@does-not-exist.invalid/secret"}},
			want: []string{
				"http: does-not-exist.invalid:80: does-not-exist.invalid does not resolve: ", "; correct the host in url"},
		},
		{
			name: "unknown authority",
			h:    &handler.Handler{Settings: handler.Settings{URL: good}},
			want: []string{
				": its certificate is not trusted: x509: certificate signed by unknown authority; ", "name the certificate of its authority in ca_file"},
		},
		{
			name: "another authority",
			h:    &handler.Handler{Settings: handler.Settings{URL: good, CAFile: other}},
			want: []string{"name the certificate of its authority in ca_file"},
		},
		{
			name: "another name",
			h:    &handler.Handler{Settings: handler.Settings{URL: misnamed, CAFile: ca}},
			want: []string{"127.0.0.1", "correct the host in url"},
		},
		{
			name: "expired",
			h:    &handler.Handler{Settings: handler.Settings{URL: stale, CAFile: ca}},
			want: []string{"x509: certificate has expired", "; renew it"},
		},
		{name: "old TLS", h: &handler.Handler{Settings: handler.Settings{URL: old, CAFile: ca}}, want: []string{"protocol version"}},
		{
			name: "no TLS",
			h:    &handler.Handler{Settings: handler.Settings{URL: strings.Replace(plain.URL, "http:", "https:", 1)}},
			want: []string{
				": the server does not speak TLS there; is http:// meant, or another port?"},
		},
		{
			name: "closes at once",
			h:    &handler.Handler{Settings: handler.Settings{URL: "https://" + listener(t, true)}},
			want: []string{
				": the connection was closed without an answer; is http:// meant, or another port?"},
		},
		{
			name: "bad configuration",
			h:    &handler.Handler{Settings: handler.Settings{URL: "x"}},
			want: []string{"http: url: must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.h.Check(t.Context())
			if (err == nil) != (tt.want == nil) {
				t.Fatal(err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %q, want %q in it", err, part)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := requests.Load(); n != 0 || len(plain.requests()) != 0 {
			t.Error("Check has sent a request")
		}
	})
}

func TestHTTPClientCertificate(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	ca, _ := files(t, ours.cert, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			t.Parallel()
			url, requests := ours.serve(t, forServer(), &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MaxVersion: version})
			cert, key := ours.forClient(t)
			wrong, wrongKey := others.forClient(t)

			if err := (&handler.Handler{Settings: handler.Settings{URL: url, CAFile: ca, CertFile: cert, KeyFile: key}}).Check(t.Context()); err != nil {
				t.Error(err)
			}
			for name, h := range map[string]*handler.Handler{
				"none":                {Settings: handler.Settings{URL: url, CAFile: ca}},
				"another authority's": {Settings: handler.Settings{URL: url, CAFile: ca, CertFile: wrong, KeyFile: wrongKey}},
			} {
				if err := h.Handle(t.Context(), handlertest.NewRecord()); backlog.OutcomeOf(err) != backlog.Errored {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("%d requests", n)
			}
			if err := (&handler.Handler{Settings: handler.Settings{URL: url, CAFile: ca, CertFile: cert, KeyFile: key}}).Handle(t.Context(), handlertest.NewRecord()); err != nil || requests.Load() != 1 {
				t.Error(err)
			}

			// It is read with each connection. What is wrong with it then costs no attempt.
			h := &handler.Handler{Settings: handler.Settings{URL: url, CAFile: ca, CertFile: cert, KeyFile: key}}
			if err := h.Prepare(); err != nil {
				t.Error(err)
			}
			handlertest.File(t, filepath.Dir(cert), filepath.Base(cert), "", 0o600)
			handlertest.WantError(t, h.Handle(t.Context(), handlertest.NewRecord()), "POST "+url+": client_cert "+cert+" and client_key "+key+
				" do not make a certificate: tls: failed to find any PEM data in certificate input", backlog.Skipped)
		})
	}
}

// What is wrong with the configuration is no attempt, and can be mended.
func TestHTTPPrepare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := handlertest.File(t, dir, "text", "hello", 0o600)
	missing := filepath.Join(dir, "missing")
	const url = "https://h.example.org/"
	for _, tt := range []struct {
		h    *handler.Handler
		want string
	}{
		{h: &handler.Handler{}, want: "url: is empty; write one such as https://example.com/orders"},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: "{url}"}},
			want: "url: a record says which host is called; add allow: [example.com], the hosts it may name",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: "https://{t}.example.org/"}},
			want: "url: a record says which host is called; add allow: [example.com], the hosts it may name",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Allow: []string{"x.example.org"}}},
			want: "allow: does not list the host of url, h.example.org; add it, or remove allow, which is for hosts that come from the record",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Allow: []string{"http://x"}}},
			want: "allow[0]: http://x is no host; write a name such as example.com or *.example.com, with :port if that is meant, an address, or a network such as 10.0.0.0/8",
		},
		{h: &handler.Handler{Settings: handler.Settings{URL: url, Method: "post"}}, want: `method: "post" is none; write one such as POST or PUT`},
		{h: &handler.Handler{Settings: handler.Settings{URL: url, Method: "P T"}}, want: `method: "P T" is none; write one such as POST or PUT`},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Method: "CONNECT"}},
			want: `method: "CONNECT" is none; write one such as POST or PUT`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"X y": "z"}}},
			want: `headers: a key that is no header, not shown as it may be secret; write Name: value`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"X-y": "a", "x-Y": "a"}}},
			want: `headers.x-Y: is there twice, in other capitals; remove one`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"X-Y": "secret\r\nX-Z: 1"}}},
			want: `headers.X-Y: holds a line break or another character that no header has; remove it`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"webhook-id": "1"}}},
			want: `headers.webhook-id: is set by the program itself; remove it`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"BACKLOG-tier": "1"}}},
			want: `headers.BACKLOG-tier: is set by the program itself; remove it`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Headers: map[string]string{"Content-Length": "1"}}},
			want: `headers.Content-Length: is set by the program itself; remove it`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: "https://u:secret@h/", Headers: map[string]string{"Authorization": "secret"}}},
			want: `url: has a user, and headers have an Authorization; remove one`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Success: []handler.Status{}}},
			want: `success: is an empty list; name at least one or remove it`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Success: []handler.Status{{From: 600, To: 600}}}},
			want: `success[0]: must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Reject: []handler.Status{{From: 65, To: 65}}}},
			want: `reject[0]: must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Reject: []handler.Status{{From: 202, To: 202}}}},
			want: `reject: status 202 is in success too; give both, each its own (default: success 2xx, reject 410)`,
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, Secrets: []string{"whsec_c2VjcmV0"}}},
			want: "secret[0]: is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, SecretFiles: []string{missing}}},
			want: "secret_file: open " + missing + ": no such file or directory; correct the path or the permissions",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, SecretFiles: []string{text}}},
			want: "secret_file: " + text + " is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, CAFile: missing}},
			want: "ca_file: open " + missing + ": no such file or directory; correct the path or the permissions",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, CAFile: "/dev/zero"}},
			want: "ca_file: /dev/zero is not a regular file; correct the path or the permissions",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, SecretFiles: []string{"/dev/zero"}}},
			want: "secret_file: /dev/zero is not a regular file; correct the path or the permissions",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: url, CAFile: text}},
			want: "ca_file: " + text + " holds no certificate in PEM form; name a file that begins with -----BEGIN CERTIFICATE-----",
		},
		{h: &handler.Handler{Settings: handler.Settings{URL: url, CertFile: text}}, want: "client_cert: goes with client_key; add it"},
		{
			h: &handler.Handler{Settings: handler.Settings{URL: url, CertFile: text, KeyFile: text}},
			want: "client_cert " + text + " and client_key " + text +
				" do not make a certificate: tls: failed to find any PEM data in certificate input",
		},
		{
			h:    &handler.Handler{Settings: handler.Settings{URL: "http://h/", CAFile: text}},
			want: "url: ca_file, client_cert and client_key are of no use with http://; write https:// or remove them",
		},
	} {
		if err := tt.h.Prepare(); err == nil || err.Error() != "http: "+tt.want {
			t.Errorf("error %v\nwant http: %s", err, tt.want)
		}
		err := tt.h.Handle(t.Context(), handlertest.NewRecord())
		handlertest.WantError(t, err, "http: "+tt.want, backlog.Skipped)
	}
}

func TestHTTPIsMended(t *testing.T) {
	t.Parallel()
	s := newHook(t, nil)
	path := filepath.Join(t.TempDir(), "secret")
	h := &handler.Handler{Settings: handler.Settings{URL: s.URL, SecretFiles: []string{path}}}
	if err := h.Handle(t.Context(), handlertest.NewRecord()); backlog.OutcomeOf(err) != backlog.Skipped || !errors.Is(err, backlog.Skip) {
		t.Errorf("without its secret: %v", err)
	}
	handlertest.File(t, filepath.Dir(path), "secret", "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u\n", 0o600)
	if err := h.Handle(t.Context(), handlertest.NewRecord()); err != nil {
		t.Error(err)
	}
	if sig := s.one(t).header.Get("Webhook-Signature"); !strings.HasPrefix(sig, "v1,") {
		t.Errorf("signature %q", sig)
	}
}

func TestHTTPColumns(t *testing.T) {
	t.Parallel()
	h := &handler.Handler{Settings: handler.Settings{URL: "https://{b}.example.org/{a}/{b}?x={c d}", Allow: []string{"*.example.org"}}}
	got, err := h.Describe().Columns, h.Prepare()
	if err != nil || !slices.Equal(got, []string{"b", "a", "b", "c d"}) {
		t.Errorf("columns %q, error %v", got, err)
	}
	if err := (&handler.Handler{Settings: handler.Settings{URL: "https://h/{b"}}).Prepare(); err == nil {
		t.Error("no error")
	}
}

// A record may lead only to hosts that are allowed, whatever names resolve to.
func TestHTTPAllow(t *testing.T) {
	t.Parallel()
	s := newHook(t, nil)
	address := s.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	for _, tt := range []struct {
		name, url, value string
		allow            []string
		want             string
	}{
		{name: "address", url: "{u}", value: s.URL + "/x", allow: []string{"127.0.0.1"}},
		{name: "address and port", url: "{u}", value: s.URL, allow: []string{address}},
		{name: "network", url: "http://{u}/x", value: address, allow: []string{"127.0.0.0/8"}},
		{name: "name", url: "http://{u}:" + port + "/x", value: "localhost", allow: []string{"localhost"}},
		{
			name:  "another",
			url:   "{u}",
			value: s.URL,
			allow: []string{"hooks.example.org"},
			want:  "url: " + address + " is not in allow; add it if it may be called",
		},
		{
			name:  "another port",
			url:   "{u}",
			value: s.URL,
			allow: []string{"127.0.0.1:1"},
			want:  "url: " + address + " is not in allow; add it if it may be called",
		},
		{
			name:  "everything is not enough",
			url:   "{u}",
			value: s.URL,
			allow: []string{"0.0.0.0/0"},
			want:  "POST " + s.URL + ": 127.0.0.1 is at 127.0.0.1, which is not on the public internet; add the address to allow if that is meant",
		},
		{
			name:  "not http",
			url:   "{u}",
			value: "file:///etc/passwd",
			allow: []string{"127.0.0.1"},
			want:  "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		},
		{name: "the url's own host", url: s.URL + "/{u}", value: "x"},
	} {
		h := &handler.Handler{Settings: handler.Settings{URL: tt.url, Allow: tt.allow}}
		before := len(s.requests())
		r := handlertest.NewRecord()
		r.Names, r.Values = []string{"u"}, []any{tt.value}
		outcome, calls := backlog.Succeeded, 1
		if tt.want != "" {
			outcome, calls = backlog.Errored, 0
		}
		t.Log(tt.name)
		handlertest.WantError(t, h.Handle(t.Context(), r), tt.want, outcome)
		if got := len(s.requests()) - before; got != calls {
			t.Errorf("%d calls, want %d", got, calls)
		}
	}
}

func TestHTTPEndedBefore(t *testing.T) {
	t.Parallel()
	s := newHook(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the program is being stopped")
	cancel(cause)
	if err := (&handler.Handler{Settings: handler.Settings{URL: s.URL}}).Handle(ctx, handlertest.NewRecord()); err != cause || len(s.requests()) != 0 {
		t.Errorf("error %v, want %v, and %d requests", err, cause, len(s.requests()))
	}
}

// listener returns the address of what takes connections and says nothing, or
// closes them at once.
func listener(t *testing.T, closes bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if closes {
				bufio.NewReader(c).ReadByte() // else the rest of it is refused
				c.(*net.TCPConn).CloseWrite()
			}
			defer c.Close() // with the listener
		}
	}()
	return l.Addr().String()
}

// A port that takes connections and says nothing is not waited for long.
func TestHTTPCheckSilence(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	address := listener(t, false)
	err := (&handler.Handler{Settings: handler.Settings{URL: "https://" + address}}).Check(ctx)
	want := "http: " + address + ": no connection in time; is the service running, and are scheme and port in url right?"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
