//go:build unix

package http_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	handler "backlog/backlog/handler/http"
	"backlog/internal/handlertest"
)

func TestHTTPTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newHook(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("timed out after 50ms"))
	defer cancel()
	err := (&handler.Handler{Settings: handler.Settings{URL: s.URL + "/secret?token=secret"}}).Handle(ctx, handlertest.NewRecord())
	handlertest.WantError(t, err, "timed out after 50ms: POST "+s.URL, backlog.Errored)

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = (&handler.Handler{Settings: handler.Settings{URL: s.URL}}).Handle(ctx, handlertest.NewRecord())
	handlertest.WantError(t, err, "context deadline exceeded: POST "+s.URL, backlog.Errored)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not %v", err, context.DeadlineExceeded)
	}
	if err := (&handler.Handler{Settings: handler.Settings{URL: s.URL}}).Handle(ctx, handlertest.NewRecord()); err != context.DeadlineExceeded {
		t.Errorf("a second attempt: %v", err)
	}
}

func TestHTTPNetworkErrors(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	handlertest.WantError(t, (&handler.Handler{Settings: handler.Settings{URL: closed.URL + "/secret?token=secret"}}).Handle(t.Context(), handlertest.NewRecord()), "POST "+closed.URL+": connection refused", backlog.Errored)

	const unknown = "http://user:secret@does-not-exist.invalid/secret?token=secret"
	err := (&handler.Handler{Settings: handler.Settings{URL: unknown}}).Handle(t.Context(), handlertest.NewRecord())
	if err == nil || !strings.HasPrefix(err.Error(), "POST http://does-not-exist.invalid: does-not-exist.invalid does not resolve: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a name that does not exist: %v", err)
	}

	noTLS := newHook(t, nil)
	url := strings.Replace(noTLS.URL, "http:", "https:", 1)
	handlertest.WantError(t, (&handler.Handler{Settings: handler.Settings{URL: url}}).Handle(t.Context(), handlertest.NewRecord()), "POST "+url+": the server does not speak TLS there", backlog.Errored)

	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	handlertest.WantError(t, (&handler.Handler{Settings: handler.Settings{URL: secure.URL}}).Handle(t.Context(), handlertest.NewRecord()),
		"POST "+secure.URL+": its certificate is not trusted: x509: certificate signed by unknown authority", backlog.Errored)
}

// A server that breaks the connection off may have acted: it is not asked again
// in the same attempt, but for a connection that it may just have found idle.
func TestHTTPSendsAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		breaks   []bool // request by request
		after    string // said before
		text     string // of the error of the second attempt
		requests int    // of both
	}{
		{"a used connection", []bool{false, true, false}, "", "", 3},
		{"a used one, then a new one", []bool{false, true, true}, "", "the connection was closed without an answer", 3},
		{"a new connection", []bool{true, true, false}, "", "the connection was closed without an answer", 2},
		{"after a part of the answer", []bool{false, true, false}, "HTTP/1.1 200 OK\r\nX: ", "the connection was closed without an answer", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			s := newHook(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.breaks[n.Add(1)-1] {
					c, _, err := w.(http.Hijacker).Hijack()
					if err == nil {
						io.WriteString(c, tt.after)
						c.Close()
					}
				}
			})
			h := &handler.Handler{Settings: handler.Settings{URL: s.URL}, Source: "orders"}
			h.Handle(t.Context(), handlertest.NewRecord()) // a connection to use again, perhaps
			r, outcome, text := handlertest.NewRecord(), backlog.Succeeded, ""
			r.AttemptID = "second"
			if tt.text != "" {
				outcome, text = backlog.Errored, "POST "+s.URL+": "+tt.text
			}
			handlertest.WantError(t, h.Handle(t.Context(), r), text, outcome)
			got := s.requests()
			if len(got) != tt.requests {
				t.Fatalf("%d requests of two attempts, want %d", len(got), tt.requests)
			}
			last, before := got[len(got)-1], got[len(got)-2]
			if last.header.Get("Webhook-Id") == "" || last.body != before.body || last.header.Get("Backlog-Attempt-Id") != "second" {
				t.Errorf("the last request: %+v, before it %+v", last, before)
			}
		})
	}
}

// A server that closes its connections after each answer and does not say so
// costs no record.
func TestHTTPServerClosesUnannounced(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.Copy(io.Discard, r.Body)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	h := &handler.Handler{Settings: handler.Settings{URL: "http://" + l.Addr().String()}, Concurrency: 4}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				handlertest.WantError(t, h.Handle(t.Context(), handlertest.NewRecord()), "", backlog.Succeeded)
			}
		})
	}
	wg.Wait()
}

func TestHTTPReusesConnections(t *testing.T) {
	t.Parallel()
	const calls, each = 8, 20
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, strings.Repeat("some text ", 1000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	h := &handler.Handler{Settings: handler.Settings{URL: s.URL}, Concurrency: calls}
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			for range each {
				h.Handle(context.Background(), handlertest.NewRecord())
			}
		})
	}
	wg.Wait()
	// A call may find none idle, dial, and get one that has become idle.
	if n := connections.Load(); n > 2*calls {
		t.Errorf("%d connections for %d calls, %d at a time", n, calls*each, calls)
	}
}
