package http

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
)

// The header Backlog-Snooze snoozes the record whatever the status is. Retry-After does so where the
// setting says that, and pauses by default.
func TestSnooze(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  int
		headers map[string]string
		setting string // retry_after
		outcome backlog.Outcome
		wait    time.Duration // of the snooze
		pause   time.Duration
		text    string
	}{
		{name: "a success", status: 200, headers: map[string]string{"Backlog-Snooze": "2h"}, outcome: backlog.Snoozed, wait: 2 * time.Hour, text: "200 OK: so it is"},
		{name: "a failure", status: 500, headers: map[string]string{"Backlog-Snooze": "7200"}, outcome: backlog.Snoozed, wait: 2 * time.Hour, text: "500 Internal Server Error: so it is"},
		{name: "a rejection", status: 410, headers: map[string]string{"Backlog-Snooze": "2000-01-01T02:00:00Z"}, outcome: backlog.Snoozed, wait: 2 * time.Hour, text: "410 Gone: so it is"},
		{name: "with Retry-After", status: 429, headers: map[string]string{"Backlog-Snooze": "2h", "Retry-After": "60"}, outcome: backlog.Snoozed, wait: 2 * time.Hour, text: "429 Too Many Requests: so it is"},
		{name: "no time left", status: 503, headers: map[string]string{"Backlog-Snooze": "0"}, outcome: backlog.Skipped, text: "503 Service Unavailable: so it is"},
		{name: "a wrong time", status: 200, headers: map[string]string{"Backlog-Snooze": "soon"}, outcome: backlog.Errored,
			text: `200 OK: so it is: its header Backlog-Snooze is to say how long: "soon" is no time; write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z`},
		{name: "Retry-After that pauses by default", status: 429, headers: map[string]string{"Retry-After": "60"}, outcome: backlog.Errored, pause: time.Minute, text: "429 Too Many Requests: so it is"},
		{name: "Retry-After that pauses", status: 503, setting: "pause", headers: map[string]string{"Retry-After": "60"}, outcome: backlog.Errored, pause: time.Minute, text: "503 Service Unavailable: so it is"},
		{name: "Retry-After that snoozes", status: 429, setting: "snooze", headers: map[string]string{"Retry-After": "60"}, outcome: backlog.Snoozed, wait: time.Minute, text: "429 Too Many Requests: so it is"},
		{name: "Retry-After with another status", status: 500, setting: "snooze", headers: map[string]string{"Retry-After": "60"}, outcome: backlog.Errored, text: "500 Internal Server Error: so it is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := newClient(&Handler{Settings: Settings{URL: "http://example.com", RetryAfter: tt.setting}})
				if err != nil {
					t.Fatal(err)
				}
				header := make(http.Header)
				for name, value := range tt.headers {
					header.Set(name, value)
				}
				resp := &http.Response{StatusCode: tt.status, Header: header, Body: io.NopCloser(strings.NewReader(""))}
				err = c.outcome(nil, resp, "so it is", time.Now())
				snooze, _ := backlog.SnoozeOf(err)
				wait := time.Duration(0)
				if backlog.OutcomeOf(err) == backlog.Snoozed {
					wait = time.Until(snooze.After(time.Now()))
				}
				pause, _ := backlog.PauseOf(err)
				got := fmt.Sprintln(backlog.OutcomeOf(err), wait, pause, err)
				if want := fmt.Sprintln(tt.outcome, tt.wait, tt.pause, tt.text); got != want {
					t.Errorf("got\n%s, want\n%s", got, want)
				}
			})
		})
	}
}
