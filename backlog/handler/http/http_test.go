//go:build unix

package http_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	handler "backlog/backlog/handler/http"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

var (
	_ backlog.Handler = (*handler.Handler)(nil)
)

// A received request.
type received struct {
	method, uri, host, body string
	header                  http.Header
}

// A hook is a web server that keeps what it is sent.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func newHook(t *testing.T, answer http.HandlerFunc) *hook {
	t.Helper()
	h := new(hook)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.got = append(h.got, received{r.Method, r.RequestURI, r.Host, string(body), r.Header.Clone()})
		h.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) requests() []received {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got
}

func (h *hook) one(t *testing.T) received {
	t.Helper()
	got := h.requests()
	if len(got) != 1 {
		t.Fatalf("%d requests, want one", len(got))
	}
	return got[0]
}

func fullRecord() *backlog.Record {
	return &backlog.Record{
		Key: backlog.NewKey(int64(7)), Status: "NEW", Tier: "1d", AttemptID: "a-1",
		Names:  []string{"id", "n", "payload", "blob"},
		Values: []any{int64(7), nil, json.RawMessage(`{"a":[1,2]}`), []byte{0, 0xff}},
	}
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	const body = `{"id":7,"n":null,"payload":{"a":[1,2]},"blob":"AP8="}`
	plain := map[string]string{
		"User-Agent": "backlog/1", "Content-Type": "application/json", "Webhook-Id": "orders/7", "Idempotency-Key": "orders/7",
		"Backlog-Attempt-Id": "a-1", "Backlog-Tier": "1d",
	}
	with := func(pairs ...string) map[string]string {
		m := maps.Clone(plain)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
			if pairs[i+1] == "-" {
				delete(m, pairs[i])
			}
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		h      *handler.Handler
		path   string
		change func(*backlog.Record)

		method, uri, body string
		header            map[string]string
	}{
		{name: "plain", path: "/hook?a=b", method: "POST", uri: "/hook?a=b", body: body, header: plain},
		{name: "no path", method: "POST", uri: "/", body: body, header: plain},
		{name: "PUT", h: &handler.Handler{Settings: handler.Settings{Method: "PUT"}}, path: "/x/{id}", method: "PUT", uri: "/x/7", body: body, header: plain},
		{name: "GET", h: &handler.Handler{Settings: handler.Settings{Method: "GET"}}, path: "/?id={id}", method: "GET", uri: "/?id=7", header: with("Content-Type", "-")},
		{name: "HEAD", h: &handler.Handler{Settings: handler.Settings{Method: "HEAD"}}, path: "/", method: "HEAD", uri: "/", header: with("Content-Type", "-")},
		{
			name: "headers", path: "/", method: "POST", uri: "/", body: body,
			h: &handler.Handler{
				Settings: handler.Settings{
					Headers: map[string]string{
						"authorization": "Bearer secret", "X-Tenant": " acme ",
						"User-Agent": "shop/2", "content-type": "application/vnd.shop+json",
					},
				},
			},
			header: with("Authorization", "Bearer secret", "X-Tenant", "acme", "User-Agent", "shop/2", "Content-Type", "application/vnd.shop+json"),
		},
		{
			name: "odd texts", path: "/", method: "POST", uri: "/", body: body,
			change: func(r *backlog.Record) { r.Tier, r.AttemptID = " 100% Jahre\nfür alle ", "" },
			header: with("Backlog-Tier", "100%25 Jahre%0Af%C3%BCr alle", "Backlog-Attempt-Id", "-"),
		},
		{
			name: "traced", path: "/", method: "POST", uri: "/", body: body,
			h: &handler.Handler{
				Settings: handler.Settings{Headers: map[string]string{"traceparent": "00-of-another", "tracestate": "vendor=1"}},
			},
			change: func(r *backlog.Record) { r.Traceparent = backlog.Traceparent("a-1", true) },
			header: with("Traceparent", backlog.Traceparent("a-1", true), "Tracestate", "-"),
		},
		{
			name: "dead", path: "/", method: "POST", uri: "/", body: body,
			change: func(r *backlog.Record) { r.Reason, r.Error = backlog.ReasonRetries, "503: down\r\nX-Evil: yes" },
			header: with("Webhook-Id", "orders/7~dead", "Idempotency-Key", "orders/7~dead",
				"Backlog-Reason", "out of retries", "Backlog-Error", "503: down%0D%0AX-Evil: yes"),
		},
		{
			name: "expired", path: "/", method: "POST", uri: "/", body: body,
			change: func(r *backlog.Record) { r.Reason = backlog.ReasonExpired },
			header: with("Webhook-Id", "orders/7~dead", "Idempotency-Key", "orders/7~dead", "Backlog-Reason", "expired"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHook(t, nil)
			h, r := tt.h, fullRecord()
			if h == nil {
				h = new(handler.Handler)
			}
			h.URL, h.Source = s.URL+tt.path, "orders"
			if tt.change != nil {
				tt.change(r)
			}
			if err := h.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			got := s.one(t)
			if got.method != tt.method || got.uri != tt.uri || got.body != tt.body {
				t.Errorf("%s %s %s, want %s %s %s", got.method, got.uri, got.body, tt.method, tt.uri, tt.body)
			}
			delete(got.header, "Content-Length")
			header := make(map[string]string)
			for name := range got.header {
				header[name] = strings.Join(got.header[name], "; ")
			}
			if !maps.Equal(header, tt.header) {
				t.Errorf("headers\n%q\nwant\n%q", header, tt.header)
			}
		})
	}
}

