package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
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

// Check reports what would keep a record from being sent: what Prepare finds,
// a host that does not resolve or takes no connection, a certificate that is
// not trusted. The error ends in a hint. No request is sent. If the record
// decides about the host, Check cannot know as much, and is content.
func (h *Handler) Check(ctx context.Context) error {
	p, _, err := h.ready()
	if err != nil || p.url.free {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	t, asked := p.transport.Clone(), false
	own := t.TLSClientConfig.GetClientCertificate
	t.TLSClientConfig.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		if own == nil {
			return new(tls.Certificate), nil // none
		}
		return own(r)
	}
	address := net.JoinHostPort(p.url.base.Hostname(), portOf(p.url.base))
	c, err := t.NewClientConn(ctx, p.url.base.Scheme, address)
	if err == nil {
		defer c.Close()
		if asked {
			time.Sleep(refusalTime)
			err = c.Err()
		}
	}
	if err == nil {
		return nil
	}
	text, hint := netInWords(err)
	if asked {
		hint = "the server asked for a certificate of ours: see client_cert and client_key"
	}
	return backlog.Worded(strings.TrimSuffix(fmt.Sprintf("http: %s: %s; %s", address, text, hint), "; "), err)
}

// Checked says what a Check that found nothing has shown.
func (h *Handler) Checked() string {
	text := "each record says which host is called, one of: " + strings.Join(h.Allow, ", ")
	if p, err := h.plan(); err == nil && !p.url.free {
		text = p.url.base.Scheme + "://" + p.url.base.Host + " takes connections"
		if p.url.base.Scheme == "https" {
			text = "https://" + p.url.base.Host + " resolves and its certificate is good"
		}
	}
	if n := len(h.Secrets) + len(h.SecretFiles); n > 0 {
		text += fmt.Sprintf("; secrets to sign with: %d", n)
	}
	return text
}
