package amqp

import (
	"context"
	"time"

	"backlog/backlog"
)

const (
	// outagePause is how long Serve takes no messages after abort_after has ended a pass.
	outagePause = time.Minute
	// anyAge is the maximum age of a pass over a queue: no message is too old.
	anyAge = 100 * 365 * 24 * time.Hour
)

// PassOf returns a pass over a queue. The name stands for the tier in logs and reports.
func PassOf(name string) backlog.Pass { return backlog.Pass{Tier: name, MaxAge: anyAge} }

// Serve handles messages in passes of the engine, with name as their tier, until ctx is done
// or a pass returns an error. It closes the source, so that other consumers get the messages,
// while the engine is paused and for a minute after abort_after has ended a pass. The
// source's Log must be set.
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
