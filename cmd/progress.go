package cmd

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"backlog/backlog"
	"backlog/backlog/table"
)

// newProgress shows the progress of a pass on a terminal, and passes every
// event on. done removes the bar. To anything but a terminal it shows nothing.
func newProgress(ctx context.Context, w io.Writer, t *table.Table, p backlog.Pass, next func(backlog.Event)) (observe func(backlog.Event), done func()) {
	if !isTerminal(w) {
		return next, func() {}
	}
	total := -1 // not known: the bar spins
	cctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if c, err := t.Count(cctx, p.Now, []time.Duration{p.MaxAge}); err == nil {
		total = c.Bands[0].Fresh + c.Bands[0].Failed
	}
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(p.Tier),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("records"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	observe = func(ev backlog.Event) {
		if ev.Kind == backlog.AttemptEnded {
			bar.Add(1)
		} else if ev.Kind != backlog.PassStarted && ev.Kind != backlog.PassEnded {
			bar.Clear()
		}
		next(ev)
	}
	return observe, func() { bar.Finish() }
}
