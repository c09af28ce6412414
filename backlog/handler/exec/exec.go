// Package exec runs a program for each record.
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

// Settings are what the configuration says of a program that is run for each
// record.
type Settings struct {
	// Command is the program and its arguments, which no shell and no
	// expansion touches. It is not empty.
	Command []string `yaml:"exec" command:"./deliver.sh"`

	// Reject and Skip are the exit statuses with these meanings. No status is
	// in both.
	Reject []int `yaml:"reject" want:"an exit status or a list of them" min:"1" max:"255"`
	Skip   []int `yaml:"skip" want:"an exit status or a list of them" min:"1" max:"255"`

	// Input is what the program reads of a message: its body as it came, unless it is
	// json. A row is always JSON.
	Input string `yaml:"input" words:"body json"`
}

// Telling is a program that is told of each dead record.
type Telling struct {
	Command []string `yaml:"exec" command:"./tell.sh"`
}

const (
	usualReject = 65 // EX_DATAERR of sysexits.h
	usualSkip   = 75 // EX_TEMPFAIL
)

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Reject: []int{usualReject}, Skip: []int{usualSkip}}
}

// Check reports what contradicts itself.
func (s *Settings) Check(fail func(field, problem string)) {
	for _, status := range s.Skip {
		if slices.Contains(s.Reject, status) {
			fail("skip", fmt.Sprintf("exit status %d is in reject too; give both, each its own (default: reject 65, skip 75)", status))
		}
	}
}

// A Handler runs one program per record, never through a shell.
//
// The program reads the record's columns from its standard input, as the JSON
// object of [backlog.Record.ColumnsJSON] and a newline; it need not. Its
// environment is this process's own and
//
//	BACKLOG_ID          the key; a composite one is a JSON array
//	BACKLOG_STATUS      the status that was read
//	BACKLOG_INSERTED    RFC 3339 in UTC; empty if the record has no date
//	BACKLOG_ATTEMPT_ID  unique to this attempt
//	BACKLOG_TIER        the tier or max age whose pass took the record
//
// under the refresh policy also
//
//	BACKLOG_ATTEMPT_UID  the same as BACKLOG_ATTEMPT_ID
//	BACKLOG_ATTEMPT_NO   how often it was started since the last success
//	BACKLOG_DEADLINE     when the attempt has failed, RFC 3339 in UTC
//
// and, where it is told of a dead record ([backlog.Engine.OnDead]),
//
//	BACKLOG_REASON      why it is dead: rejected, out of retries or expired
//	BACKLOG_ERROR       the text of its last error, about 2 KiB at most; may be empty
//	BACKLOG_DISABLED_REASON  under the refresh policy the sentence for the customer
//
// The end of what it writes to standard error is the text of the error if it fails;
// if that is nothing, the end of what it writes to standard output.
//
// The program runs in a process group of its own. When the context of the
// attempt is done, the whole group is told to end (SIGTERM), and whoever is
// left of it after Grace is killed. A program that exits by itself may leave
// children behind: they are not ended, and waited for by a second at most where
// they hold its standard error. They may go on writing, which is dropped.
//
// Methods may be called concurrently. A Handler must not be copied or changed
// after the first call.
type Handler struct {
	// A program without a slash is looked up in PATH; one with a slash is
	// relative to the working directory. Reject nil is 65, Skip nil 75.
	Settings

	// Grace is the time between SIGTERM and SIGKILL. 0 means 5 seconds, a
	// negative one none.
	Grace time.Duration

	// Body returns what the program reads of a record; nil: the record as JSON.
	Body func(*backlog.Record) []byte

	// Log is told at DEBUG what the program was given and what it answered, but
	// for its arguments, which may hold a secret. Nil: none.
	Log *slog.Logger
}

var _ backlog.ConfiguredHandler = (*Handler)(nil)

func (h *Handler) program() proc.Program { return proc.Program{Kind: "exec", Command: h.Command} }

// Prepare reports what would keep the program from being started, see
// [proc.Program.Check].
func (h *Handler) Prepare() error { return h.program().Check() }

// Check is Prepare: the network has nothing to add.
func (h *Handler) Check(context.Context) error { return h.Prepare() }

// Describe implements [backlog.ConfiguredHandler].
func (h *Handler) Describe() backlog.Description {
	return backlog.Description{Checked: h.Command[0] + " can be run", Notes: h.program().Notes()}
}

// Handle runs the program for r and returns when it has ended: at most Grace,
// and a moment, after ctx is done.
//
// What the program did decides, also when ctx ended meanwhile: exit status 0
// is a success, one of Reject a [backlog.Reject], one of Skip an error that
// wraps [backlog.Skip]. A program that cannot be started is [backlog.Unstarted].
// Everything else is an error: another status, death by a signal. Its text is the end of the
// program's standard error or else of its standard output, valid UTF-8 of at most
// about 2 KiB, or else says how it ended: "exit status 3". If it failed after ctx had ended it, the text
// begins with the cause, context.Cause(ctx), which the error then wraps.
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
	stdin, feeding, err := feed(input)
	if err != nil {
		return err
	}
	defer feeding.Close()
	defer stdin.Close()
	stdout, err := newOutput(50 * time.Millisecond)
	stderr, wrong := newOutput(time.Second)
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	cmd, err := h.program().Start(append(environ(), vars...), stdin, stdout.w, stderr.w)
	reading := begin(stdout, stderr)
	cut := false
	if err == nil {
		cut, err = proc.Wait(ctx, backlog.Killed(ctx), cmd, cmp.Or(h.Grace, proc.DefaultGrace))
	}
	unread := reading.Stop()
	stderr.end(unread)
	stdout.end(unread)
	if err != nil {
		return err
	}
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) {
		sent = "program: " + h.Command[0] + "\n  " + strings.Join(vars, "\n  ") + "\n" + part("standard input", string(input))
		got = part("standard output", end(stdout.tail.String())) + part("standard error", end(stderr.tail.String())) + proc.InWords(cmd.ProcessState)
		return sent, got
	})
	return h.outcome(ctx, cmd.ProcessState, cut, cmp.Or(stderr.tail.String(), stdout.tail.String()))
}

