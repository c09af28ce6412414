//go:build unix

package exec_test

import (
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

func TestExecTellsOfAttempts(t *testing.T) {
	out := filepath.Join(t.TempDir(), "env")
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, `echo $BACKLOG_ATTEMPT_UID $BACKLOG_ATTEMPT_NO $BACKLOG_DEADLINE $BACKLOG_DISABLED_REASON >"$1"`), out}}}
	r := handlertest.NewRecord()
	r.AttemptID, r.Memory = "a-1", &backlog.Memory{UID: "a-1", AttemptNo: 3, Deadline: time.Date(2026, 1, 5, 7, 0, 0, 0, time.UTC)}
	if err := e.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := testkit.ReadFile(t, out); got != "a-1 3 2026-01-05T07:00:00Z\n" {
		t.Errorf("got %q", got)
	}
	r.Reason, r.Memory = backlog.ReasonRetries, &backlog.Memory{Disabled: true, Reason: "Cannot refresh after 3 attempts"}
	if err := e.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := testkit.ReadFile(t, out); got != "a-1 0 Cannot refresh after 3 attempts\n" {
		t.Errorf("told of a dead one: %q", got)
	}
}
