package http

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"backlog/backlog/handler/setting"
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
	secure, err := tlsConfig(h)
	if err != nil {
		return err
	}
	idle := cmp.Or(max(0, h.Concurrency), 4)
	p.transport = &http.Transport{
		Proxy: proxy, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSClientConfig: secure, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxAnswerHeader,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
		MaxIdleConns: max(100, idle), MaxIdleConnsPerHost: idle, IdleConnTimeout: idleTime,
		DisableCompression: true, // answers are short, and read in part
	}
	if p.url.free {
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

// misconfigured is the error of a request for which no record is to blame.
type misconfigured struct{ error }

// proxy is [http.ProxyFromEnvironment], whose error would show the proxy's password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		err = &misconfigured{errors.New("the proxy in the environment (HTTP_PROXY, HTTPS_PROXY) is not a URL; correct the variable")}
	}
	return u, err
}

// tlsConfig returns the settings of the connections. The client's certificate is read
// with each of them, so that one that expires can be replaced under a running program.
func tlsConfig(h *Handler) (*tls.Config, error) {
	authorities, err := setting.Authorities(h.CAFile)
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	if err != nil || h.CertFile == "" {
		return c, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(h.CertFile, h.KeyFile)
		if err != nil {
			err = &misconfigured{fmt.Errorf("client_cert %s and client_key %s do not make a certificate: %w", h.CertFile, h.KeyFile, err)}
		}
		return &pair, err
	}
	_, err = c.GetClientCertificate(nil)
	return c, err
}
