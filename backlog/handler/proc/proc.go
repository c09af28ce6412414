// Package proc starts the programs of handlers, each in a process group of its
// own, and ends them with all that they have started.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"backlog/backlog"
)

// waitDelay is how long the output of a program that has ended is waited for
// where a child of it holds the pipe.
const waitDelay = time.Second

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
	path, err := p.find()
	if err != nil {
		return nil, backlog.Unstarted(err)
	}
	for pause := time.Millisecond; ; pause *= 2 {
		cmd := &exec.Cmd{
			Path: path, Args: p.Command, Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr,
			SysProcAttr: ownGroup, WaitDelay: waitDelay,
		}
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
		err = fmt.Errorf("%w: a script must begin with a line such as #!/bin/sh", err)
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
	terminateGroup(pid)
	over := time.After(grace)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for exited != nil || groupExists(pid) {
		select {
		case <-exited:
			exited = nil
		case <-poll.C:
		case <-over:
			killGroup(pid)
			return
		case <-killed:
			killGroup(pid)
			return
		}
	}
}

// InWords says how a program ended: "exit status 3", "killed by signal: killed".
func InWords(state *os.ProcessState) string {
	if state.Exited() {
		return state.String()
	}
	return "killed by " + state.String()
}
