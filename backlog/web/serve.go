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
