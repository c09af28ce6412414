package exec_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
)

// The exit status that the setting names means snooze, and the last line of the standard output says
// how long.
func TestSnooze(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		outcome    backlog.Outcome
		wait       time.Duration
		text       string
	}{
		{name: "a duration", body: "echo 2h; exit 79", outcome: backlog.Snoozed, wait: 2 * time.Hour, text: "2h"},
		{name: "the last line", body: "echo looking; echo; echo 5400; echo; exit 79", outcome: backlog.Snoozed, wait: 90 * time.Minute, text: "looking\n\n5400"},
		{name: "with a reason", body: "echo 1d; echo the shop is closed >&2; exit 79", outcome: backlog.Snoozed, wait: 24 * time.Hour, text: "the shop is closed"},
		{name: "no time left", body: "echo 0; exit 79", outcome: backlog.Skipped, text: "0"},
		{name: "no time", body: "exit 79", outcome: backlog.Errored,
			text: "exit status 79 means snooze, and the last line of the standard output is to say how long: it says no time; write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z"},
		{name: "a wrong time", body: "echo tomorrow; echo closed >&2; exit 79", outcome: backlog.Errored,
			text: "exit status 79 means snooze, and the last line of the standard output is to say how long: \"tomorrow\" is no time; write seconds, a duration such as 90m or 3d, or a time such as 2027-01-31T08:00:00Z: closed"},
		{name: "another status", body: "echo 2h; exit 78", outcome: backlog.Errored, text: "2h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, tt.body)}, Snooze: []int{79}}}
			err := e.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1))})
			snooze, _ := backlog.SnoozeOf(err)
			if backlog.OutcomeOf(err) != tt.outcome || snooze.For != tt.wait {
				t.Errorf("got %v %v, want %v for %v", backlog.OutcomeOf(err), snooze, tt.outcome, tt.wait)
			}
			if err.Error() != tt.text {
				t.Errorf("the text is %q, want %q", err, tt.text)
			}
		})
	}
}

// Without the setting no status means snooze, and a status has one meaning.
func TestSnoozeIsConfigured(t *testing.T) {
	t.Parallel()
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, "echo 2h; exit 79")}}}
	if err := e.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1))}); backlog.OutcomeOf(err) != backlog.Errored {
		t.Errorf("got %v, want an error", err)
	}
	s := exec.NewSettings()
	s.Snooze = []int{75}
	problem := ""
	s.Check(func(field, text string) { problem = field + ": " + text })
	if !strings.HasPrefix(problem, "snooze: exit status 75 is in reject or skip too") {
		t.Errorf("got %q", problem)
	}
}