// input returns what the program reads.
func (h *Handler) input(r *backlog.Record) ([]byte, error) {
	if h.Body != nil {
		return h.Body(r), nil
	}
	input, err := r.ColumnsJSON()
	return append(input, '\n'), err
}

// part returns a text of any number of lines under a heading; nothing where there
// is no text.
func part(heading, text string) string {
	if text == "" {
		return ""
	}
	return heading + ":\n    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

// end returns as much of the end of an output as is logged: there are two of them
// and the exit status.
func end(text string) string { return text[max(0, len(text)-800):] }

// environ returns the environment of this process without the variables that only
// dead records have. The others take the place of its own.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"BACKLOG_REASON", "BACKLOG_ERROR", "BACKLOG_DISABLED_REASON"}, name)
	})
}

// variables returns what the environment says of r.
func variables(r *backlog.Record) ([]string, error) {
	names, values := r.HandlerFields()
	vars := make([]string, len(names))
	for i, name := range names {
		value := fmt.Sprint(cmp.Or(values[i], any("")))
		if name == "error" || name == "disabled_reason" {
			value = proc.Head(value)
		}
		name = "BACKLOG_" + strings.ToUpper(name)
		if strings.Contains(value, "\x00") {
			return nil, fmt.Errorf("%s cannot be %.100q: the environment of a program holds no NUL bytes", name, value)
		}
		vars[i] = name + "=" + value
	}
	return vars, nil
}

// outcome returns the error that stands for the program's end. cut says that
// the program was told to end; said is what it wrote.
func (h *Handler) outcome(ctx context.Context, state *os.ProcessState, cut bool, said string) error {
	if state.Success() {
		return nil
	}
	how := &exec.ExitError{ProcessState: state}
	text := cmp.Or(said, proc.InWords(state))
	switch status := state.ExitCode(); {
	case h.Reject == nil && status == usualReject, slices.Contains(h.Reject, status):
		return backlog.Reject(backlog.Worded(text, how))
	case h.Skip == nil && status == usualSkip, slices.Contains(h.Skip, status):
		return backlog.Worded(text, backlog.Skip, how)
	case cut:
		cause := context.Cause(ctx)
		return backlog.Worded(proc.WithTail(cause.Error(), said), cause, how)
	}
	return backlog.Worded(text, how)
}

// pipeHolds is what an empty pipe takes without a reader, on any system.
const pipeHolds = 4 << 10

// feed returns the standard input of a program, and the end w from which it is fed. The caller
// closes w when the program has ended: a child may hold the other end for ever. A pipe that
// holds all of the input costs no goroutine.
func feed(input []byte) (stdin, w *os.File, err error) {
	if len(input) <= pipeHolds {
		stdin, w, err = proc.Pipe()
		fill(w, input)
		return stdin, w, err
	}
	stdin, w, err = os.Pipe()
	go fill(w, input)
	return stdin, w, err
}

func fill(w *os.File, input []byte) {
	w.Write(input)
	w.Close()
}

// moment is how long nobody reads a program's output. One that is done by
// then costs no goroutine and wakes nobody but the one who waits for its end; one
// that fills the pipe meanwhile has to wait.
const moment = 10 * time.Millisecond

// An output keeps the end of what a program writes to w.
type output struct {
	tail   proc.Tail
	r, w   *os.File
	polled func() *os.File // takes the place of r
	read   chan struct{}   // closed when all is read

	patience time.Duration // with children that hold the pipe
}

func newOutput(patience time.Duration) (*output, error) {
	r, w, err := proc.Pipe()
	polled := sync.OnceValue(func() *os.File { return proc.Polled(r) })
	return &output{r: r, w: w, polled: polled, read: make(chan struct{}), patience: patience}, err
}

// begin is called when the program has been started. The timer starts to read.
func begin(stdout, stderr *output) *time.Timer {
	stdout.w.Close()
	stderr.w.Close()
	return time.AfterFunc(moment, func() {
		go stdout.copy()
		stderr.copy()
	})
}

func (o *output) copy() {
	defer close(o.read)
	for buf := make([]byte, proc.TailSize); ; {
		n, err := o.polled().Read(buf)
		o.tail.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// end is called when the program has ended. For children that hold the pipe it waits no
// longer than it takes to read what is there if they go on, which they may, lest they die
// of it.
func (o *output) end(unread bool) {
	if unread && proc.Drain(o.r, &o.tail) {
		o.r.Close()
		return
	}
	o.polled().SetReadDeadline(time.Now().Add(o.patience))
	if unread {
		o.copy()
	}
	<-o.read
	go o.discard()
}

// discard reads what children still write.
func (o *output) discard() {
	o.polled().SetReadDeadline(time.Time{})
	io.Copy(io.Discard, o.polled())
	o.polled().Close()
}
