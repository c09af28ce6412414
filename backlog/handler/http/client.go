package http

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"backlog/backlog"
)

const (
	// connectTime bounds what goes on before a request is sent, for attempts
	// without a timeout and for connections that outlive their attempt.
	connectTime = 30 * time.Second

	// idleTime is how long a connection is kept unused: less than servers
	// commonly do, so that few are found closed.
	idleTime = 55 * time.Second

	// pingTime is how long a connection of HTTP/2 is quiet before it is asked for a
	// sign of life, and how long it has to give one.
	pingTime = 15 * time.Second

	maxAnswerHeader = 64 << 10
)

// setTransport makes what keeps the connections.
func (p *plan) setTransport(h *Handler) error {
	secure, err := p.tlsConfig(h)
	if err != nil {
		return err
	}
	idle := cmp.Or(max(0, h.Concurrency), 4)
	p.transport = &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    connectTime,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
		MaxIdleConns:           max(100, idle),
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableCompression:     true, // answers are short, and read in part
	}
	if p.url.base == nil {
		p.transport.Proxy = nil // it would connect in our place, to anywhere
		p.transport.DialContext = p.dialAllowed
	}
	return nil
}

// dialAllowed connects, but to no address that is not allowed. What counts is
// the address at the moment of connecting: names may point elsewhere any time.
func (p *plan) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: connectTime, ControlContext: func(_ context.Context, _, at string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(at)
		if err != nil {
			return &refusal{"an address that cannot be read is not called"}
		}
		return p.allow.dial(host, port, addr.Addr())
	}}
	return d.DialContext(ctx, network, address)
}

// errProxy says what is wrong with the environment; the text of net/http's own
// error would show the proxy's password.
var errProxy = errors.New("the proxy in the environment (HTTP_PROXY, HTTPS_PROXY) is not a URL; correct the variable")

func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errProxy
	}
	return u, nil
}

// tlsConfig returns the settings of the connections.
func (p *plan) tlsConfig(h *Handler) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if h.CAFile != "" {
		pem, err := readSmall(h.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form; name a file that begins with -----BEGIN CERTIFICATE-----", h.CAFile)
		}
	}
	if h.CertFile != "" {
		p.cert = &watched[*tls.Certificate]{paths: []string{h.CertFile, h.KeyFile}, parse: func(pem [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(pem[0], pem[1])
			if err != nil {
				return nil, fmt.Errorf("client_cert %s and client_key %s do not make a certificate: %w", h.CertFile, h.KeyFile, err)
			}
			return &pair, nil
		}}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.cert.get() }
	}
	return c, nil
}

// A watched value is made of files, and made anew when one of them says something else
// now, so that what expires can be replaced under a running program. Its
// methods may be called concurrently.
type watched[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error) // called with one per path

	mu    sync.Mutex
	seen  [][]byte // what value was made from; nil: never
	value T
	lost  bool // the last get failed
}

// A file that was good and is not any more may just be being written: not
// everybody replaces it in one step. For settling it is read again.
const (
	settling  = 2 * time.Second
	lookAgain = 50 * time.Millisecond
)

// get returns the value of the files as they are now. An error names the file
// and a hint. The first one after a success comes only once the files have
// been bad for 2 seconds.
func (w *watched[T]) get() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	value, err := w.read()
	for waited := time.Duration(0); err != nil && w.seen != nil && !w.lost && waited < settling; waited += lookAgain {
		time.Sleep(lookAgain)
		value, err = w.read()
	}
	w.lost = err != nil
	return value, err
}

// read returns the value of the files as they are at this moment. w.mu is held.
func (w *watched[T]) read() (T, error) {
	contents := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		var err error
		if contents[i], err = readSmall(path); err != nil {
			return *new(T), err
		}
	}
	if w.seen != nil && slices.EqualFunc(contents, w.seen, bytes.Equal) {
		return w.value, nil
	}
	value, err := w.parse(contents)
	if err != nil {
		return *new(T), err
	}
	w.seen, w.value = contents, value
	return value, nil
}

// maxSmall is more than any file has that is meant.
const maxSmall = 1 << 20

// readSmall reads a regular file that is not large.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	var b []byte
	if err == nil && info.Mode().IsRegular() && info.Size() <= maxSmall {
		b, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, backlog.Worded(path+" does not exist; create it or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, backlog.Worded(path+" may not be read by this user; see the permissions of the file and its directories", err)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; name one", path)
	case info.Size() > maxSmall:
		return nil, fmt.Errorf("%s has more than 1 MiB; is it the right file?", path)
	}
	return b, nil
}

// secretFile watches a file that holds one secret.
func secretFile(path string) *watched[[]byte] {
	return &watched[[]byte]{paths: []string{path}, parse: func(contents [][]byte) ([]byte, error) {
		key, err := parseSecret(string(contents[0]))
		if err != nil {
			return nil, fmt.Errorf("%s %w", path, err)
		}
		return key, nil
	}}
}
