package daemon

import (
	"context"
	"time"
)

const (
	// quietPeriod is how long no further call of Reload may come before the reload starts.
	quietPeriod = time.Second
	// maxQuietWait bounds how long further calls can delay the reload.
	maxQuietWait = 10 * time.Second
)

// Reload makes Run call Reconfigure soon. Calls in quick succession are one reload: it starts after a
// second without further calls, at the latest ten seconds after the first one. Reload may be called
// concurrently, also before Run.
func (d *Daemon) Reload() {
	select {
	case d.requests() <- struct{}{}:
	default: // a reload is requested already and has not started
	}
}

// requests returns the channel of requests for a reload. The first call makes it.
func (d *Daemon) requests() chan struct{} {
	d.initOnce.Do(func() { d.reloads = make(chan struct{}, 1) })
	return d.reloads
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

// awaitQuiet returns after a second without further requests, or when that takes too long or ctx is done.
func (d *Daemon) awaitQuiet(ctx context.Context) {
	latest, cancel := context.WithTimeout(ctx, maxQuietWait)
	defer cancel()
	for latest.Err() == nil {
		select {
		case <-d.requests():
		case <-time.After(quietPeriod):
			return
		case <-latest.Done():
		}
	}
}
