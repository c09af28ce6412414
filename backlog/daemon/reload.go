package daemon

import (
	"context"
	"time"
)

// Calls of Reload are one reload when they come so close together: after a quiet second, at
// the latest ten seconds after the first.
const (
	reloadQuiet = time.Second
	reloadMost  = 10 * time.Second
)

// Reload has Run call Reconfigure soon. Calls that come close together are one: it is called after a
// quiet second, at the latest ten seconds after the first of them.
func (d *Daemon) Reload() {
	select {
	case d.requests() <- struct{}{}:
	default: // one is asked for, and has not begun
	}
}

func (d *Daemon) requests() chan struct{} {
	d.asking.Do(func() { d.asked = make(chan struct{}, 1) })
	return d.asked
}

// reconfigure calls Reconfigure for each reload, until ctx is done.
func (d *Daemon) reconfigure(ctx context.Context) {
	for {
		select {
		case <-d.requests():
		case <-ctx.Done():
			return
		}
		d.awaitQuiet(ctx)
		if ctx.Err() == nil && d.Reconfigure != nil {
			d.Reconfigure(ctx)
		}
	}
}

// awaitQuiet returns when no further reload has been asked for during a second.
func (d *Daemon) awaitQuiet(ctx context.Context) {
	latest, cancel := context.WithTimeout(ctx, reloadMost)
	defer cancel()
	for latest.Err() == nil {
		select {
		case <-d.requests():
		case <-time.After(reloadQuiet):
			return
		case <-latest.Done():
		}
	}
}
