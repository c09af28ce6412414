//go:build unix

package lines_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/lines"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

// once is a worker whose first process does the body with every request; the
// next ones answer.
func once(t *testing.T, body string) []string {
	t.Helper()
	return worker(t, `again=$(ls began 2>/dev/null); : >began`,
		`if [ -n "$again" ]; then reply "$success"; continue; fi
	`+body)
}

// Whatever a worker does instead of an answer, the record is an error that says
// so, and the next one goes to a new worker.
func TestLinesInsteadOfAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, text string }{
		{"no JSON", `echo ready`, `the worker wrote what is not one JSON object: "ready"`},
		{"an empty line", `echo`, `the worker wrote what is not one JSON object: ""`},
		{"no attempt", `echo '{"outcome":"success"}'`, `the worker wrote a reply without attempt_id: "{\"outcome\":\"success\"}"`},
		{"unknown outcome", `a=x; reply '"outcome":"ok"'`,
			`the worker wrote a reply whose outcome is none of success, error, reject, skip and snooze: "{\"attempt_id\":\"x\",\"outcome\":\"ok\"}"`},
		{"another attempt", `a=x; reply "$success"`,
			`the worker wrote a reply to an attempt that it does not have, or has answered already: "{\"attempt_id\":\"x\",\"outcome\":\"success\"}"`},
		{"unprintable", `printf '\033[2J\377\n'`, `the worker wrote what is not one JSON object: "\x1b[2J\xff"`},
		{"much", `head -c 1000000 /dev/zero | tr '\0' x; echo`,
			`the worker wrote what is not one JSON object: "` + strings.Repeat("x", 200) + `"`},
		{"a line without end", `head -c 100000000 /dev/zero | tr '\0' x; sleep 100`,
			`the worker wrote a line of more than 1048576 bytes: "` + strings.Repeat("x", 200) + `"`},
		{"nonsense before the answer", `echo hello; reply "$success"`, `the worker wrote what is not one JSON object: "hello"`},
		{"exit 0", `exit 0`, "the worker ended before it answered (exit status 0)"},
		{"exit 3", `echo 'no database' >&2; exit 3`, "the worker ended before it answered (exit status 3): no database"},
		{"half a reply", `printf '{"attempt'; exit 0`, `the worker ended before it answered (exit status 0), its last line has no end: "{\"attempt"`},
		{"killed", `kill -KILL $$`, "the worker ended before it answered (killed by signal: killed)"},
		{"input closed", `exec <&-; sleep 1000`, "timed out after 2s: the worker answered nothing (does it flush its output?)"},
		{"output closed", `exec >&-; sleep 1000`, "timed out after 2s: the worker answered nothing (does it flush its output?)"},
		{"silent", `echo waiting >&2; sleep 1000`, "timed out after 2s: the worker answered nothing (does it flush its output?): waiting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &lines.Handler{Settings: lines.Settings{Command: once(t, tt.body)}, Grace: 50 * time.Millisecond}
			if strings.HasPrefix(tt.text, "timed out") {
				l.Timeout = 2 * time.Second // by then the worker has begun on a busy machine, too
			}
			newLines(t, l)
			err := get(t, handleAsync(t.Context(), l, handlertest.NewRecord()))
			handlertest.WantError(t, err, tt.text, backlog.Errored)
			if !errors.As(err, new(*exec.ExitError)) {
				t.Error("the error wraps no exit status")
			}
			if got, want := errors.Is(err, context.DeadlineExceeded), l.Timeout > 0; got != want {
				t.Errorf("a deadline's error: %v, want %v", got, want)
			}
			l = &lines.Handler{Settings: lines.Settings{Command: l.Command}} // without the timeout, which a busy machine may miss
			newLines(t, l)
			handlertest.WantError(t, get(t, handleAsync(t.Context(), l, handlertest.NewRecord())), "", backlog.Succeeded)
		})
	}
}

