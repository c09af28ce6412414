//go:build unix

package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

var (
	_ backlog.Handler = (*exec.Handler)(nil)
)

func TestExecOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body   string
		reject, skip []int
		outcome      backlog.Outcome
		text         string
		status       int
	}{
		{name: "success", body: "exit 0"},
		{name: "success with warnings", body: "echo careful >&2"},
		{name: "stdout is the error of a program that says nothing else", body: "seq 100000; echo out; exit 3", outcome: backlog.Errored,
			text: lines(99_661, 100_000) + "out", status: 3},
		{name: "and not beside stderr", body: "echo out; echo why >&2; exit 3", outcome: backlog.Errored, text: "why", status: 3},
		{name: "nor of a success", body: "echo out"},
		{name: "stderr is", body: "echo first >&2; echo ' second ' >&2; exit 1", outcome: backlog.Errored, text: "first\n second", status: 1},
		{name: "tail of stderr", body: "seq 100000 >&2; echo the end >&2; exit 1", outcome: backlog.Errored,
			text: lines(99_662, 100_000) + "the end", status: 1},
		{name: "reject", body: "echo no such customer >&2; exit 65", outcome: backlog.Rejected, text: "no such customer", status: 65},
		{name: "reject in silence", body: "exit 65", outcome: backlog.Rejected, text: "exit status 65", status: 65},
		{name: "skip", body: "echo not now >&2; exit 75", outcome: backlog.Skipped, text: "not now", status: 75},
		{name: "skip in silence", body: "exit 75", outcome: backlog.Skipped, text: "exit status 75", status: 75},
		{name: "reject configured", body: "exit 4", reject: []int{3, 4}, outcome: backlog.Rejected, text: "exit status 4", status: 4},
		{name: "skip configured", body: "exit 4", skip: []int{4}, outcome: backlog.Skipped, text: "exit status 4", status: 4},
		{name: "65 without a meaning", body: "exit 65", reject: []int{}, outcome: backlog.Errored, text: "exit status 65", status: 65},
		{name: "75 without a meaning", body: "exit 75", skip: []int{1}, outcome: backlog.Errored, text: "exit status 75", status: 75},
		{name: "signal", body: "kill -KILL $$", outcome: backlog.Errored, text: "killed by signal: killed", status: -1},
		{name: "stderr closed", body: "exec 2>&-; exit 3", outcome: backlog.Errored, text: "exit status 3", status: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, tt.body)}, Reject: tt.reject, Skip: tt.skip}}
			err := e.Handle(t.Context(), handlertest.NewRecord())
			handlertest.WantError(t, err, tt.text, tt.outcome)
			if err == nil {
				return
			}
			var exit *osexec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tt.status {
				t.Errorf("exit error %v, want one of status %d", exit, tt.status)
			}
		})
	}
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestExecArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{
		"", "two words", `"quoted"`, `it's`, "$(touch " + dir + "/injected)", "`id`", "$HOME", "*", "a;b|c>d", "new\nline", `\`, "%s", "ü",
	}
	out := filepath.Join(dir, "args")
	command := append([]string{handlertest.Script(t, `out=$1; shift; printf '%s\0' "$@" >"$out"`), out}, args...)
	if err := (&exec.Handler{Settings: exec.Settings{Command: command}}).Handle(t.Context(), handlertest.NewRecord()); err != nil {
		t.Fatal(err)
	}
	if got, want := testkit.ReadFile(t, out), strings.Join(args, "\x00")+"\x00"; got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	if _, err := os.Stat(dir + "/injected"); err == nil {
		t.Error("an argument was interpreted by a shell")
	}
}

// keep stores what a program is given in the directory that is its argument.
const keep = `cat >"$1/stdin"
for v in ID STATUS INSERTED ATTEMPT_ID TIER; do
	eval "printf '%s' \"\${BACKLOG_$v-unset}\"" >"$1/$v"
done
env >"$1/env"`

func TestExecInput(t *testing.T) {
	for _, v := range []string{"ID", "STATUS", "INSERTED", "ATTEMPT_ID", "TIER"} {
		t.Setenv("BACKLOG_"+v, "the parent's")
	}
	t.Setenv("BACKLOG_IDLE", "kept")
	zone := time.FixedZone("", 2*60*60)

	for _, tt := range []struct {
		name                                string
		record                              backlog.Record
		stdin                               string
		id, status, inserted, attempt, tier string
	}{
		{
			name: "plain",
			record: backlog.Record{
				Key: backlog.NewKey(int64(7)), Status: "NEW", Tier: "1d", AttemptID: "a-1",
				Inserted: time.Date(2026, 1, 5, 2, 0, 0, 0, zone),
				Names:    []string{"id", "Weird \"name\"", "n", "payload"},
				Values:   []any{int64(7), "x", nil, json.RawMessage(`{"a":[1,2]}`)},
			},
			stdin: `{"id":7,"Weird \"name\"":"x","n":null,"payload":{"a":[1,2]}}` + "\n",
			id:    "7", status: "NEW", inserted: "2026-01-05T00:00:00Z", attempt: "a-1", tier: "1d",
		}, {
			name: "composite key, fraction of a second",
			record: backlog.Record{
				Key: backlog.NewKey(int64(1), "a b"), Status: "it's \"new\"\n",
				Inserted: time.Date(2026, 1, 5, 0, 0, 0, 123_450_000, time.UTC),
			},
			stdin: "{}\n",
			id:    `[1,"a b"]`, status: "it's \"new\"\n", inserted: "2026-01-05T00:00:00.12345Z",
		}, {
			name: "blobs",
			record: backlog.Record{
				Key: backlog.NewKey([]byte{0, 1, 0xff}), Status: "1",
				Names: []string{"b"}, Values: []any{[]byte{0, 0xff}},
			},
			stdin: `{"b":"AP8="}` + "\n",
			id:    "AAH/", status: "1",
		}, {
			name: "not UTF-8",
			record: backlog.Record{
				Key: backlog.NewKey("caf\xe9"), Status: "\xff",
				Names: []string{"s"}, Values: []any{"caf\xe9"},
			},
			stdin: `{"s":"caf\ufffd"}` + "\n",
			id:    "caf\xe9", status: "\xff",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, keep), dir}}}
			if err := e.Handle(t.Context(), &tt.record); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"stdin": tt.stdin, "ID": tt.id, "STATUS": tt.status, "INSERTED": tt.inserted,
				"ATTEMPT_ID": tt.attempt, "TIER": tt.tier,
			} {
				if got := testkit.ReadFile(t, filepath.Join(dir, name)); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			env := testkit.ReadFile(t, filepath.Join(dir, "env"))
			if strings.Contains(env, "the parent's") {
				t.Error("a variable of the parent's was handed on")
			}
			if !strings.Contains(env, "BACKLOG_IDLE=kept\n") || !strings.Contains(env, "PATH=") {
				t.Error("the rest of the parent's environment is missing")
			}
		})
	}
}

// Why a record is dead is told only of dead ones.
func TestExecTellsOfDeadRecords(t *testing.T) {
	t.Setenv("BACKLOG_REASON", "the parent's")
	t.Setenv("BACKLOG_ERROR", "the parent's")
	long := strings.Repeat("é", 1500)
	for _, tt := range []struct{ name, reason, err, want string }{
		{"a living one", "", "stale", "\n"},
		{"rejected", backlog.ReasonRejected, "no such customer\n$(rm -rf /)", "BACKLOG_REASON=rejected\nBACKLOG_ERROR=no such customer\n$(rm -rf /)\n"},
		{"expired", backlog.ReasonExpired, "", "BACKLOG_REASON=expired\nBACKLOG_ERROR=\n"},
		{"NUL and no UTF-8", backlog.ReasonRetries, "a\x00b\xff", "BACKLOG_REASON=out of retries\nBACKLOG_ERROR=a\uFFFDb\uFFFD\n"},
		{"long", backlog.ReasonRetries, long, "BACKLOG_REASON=out of retries\nBACKLOG_ERROR=" + long[:2048] + "…\n"},
		{"cut within a letter", backlog.ReasonRetries, "x" + long, "BACKLOG_REASON=out of retries\nBACKLOG_ERROR=x" + long[:2046] + "…\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "env")
			e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, `
for v in REASON ERROR; do
	eval "[ -n \"\${BACKLOG_$v+set}\" ] && printf 'BACKLOG_%s=%s\n' $v \"\$BACKLOG_$v\""
done >"$1"
[ -s "$1" ] || echo >"$1"`), out}}}
			r := handlertest.NewRecord()
			r.Reason, r.Error = tt.reason, tt.err
			if err := e.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got := testkit.ReadFile(t, out); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestExecNULInEnvironment(t *testing.T) {
	t.Parallel()
	r := handlertest.NewRecord()
	r.Key = backlog.NewKey("a\x00b")
	err := (&exec.Handler{Settings: exec.Settings{Command: []string{"/bin/sh", "-c", "exit 0"}}}).Handle(t.Context(), r)
	handlertest.WantError(t, err, `BACKLOG_ID cannot be "a\x00b": the environment of a program holds no NUL bytes`, backlog.Errored)
}

func TestExecLargeInput(t *testing.T) {
	t.Parallel()
	r := handlertest.NewRecord()
	r.Names, r.Values = []string{"s"}, []any{strings.Repeat("x", 5<<20)}
	for name, body := range map[string]string{
		"read":        `test "$(wc -c)" -eq ` + fmt.Sprint(5<<20+len(`{"s":""}`)+1),
		"not read":    `exit 0`,
		"partly read": `head -c 10 >/dev/null`,
		"closed":      `exec <&-`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (&exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, body)}}}).Handle(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExecLargeOutput(t *testing.T) {
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t,
		`head -c 200000000 /dev/zero; head -c 200000000 /dev/zero >&2; echo >&2; echo the end >&2; exit 1`)}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := e.Handle(t.Context(), handlertest.NewRecord())
	runtime.ReadMemStats(&after)
	handlertest.WantError(t, err, "the end", backlog.Errored)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestExecConcurrent(t *testing.T) {
	const workers, each = 16, 20
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, `read -r line; echo "$BACKLOG_ID $line" >&2; exit 1`)}}}
	warm := e.Handle(t.Context(), handlertest.NewRecord()) // what stays open is open now
	handlertest.WantError(t, warm, `7 {"id":7}`, backlog.Errored)
	files := handlertest.OpenFiles(t)

	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				id := int64(w*each + i)
				r := handlertest.NewRecord()
				r.Key, r.Values = backlog.NewKey(id), []any{id}
				err := e.Handle(t.Context(), r)
				handlertest.WantError(t, err, fmt.Sprintf(`%d {"id":%d}`, id, id), backlog.Errored)
			}
		})
	}
	wg.Wait()
	// One that is being read when it is closed is so a moment later.
	testkit.Eventually(t, "no more files are open than before", func() bool { return handlertest.OpenFiles(t) <= files })
}

// Scripts that have just been written are busy when another goroutine forks in
// between.
func TestExecFreshScripts(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for w := range 8 {
		dir := t.TempDir()
		wg.Go(func() {
			for i := range 25 {
				path := handlertest.File(t, dir, fmt.Sprintf("%d-%d", w, i), "#!/bin/sh\n", 0o755)
				if err := (&exec.Handler{Settings: exec.Settings{Command: []string{path}}}).Handle(t.Context(), handlertest.NewRecord()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestExecBusyForEver(t *testing.T) {
	t.Parallel()
	path := handlertest.Script(t, "")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := &exec.Handler{Settings: exec.Settings{Command: []string{path}}}
	// Some systems execute it nevertheless, Linux 6.11 among them.
	if err := e.Handle(t.Context(), handlertest.NewRecord()); err != nil && !errors.Is(err, syscall.ETXTBSY) {
		t.Error(err)
	}
}

func TestExecContextDoneBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	e := &exec.Handler{Settings: exec.Settings{Command: []string{handlertest.Script(t, `touch "$1/ran"`), dir}}}
	if err := e.Handle(ctx, handlertest.NewRecord()); !errors.Is(err, cause) {
		t.Errorf("error %v, want the cause", err)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("the program was started")
	}
}
