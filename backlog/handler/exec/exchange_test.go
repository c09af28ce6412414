//go:build unix

package exec_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
)

// What a program was given and what it answered is logged, but for its arguments.
func TestExecExchange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		outcome    backlog.Outcome
		text       string // the error's
		got        string
	}{
		{
			name: "success",
			body: "echo sent; echo careful >&2",
			got: `standard output:
    sent
standard error:
    careful
exit status 0`,
		},
		{name: "silence", body: "exit 0", got: "exit status 0"},
		{
			name:    "error",
			body:    "echo one >&2; echo two >&2; exit 3",
			outcome: backlog.Errored,
			text:    "one\ntwo",
			got: `standard error:
    one
    two
exit status 3`,
		},
		{name: "reject", body: "exit 65", outcome: backlog.Rejected, text: "exit status 65", got: "exit status 65"},
		{name: "skip", body: "exit 75", outcome: backlog.Skipped, text: "exit status 75", got: "exit status 75"},
		{name: "signal", body: "kill -KILL $$", outcome: backlog.Errored, text: "killed by signal: killed", got: "killed by signal: killed"},
		{
			name: "much output",
			body: "seq 100000; echo the end",
			got: "standard output:\n    " +
				strings.ReplaceAll(lines(99_869, 100_000), "\n", "\n    ") + "the end\nexit status 0",
		},
		{
			name: "output held open by a child",
			body: "echo sent; sleep 60 2>/dev/null & exit 0",
			got: `standard output:
    sent
exit status 0`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log, exchange := handlertest.Log(slog.LevelDebug)
			h := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, tt.body), "hunter2"}}, Log: log}
			err := h.Handle(t.Context(), handlertest.NewRecord())
			handlertest.WantError(t, err, tt.text, tt.outcome)
			want := "program: " + h.Command[0] + `
  BACKLOG_ATTEMPT_ID=
  BACKLOG_ID=7
  BACKLOG_STATUS=NEW
  BACKLOG_INSERTED=
  BACKLOG_TIER=
standard input:
    {"id":7}
`
			sent, got := exchange()
			if sent != want {
				t.Errorf("sent\n%s\nwant\n%s", sent, want)
			}
			if got != tt.got {
				t.Errorf("got\n%s\nwant\n%s", got, tt.got)
			}
		})
	}
}

func TestExecExchangeOfTimeout(t *testing.T) {
	t.Parallel()
	cause := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
	defer cancel()
	log, exchange := handlertest.Log(slog.LevelDebug)
	h := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, "echo begun; exec sleep 60")}}, Log: log}
	err := h.Handle(ctx, handlertest.NewRecord())
	if _, got := exchange(); !errors.Is(err, cause) || got != "standard output:\n    begun\nkilled by signal: terminated" {
		t.Errorf("error %v after\n%s", err, got)
	}
}
