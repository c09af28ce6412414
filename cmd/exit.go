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
func onTermOrHangup(parent context.Context) (ctx context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return onTermSignal(parent)
	}
	return onTermSignal(parent, syscall.SIGHUP)
}

// onTermSignal returns a context that is done at the first SIGINT, SIGTERM or other given signal,
// and for which hardOf reports the SIGINT or SIGTERM after it. stop ends the handling of signals.
// Registering for signals takes several switches between threads; hardOf waits until it is done.
func onTermSignal(parent context.Context, others ...os.Signal) (ctx context.Context, stop func()) {
	h, done := hearing{make(chan struct{}), make(chan struct{})}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithValue(parent, hearingKey{}, h))
	go func() {
		defer cancel()
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, append(others, os.Interrupt, syscall.SIGTERM)...)
		defer signal.Stop(signals)
		close(h.begun)
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		for sig := os.Signal(syscall.SIGHUP); sig == syscall.SIGHUP; { // that comes twice: from the shell and from the terminal
			select {
			case sig = <-signals:
			case <-done:
				return
			}
		}
		close(h.hard)
		select {
		case <-time.After(hardEnd):
			os.Exit(exitFailed)
		case <-done:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(done) })
}

// A hearing says when signals are heard, and tells the one after the first.
type hearing struct{ begun, hard chan struct{} }

type hearingKey struct{}

// hardOf returns the channel that is closed by another signal after the one that
// ends ctx; nil: there is none. From then on signals are heard.
func hardOf(ctx context.Context) <-chan struct{} {
	h, ok := ctx.Value(hearingKey{}).(hearing)
	if ok {
		<-h.begun
	}
	return h.hard
}

// ignoreSIGPIPE turns a closed pipe at standard output or error into a failed write. By default it
// would end the program and leave outcomes unwritten. The signal is caught, not ignored, because
// the programs of handlers would inherit that. The channel is never read; more signals are dropped.
func ignoreSIGPIPE() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// logStopping logs why the program does not exit at once.
func (a *setup) logStopping() {
	a.log.Info("stopping: no record is handed out any more, running handlers may finish", "for", a.cfg.ShutdownTimeout.String())
}