// A worker that is lost is replaced, its other records are errors too, those of
// the other workers are not.
func TestLinesLosesOneWorker(t *testing.T) {
	t.Parallel()
	command := worker(t, "", `case $a in dies*) echo "$a" >>got; wait_for go; exit 3 ;; esac
	: >"alive$a"; wait_for go; sleep 0.1; reply "$success"`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command, Workers: 2, Window: 2}})
	d1 := handleAsync(t.Context(), l, attempt("dies1"))
	testkit.Eventually(t, "the first", func() bool { return l.InFlight() == 1 })
	s1 := handleAsync(t.Context(), l, attempt("s1")) // to the idle one
	testkit.Eventually(t, "one each", func() bool { return handlertest.Exist(command[1], "got", "alives1") })
	rest := []<-chan error{handleAsync(t.Context(), l, attempt("s2")), handleAsync(t.Context(), l, attempt("s3"))}
	testkit.Eventually(t, "two each", func() bool { return l.InFlight() == 4 })
	waits := handleAsync(t.Context(), l, attempt("s4"))
	handlertest.File(t, command[1], "go", "", 0o644)

	const lost = "the worker ended before it answered (exit status 3)"
	handlertest.WantError(t, get(t, d1), lost, backlog.Errored)
	handlertest.WantError(t, get(t, s1), "", backlog.Succeeded)
	handlertest.WantError(t, get(t, waits), "", backlog.Succeeded)
	outcomes := fmt.Sprint(get(t, rest[0]), get(t, rest[1]))
	if outcomes != "<nil> "+lost && outcomes != lost+" <nil>" {
		t.Errorf("the others: %s", outcomes)
	}
}

// A worker that ends has failed all that it held, read or not, whatever its status:
// a window at most. The next worker takes the rest.
func TestLinesEndCostsTheWindow(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 3} {
		command := worker(t, "", fmt.Sprintf(`if ! [ -e go ]; then : >ready; wait_for go; reply "$success"; exit %d; fi
	reply "$success"`, status))
		l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command, Window: 3}})
		var held []<-chan error
		for i := range 3 {
			held = append(held, handleAsync(t.Context(), l, attempt(fmt.Sprint(i))))
			testkit.Eventually(t, "a record", func() bool { return l.InFlight() == i+1 && handlertest.Exist(command[1], "ready") })
		}
		waits := handleAsync(t.Context(), l, attempt("3"))
		testkit.Eventually(t, "one that waits", func() bool { return l.Waiting() == 1 })
		handlertest.File(t, command[1], "go", "", 0o644)

		handlertest.WantError(t, get(t, held[0]), "", backlog.Succeeded)
		// The first reply made room: the record that waited may have been given to the same worker.
		lost := fmt.Sprintf("the worker ended before it answered (exit status %d)", status)
		handlertest.WantError(t, get(t, held[1]), lost, backlog.Errored)
		handlertest.WantError(t, get(t, held[2]), lost, backlog.Errored)
		if err := get(t, waits); err != nil && err.Error() != lost {
			t.Errorf("error %v", err)
		}
		handlertest.WantError(t, get(t, handleAsync(t.Context(), l, attempt("4"))), "", backlog.Succeeded)
	}
}

// A record that cannot be written as JSON fails alone.
func TestLinesUnwritable(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: worker(t, "", `reply "$success"`)}})
	r := attempt("1")
	r.Values = []any{math.NaN()}
	handlertest.WantError(t, get(t, handleAsync(t.Context(), l, r)),
		"the record cannot be written as JSON: json: unsupported value: NaN", backlog.Errored)
	handlertest.WantError(t, get(t, handleAsync(t.Context(), l, attempt("2"))), "", backlog.Succeeded)
}

// What a worker answers before it dies counts.
func TestLinesLastWords(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: worker(t, "", `
	if [ -z "$first" ]; then first=$a; continue; fi
	last=$a; a=$first; reply "$success"; a=$last; reply '"outcome":"reject"'; exit 3`)}})
	first := handleAsync(t.Context(), l, attempt("1"))
	testkit.Eventually(t, "the first", func() bool { return l.InFlight() == 1 })
	handlertest.WantError(t, l.Handle(t.Context(), attempt("2")), "rejected", backlog.Rejected)
	handlertest.WantError(t, get(t, first), "", backlog.Succeeded)
}

func TestLinesFailsToStart(t *testing.T) {
	t.Parallel()
	path := handlertest.Script(t, `echo 'no module named x' >&2; exit 3`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: []string{path}}})
	want := path + " ended before it read anything (exit status 3): no module named x"
	for range 2 {
		err := get(t, handleAsync(t.Context(), l, handlertest.NewRecord()))
		handlertest.WantError(t, err, want, backlog.Skipped)
		if !errors.As(err, new(*exec.ExitError)) {
			t.Error("the error wraps no exit status")
		}
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec "+workerInShell(t)+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	handlertest.WantError(t, get(t, handleAsync(t.Context(), l, handlertest.NewRecord())), "", backlog.Succeeded)

	text := handlertest.File(t, t.TempDir(), "text", "echo", 0o755)
	l = newLines(t, &lines.Handler{Settings: lines.Settings{Command: []string{text}}})
	handlertest.WantError(t, l.Handle(t.Context(), handlertest.NewRecord()),
		"lines: "+text+" is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark", backlog.Skipped)
}

