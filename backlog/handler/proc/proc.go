// Package proc starts the programs of handlers, each in a process group of its
// own, and ends them with all that they have started.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"backlog/backlog"
	"backlog/backlog/pattern"
)

// waitDelay is how long the output of a program that has ended is waited for
// where a child of it holds the pipe.
const waitDelay = time.Second

// A process that is started with ownGroup is the leader of a group of its number.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// Start starts the program in a process group of its own. The caller must then
// call [Wait]. An error for which the record is not to blame is [backlog.Unstarted].
//
// Start is patient with a program that is busy. A script just written by this
// process is, for a moment: whatever another goroutine forks meanwhile inherits
// the descriptor it was written through, and has it until it executes a program of
// its own (https://go.dev/issue/22315).
func (p Program) Start(env []string, stdin io.Reader, stdout, stderr io.Writer) (*exec.Cmd, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		cmd := exec.Command(strings.Join(p.Command[:min(1, len(p.Command))], "")) // "" does not start
		cmd.Args, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Command, env, stdin, stdout, stderr
		cmd.SysProcAttr, cmd.WaitDelay = ownGroup, waitDelay
		err := cmd.Start()
		if err == nil {
			return cmd, nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || pause > 100*time.Millisecond {
			return nil, p.cannotStart(err)
		}
		time.Sleep(pause)
	}
}

// cannotStart returns the error for a start that failed with err: what is
// wrong with the program, if Check can tell.
func (p Program) cannotStart(err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return err // the record's own environment is
	}
	if wrong := p.Check(); wrong != nil {
		return backlog.Unstarted(backlog.Worded(wrong.Error(), wrong, err))
	}
	if errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("%w: %s", err, p.notExecutable())
	}
	return backlog.Unstarted(err)
}

// Wait waits for the command to end, whose ProcessState then says how. When ctx
// is done first, the whole group is told to end (SIGTERM), and who is left of it
// after the grace, or when killed is closed, is killed; cut reports that.
func Wait(ctx context.Context, killed <-chan struct{}, cmd *exec.Cmd, grace time.Duration) (cut bool, err error) {
	exited, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		End(cmd.Process.Pid, exited, grace, killed)
		close(ended)
	})
	err = cmd.Wait()
	close(exited)
	if cut = !stop(); cut {
		<-ended
	}
	if cmd.ProcessState != nil {
		err = nil // it says more, and that a child holds a pipe is no error
	}
	return cut, err
}

// End tells the group of the process pid to end and waits for its last member to
// go: a shell ends as soon as it is told to, the program that it runs may need its
// time. exited is closed when the process is reaped; nil: it is.
//
// A group keeps its number from being used again for as long as it has a member.
// A stranger could be hit only if the last one went and the number came round, as
// a group's, within one turn of the loop.
func End(pid int, exited <-chan struct{}, grace time.Duration, killed <-chan struct{}) {
	unix.Kill(-pid, unix.SIGTERM) // an error is of no use: the group is gone or belongs to another user
	over := time.After(grace)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for exited != nil || groupExists(pid) {
		select {
		case <-exited:
			exited = nil
			continue
		case <-poll.C:
			continue
		case <-over:
		case <-killed:
		}
		unix.Kill(-pid, unix.SIGKILL)
		return
	}
}

// groupExists reports whether the group of the reaped process pid has members.
func groupExists(pid int) bool {
	if unix.Kill(-pid, 0) == unix.ESRCH {
		return false
	}
	// The dead count as members until their parent reaps them, which is this
	// process if it is the first one of a container.
	unix.Wait4(-pid, nil, unix.WNOHANG, nil)
	return true
}

// InWords says how a program ended: "exit status 3", "killed by signal: killed".
func InWords(state *os.ProcessState) string {
	if state.Exited() {
		return state.String()
	}
	return "killed by " + state.String()
}

// A Program is the command of a handler.
type Program struct {
	Kind    string   // of the handler, with which errors begin
	Command []string // the program and its arguments
}

// Check reports what would keep the program from being started: that there is
// none, that it may not be executed, that the interpreter its first line asks
// for, itself or by way of env, is missing. The error names the program and the
// hint. Check starts nothing.
func (p Program) Check() error {
	path, err := p.find()
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return p.errorf("%s is not a regular file; name a program", path)
	}
	head := headOf(path)
	if head == nil {
		return nil // it may be executable all the same
	}
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte{'\n'})
		return p.checkInterpreter(path, string(line))
	}
	// Of what is no text the system knows best what it is.
	if utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) && !bytes.ContainsFunc(head, isControl) {
		return p.errorf("%s is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark", path)
	}
	return nil
}

