package handler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	// connectTime bounds what goes on before a request is sent, for attempts
	// without a timeout and for connections that outlive their attempt.
	connectTime = 30 * time.Second

	// idleTime is how long a connection is kept unused: less than servers
	// commonly do, so that few are found closed.
	idleTime = 55 * time.Second

	maxAnswerHeader = 64 << 10
)

// setTransport makes what keeps the connections.
func (p *httpPlan) setTransport(h *HTTP) error {
	secure, err := p.tlsConfig(h)
	if err != nil {
		return err
	}
	idle := h.Concurrency
	if idle <= 0 {
		idle = 4
	}
	p.transport = &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    connectTime,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}, // finds dead connections
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
func (p *httpPlan) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
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
func (p *httpPlan) tlsConfig(h *HTTP) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	given := h.CAFile != "" || h.CertFile != "" || h.KeyFile != ""
	if given && p.url.base != nil && p.url.base.Scheme == "http" {
		return nil, errors.New("ca_file, client_cert and client_key are of no use with http://; write https:// or drop them")
	}
	if (h.CertFile == "") != (h.KeyFile == "") {
		return nil, errors.New("client_cert and client_key belong together; give both or none")
	}
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
		if _, err := p.cert.get(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.cert.get() }
	}
	return c, nil
}
