package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"backlog/internal/testserver"
	"backlog/internal/worlds"
)

// TestScript runs the scripts of testdata/script. Beside what testscript itself
// has, they may use
//
//	sql DB STATEMENT…        run statements, or those of files *.sql; a query prints its rows
//	exits STATUS PROGRAM…    run a program that ends with just that status
//	complains TEXT…          the last program said just that, beside its log, on standard error, a line each
//	start NAME PROGRAM…      run a program in the background, with its output in NAME.out and NAME.log
//	signal NAME SIGNAL       send it HUP, INT, TERM or KILL
//	ended NAME STATUS        wait for its end; STATUS is a number or the name of a signal
//	waitfor FILE REGEXP [T]  wait until the file matches, in time T if given
//	waitsql DB QUERY TEXT    wait until the query's rows are the text
//	cmpjson FILE WANT        compare JSON, where "*" in WANT stands for any value
//	ask LOG STATUS PATH [JSON]
//	                         GET the path, or POST the JSON, or that of a file *.json, where LOG says that pages or metrics are served, with the token in $TOKEN, and print the answer
//	passes FILE WORLD        write the passes of a world of worlds.Examples
//	amqp send EXCHANGE KEY BODY…, amqp ready QUEUE N, amqp delete QUEUE
//	                         work on the RabbitMQ at $BROKER; $QUEUE is a name of the script's own
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setupScript,
		Condition:           scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sql":       cmdSQL,
			"exits":     cmdExits,
			"complains": cmdComplains,
			"start":     cmdStart,
			"signal":    cmdSignal,
			"ended":     cmdEnded,
			"waitfor":   cmdWaitFor,
			"waitsql":   cmdWaitSQL,
			"cmpjson":   cmdCompareJSON,
			"amqp":      cmdAMQP,
			"passes":    cmdPasses,
			"ask":       cmdAsk,
		},
	})
}

// variables are what background programs see of a script's environment.
var variables = []string{
	"PATH", "HOME", "TMPDIR", "TZ", "WORK", "GORACE", "GOCOVERDIR", "XDG_STATE_HOME", "STATE_DIRECTORY",
	"BACKLOG_CONFIG", "BACKLOG_DATABASE", "BACKLOG_TABLE", "BACKLOG_LOG_LEVEL", "BACKLOG_LOG_FORMAT",
	"BROKER", "QUEUE", "PING_KEY",
}

func setupScript(e *testscript.Env) error {
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
	e.Setenv("TZ", "UTC")
	e.Setenv("DRIVER", releasedDriver)
	e.Setenv("BROKER", brokerURL)
	e.Setenv("WRONG_BROKER", strings.Replace(brokerURL, ":guest@", ":hunter2@", 1))
	e.Setenv("QUEUE", testserver.Name("test-"))
	running := make(map[string]*process)
	e.Values[processes{}] = running
	e.Defer(func() {
		for _, p := range running {
			p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return filepath.WalkDir(e.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".sh") {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
}

// usage ends the script unless there are at least that many arguments and no !.
func usage(ts *testscript.TestScript, neg bool, args []string, least int, text string) {
	if neg || len(args) < least {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "sql DB STATEMENT...")
	db, err := openDB(ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	for _, text := range args[1:] {
		if strings.HasSuffix(text, ".sql") {
			text = ts.ReadFile(text)
		}
		switch first, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " "); first {
		case "SELECT", "PRAGMA":
			rows, err := query(db, text)
			ts.Check(err)
			fmt.Fprint(ts.Stdout(), rows)
		default:
			_, err := db.Exec(text)
			ts.Check(err)
		}
	}
}

func cmdPasses(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "passes FILE WORLD")
	ts.Check(writePasses(ts.MkAbs(args[0]), args[1]))
}

// writePasses writes the passes of a world of [worlds.Examples] to a file.
func writePasses(file, world string) error {
	lines := passesOf[world]
	if lines == nil {
		return fmt.Errorf("there is no world %q", world)
	}
	return os.WriteFile(file, lines(), 0o644)
}

// passesOf plays each world at most once: that takes seconds.
var passesOf = func() map[string]func() []byte {
	play := make(map[string]func() []byte)
	for name, example := range worlds.Examples {
		play[name] = sync.OnceValue(func() []byte { return worlds.Lines("orders-00000000", example().Play()) })
	}
	return play
}()

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "exits STATUS PROGRAM...")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func cmdComplains(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1, "complains TEXT...")
	var said []string
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		if !strings.HasPrefix(line, `{"time":`) {
			said = append(said, line)
		}
	}
	want := "backlog: " + strings.ReplaceAll(strings.Join(args, "\n  "), "$WORK", ts.Getenv("WORK")) + "\n"
	if got := strings.Join(said, ""); got != want {
		ts.Fatalf("it says   %qinstead of %q", got, want)
	}
}

// processes is the key to a script's background programs, by name.
type processes struct{}

