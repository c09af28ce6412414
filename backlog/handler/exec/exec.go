// Package exec is the handler that runs a program for each record.
package exec

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/proc"
)

// Settings are the handler's part of the configuration file.
type Settings struct {
	// Command is the program and its arguments. No shell runs it, and nothing in it is
	// expanded. It is not empty.
	Command []string `yaml:"exec" command:"./deliver.sh"`

	// Reject, Skip and Snooze are the exit statuses that mean a rejection, a skip and a snooze.
	// The last line of the standard output says how long a snooze is. No status is in two of
	// them.
	Reject []int `yaml:"reject" want:"an exit status or a list of them" min:"1" max:"255"`
	Skip   []int `yaml:"skip" want:"an exit status or a list of them" min:"1" max:"255"`
	Snooze []int `yaml:"snooze" want:"an exit status or a list of them" min:"1" max:"255"` // nil: none

	// Input says what the program reads if the record is a message of a queue: "body", or
	// "", for the body as it came, "json" for JSON. A row of a table is always JSON.
	Input string `yaml:"input" words:"body json"`
}

// NotifySettings are the part of the configuration file for a program that is run for each
// dead record.
type NotifySettings struct {
	Command []string `yaml:"exec" command:"./tell.sh"`
}

const (
	defaultReject = 65 // EX_DATAERR of sysexits.h
	defaultSkip   = 75 // EX_TEMPFAIL
)

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Reject: []int{defaultReject}, Skip: []int{defaultSkip}}
}

// Check calls fail with each exit status that has two meanings.
func (s *Settings) Check(fail func(field, problem string)) {
	for _, status := range s.Skip {
		if slices.Contains(s.Reject, status) {
			fail("skip", fmt.Sprintf("exit status %d is in reject too; give both, each its own (default: reject 65, skip 75)", status))
		}
	}
	for _, status := range s.Snooze {
		if slices.Contains(s.Reject, status) || slices.Contains(s.Skip, status) {
			fail("snooze", fmt.Sprintf("exit status %d is in reject or skip too; give it another, such as 79 (default: reject 65, skip 75)", status))
		}
	}
}

// A Handler runs one program for each record, never through a shell.
//
// The program may read the record's columns from its standard input: the JSON object of
// [backlog.Record.ColumnsJSON] and a newline. Its environment is this process's own and
//
//	BACKLOG_ID          the key; a composite one is a JSON array
//	BACKLOG_STATUS      the status that was read
//	BACKLOG_INSERTED    RFC 3339 in UTC; empty if the record has no date
//	BACKLOG_ATTEMPT_ID  unique to this attempt
//	BACKLOG_TIER        the tier or max age of the pass
//	TRACEPARENT         [backlog.Record.Traceparent], if there is one; then this process's
//	                    TRACESTATE, which belongs to another trace, is left out
//
// under the refresh policy also
//
//	BACKLOG_ATTEMPT_UID  the same as BACKLOG_ATTEMPT_ID
//	BACKLOG_ATTEMPT_NO   how many attempts were started since the last success
//	BACKLOG_DEADLINE     when the attempt fails unless it has an outcome, RFC 3339 in UTC
//
// and for a dead record ([backlog.Engine.OnDead]) also
//
//	BACKLOG_REASON           why it is dead: rejected, out of retries or expired
//	BACKLOG_ERROR            the text of its last error, about 2 KiB at most; may be empty
//	BACKLOG_DISABLED_REASON  under the refresh policy: the sentence for the customer
//
// If the program fails, the end of its standard error is the text of the error. If that is
// empty, it is the end of the standard output.
//
// The program runs in a process group of its own. When the context of the attempt is done,
// the whole group gets SIGTERM, and after Grace SIGKILL. A program that exits by itself may
// leave children behind, and they are not terminated. If they hold its standard error,
// Handle waits for them for at most a second. What they write later is dropped.
//
// Methods may be called concurrently. A Handler must not be copied or changed
// after the first call.
type Handler struct {
	// A program without a slash is looked up in PATH. One with a slash is relative to the
	// working directory. Reject nil is 65, Skip nil 75.
	Settings

	// Grace is the time between SIGTERM and SIGKILL. 0 means 5 seconds, a negative value
	// no time at all.
	Grace time.Duration

	// Body returns what the program reads from its standard input. Nil: the record as JSON.
	Body func(*backlog.Record) []byte

	// Log logs the program's input, output and exit status at DEBUG, without its arguments,
	// which may hold a secret. Nil: no log.
	Log *slog.Logger
}

var _ backlog.ConfiguredHandler = (*Handler)(nil)

func (h *Handler) program() proc.Program { return proc.Program{Kind: "exec", Command: h.Command} }

