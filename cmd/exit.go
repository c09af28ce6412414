package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/reader"
	"backlog/backlog/table"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitStrict = 3
	exitLocked = 75 // EX_TEMPFAIL
)

// exitHelp returns the last part of a command's help: its exit statuses. The command's annotations
// override the common meanings or add a status.
func exitHelp(c *cobra.Command) string {
	text := "\nEXIT STATUS\n"
	for _, x := range []struct{ status, common string }{
		{"0", "done"}, {"1", "could not do it"}, {"2", "wrong usage or configuration"}, {"3", ""}, {"75", ""},
	} {
		if meaning := cmp.Or(c.Annotations[x.status], x.common); meaning != "" {
			text += fmt.Sprintf("  %-3s %s\n", x.status, meaning)
		}
	}
	return text
}

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// quietError is an error that is not printed, because it has been logged or printed already.
type quietError struct{ error }

func (e quietError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errStrict is the error of --strict. The errors of the --fail-if flags wrap it.
var errStrict = errors.New("some records failed")

// exitStatus maps an error to the status of the process.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, new(usageError)), errors.As(err, new(*reader.Invalid)),
		errors.As(err, new(*table.KeyError)), errors.As(err, new(*urlError)):
		return exitUsage // an ID is an argument, and the database's URL may be one
	case errors.Is(err, errStrict):
		return exitStrict
	case errors.Is(err, backlog.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

// printError prints the error, the last output of the program.
func printError(w io.Writer, err error) {
	prefix := "backlog: "
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(w, prefix+inspect.Escaped(line))
		prefix = "  "
	}
}

// hardEnd is how long after the second signal the program exits, whatever it still waits for.
const hardEnd = 1900 * time.Millisecond

// onTermOrHangup is [onTermSignal] for SIGHUP, too, which comes when a terminal or a connection is
// closed. A SIGHUP that the program was started to ignore, as by nohup, stays ignored.
func onTermOrHangup(parent context.Context) (context.Context, *termSignals) {
	if signal.Ignored(syscall.SIGHUP) {
		return onTermSignal(parent)
	}
	return onTermSignal(parent, syscall.SIGHUP)
}

// onTermSignal returns a context that is done at the first SIGINT, SIGTERM or other given signal.
func onTermSignal(parent context.Context, others ...os.Signal) (context.Context, *termSignals) {
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	s := &termSignals{
		registered: make(chan struct{}),
		second:     make(chan struct{}),
		stop:       sync.OnceFunc(func() { close(done) }),
	}
	go func() {
		defer cancel()
		s.wait(cancel, done, append(others, os.Interrupt, syscall.SIGTERM))
	}()
	return ctx, s
}

// termSignals are the signals that end a command. The first one has ended the command's context.
type termSignals struct {
	registered chan struct{} // closed when the program gets the signals
	second     chan struct{} // closed by the SIGINT or SIGTERM after the first signal
	stop       func()        // ends the handling of signals; may be called twice
}

// hard returns the channel that is closed by the second signal; nil: the command handles none.
// It waits until the signals are registered, which takes several switches between threads.
func (s *termSignals) hard() <-chan struct{} {
	if s == nil {
		return nil
	}
	<-s.registered
	return s.second
}

// wait calls cancel at the first of the signals and closes second at the next one. The program
// exits soon after that. wait returns when done is closed.
func (s *termSignals) wait(cancel func(), done <-chan struct{}, all []os.Signal) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, all...)
	defer signal.Stop(signals)
	close(s.registered)
	select {
	case <-signals:
		cancel()
	case <-done:
		return
	}
	// SIGHUP comes twice: from the shell and from the terminal.
	isHangup := true
	for isHangup {
		select {
		case sig := <-signals:
			isHangup = sig == syscall.SIGHUP
		case <-done:
			return
		}
	}
	close(s.second)
	select {
	case <-time.After(hardEnd):
		os.Exit(exitFailed)
	case <-done:
	}
}

// ignoreSIGPIPE turns a closed pipe at standard output or error into a failed write. By default it
// would end the program and leave outcomes unwritten. The signal is caught, not ignored, because
// the programs of handlers would inherit that. The channel is never read; more signals are dropped.
func ignoreSIGPIPE() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// logStopping logs why the program does not exit at once.
func (a *setup) logStopping() {
	a.log.Info("stopping: no more records are dispatched, running handlers may finish", "for", a.cfg.ShutdownTimeout.String())
}
