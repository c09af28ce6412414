package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"backlog/backlog"
)

const (
	// awayPatience is how long once waits for a database that is away. A
	// daemon waits until it is stopped.
	awayPatience = 2 * time.Minute
	// awayPause is between two tries. A busy database takes seconds by
	// itself to say so.
	awayPause = time.Second
)

// whenThere opens the database or the broker, trying again while that is away: for as
// long as patience says, for ever if that is 0, or until ctx is done. A table or a
// configuration that is wrong is not waited for.
func whenThere[T any](ctx context.Context, log *slog.Logger, what string, patience time.Duration, open func() (T, error)) (T, error) {
	for began, waiting := time.Now(), false; ; {
		a, err := open()
		switch {
		case err == nil && waiting:
			log.Info("the "+what+" is back", "after", time.Since(began).Round(time.Millisecond).String())
			notify(log, "STATUS=")
			return a, nil
		case !errors.Is(err, backlog.ErrUnavailable) || patience > 0 && time.Since(began) >= patience:
			return a, err
		case !waiting && ctx.Err() == nil:
			waiting = true
			log.Warn("waiting for the "+what, "error", err)
		}
		// Systemd would take a start that lasts for one that hangs.
		notify(log, "STATUS=waiting for the "+what+"\nEXTEND_TIMEOUT_USEC=120000000")
		if !sleep(ctx, awayPause) {
			if !isEnd(err) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return a, err
		}
	}
}
