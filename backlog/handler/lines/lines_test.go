//go:build unix

package lines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/lines"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

var (
	_ backlog.Handler = (*lines.Handler)(nil)
)

// worker is a shell script that calls each, with the attempt's id in $a, for
// every request; $1 is a directory of its own. reply takes what follows the id.
func worker(t *testing.T, before, each string) []string {
	t.Helper()
	return []string{handlertest.Script(t, `cd "$1"
reply() { printf '{"attempt_id":"%s",%s}\n' "$a" "$1"; }
success='"outcome":"success"'
wait_for() { while ! [ -e "$1" ]; do sleep 0.01; done; }
`+before+`
while IFS= read -r line; do
	a=${line#*'"attempt_id":"'}
	a=${a%%'"'*}
	`+each+`
done`), t.TempDir()}
}

// newLines returns a handler that is closed at the end of the test.
func newLines(t *testing.T, l *lines.Handler) *lines.Handler {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	return l
}

// attempt is a record whose attempt has the id.
func attempt(id string) *backlog.Record {
	r := handlertest.NewRecord()
	r.AttemptID = id
	return r
}

var errLate = errors.New("timed out after 30s")

// long is longer than any test.
const long = time.Hour

// handleAsync calls Handle and returns where its error will be.
func handleAsync(ctx context.Context, l *lines.Handler, r *backlog.Record) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Handle(ctx, r) }()
	return done
}

func get(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(testkit.Patience):
		t.Fatal("Handle hangs")
		return nil
	}
}

func TestLinesOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reply   string
		outcome backlog.Outcome
		text    string
	}{
		{`"outcome":"success"`, backlog.Succeeded, ""},
		{`"outcome":"error","error":"no answer from 10.0.0.1"`, backlog.Errored, "no answer from 10.0.0.1"},
		{`"outcome":"reject","error":"no such customer"`, backlog.Rejected, "no such customer"},
		{`"outcome":"skip","error":"not now"`, backlog.Skipped, "not now"},
		{`"outcome":"error","error":"busy","retry_after":1.5`, backlog.Errored, "busy"},
	} {
		l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: worker(t, "", "reply '"+tt.reply+"'")}})
		for range 3 {
			handlertest.WantError(t, get(t, handleAsync(t.Context(), l, handlertest.NewRecord())), tt.text, tt.outcome)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLinesRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: []string{worker(t, "", `printf '%s\n' "$line" >>requests; reply "$success"`)[0], dir}}})
	records := []*backlog.Record{
		{
			Key: backlog.NewKey(int64(7)), Status: "NEW", Inserted: time.Date(2026, 1, 5, 1, 2, 3, 500_000_000, time.FixedZone("", 3600)),
			Names: []string{"id", "city"}, Values: []any{int64(7), `Köln "am Rhein"`}, Tier: "1d", AttemptID: "4f-1",
		},
		{
			Key: backlog.NewKey("eu", int64(7)), Status: `a"b`, Tier: "täglich", AttemptID: "4f-2",
			Names: []string{"doc", "raw"}, Values: []any{json.RawMessage("{\n \"a\": 1\n}"), []byte{0, 1}},
		},
		{Key: backlog.NewKey("A-7"), Status: "ERROR", AttemptID: "4f-3", Reason: backlog.ReasonRetries, Error: "line 1\nline 2"},
		{Key: backlog.NewKey([]byte{255})},
	}
	for _, r := range records {
		if err := l.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"attempt_id":"4f-1","id":7,"status":"NEW","inserted":"2026-01-05T00:02:03.5Z","tier":"1d","record":{"id":7,"city":"Köln \"am Rhein\""}}
{"attempt_id":"4f-2","id":["eu",7],"status":"a\"b","inserted":null,"tier":"täglich","record":{"doc":{"a":1},"raw":"AAE="}}
{"attempt_id":"4f-3","id":"A-7","status":"ERROR","inserted":null,"tier":"","reason":"out of retries","error":"line 1\nline 2","record":{}}
{"attempt_id":"attempt-1","id":"/w==","status":"","inserted":null,"tier":"","record":{}}
`
	if got := testkit.ReadFile(t, dir+"/requests"); got != want {
		t.Errorf("requests\n%swant\n%s", got, want)
	}
}

func TestLinesAnyOrder(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: worker(t, "", `
	if [ -z "$first" ]; then first=$a; continue; fi
	for a in "$a" "$first"; do reply '"outcome":"error","error":"'$a'"'; done
	first=`)}})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprint("x-", i)
			handlertest.WantError(t, l.Handle(t.Context(), attempt(id)), id, backlog.Errored)
		})
	}
	wg.Wait()
}

// One worker is enough for records one after the other; those at the same time
// are shared out.
func TestLinesWorkers(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Workers: 3, Command: worker(t, "", `reply '"outcome":"error","error":"'$$'"'`)}})
	first := l.Handle(t.Context(), handlertest.NewRecord()).Error()
	for range 10 {
		handlertest.WantError(t, l.Handle(t.Context(), handlertest.NewRecord()), first, backlog.Errored)
	}

	l = newLines(t, &lines.Handler{Settings: lines.Settings{Workers: 3, Command: worker(t, "", `: >"$$"
	while set -- *; [ $# -lt 3 ]; do sleep 0.01; done
	reply '"outcome":"error","error":"'$$'"'`)}})
	var answers []<-chan error
	for i := range 9 {
		answers = append(answers, handleAsync(t.Context(), l, attempt(fmt.Sprint(i))))
	}
	by := make(map[string]int)
	for _, a := range answers {
		by[get(t, a).Error()]++
	}
	for pid, n := range by {
		if n != 3 || len(by) != 3 {
			t.Errorf("process %s had %d records of 9", pid, n)
		}
	}
}

// No more than the window holds is in flight; those who wait can give up.
func TestLinesWindow(t *testing.T) {
	t.Parallel()
	command := worker(t, "", `echo "$a" >>got; if [ "$a" = 3 ]; then wait_for go; fi; reply "$success"`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command, Window: 3}})
	got := func() string { b, _ := os.ReadFile(command[1] + "/got"); return string(b) }
	first := handleAsync(t.Context(), l, attempt("3"))
	testkit.Eventually(t, "the first", func() bool { return got() == "3\n" })
	second, third := handleAsync(t.Context(), l, attempt("4")), handleAsync(t.Context(), l, attempt("5"))

	// Which two of the three are in the window is open. One waits.
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("given up")
	testkit.Eventually(t, "a full window", func() bool { return l.InFlight() == 3 })
	fourth := handleAsync(ctx, l, attempt("6"))
	testkit.Eventually(t, "one who waits", func() bool { return l.Waiting() == 1 })
	cancel(cause)
	handlertest.WantError(t, get(t, fourth), cause.Error(), backlog.Errored)
	fifth := handleAsync(t.Context(), l, attempt("7"))
	testkit.Eventually(t, "another who waits", func() bool { return l.Waiting() == 1 })
	if n := l.InFlight(); n != 3 {
		t.Errorf("%d in flight", n)
	}

	handlertest.File(t, command[1], "go", "", 0o644)
	for _, done := range []<-chan error{first, second, third, fifth} {
		handlertest.WantError(t, get(t, done), "", backlog.Succeeded)
	}
	if s := got(); strings.Contains(s, "6") || len(s) != 8 {
		t.Errorf("the worker got %q", s)
	}
}

// Records far longer than a pipe holds pass, and many at once.
func TestLinesLarge(t *testing.T) {
	t.Parallel()
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: goWorker(), Workers: 2, Window: 8}})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			r := attempt(fmt.Sprint("a-", i))
			r.Names, r.Values = []string{"s"}, []any{strings.Repeat("x", i*10_000)}
			handlertest.WantError(t, l.Handle(t.Context(), r), "", backlog.Succeeded)
		})
	}
	wg.Wait()
}

func TestLinesConcurrent(t *testing.T) {
	for _, w := range [][]string{{workerPy}, {workerSh}, goWorker()} {
		t.Run(w[0], func(t *testing.T) {
			if w[0] == workerPy {
				if _, err := exec.LookPath("python3"); err != nil {
					t.Skip("no python3 in PATH; install it")
				}
			}
			files := filesWithout(t)
			l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: w, Workers: 3, Window: 16}, Timeout: time.Minute})
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := range 10 {
						r := attempt(fmt.Sprintf("c-%d-%d", g, i))
						r.Names, r.Values = []string{"city", "note"}, []any{"Paris", `"attempt_id":"c-0-0"`}
						err := l.Handle(t.Context(), r)
						if i%5 != 4 || w[0] != workerPy && w[0] != workerSh {
							handlertest.WantError(t, err, "", backlog.Succeeded)
							continue
						}
						r.AttemptID += "-again"
						r.Values[0] = "Nowhere"
						err = l.Handle(t.Context(), r)
						if err == nil || !strings.HasSuffix(err.Error(), "there is no such city") {
							t.Errorf("error %v", err)
						}
					}
				})
			}
			wg.Wait()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if n := handlertest.OpenFiles(t); n > files {
				t.Errorf("%d open files, %d before", n, files)
			}
		})
	}
}

// The page shows the workers as they are.
func TestLinesPage(t *testing.T) {
	page := testkit.ReadFile(t, "../../../docs/lines.md")
	for path, from := range map[string]string{workerPy: "\nimport", workerSh: "\nreply()"} {
		code := testkit.ReadFile(t, path)
		if code = code[strings.Index(code, from):]; !strings.Contains(page, code+"```\n") {
			t.Errorf("docs/lines.md shows another %s", path)
		}
	}
}

