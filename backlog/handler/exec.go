// Package handler holds the ways in which a record can be handled. [Exec]
// runs one program per record.
package handler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

// The exit statuses, of sysexits.h, with a meaning of their own unless
// configured otherwise, and the default of [Exec.Grace].
const (
	exitReject   = 65 // EX_DATAERR
	exitSkip     = 75 // EX_TEMPFAIL
	defaultGrace = 5 * time.Second
)

// Exec runs one program per record, never through a shell.
//
// The program reads the record's columns from its standard input, as the JSON
// object of [backlog.Record.ColumnsJSON] and a newline; it need not. Its
// environment is that of this process at the first call and
//
//	BACKLOG_ID          the key; a composite one is a JSON array
//	BACKLOG_STATUS      the status that was read
//	BACKLOG_INSERTED    RFC 3339 in UTC; empty if the record has no date
//	BACKLOG_ATTEMPT_ID  unique to this attempt
//	BACKLOG_TIER        the tier or max age whose pass took the record
//
// and, where it is told of a dead record ([backlog.Engine.OnDead]),
//
//	BACKLOG_REASON      why it is dead: rejected, out of retries or expired
//	BACKLOG_ERROR       the text of its last error, about 2 KiB at most; may be empty
//
// What it writes to standard output is discarded. The end of what it writes
// to standard error is the text of the error if it fails.
//
// The program runs in a process group of its own. When the context of the
// attempt is done, the whole group is told to end (SIGTERM), and whoever is
// left of it after Grace is killed. A program that exits by itself may leave
// children behind: they are neither waited for nor ended. They should redirect
// their standard error, since nobody reads it any more.
//
// Methods may be called concurrently. An Exec must not be copied or changed
// after the first call.
type Exec struct {
	// Command is the program and its arguments. A program without a slash
	// is looked up in PATH, once; one with a slash is relative to the
	// working directory.
	Command []string

	Reject []int // exit statuses that reject the record; nil: 65
	Skip   []int // exit statuses that skip it; nil: 75

	// Grace is the time between SIGTERM and SIGKILL. 0 means 5 seconds, a
	// negative one none.
	Grace time.Duration

	found atomic.Pointer[program] // nil until it is found, and when it is lost
}

// Handle runs the program for r and returns when it has ended: at most Grace,
// and a moment, after ctx is done.
//
// What the program did decides, also when ctx ended meanwhile: exit status 0
// is a success, one of Reject a [backlog.Reject], one of Skip an error that
// wraps [backlog.Skip]. A program that cannot be started is [backlog.Unstarted].
// Everything else is an error: another status, death by a signal. Its text is the end of the
// program's standard error, valid UTF-8 of at most about 2 KiB, or else says
// how it ended: "exit status 3". If it failed after ctx had ended it, the text
// begins with that of context.Cause(ctx), which the error then wraps.
//
// Errors of a program that ran wrap an [*exec.ExitError].
func (e *Exec) Handle(ctx context.Context, r *backlog.Record) error {
	p, env, input, err := e.prepare(ctx, r)
	if err != nil {
		return err
	}
	c, err := p.start(ctx, e.Command, env, input)
	if err != nil {
		return e.cannotStart(ctx, p, err)
	}
	state, cut, err := c.wait(ctx, e.grace())
	if err != nil {
		return fmt.Errorf("%s: %w", e.Command[0], err)
	}
	return e.outcome(ctx, state, cut, c.tail.String())
}

// prepare returns the program, and the environment and the input that it is
// given for r.
func (e *Exec) prepare(ctx context.Context, r *backlog.Record) (p *program, env []string, input []byte, err error) {
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	if p, err = e.program(); err != nil {
		return nil, nil, nil, backlog.Unstarted(err)
	}
	if env, err = p.environ(r); err != nil {
		return nil, nil, nil, err
	}
	if input, err = r.ColumnsJSON(); err != nil {
		return nil, nil, nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
	}
	return p, env, append(input, '\n'), nil
}

func (e *Exec) grace() time.Duration {
	if e.Grace == 0 {
		return defaultGrace
	}
	return e.Grace
}

// program returns the program, found at the first call. What was not found
// is looked for again: it may have been installed meanwhile.
func (e *Exec) program() (*program, error) {
	if p := e.found.Load(); p != nil {
		return p, nil
	}
	path, err := find(e.Command)
	if err != nil {
		return nil, err
	}
	p, err := newProgram(path)
	if err != nil {
		return nil, err
	}
	if !e.found.CompareAndSwap(nil, p) { // somebody else was as quick
		p.null.Close()
		return e.program()
	}
	return p, nil
}

// cannotStart returns the error for a start that failed with err: what is
// wrong with the program, if Check can tell.
func (e *Exec) cannotStart(ctx context.Context, p *program, err error) error {
	if ctx.Err() != nil || isTooLong(err) {
		return err // the record's own arguments and environment are
	}
	e.found.CompareAndSwap(p, nil) // it may be elsewhere in PATH by now
	if wrong := e.Check(ctx); wrong != nil {
		return backlog.Unstarted(&failure{wrong.Error(), []error{wrong, err}})
	}
	if isNoProgram(err) {
		err = fmt.Errorf("%w: a script must begin with a line such as #!/bin/sh", err)
	}
	return backlog.Unstarted(err)
}

// outcome returns the error that stands for the program's end. cut says that
// the program was told to end.
func (e *Exec) outcome(ctx context.Context, state *os.ProcessState, cut bool, stderr string) error {
	if state.Success() {
		return nil
	}
	how := &exec.ExitError{ProcessState: state}
	text := stderr
	if text == "" {
		text = inWords(state)
	}
	switch status := state.ExitCode(); {
	case listed(e.Reject, exitReject, status):
		return backlog.Reject(&failure{text, []error{how}})
	case listed(e.Skip, exitSkip, status):
		return &failure{text, []error{backlog.Skip, how}}
	case cut:
		cause := context.Cause(ctx)
		text = cause.Error()
		if stderr != "" {
			text += ": " + stderr
		}
		return &failure{text, []error{cause, how}}
	}
	return &failure{text, []error{how}}
}

func listed(statuses []int, otherwise, status int) bool {
	if statuses == nil {
		return status == otherwise
	}
	return slices.Contains(statuses, status)
}

// inWords says how a program ended: "exit status 3", "killed by signal: killed".
func inWords(state *os.ProcessState) string {
	if state.Exited() {
		return state.String()
	}
	return "killed by " + state.String()
}

// A failure is an error with a text for people, and the causes that errors.Is
// and errors.As find behind it.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.causes }
