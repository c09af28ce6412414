//go:build unix

package http_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	handler "backlog/backlog/handler/http"
	"backlog/internal/testkit"
)

// 202 says that the outcome follows, where somebody could tell it.
func TestHTTPAccepted(t *testing.T) {
	t.Parallel()
	running := &backlog.Memory{UID: "a-1", AttemptNo: 2, Deadline: time.Date(2026, 1, 5, 7, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		refresh  *backlog.Memory
		success  []int
		accepted bool
	}{
		"no refresh policy":  {},
		"UIDs are not kept":  {refresh: &backlog.Memory{AttemptNo: 2}},
		"refresh":            {refresh: running, accepted: true},
		"202 is a success":   {refresh: running, success: []int{200, 202}},
		"others are success": {refresh: running, success: []int{200}, accepted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
			r := fullRecord()
			r.Memory = c.refresh
			h := &handler.Handler{Settings: handler.Settings{URL: s.URL, Success: statuses(c.success)}}
			if err := h.Handle(t.Context(), r); errors.Is(err, backlog.Accepted) != c.accepted || !c.accepted && err != nil {
				t.Errorf("got %v", err)
			}
			got := s.one(t).header
			if c.refresh == running {
				testkit.Equal(t, "Backlog-Attempt-Uid", got.Get("Backlog-Attempt-Uid"), "a-1")
				testkit.Equal(t, "Backlog-Attempt-No", got.Get("Backlog-Attempt-No"), "2")
				testkit.Equal(t, "Backlog-Attempt-Deadline", got.Get("Backlog-Attempt-Deadline"), "2026-01-05T07:00:00Z")
				if id := got.Get("Webhook-Id"); !strings.HasSuffix(id, "~a-1") {
					t.Errorf("Webhook-Id: got %q, want …~a-1", id)
				}
			}
		})
	}
}