func isControl(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// checkInterpreter returns an error if what the first line of the script at path
// asks for is missing, or what env is to find for it. What else env may be told is
// its own affair.
func (p Program) checkInterpreter(path, line string) error {
	if strings.HasSuffix(line, "\r") {
		return p.errorf("the lines of %s end in CR LF, so that what is asked for to run it has a name that ends in CR; save it with LF alone", path)
	}
	by, with, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(line, "\t", " "), " "), " ")
	if _, err := os.Stat(by); by != "" && errors.Is(err, fs.ErrNotExist) {
		return p.errorf("the first line of %s asks for %s, which does not exist; install it or correct the line", path, by)
	}
	words := strings.Fields(strings.Replace(with, "-S", "", 1))
	if filepath.Base(by) != "env" || len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil && !errors.Is(err, exec.ErrDot) { // as env sees it
		return p.errorf("the first line of %s asks env for %s, which is not in PATH; install it or correct the line", path, words[0])
	}
	return nil
}

// find returns the path of the command's program, or an error that names the
// hint.
func (p Program) find() (string, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return "", p.errorf("the command is empty; name a program, as in [./deliver.sh, --fast]")
	}
	name := p.Command[0]
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	why := "cannot be run: " + errors.Unwrap(err).Error() + "; name a program" // without exec's own "exec:"
	switch {
	case errors.Is(err, exec.ErrDot):
		why = "is found only in the working directory, through PATH; write ./" + name + " if that is meant"
	case errors.Is(err, exec.ErrNotFound):
		why = "is not in PATH; install it, or write its path, such as ./" + name
	case errors.Is(err, fs.ErrNotExist):
		why = "does not exist" + folderOf(name) + "; correct the path or the working directory"
	case errors.Is(err, fs.ErrPermission):
		why = "may not be executed by this user; run chmod +x " + name + ", or see the permissions of its directories and whether they are mounted noexec"
	}
	if strings.HasPrefix(name, "~") || strings.Contains(name, "$") {
		why += "; neither ~ nor ${…} is replaced here"
	}
	return "", backlog.Worded(p.Kind+": "+name+" "+why, err)
}

var anInterpreter = pattern.Lazily(`^(python|perl|ruby|node|php|lua|bash|dash|zsh|ksh|sh|Rscript)[0-9.]*$`)

// Notes are what a person should know about the command, though it can be run: the
// program is built for another machine, which an emulator may make up for, or an
// interpreter's first argument is a script that is not there. Behind an option anything
// may stand.
func (p Program) Notes() []string {
	c := p.Command
	if what := foreign(p.head()); what != "" {
		return []string{p.errorf("%s is a program for %s, which without an emulator cannot be run%s", c[0], what, install).Error()}
	}
	if len(c) < 2 || strings.HasPrefix(c[1], "-") || !anInterpreter().MatchString(filepath.Base(c[0])) {
		return nil
	}
	if _, err := os.Stat(c[1]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []string{p.errorf("%s is given %s, which does not exist%s; correct the path or the working directory", c[0], c[1], folderOf(c[1])).Error()}
}

// folderOf says where a path begins that is not absolute.
func folderOf(path string) string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
		return " in " + dir
	}
	return ""
}

func (p Program) errorf(format string, args ...any) error {
	return fmt.Errorf(p.Kind+": "+format, args...)
}

// TailSize is the number of bytes that are kept of what a program writes.
const TailSize = 2 << 10

// A Tail is a writer that keeps the end of what is written, in little memory.
// The zero Tail is empty.
type Tail struct {
	buf []byte // twice TailSize at most: what is kept may end in space
	cut bool   // something was dropped
}

// Write implements io.Writer. It does not fail.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 2*TailSize; over > 0 {
		t.cut = true
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the last lines as valid UTF-8 without surrounding space: at
// most TailSize bytes of what was written, beginning with a whole line unless the
// last line is longer than that.
func (t *Tail) String() string {
	b, cut := bytes.TrimSpace(t.buf), t.cut
	if extra := len(b) - TailSize; extra > 0 {
		b, cut = b[extra:], true
	}
	if cut {
		if _, lines, ok := bytes.Cut(b, []byte{'\n'}); ok {
			b = lines
		} else {
			for i := 1; i < utf8.UTFMax && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
				b = b[1:]
			}
		}
	}
	return strings.TrimSpace(clean(string(b)))
}

// Head returns the beginning of a text as a variable of the environment can
// hold it: valid UTF-8 of about TailSize bytes at most, without NUL.
func Head(text string) string {
	return clean(backlog.Beginning(text, TailSize))
}

// clean returns the text as valid UTF-8 without U+0000, which is valid but in no
// text column of PostgreSQL.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// WithTail returns a text with the tail of what the program wrote, which may be empty.
func WithTail(text, tail string) string {
	if tail == "" {
		return text
	}
	return text + ": " + tail
}