func TestHTTPUserInURL(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, user+" may not, by "+password+" and "+r.Header.Get("Authorization"))
	})
	h := &handler.Handler{Settings: handler.Settings{URL: strings.Replace(s.URL, "://", "://shop:p%40ssword@", 1)}}
	handlertest.WantError(t, h.Handle(t.Context(), handlertest.NewRecord()), "403 Forbidden: shop may not, by *** and ***", backlog.Errored)
}

func statuses(list []int) (all []handler.Status) {
	if list != nil {
		all = []handler.Status{}
	}
	for _, n := range list {
		all = append(all, handler.Status{From: n, To: n})
	}
	return all
}

func TestHTTPOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		status          int
		body            string
		header          map[string]string
		success, reject []int
		outcome         backlog.Outcome
		text            string
	}{
		{name: "200", status: 200, body: "thanks"},
		{name: "204", status: 204},
		{name: "299", status: 299},
		{name: "300", status: 300, outcome: backlog.Errored, text: "300 Multiple Choices"},
		{name: "400", status: 400, body: "no such customer", outcome: backlog.Errored, text: "400 Bad Request: no such customer"},
		{name: "410", status: 410, body: "gone", outcome: backlog.Rejected, text: "410 Gone: gone"},
		{name: "500", status: 500, outcome: backlog.Errored, text: "500 Internal Server Error"},
		{name: "unknown", status: 599, body: "x", outcome: backlog.Errored, text: "599: x"},
		{name: "success configured", status: 409, success: []int{200, 409}},
		{name: "not in success", status: 201, success: []int{200, 409}, outcome: backlog.Errored, text: "201 Created"},
		{name: "410 a success", status: 410, success: []int{200, 410}, reject: []int{}},
		{name: "a redirect as success", status: 303, success: []int{303}, header: map[string]string{"Location": "/"}},
		{name: "reject configured", status: 422, reject: []int{400, 422}, outcome: backlog.Rejected, text: "422 Unprocessable Entity"},
		{name: "410 without a meaning", status: 410, reject: []int{}, outcome: backlog.Errored, text: "410 Gone"},
		{name: "429 rejects", status: 429, reject: []int{429}, header: map[string]string{"Retry-After": "5"}, outcome: backlog.Rejected, text: "429 Too Many Requests"},
		{name: "redirect", status: 302, header: map[string]string{"Location": "https://user:secret@other.example.org/token?x"}, outcome: backlog.Errored,
			text: "302 Found: points to other.example.org; redirects are not followed: correct the url"},
		{name: "many lines", status: 500, body: " \n a\r\nb\tc\x00\x1b[2Jd\u202e\n", outcome: backlog.Errored, text: "500 Internal Server Error: a\nb\tc\uFFFD\uFFFD[2Jd\uFFFD"},
		{name: "not UTF-8", status: 500, body: "caf\xe9", outcome: backlog.Errored, text: "500 Internal Server Error: caf\uFFFD"},
		{name: "long", status: 500, body: strings.Repeat("x", 3000), outcome: backlog.Errored, text: "500 Internal Server Error: " + strings.Repeat("x", 2048) + "…"},
		{name: "endless", status: 500, body: strings.Repeat("y", 1<<20), outcome: backlog.Errored, text: "500 Internal Server Error: " + strings.Repeat("y", 2048) + "…"},
		{name: "endless success", status: 200, body: strings.Repeat("y", 1<<20)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newHook(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			h := &handler.Handler{Settings: handler.Settings{URL: s.URL + "/hook", Success: statuses(tt.success), Reject: statuses(tt.reject)}}
			handlertest.WantError(t, h.Handle(t.Context(), handlertest.NewRecord()), tt.text, tt.outcome)
			s.one(t)
		})
	}
}

