//go:build unix

package handler_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler"
)

func TestHTTPSample(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Mon, 05 Jan 2026 12:00:00 GMT")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "down,\x1b "+r.Header.Get("X-Api-Key"))
	})
	h := &handler.HTTP{
		URL: s.URL + "/orders/{id}?token=secret&id={id}", Source: "orders",
		Headers: map[string]string{"Authorization": "Bearer secret-token", "x-api-key": "secret-key"},
		Secrets: []string{"whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"},
		Now:     func() time.Time { return time.Unix(1_767_614_400, 0) },
	}
	r := fullRecord()
	var shown strings.Builder
	err := h.Sample(t.Context(), r, &shown)
	wantError(t, err, "503 Service Unavailable: down,\uFFFD ***", backlog.Errored)
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

{"id":7,"n":null,"payload":{"a":[1,2]},"blob":"AP8="}

503 Service Unavailable
Content-Length: 17
Content-Type: text/plain; charset=utf-8
Date: Mon, 05 Jan 2026 12:00:00 GMT
Retry-After: 5
Set-Cookie: ***
X-Echo: ***

down,` + "\uFFFD" + ` ***
`
	if shown.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", shown.String(), want)
	}
	if got := s.one(t); got.uri != "/orders/7?token=secret&id=7" || got.header.Get("X-Api-Key") != "secret-key" {
		t.Errorf("sent %s %v", got.uri, got.header)
	}
}

func TestHTTPSampleOfNothing(t *testing.T) {
	t.Parallel()
	s := newHook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.Config.SetKeepAlivesEnabled(true)
	h := &handler.HTTP{URL: s.URL, Method: "GET"}
	var shown strings.Builder
	if err := h.Sample(t.Context(), newRecord(), &shown); err != nil {
		t.Fatal(err)
	}
	if got := shown.String(); !strings.HasPrefix(got, "GET "+s.URL+"\nIdempotency-Key: /7\n") || !strings.Contains(got, "\n\n204 No Content\nDate: ") {
		t.Errorf("shown:\n%s", got)
	}

	shown.Reset()
	s.Close()
	wantError(t, h.Sample(t.Context(), newRecord(), &shown), "GET "+s.URL+": connection refused", backlog.Errored)
	if got := shown.String(); !strings.HasPrefix(got, "GET "+s.URL+"\n") || strings.Contains(got, "204") {
		t.Errorf("shown:\n%s", got)
	}
}
