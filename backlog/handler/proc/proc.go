// Package proc runs the programs of the handlers exec and lines. Each program gets a process
// group of its own, so that it can be terminated together with the processes it has started.
// The package also explains why a program cannot be started, and keeps the end of what a
// program writes.
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

// waitDelay is how long Wait waits for the output of a program that has ended, if a child of
// it holds the pipe.
const waitDelay = time.Second

// ownGroup makes a process the leader of a new process group, whose id is the process id.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// Start starts the program in a process group of its own. The caller must then call [Wait].
// An error that is not the record's fault is [backlog.Unstarted].
//
// If the program's file is busy (ETXTBSY), Start tries again for a tenth of a second. A
// script that this process has just written is busy for a moment: a child that another
// goroutine forks at that time inherits the descriptor through which the script was written,
// and holds it until it executes its own program (https://go.dev/issue/22315).
func (p Program) Start(env []string, stdin io.Reader, stdout, stderr io.Writer) (*exec.Cmd, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		name := strings.Join(p.Command[:min(1, len(p.Command))], "") // the empty name does not start
		cmd := exec.Command(name)
		cmd.Args = p.Command
		cmd.Env = env
		cmd.Stdin = stdin
		cmd.Stdout = stdout
		cmd.Stderr = stderr
		cmd.SysProcAttr = ownGroup
		cmd.WaitDelay = waitDelay
		err := running.start(cmd)
		if err == nil {
			return cmd, nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || pause > 100*time.Millisecond {
			return nil, p.explainStart(err)
		}
		time.Sleep(pause)
	}
}

// explainStart returns the error for a start that failed with err. If Check finds what is
// wrong with the program, the error says so.
func (p Program) explainStart(err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return err // the record's fault: its columns are in the environment
	}
	if problem := p.Check(); problem != nil {
		return backlog.Unstarted(backlog.Worded(problem.Error(), problem, err))
	}
	if errors.Is(err, syscall.ENOEXEC) {
		err = fmt.Errorf("%w: %s", err, p.whyNotExecutable())
	}
	return backlog.Unstarted(err)
}

// Wait waits for the command to end; its ProcessState then says how it has ended. If ctx is
// done first, Wait terminates the whole process group as [Terminate] does, and terminated is
// true. err is nil whenever there is a ProcessState.
func Wait(ctx context.Context, killed <-chan struct{}, cmd *exec.Cmd, grace time.Duration) (terminated bool, err error) {
	exited := make(chan struct{})
	groupEnded := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		Terminate(cmd.Process.Pid, exited, grace, killed)
		close(groupEnded)
	})
	err = running.wait(cmd)
	close(exited)
	terminated = !stop()
	if terminated {
		<-groupEnded
	}
	if cmd.ProcessState != nil {
		err = nil // ProcessState says more, and it is no error that a child holds a pipe
	}
	return terminated, err
}

// Terminate sends SIGTERM to the process group pid, and SIGKILL when the grace is over or
// killed is closed. It returns when the group has no member any more, or when it has sent
// SIGKILL. It waits for the whole group and not only for its leader: a shell ends at once,
// while the program that it runs may need its time. exited is closed when the leader has been
// reaped; nil means that it has been reaped already.
//
// The kernel does not reuse a group's number while the group has a member. A signal could hit
// a stranger only if the last member ended and another group got the number within one turn
// of the loop.
func Terminate(pid int, exited <-chan struct{}, grace time.Duration, killed <-chan struct{}) {
	unix.Kill(-pid, unix.SIGTERM) // after an error there is nothing to do: the group has ended or belongs to another user
	graceOver := time.After(grace)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for exited != nil || groupHasMembers(pid) {
		select {
		case <-exited:
			exited = nil
			continue
		case <-poll.C:
			continue
		case <-graceOver:
		case <-killed:
		}
		unix.Kill(-pid, unix.SIGKILL)
		return
	}
}

// groupHasMembers reports whether the process group has members. It reaps one of them that has
// ended. The group's first process must be reaped already.
func groupHasMembers(group int) bool {
	if unix.Kill(-group, 0) == unix.ESRCH {
		return false
	}
	// Zombies count as members until their parent reaps them. That is this process if it is the
	// first one of a container, and ReapOrphans may have yet to come to them.
	unix.Wait4(-group, nil, unix.WNOHANG, nil)
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
	Kind    string   // the handler's name, with which errors begin
	Command []string // the program and its arguments
}

