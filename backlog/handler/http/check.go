package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"time"

	"backlog/backlog"
)

const (
	checkTime = 10 * time.Second // of all the network does in a Check

	// refusalTime is how long a server is given to refuse a certificate: in TLS
	// 1.3 it does so after the end of the handshake on our side.
	refusalTime = 500 * time.Millisecond
)

// errSilent is the error of a server that takes a connection and says nothing.
var errSilent = errors.New("it took the connection and said nothing, so it does not seem to speak TLS there")

// Check reports what would keep a record from being sent: what Prepare finds,
// a host that does not resolve or takes no connection, a certificate that is
// not trusted. The error ends in a hint. No request is sent. If the record
// decides about the host, Check cannot know as much, and is content.
func (h *Handler) Check(ctx context.Context) error {
	if err := h.Prepare(); err != nil {
		return err
	}
	p, err := h.plan()
	if err != nil || p.url.base == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	secured, asked := false, false // TLS has begun, the server asked for a certificate
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{TLSHandshakeStart: func() { secured = true }})
	t := p.transport.Clone()
	t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		if p.cert == nil {
			return new(tls.Certificate), nil // none
		}
		return p.cert.get()
	}
	host, address := p.url.base.Hostname(), net.JoinHostPort(p.url.base.Hostname(), portOf(p.url.base))
	c, err := t.NewClientConn(ctx, p.url.base.Scheme, address)
	if err == nil {
		defer c.Close()
		if !asked {
			return nil
		}
		time.Sleep(refusalTime)
		if err = c.Err(); err == nil {
			return nil
		}
	}
	if secured && errors.Is(err, context.DeadlineExceeded) {
		err = errSilent
	}
	var (
		op   *net.OpError
		text = netInWords(err)
	)
	switch errors.As(err, &op); {
	case errors.Is(err, errProxy):
	case op != nil && op.Op == "proxyconnect" && errors.As(err, new(*net.DNSError)):
		text += "; correct the proxy in the environment"
	case errors.As(err, new(*net.DNSError)):
		text += "; correct the host in url"
	case op != nil && op.Op == "proxyconnect":
		text += "; is the proxy in the environment the right one?"
	case op != nil && op.Op == "dial", !secured && errors.Is(err, context.DeadlineExceeded):
		text = address + " takes no connection: " + text + "; is the service running, and is the port in url right?"
	case !secured:
		text = "the proxy does not connect to " + address + ": " + text
	default:
		text = fmt.Sprintf("TLS with %s fails: %s", host, text)
		if asked {
			text += "; the server asked for a certificate of ours: see client_cert and client_key"
		}
		text += tlsHint(err)
	}
	return backlog.Worded("http: "+text, err)
}

// Checked says what a Check that found nothing has shown.
func (h *Handler) Checked() string {
	text := "each record says which host is called, one of: " + strings.Join(h.Allow, ", ")
	if p, err := h.plan(); err == nil && p.url.base != nil {
		text = p.url.base.Scheme + "://" + p.url.base.Host + " takes connections"
		if p.url.base.Scheme == "https" {
			text = "https://" + p.url.base.Host + " resolves and its certificate is good"
		}
	}
	switch n := len(h.Secrets) + len(h.SecretFiles); n {
	case 0:
		return text
	case 1:
		return text + "; 1 secret to sign with"
	default:
		return fmt.Sprintf("%s; %d secrets to sign with", text, n)
	}
}

func tlsHint(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "; name the certificate of its authority in ca_file"
	case errors.As(err, new(x509.HostnameError)):
		return "; correct the host in url, or the server's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "; renew the server's certificate, or set the clock"
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, io.EOF), err == errSilent:
		return "; is http:// meant, or another port?"
	}
	return ""
}
