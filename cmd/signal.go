package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// hardEnd is when the program ends after the second signal, whatever it still waits
// for.
const hardEnd = 1900 * time.Millisecond

// A stopper turns the first of the signals it knows into the end of a context and
// another SIGINT or SIGTERM into the closing of hard.
type stopper struct {
	hard    chan struct{}
	signals chan os.Signal
	done    chan struct{}
}

// stopOnSignal returns a context that ends at the first SIGINT, SIGTERM or
// SIGHUP, as it comes when a terminal or a connection is closed; not at a SIGHUP
// that whoever started the program wants to be ignored, as nohup does.
func stopOnSignal(parent context.Context) (context.Context, *stopper) {
	if signal.Ignored(syscall.SIGHUP) {
		return stopAtEnd(parent)
	}
	return stopAtEnd(parent, syscall.SIGHUP)
}

// stopAtEnd returns a context that ends at the first SIGINT, SIGTERM or signal of
// the others.
func stopAtEnd(parent context.Context, others ...os.Signal) (context.Context, *stopper) {
	s := &stopper{make(chan struct{}), make(chan os.Signal, 2), make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(parent, hardKey{}, s.hard))
	signal.Notify(s.signals, append(others, os.Interrupt, syscall.SIGTERM)...)
	go func() {
		defer cancel()
		stopping := false
		for {
			select {
			case sig := <-s.signals:
				switch {
				case !stopping:
					stopping = true
					cancel()
				case sig != syscall.SIGHUP: // that comes twice: from the shell and from the terminal
					close(s.hard)
					select {
					case <-time.After(hardEnd):
						os.Exit(exitFailed)
					case <-s.done:
					}
					return
				}
			case <-s.done:
				return
			}
		}
	}()
	return ctx, s
}

// hardKey is the key of a stopper's hard channel in its context.
type hardKey struct{}

// hardOf returns the channel that is closed by another signal after the one that
// ends ctx; nil: there is none.
func hardOf(ctx context.Context) <-chan struct{} {
	hard, _ := ctx.Value(hardKey{}).(chan struct{})
	return hard
}

func (s *stopper) close() {
	signal.Stop(s.signals)
	close(s.done)
}

// surviveReaders makes the end of whoever reads our log or report an error of
// the write, where it would end the program and leave outcomes unwritten. A
// signal that is ignored would be ignored by handlers too; this one nobody waits
// for, and what the channel does not hold is dropped.
func surviveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// sayStopping tells whoever stopped the program why it does not end at once.
func (a *app) sayStopping() {
	a.log.Info("stopping: no record is handed out any more, running handlers may finish", "for", a.cfg.ShutdownTimeout.String())
}