// Prepare returns why the program could not be started, see [proc.Program.Check].
func (h *Handler) Prepare() error { return h.program().Check() }

// Check is the same as Prepare: there is no network to ask.
func (h *Handler) Check(context.Context) error { return h.Prepare() }

// Describe implements [backlog.ConfiguredHandler].
func (h *Handler) Describe() backlog.Description {
	return backlog.Description{Checked: h.Command[0] + " can be run", Notes: h.program().Notes()}
}

// Handle runs the program for r and returns when it has ended, at the latest a moment more
// than Grace after ctx is done.
//
// The exit status decides, even if ctx was done before: 0 is a success, one of Reject a
// [backlog.Reject], one of Skip an error that wraps [backlog.Skip], one of Snooze a
// [backlog.Snooze] if the last line of the standard output is a time for
// [backlog.ParseSnooze]. Another status, and death by a signal, is an error. A program that
// cannot be started is [backlog.Unstarted].
//
// The text of an error is the end of the program's standard error, or else of its standard
// output: valid UTF-8 of at most about 2 KiB. If both are empty it says how the program
// ended: "exit status 3". If the program was terminated because ctx was done, the text begins
// with context.Cause(ctx), and the error wraps that.
//
// Errors of a program that ran wrap an [*exec.ExitError].
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	vars, err := variables(r)
	if err != nil {
		return err
	}
	input, err := h.input(r)
	if err != nil {
		return err
	}
	stdin, stdinWriter, err := stdinPipe(input)
	if err != nil {
		return err
	}
	defer stdinWriter.Close()
	defer stdin.Close()
	stdout, stdoutErr := newOutput(50 * time.Millisecond)
	stderr, stderrErr := newOutput(time.Second)
	if err := cmp.Or(stdoutErr, stderrErr); err != nil {
		return err
	}
	cmd, err := h.program().Start(append(environ(r), vars...), stdin, stdout.w, stderr.w)
	reading := readLater(stdout, stderr)
	terminated := false
	if err == nil {
		terminated, err = proc.Wait(ctx, backlog.Killed(ctx), cmd, cmp.Or(h.Grace, proc.DefaultGrace))
	}
	unread := reading.Stop()
	stderr.finish(unread)
	stdout.finish(unread)
	if err != nil {
		return err
	}
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) {
		sent = "program: " + h.Command[0] + "\n  " + strings.Join(vars, "\n  ") + "\n" + section("standard input", string(input))
		got = section("standard output", logged(stdout.tail.String())) + section("standard error", logged(stderr.tail.String())) + proc.InWords(cmd.ProcessState)
		return sent, got
	})
	return h.outcome(ctx, cmd.ProcessState, terminated, written{stdout.tail.String(), stderr.tail.String()})
}

// input returns what the program reads from its standard input.
func (h *Handler) input(r *backlog.Record) ([]byte, error) {
	if h.Body != nil {
		return h.Body(r), nil
	}
	input, err := r.ColumnsJSON()
	return append(input, '\n'), err
}

// section returns the lines of a text, indented under a heading; "" if there is no text.
func section(heading, text string) string {
	if text == "" {
		return ""
	}
	return heading + ":\n    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

// logged returns the end of an output that is logged. Both outputs and the exit status have
// to fit into the 2 KiB of [backlog.LogExchange].
func logged(text string) string { return text[max(0, len(text)-800):] }

// environ returns the environment of this process without the variables that only dead
// records have, and without the state of another trace than r's. The variables of every record
// need not be removed: they are set anew.
func environ(r *backlog.Record) []string {
	foreign := []string{"BACKLOG_REASON", "BACKLOG_ERROR", "BACKLOG_DISABLED_REASON"}
	if r.Traceparent != "" {
		foreign = append(foreign, "TRACESTATE")
	}
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(foreign, name)
	})
}

// variables returns the environment variables that describe r, as NAME=value.
func variables(r *backlog.Record) ([]string, error) {
	names, values := r.HandlerFields()
	vars := make([]string, len(names))
	for i, name := range names {
		value := fmt.Sprint(cmp.Or(values[i], any("")))
		if name == "error" || name == "disabled_reason" {
			value = proc.Head(value)
		}
		name = strings.ToUpper(name)
		if name != "TRACEPARENT" { // which tracers look for by this name
			name = "BACKLOG_" + name
		}
		if strings.Contains(value, "\x00") {
			return nil, fmt.Errorf("%s cannot be %.100q: the environment of a program holds no NUL bytes", name, value)
		}
		vars[i] = name + "=" + value
	}
	return vars, nil
}

// written is the end of what a program wrote.
type written struct{ stdout, stderr string }

