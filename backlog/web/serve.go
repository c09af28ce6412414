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

// Listen opens the address: host:port, or unix:/path, whose file may be left over from a
// process that was killed.
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

// Serve answers on the listener until the context ends, and closes it. Who is answered then
// has a second: a slow reader keeps nobody waiting.
func (s *Site) Serve(ctx context.Context, l net.Listener) error {
	return s.answer(ctx, switched{l, s}, s)
}

// ServeProbes does so on a listener of its own for what machines ask alone: /healthz, /readyz
// and /metrics, under any name and without TLS. open says whether metrics ask for no token.
func (s *Site) ServeProbes(ctx context.Context, l net.Listener, metrics http.Handler, open func() bool) error {
	return s.answer(ctx, l, probes{s, metrics, open})
}

func (s *Site) answer(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 12 << 10, // and 4 KiB that net/http adds
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
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

// A switched listener begins TLS with a connection if the settings want that now.
type switched struct {
	net.Listener
	site *Site
}

func (l switched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if config := l.site.setup.Load().tls; err == nil && config != nil {
		return tls.Server(c, config), nil
	}
	return c, err
}

// maxSleep is of a loop that works.
const maxSleep = 2 * time.Minute

// healthz says whether the loop works. It does not ask for the database: that one is away
// is no reason to kill the daemon.
func (v *visit) healthz() error {
	n := v.backlog.Now()
	return v.probe(n.Role == Viewer || v.at.Sub(n.Woke) <= maxSleep, map[string]any{"role": n.Role})
}

// readyz says whether the process can do its part.
func (v *visit) readyz() error {
	n := v.backlog.Now()
	answers := n.Trouble == nil || n.Trouble.Passes
	works := n.Trouble == nil || !n.Trouble.Passes || n.Role == Viewer
	return v.probe(answers && works && !n.Stopping, map[string]any{"role": n.Role, "database": answers, "passes": works, "stopping": n.Stopping})
}

func (v *visit) probe(ok bool, facts map[string]any) error {
	status := http.StatusOK
	if facts["ok"] = ok; !ok {
		status = http.StatusServiceUnavailable
	}
	return v.json(status, facts)
}

func (v *visit) metrics() error {
	if v.Metrics == nil {
		return &Problem{http.StatusNotFound, "Metrics are not served here."}
	}
	v.sent = http.StatusOK
	v.Metrics.ServeHTTP(v.w, v.r)
	return nil
}

// probes are what a listener for machines answers.
type probes struct {
	*Site
	metrics http.Handler
	open    func() bool
}

func (p probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{Site: p.Site, set: p.setup.Load(), w: w, r: r, at: p.Now()}
	v.headers()
	health := map[string]func(*visit) error{"/healthz": (*visit).healthz, "/readyz": (*visit).readyz}[r.URL.Path]
	switch {
	case health == nil && r.URL.Path != "/metrics":
		http.Error(w, "Here are only /metrics, /healthz and /readyz.", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "This address does not take "+r.Method+".", http.StatusMethodNotAllowed)
	case health != nil:
		_ = health(v) // what it writes is JSON
	case !p.open() && v.set.tokens.Bearer(r) == None:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "A token is needed, as Authorization: Bearer TOKEN; `backlog token` prints it.", http.StatusUnauthorized)
	default:
		p.metrics.ServeHTTP(w, r)
	}
}