func TestHTTPRedirectWithinTheHost(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login?token=x", http.StatusFound) })
	err := (&handler.Handler{Settings: handler.Settings{URL: s.URL}}).Handle(t.Context(), handlertest.NewRecord())
	handlertest.WantError(t, err, "302 Found: points to "+s.Listener.Addr().String()+"; redirects are not followed: correct the url", backlog.Errored)
	s.one(t)
}

func TestHTTPRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status int
		value  string
		wait   time.Duration // 0: no pause
	}{
		{429, "120", 2 * time.Minute},
		{503, "1", time.Second},
		{503, "Mon, 05 Jan 2026 13:00:00 GMT", time.Hour},
		{503, "Mon, 05 Jan 2026 11:00:00 GMT", 0},
		{503, "", 0},
		{503, "-1", 0},
		{429, "99999999999", 0},
		{500, "120", 0},
		{301, "120", 0},
	} {
		s := newHook(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", tt.value)
			w.WriteHeader(tt.status)
			io.WriteString(w, "not now")
		})
		h := &handler.Handler{Settings: handler.Settings{URL: s.URL}, Now: func() time.Time { return now }}
		want := errors.New(strconv.Itoa(tt.status) + " " + http.StatusText(tt.status) + ": not now")
		if tt.wait > 0 {
			want = backlog.RetryAfter(tt.wait, want)
		}
		if err := h.Handle(t.Context(), handlertest.NewRecord()); !reflect.DeepEqual(err, want) {
			t.Errorf("%d, Retry-After %q: %#v, want %#v", tt.status, tt.value, err, want)
		}
	}
}

func TestHTTPServerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "you sent "+r.Header.Get("Authorization")+" and "+r.Header.Get("X-Key")+" with "+r.RequestURI+", that is "+r.URL.Query().Get("token"))
	})
	h := &handler.Handler{Settings: handler.Settings{URL: s.URL + "/T0/0123456789abcdef/x?token=query%2Fsecret", Headers: map[string]string{"Authorization": "Bearer abc.def.ghi", "X-Key": "k/123456"}}}
	handlertest.WantError(t, h.Handle(t.Context(), handlertest.NewRecord()), "418 I'm a teapot: you sent *** and *** with /T0/***/x?token=***, that is ***", backlog.Errored)
}

// A server that breaks the protocol may do so with a secret: net/http's error
// quotes it.
func TestHTTPMalformedAnswerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nyou sent "+r.Header.Get("X-Key")+"\r\n\r\n")
			c.Close()
		}
	})
	h := &handler.Handler{Settings: handler.Settings{URL: s.URL, Headers: map[string]string{"X-Key": "a-secret-key"}}}
	err := h.Handle(t.Context(), handlertest.NewRecord())
	if err == nil || !strings.Contains(err.Error(), "you sent ***") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