// snooze returns the error that stands for a snooze of the program, whose text is given. Without a
// time in the last line of its standard output it is an error of the attempt.
func (w *written) snooze(text string, exitErr *exec.ExitError) error {
	lines := strings.Split(strings.TrimSpace(w.stdout), "\n")
	last := lines[len(lines)-1]
	snooze, err := backlog.ParseSnooze(last)
	if err != nil {
		what := fmt.Sprintf("%s means snooze, and the last line of the standard output is to say how long: %v", exitErr, err)
		return backlog.Worded(proc.WithTail(what, w.stderr), exitErr)
	}
	return snooze.Snooze(backlog.Worded(text, exitErr))
}

// outcome returns the error that stands for the program's end, nil for success. terminated
// says that the program was sent SIGTERM.
func (h *Handler) outcome(ctx context.Context, state *os.ProcessState, terminated bool, w written) error {
	if state.Success() {
		return nil
	}
	exitErr := &exec.ExitError{ProcessState: state}
	output := cmp.Or(w.stderr, w.stdout)
	text := cmp.Or(output, proc.InWords(state))
	status := state.ExitCode()
	switch {
	case h.Reject == nil && status == defaultReject, slices.Contains(h.Reject, status):
		return backlog.Reject(backlog.Worded(text, exitErr))
	case h.Skip == nil && status == defaultSkip, slices.Contains(h.Skip, status):
		return backlog.Worded(text, backlog.Skip, exitErr)
	case slices.Contains(h.Snooze, status):
		return w.snooze(text, exitErr)
	case terminated:
		cause := context.Cause(ctx)
		return backlog.Worded(proc.WithTail(cause.Error(), output), cause, exitErr)
	}
	return backlog.Worded(text, exitErr)
}

// pipeCapacity is how many bytes an empty pipe takes without a reader, on any system.
const pipeCapacity = 4 << 10

// stdinPipe returns a program's standard input, and the writing end w of its pipe, into which
// the input is written. The caller closes w when the program has ended: if a child holds the
// reading end, a write of a large input would never return. An input that the pipe holds is
// written at once, without a goroutine.
func stdinPipe(input []byte) (stdin, w *os.File, err error) {
	if len(input) <= pipeCapacity {
		stdin, w, err = proc.Pipe()
		writeInput(w, input)
		return stdin, w, err
	}
	stdin, w, err = os.Pipe()
	go writeInput(w, input)
	return stdin, w, err
}

func writeInput(w *os.File, input []byte) {
	w.Write(input)
	w.Close()
}

// readDelay is how long a program's output is left in the pipe. A program that ends before
// costs no goroutine, and its output wakes no thread. A program that fills the pipe before
// has to wait.
const readDelay = 10 * time.Millisecond

// An output keeps the end of what a program writes to w.
type output struct {
	tail     proc.Tail
	r, w     *os.File
	pollable func() *os.File // takes the place of r once it is called
	done     chan struct{}   // closed when everything is read

	// childPatience is how long finish waits for children that hold the pipe.
	childPatience time.Duration
}

func newOutput(childPatience time.Duration) (*output, error) {
	r, w, err := proc.Pipe()
	pollable := sync.OnceValue(func() *os.File { return proc.Pollable(r) })
	return &output{r: r, w: w, pollable: pollable, done: make(chan struct{}), childPatience: childPatience}, err
}

// readLater is called when the program has been started. It closes this process's writing
// ends, and returns a timer that reads both outputs after readDelay unless it is stopped.
func readLater(stdout, stderr *output) *time.Timer {
	stdout.w.Close()
	stderr.w.Close()
	return time.AfterFunc(readDelay, func() {
		go stdout.readAll()
		stderr.readAll()
	})
}

// readAll reads the output into tail until it ends or the read deadline passes.
func (o *output) readAll() {
	defer close(o.done)
	buf := make([]byte, proc.TailSize)
	for {
		n, err := o.pollable().Read(buf)
		o.tail.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// finish is called when the program has ended, with unread if readAll was never started. It
// returns when tail has what the program wrote. If children hold the pipe it waits for
// childPatience only. What they write later is read and dropped: with a closed pipe they
// would die of SIGPIPE.
func (o *output) finish(unread bool) {
	if unread && proc.Drain(o.r, &o.tail) {
		o.r.Close()
		return
	}
	o.pollable().SetReadDeadline(time.Now().Add(o.childPatience))
	if unread {
		o.readAll()
	}
	<-o.done
	go o.discard()
}

// discard reads and drops what children write after the program's end.
func (o *output) discard() {
	o.pollable().SetReadDeadline(time.Time{})
	io.Copy(io.Discard, o.pollable())
	o.pollable().Close()
}
