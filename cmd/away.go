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

// whenThere wires the app, trying again while the database is away: for as long
// as patience says, for ever if that is 0, or until ctx is done. A table or a
// configuration that is wrong is not waited for.
func whenThere(ctx context.Context, log *slog.Logger, patience time.Duration, wire func() (*app, error)) (*app, error) {
	for began, waiting := time.Now(), false; ; {
		a, err := wire()
		switch {
		case err == nil && waiting:
			log.Info("the database is back", "after", time.Since(began).Round(time.Millisecond).String())
			notify(log, "STATUS=")
			return a, nil
		case !errors.Is(err, backlog.ErrUnavailable) || patience > 0 && time.Since(began) >= patience:
			return a, err
		case !waiting && ctx.Err() == nil:
			waiting = true
			log.Warn("waiting for the database", "error", err)
		}
		// Systemd would take a start that lasts for one that hangs.
		notify(log, "STATUS=waiting for the database\nEXTEND_TIMEOUT_USEC=120000000")
		if !sleep(ctx, awayPause) {
			if !isEnd(err) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return nil, err
		}
	}
}