// filesWithout returns how many files are open when no worker runs: what stays
// open once one has run is open now.
func filesWithout(t *testing.T) int {
	t.Helper()
	l := &lines.Handler{Settings: lines.Settings{Command: goWorker()}}
	handlertest.WantError(t, errors.Join(l.Handle(t.Context(), handlertest.NewRecord()), l.Close()), "", backlog.Succeeded)
	return handlertest.OpenFiles(t)
}

func TestLinesTwiceInFlight(t *testing.T) {
	t.Parallel()
	command := worker(t, "", `: >got; wait_for go; reply "$success"`)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: command}})
	first := handleAsync(t.Context(), l, attempt("a"))
	testkit.Eventually(t, "the first", func() bool { return handlertest.Exist(command[1], "got") })
	handlertest.WantError(t, l.Handle(t.Context(), attempt("a")), "lines: attempt a is in flight already; the ids of attempts must differ", backlog.Errored)
	handlertest.File(t, command[1], "go", "", 0o644)
	handlertest.WantError(t, get(t, first), "", backlog.Succeeded)
}

func TestLinesCheck(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"/bin/true": "",
		"no-such":   "lines: no-such is not in PATH; install it, or write its path, such as ./no-such",
		"":          "lines: the command is empty; name a program, as in [./deliver.sh, --fast]",
	} {
		l := newLines(t, &lines.Handler{Settings: lines.Settings{Command: []string{command}}})
		err := l.Check(t.Context())
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
		if want != "" {
			handlertest.WantError(t, l.Handle(t.Context(), handlertest.NewRecord()), want, backlog.Skipped)
		}
	}
}

func TestLinesNotes(t *testing.T) {
	t.Parallel()
	got := (&lines.Handler{Settings: lines.Settings{Command: []string{"python3", "/no/such.py"}}}).Describe().Notes
	want := "lines: python3 is given /no/such.py, which does not exist; correct the path or the working directory"
	if len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLinesExchange(t *testing.T) {
	t.Parallel()
	log, exchange := handlertest.Log(slog.LevelDebug)
	l := newLines(t, &lines.Handler{Settings: lines.Settings{Workers: 4, Command: worker(t, "", `if [ "$a" = dies ]; then exit 3; fi
	reply '"outcome":"error","error":"no","seen":true'`)}, Log: log})
	handlertest.WantError(t, l.Handle(t.Context(), attempt("s")), "no", backlog.Errored)
	sent, got := exchange()
	if want := `{"attempt_id":"s","id":7,"status":"NEW","inserted":null,"tier":"","record":{"id":7}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
	if want := `{"attempt_id":"s","outcome":"error","error":"no","seen":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	handlertest.WantError(t, l.Handle(t.Context(), attempt("dies")), "the worker ended before it answered (exit status 3)", backlog.Errored)
	if sent, got = exchange(); got != "" || !strings.Contains(sent, "dies") {
		t.Errorf("sent %s, got %s", sent, got)
	}
}

// workerLog returns a logger that hands on what it is told of workers.
func workerLog(say func(pid int, text string)) *slog.Logger { return slog.New(workers{say: say}) }

type workers struct {
	slog.Handler
	say func(pid int, text string)
}

func (workers) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (w workers) Handle(_ context.Context, r slog.Record) error {
	var pid int
	var text string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "pid":
			pid = int(a.Value.Int64())
		case "text":
			text = a.Value.String()
		}
		return true
	})
	w.say(pid, text)
	return nil
}

func TestLinesLog(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var said []string
	l := &lines.Handler{
		Settings: lines.Settings{Command: worker(t, `echo begin >&2`, `printf '\n  one  \r\ntwo\377\n'"$(head -c 9000 /dev/zero | tr '\0' x)"'\nhalf' >&2; exit 0`)},
		Log: workerLog(func(pid int, line string) {
			mu.Lock()
			defer mu.Unlock()
			if pid <= 0 {
				t.Errorf("process %d", pid)
			}
			said = append(said, line)
		}),
	}
	newLines(t, l)
	if err := l.Handle(t.Context(), handlertest.NewRecord()); err == nil {
		t.Error("no error")
	}
	want := []string{"begin", "  one", "two\uFFFD", strings.Repeat("x", 2048) + "…", "half", "the worker has ended: exit status 0"}
	mu.Lock()
	defer mu.Unlock()
	if strings.Join(said, "|") != strings.Join(want, "|") {
		t.Errorf("said %.100q, want %.100q", said, want)
	}
}
