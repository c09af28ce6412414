package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"backlog/backlog/web"
)

// A listener for machines has nothing but what they ask, under any name, and the metrics for
// those with a token alone.
func TestProbes(t *testing.T) {
	site := newSite(t, newFake(t, ""), nil)
	l, err := web.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := false
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "backlog_leader 1\n") })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- site.ServeProbes(ctx, l, metrics, func() bool { return open }) }()
	ask := func(method, path, token string) (int, string) {
		r, err := http.NewRequest(method, "http://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "10.1.2.3:9464" // a pod's
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	for _, c := range []struct {
		method, path, token string
		status              int
		text                string
	}{
		{"GET", "/healthz", "", 200, `"ok":true`}, {"GET", "/readyz", "", 200, `"ok":true`}, {"POST", "/healthz", "", 405, ""},
		{"GET", "/metrics", "", 401, "token"}, {"GET", "/metrics", "wrong-0123456789abcdef0123456789abcdef", 401, "token"},
		{"GET", "/metrics", fullToken, 200, "backlog_leader 1"}, {"GET", "/metrics", readToken, 200, "backlog_leader 1"}, {"POST", "/metrics", fullToken, 405, ""},
		{"GET", "/", fullToken, 404, ""}, {"GET", "/login", "", 404, ""}, {"GET", "/api/v1/status", fullToken, 404, ""}, {"GET", "/static/site.css", "", 404, ""},
	} {
		if status, text := ask(c.method, c.path, c.token); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s with %q: want %d %q, got %d %q", c.method, c.path, c.token, c.status, c.text, status, text)
		}
	}
	open = true
	if status, _ := ask("GET", "/metrics", ""); status != 200 {
		t.Errorf("open: want 200, got %d", status)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}
