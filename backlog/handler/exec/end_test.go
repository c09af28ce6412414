//go:build unix

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

// long is longer than any test.
const long = time.Hour

var errTimeout = errors.New("timed out after 30s")

// handleWithin fails the test unless Handle returns.
func handleWithin(t *testing.T, ctx context.Context, e *exec.Handler, r *backlog.Record) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- e.Handle(ctx, r) }()
	select {
	case err := <-done:
		return err
	case <-time.After(testkit.Patience):
		t.Fatal("Handle hangs")
		return nil
	}
}

// handleUntil runs the script with a fresh directory as its argument and ends
// its context once it has made all the files ready in there.
func handleUntil(t *testing.T, grace time.Duration, body string, ready ...string) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if handlertest.Exist(dir, ready...) {
				break
			}
		}
		cancel(errTimeout)
	}()
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, "cd \"$1\"\n"+body), dir}}, Grace: grace}
	return dir, handleWithin(t, ctx, e, handlertest.NewRecord())
}

func TestExecKillsGroup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body string }{
		{"child and grandchild ignore TERM", "trap '' TERM; echo $$ >parent; " + handlertest.IgnoringTERM("child") + " & wait"},
		{"grandchild ignores TERM", "echo $$ >parent; " + handlertest.IgnoringTERM("child") + " & wait"},
		{"grandchild without pipes", "echo $$ >parent; " + handlertest.IgnoringTERM("child") + " <&- >&- 2>&- & wait"},
		{"grandchild in the foreground", "echo $$ >parent; " + handlertest.IgnoringTERM("child")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := handleUntil(t, 50*time.Millisecond, tt.body, "parent", "child")
			handlertest.WantError(t, err, errTimeout.Error(), backlog.Errored)
			if !errors.Is(err, errTimeout) {
				t.Error("the error does not wrap the cause")
			}
			if pid := handlertest.PidIn(t, dir+"/parent"); !handlertest.HasExited(pid) {
				t.Error("the program still runs")
			}
			pid := handlertest.PidIn(t, dir+"/child")
			testkit.Eventually(t, "the end of the grandchild", func() bool { return handlertest.HasExited(pid) })
		})
	}
}

func TestExecWithoutGrace(t *testing.T) {
	t.Parallel()
	_, err := handleUntil(t, -1, handlertest.IgnoringTERM("pid"), "pid")
	handlertest.WantError(t, err, errTimeout.Error(), backlog.Errored)
}

// A shell ends at once when it is told to. The program that it runs has all
// the time that it needs, and no more than that is waited.
func TestExecGraceIsForTheGroup(t *testing.T) {
	t.Parallel()
	dir, err := handleUntil(t, long,
		`sh -c 'trap ": >cleaned; exit" TERM; : >ready; while :; do :; done'`, "ready")
	handlertest.WantError(t, err, errTimeout.Error(), backlog.Errored)
	if !handlertest.Exist(dir, "cleaned") {
		t.Error("the grandchild was killed before its time was over")
	}
}

// What a program does when it is told to end is what counts.
func TestExecAnswersTERM(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer, text string
		outcome      backlog.Outcome
	}{
		{"exit 0", "", backlog.Succeeded},
		{"exit 65", "exit status 65", backlog.Rejected},
		{"exit 75", "exit status 75", backlog.Skipped},
		{"exit 1", "timed out after 30s", backlog.Errored},
		{"echo connected, no answer >&2; exit 1", "timed out after 30s: connected, no answer", backlog.Errored},
	} {
		t.Run(tt.answer, func(t *testing.T) {
			t.Parallel()
			_, err := handleUntil(t, long, `trap '`+tt.answer+`' TERM; : >ready; while :; do :; done`, "ready")
			handlertest.WantError(t, err, tt.text, tt.outcome)
		})
	}
}

func TestExecDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond,
		fmt.Errorf("timed out after 10ms: %w", context.DeadlineExceeded))
	defer cancel()
	err := handleWithin(t, ctx, &exec.Handler{Settings: exec.Settings{Command: []string{"sleep", "1000"}}}, handlertest.NewRecord())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want one that wraps the deadline's", err)
	}
}

// A child that is left behind on purpose holds both pipes, and lives on.
func TestExecLeavesChildrenAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body, text string
		outcome    backlog.Outcome
	}{
		{"exit 0", "", backlog.Succeeded},
		{"seq 10000 >&2; exit 3", lines(9_592, 10_000), backlog.Errored},
	} {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel()
			r, dir := handlertest.NewRecord(), t.TempDir()
			r.Names, r.Values = []string{"s"}, []any{strings.Repeat("x", 1<<20)}
			e := &exec.Handler{Settings: exec.Settings{Command: []string{
				handlertest.Script(t, "exec 3<&0; sleep 1000 <&3 & echo $! >\"$1/pid\"\n"+tt.body), dir}}}
			err := handleWithin(t, t.Context(), e, r)
			pid := handlertest.PidIn(t, dir+"/pid")
			defer syscall.Kill(pid, syscall.SIGKILL)
			handlertest.WantError(t, err, strings.TrimSpace(tt.text), tt.outcome)
			if handlertest.HasExited(pid) {
				t.Error("the child was ended")
			}
		})
	}
}

// A child that is left behind may write to its standard output later, and does not die of it.
func TestExecKeepsOutputOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := &exec.Handler{Settings: exec.Settings{Command: []string{
		handlertest.Script(t, `mkfifo "$1/go"; (read line <"$1/go"; echo later; echo $? >"$1/wrote") 2>/dev/null & echo now; exit 1`), dir}}}
	handlertest.WantError(t, handleWithin(t, t.Context(), e, handlertest.NewRecord()), "now", backlog.Errored)
	if err := os.WriteFile(dir+"/go", []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "what the child wrote", func() bool {
		text, _ := os.ReadFile(dir + "/wrote")
		return string(text) == "0\n"
	})
}

// A child that is left behind may even write for ever.
func TestExecFloodFromLeftChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, `yes >&2 & echo $! >"$1/pid"; exit 65`), dir}}}
	err := handleWithin(t, t.Context(), e, handlertest.NewRecord())
	defer syscall.Kill(handlertest.PidIn(t, dir+"/pid"), syscall.SIGKILL)
	if backlog.OutcomeOf(err) != backlog.Rejected {
		t.Errorf("error %v, want a rejection", err)
	}
}

// A second signal leaves no time to end in order.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, "cd \"$1\"\n"+handlertest.IgnoringTERM("child")+" & wait"), dir}}, Grace: long}
	handlertest.KillPass(t, h, func() bool { return handlertest.Exist(dir, "child") })
	pid := handlertest.PidIn(t, dir+"/child")
	testkit.Eventually(t, "the end of the grandchild", func() bool { return handlertest.HasExited(pid) })
}