// exchange returns the fields of the only line logged, an exchange.
func exchange(t *testing.T, logged *bytes.Buffer) (sent, got string) {
	t.Helper()
	var line struct {
		Level, Msg, ID, Sent, Got string
		Attempt                   string `json:"attempt_id"`
	}
	if err := json.Unmarshal(logged.Bytes(), &line); err != nil {
		t.Fatalf("logged %q: %v", logged, err)
	}
	testkit.Equal(t, "level", line.Level, "DEBUG")
	testkit.Equal(t, "message", line.Msg, "exchange")
	testkit.Equal(t, "id", line.ID, "7")
	logged.Reset()
	return line.Sent, line.Got
}

func TestHTTPLogsExchange(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Mon, 05 Jan 2026 12:00:00 GMT")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "down,\x1b "+r.Header.Get("X-Api-Key"))
	})
	var logged bytes.Buffer
	h := &handler.Handler{
		Settings: handler.Settings{
			URL:     s.URL + "/orders/{id}?token=secret&id={id}",
			Headers: map[string]string{"Authorization": "Bearer secret-token", "x-api-key": "secret-key"},
			Secrets: []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"},
		},
		Source: "orders",
		Now:    func() time.Time { return time.Unix(1_767_614_400, 0) },
		Log:    slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	handlertest.WantError(t, h.Handle(t.Context(), fullRecord()), "503 Service Unavailable: down,\uFFFD ***", backlog.Errored)
	sent, got := exchange(t, &logged)
	want := `POST ` + s.URL + `/orders/7?token=***&id=7
Authorization: ***
Backlog-Attempt-Id: a-1
Backlog-Tier: 1d
Content-Type: application/json
Idempotency-Key: orders/7
User-Agent: backlog/1
Webhook-Id: orders/7
Webhook-Signature: ***
Webhook-Timestamp: 1767614400
X-Api-Key: ***

{"id":7,"n":null,"payload":{"a":[1,2]},"blob":"AP8="}`
	if sent != want {
		t.Errorf("sent:\n%s\nwant:\n%s", sent, want)
	}
	want = `503 Service Unavailable
Content-Length: 17
Content-Type: text/plain; charset=utf-8
Date: Mon, 05 Jan 2026 12:00:00 GMT
Retry-After: 5
Set-Cookie: ***
X-Echo: ***

down,` + "\uFFFD" + ` ***`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := s.one(t); got.uri != "/orders/7?token=secret&id=7" || got.header.Get("X-Api-Key") != "secret-key" {
		t.Errorf("sent %s %v", got.uri, got.header)
	}

	s.Close()
	handlertest.WantError(t, h.Handle(t.Context(), fullRecord()), "POST "+s.URL+": connection refused", backlog.Errored)
	if sent, got := exchange(t, &logged); !strings.HasPrefix(sent, "POST "+s.URL+"/orders/7") || got != "POST "+s.URL+": connection refused" {
		t.Errorf("sent %s and got %s", sent, got)
	}
	h.Log = slog.New(slog.NewJSONHandler(&logged, nil))
	if err := h.Handle(t.Context(), fullRecord()); err == nil || logged.Len() > 0 {
		t.Errorf("error %v, and above DEBUG there is logged: %s", err, &logged)
	}
}

// A Go program may have put something else in the place of net/http's own transport.
func TestHTTPBesideAnotherTransport(t *testing.T) {
	was := http.DefaultTransport
	http.DefaultTransport = struct{ http.RoundTripper }{was}
	defer func() { http.DefaultTransport = was }()
	hook := newHook(t, nil)
	h := &handler.Handler{Settings: handler.Settings{URL: hook.URL}}
	if err := h.Handle(t.Context(), fullRecord()); err != nil {
		t.Error(err)
	}
	hook.one(t)
}