func workerInShell(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(workerSh)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A worker that never reads blocks nobody for longer than its timeout, however
// much it is to be given.
func TestLinesNeverReads(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: []string{"sleep", "1000"}}, Timeout: 100 * time.Millisecond, Grace: -1})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := attempt(fmt.Sprint(i))
			r.Names, r.Values = []string{"s"}, []any{strings.Repeat("x", 1<<20)}
			handlertest.WantError(t, l.Handle(t.Context(), r), "timed out after 100ms: the worker answered nothing (does it flush its output?)", backlog.Errored)
		})
	}
	wg.Wait()
}

// When the context of one record is done its worker is ended, with whatever
// there is of its group.
func TestLinesInterrupted(t *testing.T) {
	t.Parallel()
	command := once(t, handlertest.IgnoringTERM("child")+` & wait_for child; echo waiting >&2; : >ready; sleep 1000`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}, Grace: 50 * time.Millisecond})
	ctx, cancel := context.WithCancelCause(t.Context())
	first := handleAsync(ctx, l, attempt("1"))
	testkit.Eventually(t, "the first", func() bool { return handlertest.Exist(command[1], "ready", "child") })
	second, third := handleAsync(ctx, l, attempt("2")), handleAsync(t.Context(), l, attempt("3"))
	testkit.Eventually(t, "all", func() bool { return l.InFlight() == 3 })
	cancel(errLate)

	for _, done := range []<-chan error{first, second} {
		err := get(t, done)
		handlertest.WantError(t, err, "timed out after 30s: waiting", backlog.Errored)
		if !errors.Is(err, errLate) {
			t.Error("the error does not wrap the cause")
		}
	}
	handlertest.WantError(t, get(t, third), "the worker was ended when one of its records was given up: timed out after 30s: waiting", backlog.Errored)
	if pid := handlertest.PidIn(t, command[1]+"/child"); !handlertest.HasExited(pid) {
		testkit.Eventually(t, "the end of the child", func() bool { return handlertest.HasExited(pid) })
	}
	handlertest.WantError(t, get(t, handleAsync(t.Context(), l, attempt("4"))), "", backlog.Succeeded)
}

// A worker that answers when it is told to end has answered.
func TestLinesAnswersTERM(t *testing.T) {
	t.Parallel()
	command := worker(t, `trap 'reply "$success"; exit' TERM`, `: >ready; while :; do :; done`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}, Grace: long})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := handleAsync(ctx, l, handlertest.NewRecord())
	testkit.Eventually(t, "the record", func() bool { return handlertest.Exist(command[1], "ready") })
	cancel(errLate)
	handlertest.WantError(t, get(t, done), "", backlog.Succeeded)
}

// What a worker that ended by itself has left running is ended.
func TestLinesEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	command := worker(t, "", handlertest.IgnoringTERM("child")+` & wait_for child; exit 3`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}, Grace: 50 * time.Millisecond})
	handlertest.WantError(t, get(t, handleAsync(t.Context(), l, handlertest.NewRecord())), "the worker ended before it answered (exit status 3)", backlog.Errored)
	pid := handlertest.PidIn(t, command[1]+"/child")
	testkit.Eventually(t, "the end of the child", func() bool { return handlertest.HasExited(pid) })
}

func TestLinesClose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, after, text string
		grace             time.Duration
	}{
		{"ends", `: >cleaned`, "", long},
		{"fails", `echo 'cannot say goodbye' >&2; exit 4`, "the worker ended before it answered (exit status 4): cannot say goodbye", long},
		{"lives on", `echo 'I will not' >&2; trap "" TERM; while :; do sleep 1; done`,
			"the worker had to be ended: it did not end within 200ms of the end of its standard input: I will not", 200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := worker(t, "", `reply "$success"`)
			body := testkit.ReadFile(t, command[0]) + "\n" + tt.after
			if err := os.WriteFile(command[0], []byte(body), 0o755); err != nil {
				t.Fatal(err)
			}
			l := &lines.Handler{Settings: lines.Settings{Command: command}, Grace: tt.grace}
			handlertest.WantError(t, get(t, handleAsync(t.Context(), l, handlertest.NewRecord())), "", backlog.Succeeded)
			err := l.Close()
			got := ""
			if err != nil {
				_, got, _ = strings.Cut(strings.TrimPrefix(err.Error(), "lines: process "), ": ")
			}
			if got != tt.text {
				t.Errorf("Close: %q, want %q", got, tt.text)
			}
			if tt.text == "" && !handlertest.Exist(command[1], "cleaned") {
				t.Error("Close did not wait")
			}
			if err := l.Close(); err != nil {
				t.Errorf("closed again: %v", err)
			}
			handlertest.WantError(t, l.Handle(t.Context(), handlertest.NewRecord()), "lines: the handler is closed", backlog.Skipped)
		})
	}
	if err := (&lines.Handler{Settings: lines.Settings{Command: []string{"/bin/true"}}}).Close(); err != nil {
		t.Error(err)
	}
}