type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func started(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processes{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("nothing called %s was started", name)
	}
	return p
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "start NAME PROGRAM...")
	all := ts.Value(processes{}).(map[string]*process)
	name := args[0]
	if all[name] != nil {
		ts.Fatalf("%s was started before", name)
	}
	c := exec.Command(args[1], args[2:]...)
	if args[1] == "backlog" {
		c.Path = beside
	}
	c.Dir = ts.MkAbs(".")
	for _, v := range variables {
		if value := ts.Getenv(v); value != "" {
			c.Env = append(c.Env, v+"="+value)
		}
	}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	log, err := os.Create(ts.MkAbs(name + ".log"))
	ts.Check(err)
	defer log.Close()
	c.Stdout, c.Stderr = out, log
	ts.Check(c.Start())
	p := &process{c, make(chan struct{})}
	all[name] = p
	go func() {
		c.Wait()
		close(p.ended)
	}()
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "signal NAME SIGNAL")
	s, ok := signals[args[1]]
	if !ok {
		ts.Fatalf("no signal %s", args[1])
	}
	ts.Check(started(ts, args[0]).cmd.Process.Signal(s))
}

func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "ended NAME STATUS")
	p := started(ts, args[0])
	defer func() {
		for _, f := range []string{".out", ".log"} {
			ts.Logf("[%s%s]\n%s", args[0], f, ts.ReadFile(args[0]+f))
		}
	}()
	if !eventually(func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	}) {
		ts.Fatalf("%s does not end", args[0])
	}
	delete(ts.Value(processes{}).(map[string]*process), args[0])
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	got := strconv.Itoa(status.ExitStatus())
	for name, s := range signals {
		if status.Signaled() && status.Signal() == s {
			got = name
		}
	}
	if got != args[1] {
		ts.Fatalf("%s ended with %s, want %s", args[0], got, args[1])
	}
}

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "waitfor FILE REGEXP [TIME]")
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	began, most := time.Now(), patience
	if len(args) > 2 {
		most, err = time.ParseDuration(args[2])
		ts.Check(err)
	}
	var text []byte
	if !eventually(func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0]))
		return re.Match(text)
	}) {
		ts.Fatalf("%s is, in the end:\n%s", args[0], text)
	}
	if took := time.Since(began); took > most {
		ts.Fatalf("that took %v, more than %v", took, most)
	}
}

func cmdWaitSQL(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 3, "waitsql DB QUERY TEXT")
	db, err := openDB(ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	var got string
	if !eventually(func() bool {
		got, err = query(db, args[1])
		return err == nil && strings.TrimSpace(got) == args[2]
	}) {
		ts.Fatalf("it is, in the end, %q (%v)", got, err)
	}
}

func cmdCompareJSON(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "cmpjson FILE WANT")
	text := ts.ReadFile(args[0])
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("not one line: %q", text)
	}
	var got, want any
	decode := func(what, text string, to *any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber() // 0 and 0.0 are not the same to a reader
		if err := d.Decode(to); err != nil {
			ts.Fatalf("%s: %v\n%s", what, err, text)
		}
	}
	decode(args[0], text, &got)
	decode(args[1], os.Expand(ts.ReadFile(args[1]), ts.Getenv), &want)
	if err := compareJSON("", got, want); err != nil {
		var b bytes.Buffer
		json.Indent(&b, []byte(text), "", "  ")
		ts.Fatalf("%v\n%s", err, b.String())
	}
}

// compareJSON returns where the values differ.
func compareJSON(path string, got, want any) error {
	switch want := want.(type) {
	case string:
		if want == "*" && got != nil {
			return nil
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return fmt.Errorf("%s: not a list of %d", path, len(want))
		}
		for i := range want {
			if err := compareJSON(fmt.Sprintf("%s[%d]", path, i), got[i], want[i]); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: not an object", path)
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				return fmt.Errorf("%s has %s, which it should not", path, k)
			}
		}
		for k, v := range want {
			g, ok := got[k]
			if !ok {
				return fmt.Errorf("%s lacks %s", path, k)
			}
			if err := compareJSON(path+"."+k, g, v); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: %#v, want %#v", path, got, want)
	}
	return nil
}

var servedAt = regexp.MustCompile(`"msg":"(?:pages|metrics) are served","at":"(http.*?)/(?:metrics)?"`)

func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 3, "ask LOG STATUS PATH [JSON]")
	at := servedAt.FindStringSubmatch(ts.ReadFile(args[0]))
	if at == nil {
		ts.Fatalf("%s does not say where pages are served", args[0])
	}
	method, text := http.MethodGet, strings.Join(args[3:], " ")
	if text != "" {
		method = http.MethodPost
	}
	if strings.HasSuffix(text, ".json") {
		text = ts.ReadFile(text)
	}
	r, err := http.NewRequest(method, at[1]+args[2], strings.NewReader(text))
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+ts.Getenv("TOKEN"))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", got)
	if strconv.Itoa(answer.StatusCode) != args[1] {
		ts.Fatalf("%s %s: got %d: %s", method, args[2], answer.StatusCode, got)
	}
}
