package amqp

import (
	"context"
	"time"

	"backlog/backlog"
)

const (
	// outagePause is how long Serve takes no messages after abort_after has ended a pass.
	outagePause = time.Minute
	// anyAge is the age of a pass over a queue, in which no message is too old.
	anyAge = 100 * 365 * 24 * time.Hour
)

// PassOf returns a pass over a queue, which is logged under the name.
func PassOf(name string) backlog.Pass { return backlog.Pass{Tier: name, MaxAge: anyAge} }

// Serve handles messages by passes of the engine, which are called name, until ctx is done or a pass fails. It
// takes none while the engine is paused, and for a minute after abort_after has ended a pass: others may. The source's
// Log is required.
func (s *Source) Serve(ctx context.Context, e *backlog.Engine, name string) error {
	for ctx.Err() == nil {
		report, err := e.Pass(ctx, PassOf(name))
		if err != nil {
			return err
		}
		switch report.Stopped {
		case backlog.StoppedAbortAfter:
			s.Close()
			s.Log.Warn("too many failures in a row: no message is taken for a while", "for", outagePause.String())
			backlog.Sleep(ctx, outagePause)
		case backlog.StoppedPause:
			s.Close()
			for e.Paused() && ctx.Err() == nil {
				backlog.Sleep(ctx, time.Second)
			}
		}
	}
	return nil
}
