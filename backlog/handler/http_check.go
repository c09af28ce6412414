package handler

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	checkTime = 10 * time.Second // of all the network does in a Check

	// refusalTime is how long a server is given to refuse a certificate: in TLS
	// 1.3 it does so after what is the end of the handshake for us.
	refusalTime = 500 * time.Millisecond
)

// Check reports what would keep a record from being sent: what Prepare finds,
// a host that does not resolve or takes no connection, a certificate that is
// not trusted. The error names the cure. Nothing is sent over the connection.
// If the record decides about the host, or the proxy is one of SOCKS, Check
// cannot know as much, and is content.
func (h *HTTP) Check(ctx context.Context) error {
	if err := h.Prepare(); err != nil {
		return err
	}
	p, err := h.plan()
	if err != nil || p.url.base == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	target := &url.URL{Scheme: p.url.base.Scheme, Host: p.url.base.Host}
	via, err := p.transport.Proxy(&http.Request{URL: target})
	if err != nil {
		return httpError(err)
	}
	c, err := p.connect(ctx, target, via)
	if err != nil || c == nil {
		return err
	}
	defer c.Close()
	if target.Scheme != "https" {
		return nil
	}
	return p.checkTLS(ctx, c, target.Hostname())
}

// connect connects to the target, through the proxy if there is one. It
// returns no connection where a proxy makes that impossible.
func (p *httpPlan) connect(ctx context.Context, target, via *url.URL) (net.Conn, error) {
	if via == nil {
		c, err := p.reach(ctx, target, "correct the host in url", "is the service running, and is the port in url right?")
		return c, err
	}
	c, err := p.reach(ctx, via, "correct the proxy in the environment", "is the proxy in the environment the right one?")
	if err != nil {
		return nil, err
	}
	if target.Scheme == "https" && isHTTP(via.Scheme) {
		if c, err = tunnel(ctx, c, target, via); err != nil {
			return nil, httpError(fmt.Errorf("the proxy %s does not connect to %s: %w", via.Host, target.Host, err))
		}
		return c, nil
	}
	c.Close()
	return nil, nil
}

// reach resolves the host of u and connects to it. The cures are for a host
// that does not resolve, and for one that takes no connection.
func (p *httpPlan) reach(ctx context.Context, u *url.URL, unknown, silent string) (net.Conn, error) {
	address := net.JoinHostPort(u.Hostname(), portOf(u))
	if u.Scheme == "socks5" || u.Scheme == "socks5h" {
		address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "1080"))
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	switch dns := (*net.DNSError)(nil); {
	case errors.As(err, &dns):
		return nil, &failure{fmt.Sprintf("http: %s; %s", netInWords(err), unknown), []error{err}}
	case err != nil:
		return nil, &failure{fmt.Sprintf("http: %s takes no connection: %s; %s", address, netInWords(err), silent), []error{err}}
	}
	return c, nil
}

// tunnel asks the proxy for a connection to the target. It closes c if there is
// none.
func tunnel(ctx context.Context, c net.Conn, target, via *url.URL) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if via.Scheme == "https" {
		c = tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: via.Hostname()})
	}
	address := net.JoinHostPort(target.Hostname(), portOf(target))
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: make(http.Header)}
	if via.User != nil {
		req.Header.Set("Proxy-Authorization", basic(via.User))
	}
	err := req.Write(c)
	if err == nil {
		var resp *http.Response
		// Nothing of the target's is lost in the buffer: it speaks second.
		if resp, err = http.ReadResponse(bufio.NewReader(c), req); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(statusLine(resp.StatusCode))
		}
	}
	if ctx.Err() != nil {
		err = errors.New("it took the connection and said nothing")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// checkTLS shakes hands over c, which the caller closes.
func (p *httpPlan) checkTLS(ctx context.Context, c net.Conn, host string) error {
	config := p.transport.TLSClientConfig.Clone()
	config.ServerName = host
	config.NextProtos = []string{"h2", "http/1.1"}
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		if p.cert == nil {
			return new(tls.Certificate), nil // none
		}
		return p.cert.get()
	}
	secure := tls.Client(c, config)
	err := secure.HandshakeContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSilent
	}
	if err == nil && asked {
		err = refusedLater(secure)
	}
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("http: TLS with %s fails: %s", host, netInWords(err))
	if asked {
		text += "; the server asked for a certificate of ours: see client_cert and client_key"
	}
	return &failure{text + tlsCure(err), []error{err}}
}

// errSilent is that of a server which takes a connection and leaves it at that.
var errSilent = errors.New("it took the connection and said nothing, so it does not seem to speak TLS there")

// refusedLater returns what a server that has seen our certificate, or that
// we have none, says to it.
func refusedLater(c *tls.Conn) error {
	silent := time.AfterFunc(refusalTime, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer silent.Stop()
	if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil // silence, or the first words of HTTP/2
}

func tlsCure(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		noTLS   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "; name the certificate of its authority in ca_file"
	case errors.As(err, &name):
		return "; correct the host in url, or the server's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "; renew the server's certificate, or set the clock"
	case errors.As(err, &noTLS), errors.Is(err, io.EOF), err == errSilent:
		return "; is http:// meant, or another port?"
	}
	return ""
}
