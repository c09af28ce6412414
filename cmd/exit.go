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

// exitHelp returns what ends the help of a command: its statuses, which its
// annotations tell where they differ from those of every command.
func exitHelp(c *cobra.Command) string {
	text := "\nEXIT STATUS\n"
	for _, x := range [][2]string{{"0", "done"}, {"1", "could not do it"}, {"2", "wrong usage or configuration"}, {"3"}, {"75"}} {
		if means := cmp.Or(c.Annotations[x[0]], x[1]); means != "" {
			text += fmt.Sprintf("  %-3s %s\n", x[0], means)
		}
	}
	return text
}

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// quietError is an error that has been logged and is not printed again.
type quietError struct{ error }

func (e quietError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errStrict is the error of --strict: some record failed. What a --fail-if flag asks for wraps it.
var errStrict = errors.New("some records failed")

// exitStatus maps an error to the status of the process.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, new(usageError)), errors.As(err, new(*reader.Invalid)),
		errors.As(err, new(*table.KeyError)), errors.As(err, new(*urlError)):
		return exitUsage // an ID is an argument, and so may be the database's URL
	case errors.Is(err, errStrict):
		return exitStrict
	case errors.Is(err, backlog.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

// complain prints the error as the last thing the program says.
func complain(w io.Writer, err error) {
	prefix := "backlog: "
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(w, prefix+inspect.Escaped(line))
		prefix = "  "
	}
}

// hardEnd is when the program ends after the second signal, whatever it still waits
// for.
const hardEnd = 1900 * time.Millisecond

// stopOnSignal returns a context that ends at the first SIGINT, SIGTERM or
// SIGHUP, as it comes when a terminal or a connection is closed; not at a SIGHUP
// that whoever started the program wants to be ignored, as nohup does.
func stopOnSignal(parent context.Context) (ctx context.Context, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return stopAtEnd(parent)
	}
	return stopAtEnd(parent, syscall.SIGHUP)
}

// stopAtEnd returns a context that ends at the first SIGINT, SIGTERM or signal of
// the others, and of which hardOf tells the next SIGINT or SIGTERM. stop ends that.
// To be told of signals takes several switches between threads: hardOf waits for them.
func stopAtEnd(parent context.Context, others ...os.Signal) (ctx context.Context, stop func()) {
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

// surviveReaders makes the end of whoever reads our log or report an error of
// the write, where it would end the program and leave outcomes unwritten. A
// signal that is ignored would be ignored by handlers too; this one nobody waits
// for, and what the channel does not hold is dropped.
func surviveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// sayStopping tells whoever stopped the program why it does not end at once.
func (a *setup) sayStopping() {
	a.log.Info("stopping: no record is handed out any more, running handlers may finish", "for", a.cfg.ShutdownTimeout.String())
}
