package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A Probe asks a daemon's /healthz, without a proxy. [NewProbe] and [LocalProbe] return one.
type Probe struct {
	base      string
	transport http.Transport
}

// NewProbe returns a Probe of the daemon at a URL such as http://10.1.2.3:8080.
func NewProbe(url string) *Probe { return &Probe{base: url} }

// LocalProbe returns a Probe of the daemon of this machine that listens on the address, as [Listen]
// takes it; secure says with TLS.
func LocalProbe(address string, secure bool) *Probe {
	p := new(Probe)
	path, unix := strings.CutPrefix(address, "unix:")
	if unix {
		address = "localhost"
		p.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else if host, port, _ := net.SplitHostPort(address); host == "" || net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	p.base = "http://" + address
	if secure {
		p.base = "https://" + address
		p.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // it is this machine, and no secret is sent
	}
	return p
}

// Ask returns the daemon's answer. It returns an error if the daemon does not answer or does not
// work; a wrong URL is a [*Problem].
func (p *Probe) Ask(ctx context.Context) (answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.base, "/")+"/healthz", nil)
	if err != nil {
		return "", &Problem{Status: http.StatusBadRequest, Text: err.Error()}
	}
	client := &http.Client{Transport: &p.transport, Timeout: 5 * time.Second}
	a, err := client.Do(r)
	if err != nil {
		return "", fmt.Errorf("%w; is the daemon there, and is this where its web.listen or metrics.listen is?", err)
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(a.Body, 4<<10))
	if a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.URL.Redacted(), a.Status)
	}
	return strings.TrimSpace(string(text)), err
}