// Check returns why the program could not be started: it does not exist, it may not be
// executed, or the interpreter that its first line names, directly or through env, is
// missing. The error names the program and a cure. Check starts nothing.
func (p Program) Check() error {
	path, err := p.find()
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return p.errorf("%s is not a regular file; name a program", path)
	}
	head := readHead(path)
	if head == nil {
		return nil // a program need not be readable to be executable
	}
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte{'\n'})
		return p.checkInterpreter(path, string(line))
	}
	// A binary is left to the kernel, which knows the formats that it runs.
	if utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) && !bytes.ContainsFunc(head, isControl) {
		return p.errorf("%s is text that does not begin with a line such as #!/bin/sh, which says what runs it; add one, without a byte order mark", path)
	}
	return nil
}

func isControl(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// checkInterpreter returns an error if the interpreter that the first line of the script at
// path names is missing, or the program that env is to look up for it. Other arguments of env
// are not checked.
func (p Program) checkInterpreter(path, line string) error {
	if strings.HasSuffix(line, "\r") {
		return p.errorf("the lines of %s end in CR LF, so that what is asked for to run it has a name that ends in CR; save it with LF alone", path)
	}
	interpreter, arguments, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(line, "\t", " "), " "), " ")
	if _, err := os.Stat(interpreter); interpreter != "" && errors.Is(err, fs.ErrNotExist) {
		return p.errorf("the first line of %s asks for %s, which does not exist; install it or correct the line", path, interpreter)
	}
	words := strings.Fields(strings.Replace(arguments, "-S", "", 1))
	if filepath.Base(interpreter) != "env" || len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
		return nil
	}
	_, err := exec.LookPath(words[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // env does look in the working directory
		return p.errorf("the first line of %s asks env for %s, which is not in PATH; install it or correct the line", path, words[0])
	}
	return nil
}

// find returns the path of the command's program, or an error with a cure.
func (p Program) find() (string, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return "", p.errorf("the command is empty; name a program, as in [./deliver.sh, --fast]")
	}
	name := p.Command[0]
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	why := "cannot be run: " + errors.Unwrap(err).Error() + "; name a program" // without the prefix "exec:" of os/exec
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

var interpreterName = pattern.Lazily(`^(python|perl|ruby|node|php|lua|bash|dash|zsh|ksh|sh|Rscript)[0-9.]*$`)

// Notes returns warnings about a command that can be started but will probably not work: a
// program that is built for another machine, which only an emulator runs, or an interpreter
// whose script, its first argument, does not exist. If the first argument is an option,
// nothing is known about the others.
func (p Program) Notes() []string {
	if platform := foreignPlatform(p.head()); platform != "" {
		return []string{p.errorf("%s is a program for %s, which without an emulator cannot be run%s", p.Command[0], platform, installHint).Error()}
	}
	if len(p.Command) < 2 {
		return nil
	}
	name := p.Command[0]
	script := p.Command[1]
	if strings.HasPrefix(script, "-") || !interpreterName().MatchString(filepath.Base(name)) {
		return nil
	}
	if _, err := os.Stat(script); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []string{p.errorf("%s is given %s, which does not exist%s; correct the path or the working directory", name, script, folderOf(script)).Error()}
}

// folderOf returns " in " and the working directory for a relative path, "" for an absolute
// one.
func folderOf(path string) string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(path) {
		return " in " + dir
	}
	return ""
}

func (p Program) errorf(format string, args ...any) error {
	return fmt.Errorf(p.Kind+": "+format, args...)
}

// TailSize is how many bytes of a program's output are kept.
const TailSize = 2 << 10

// A Tail is a writer that keeps the end of what is written to it. It needs 2·TailSize bytes of
// memory. The zero Tail is empty.
type Tail struct {
	buf       []byte // at most 2*TailSize, since String drops white space at its end
	truncated bool   // something was dropped
}

// Write implements io.Writer. It does not fail.
func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if excess := len(t.buf) - 2*TailSize; excess > 0 {
		t.truncated = true
		t.buf = append(t.buf[:0], t.buf[excess:]...)
	}
	return len(p), nil
}

// String returns the last lines as valid UTF-8 without surrounding white space: at most
// TailSize bytes of what was written. They begin with a whole line, unless the last line is
// longer than that.
func (t *Tail) String() string {
	b := bytes.TrimSpace(t.buf)
	truncated := t.truncated
	if excess := len(b) - TailSize; excess > 0 {
		b = b[excess:]
		truncated = true
	}
	if truncated {
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

// Head returns the beginning of a text, about TailSize bytes at most, as valid UTF-8 without
// NUL: an environment variable can hold it.
func Head(text string) string {
	return clean(backlog.Beginning(text, TailSize))
}

// clean replaces what is not valid UTF-8, and U+0000, which is valid but which PostgreSQL
// refuses in a text column.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// WithTail appends the tail of a program's output to a text, unless the tail is empty.
func WithTail(text, tail string) string {
	if tail == "" {
		return text
	}
	return text + ": " + tail
}
