package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Listen listens on an address: host:port, or unix:/path. It replaces a socket that no process
// listens on, which a killed process leaves.
func Listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another process listens there", address)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o660) // for a proxy of the same group
}

// Serve answers requests on the listener until the context ends, then closes it. Requests under way
// then have a second to end, so that a slow reader cannot delay the stop.
func (s *Site) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, tlsListener{l, s}, s)
}

// ServeProbes does the same on a second listener that serves only machines: /healthz, /readyz and
// /metrics, under any host name and without TLS. open reports whether metrics need no token.
func (s *Site) ServeProbes(ctx context.Context, l net.Listener, metrics http.Handler, open func() bool) error {
	return s.serve(ctx, l, probes{s, metrics, open})
}

// serve serves the handler on the listener.
func (s *Site) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// A tlsListener accepts connections with TLS while the settings, which a reload may change, have a
// certificate.
type tlsListener struct {
	net.Listener
	site *Site
}

// Accept implements [net.Listener].
func (l tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if config := l.site.setup.Load().tls; err == nil && config != nil {
		return tls.Server(c, config), nil
	}
	return c, err
}

// maxSleep is the longest time for which a working loop does not wake.
const maxSleep = 2 * time.Minute

// healthz answers whether the loop works. It does not look at the database, because killing the
// daemon would not bring that back.
func (v *visit) healthz() error {
	n := v.backlog.Now()
	return v.probe(n.Role == Viewer || v.at.Sub(n.Woke) <= maxSleep, map[string]any{"role": n.Role})
}

// readyz answers whether the process can do its part.
func (v *visit) readyz() error {
	n := v.backlog.Now()
	database := n.Trouble == nil || n.Trouble.Passes
	passes := n.Trouble == nil || !n.Trouble.Passes || n.Role == Viewer
	ready := database && passes && !n.Stopping
	return v.probe(ready, map[string]any{"role": n.Role, "database": database, "passes": passes, "stopping": n.Stopping})
}

// probe answers a probe with the facts and whether all is well.
func (v *visit) probe(ok bool, facts map[string]any) error {
	facts["ok"] = ok
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	return v.json(status, facts)
}

// metrics answers a scrape. [Site.Answers] counts it as 200, whatever status the handler sends.
func (v *visit) metrics() error {
	if v.Metrics == nil {
		return &Problem{http.StatusNotFound, "Metrics are not served here."}
	}
	v.sentStatus = http.StatusOK
	v.Metrics.ServeHTTP(v.w, v.r)
	return nil
}

// probes is the handler of [Site.ServeProbes].
type probes struct {
	*Site
	metrics http.Handler
	open    func() bool
}

// ServeHTTP implements [http.Handler].
func (p probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{Site: p.Site, set: p.setup.Load(), w: w, r: r, at: p.Now()}
	v.headers()
	var health func(*visit) error
	switch r.URL.Path {
	case "/healthz":
		health = (*visit).healthz
	case "/readyz":
		health = (*visit).readyz
	}
	switch {
	case health == nil && r.URL.Path != "/metrics":
		http.Error(w, "Here are only /metrics, /healthz and /readyz.", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "This address does not take "+r.Method+".", http.StatusMethodNotAllowed)
	case health != nil:
		_ = health(v) // its answer can always be marshalled
	case !p.open() && v.set.tokens.Bearer(r) == None:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "A token is needed, as Authorization: Bearer TOKEN; `backlog token` prints it.", http.StatusUnauthorized)
	default:
		p.metrics.ServeHTTP(w, r)
	}
}
