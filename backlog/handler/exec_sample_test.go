//go:build unix

package handler_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler"
)

var _ backlog.Sampler = (*handler.Exec)(nil)

func TestExecSample(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		outcome    backlog.Outcome
		text       string // the error's
		answer     string // what is shown behind the request
	}{
		{name: "success", body: "echo sent; echo careful >&2", answer: "standard output:\n    sent\nstandard error:\n    careful\nexit status 0\n"},
		{name: "silence", body: "exit 0", answer: "exit status 0\n"},
		{name: "error", body: "echo one >&2; echo two >&2; exit 3", outcome: backlog.Errored, text: "one\ntwo",
			answer: "standard error:\n    one\n    two\nexit status 3\n"},
		{name: "reject", body: "exit 65", outcome: backlog.Rejected, text: "exit status 65", answer: "exit status 65\n"},
		{name: "skip", body: "exit 75", outcome: backlog.Skipped, text: "exit status 75", answer: "exit status 75\n"},
		{name: "signal", body: "kill -KILL $$", outcome: backlog.Errored, text: "killed by signal: killed", answer: "killed by signal: killed\n"},
		{name: "much output", body: "seq 100000; echo the end", answer: "standard output:\n    " +
			strings.ReplaceAll(lines(99_662, 100_000), "\n", "\n    ") + "the end\nexit status 0\n"},
		{name: "output held open by a child", body: "echo sent; sleep 60 2>/dev/null & exit 0",
			answer: "standard output:\n    sent\nexit status 0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &handler.Exec{Command: []string{script(t, tt.body), "hunter2"}}
			var out strings.Builder
			err := e.Sample(t.Context(), newRecord(), &out)
			wantError(t, err, tt.text, tt.outcome)
			want := "program: " + e.Command[0] + `
  BACKLOG_ID=7
  BACKLOG_STATUS=NEW
  BACKLOG_INSERTED=
  BACKLOG_ATTEMPT_ID=
  BACKLOG_TIER=
standard input:
    {"id":7}
` + tt.answer
			if got := out.String(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestExecSampleTimeout(t *testing.T) {
	t.Parallel()
	cause := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	var out strings.Builder
	err := (&handler.Exec{Command: []string{script(t, "echo begun; exec sleep 60")}}).Sample(ctx, newRecord(), &out)
	if !errors.Is(err, cause) || !strings.HasSuffix(out.String(), "standard output:\n    begun\nkilled by signal: terminated\n") {
		t.Errorf("error %v after\n%s", err, &out)
	}
}

func TestExecSampleUnstarted(t *testing.T) {
	t.Parallel()
	path := script(t, "")
	e := &handler.Exec{Command: []string{path}}
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Handle(t.Context(), newRecord()); err != nil { // it has been found
		t.Fatal(err)
	}
	os.Remove(path)
	var out strings.Builder
	err := e.Sample(t.Context(), newRecord(), &out)
	if backlog.OutcomeOf(err) != backlog.Skipped || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error %v", err)
	}
}

// failing is a writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestExecSampleUnwritable(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{"exit 0": os.ErrClosed.Error(), "exit 3": "exit status 3"} {
		err := (&handler.Exec{Command: []string{script(t, body)}}).Sample(t.Context(), newRecord(), failing{})
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
}