// A second signal leaves Close no patience, either.
func TestLinesCloseHard(t *testing.T) {
	t.Parallel()
	hard := make(chan struct{})
	command := worker(t, `trap "" TERM`, `reply "$success"`)
	command[0] = handlertest.Script(t, strings.TrimPrefix(testkit.ReadFile(t, command[0]), "#!/bin/sh\n")+"\n: >closed; exec sleep 1000")
	l := &lines.Handler{Settings: lines.Settings{Command: command}, Grace: long, Hard: hard}
	handlertest.WantError(t, l.Handle(t.Context(), handlertest.NewRecord()), "", backlog.Succeeded)
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	testkit.Eventually(t, "the end of the input", func() bool { return handlertest.Exist(command[1], "closed") })
	close(hard)
	if err := get(t, closed); err == nil || !strings.HasSuffix(err.Error(), ": the worker was killed: the stop was asked for twice") {
		t.Errorf("error %v", err)
	}
}

// Close lets a worker answer what it has.
func TestLinesCloseInFlight(t *testing.T) {
	t.Parallel()
	command := worker(t, "", `: >got; wait_for go; reply "$success"`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command, Window: 2}})
	answers := []<-chan error{handleAsync(t.Context(), l, attempt("1")), handleAsync(t.Context(), l, attempt("2"))}
	testkit.Eventually(t, "both", func() bool { return l.InFlight() == 2 && handlertest.Exist(command[1], "got") })
	waits := handleAsync(t.Context(), l, attempt("3"))
	testkit.Eventually(t, "one who waits", func() bool { return l.Waiting() == 1 })
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	handlertest.WantError(t, get(t, waits), "lines: the handler is closed", backlog.Skipped)
	handlertest.File(t, command[1], "go", "", 0o644)
	for _, done := range answers {
		handlertest.WantError(t, get(t, done), "", backlog.Succeeded)
	}
	if err := get(t, closed); err != nil {
		t.Error(err)
	}
}

// However often workers die, each record gets one answer, and no worker, file
// or goroutine is left.
func TestLinesManyDeaths(t *testing.T) {
	command := worker(t, "", `n=$((n+1)); case $a in *7) exit 3 ;; *8) echo nonsense ;; *) reply "$success" ;; esac`)
	files := filesWithout(t)
	l := &lines.Handler{Settings: lines.Settings{Command: command, Workers: 3, Window: 4}, Grace: time.Second}
	var wg sync.WaitGroup
	var good, bad atomic.Int64
	for g := range 8 {
		wg.Go(func() {
			for i := range 10 {
				switch err := l.Handle(t.Context(), attempt(fmt.Sprintf("%d-%d", g, i))); {
				case err == nil:
					good.Add(1)
				case backlog.OutcomeOf(err) == backlog.Errored:
					bad.Add(1)
				default:
					t.Errorf("error %v", err)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() == 0 || bad.Load() < 16 || good.Load()+bad.Load() != 80 {
		t.Errorf("%d good, %d bad", good.Load(), bad.Load())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := handlertest.OpenFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
}

// The log says why a worker was ended, without a word of any record.
func TestLinesInterruptedLog(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]string{
		nil:     "the worker was ended when one of its records was given up: context canceled (killed by signal: terminated)",
		errLate: "the worker was ended when one of its records was given up: timed out after 30s (killed by signal: terminated)",
	} {
		said := make(chan string, 10)
		command := worker(t, "", `: >ready; exec sleep 1000`)
		l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}, Log: workerLog(func(_ int, line string) { said <- line })})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := handleAsync(ctx, l, attempt("1"))
		testkit.Eventually(t, "the record", func() bool { return handlertest.Exist(command[1], "ready") })
		cancel(cause)
		if err := get(t, done); !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("error %v", err)
		}
		if got := <-said; got != want { // it was said before
			t.Errorf("the log: %q, want %q", got, want)
		}
	}
}

// A second signal leaves no time to end in order.
func TestLinesKilled(t *testing.T) {
	t.Parallel()
	command := worker(t, "", handlertest.IgnoringTERM("child")+" & wait")
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}, Grace: long})
	handlertest.KillPass(t, l, func() bool { return handlertest.Exist(command[1], "child") })
	pid := handlertest.PidIn(t, command[1]+"/child")
	testkit.Eventually(t, "the end of the child", func() bool { return handlertest.HasExited(pid) })
}
