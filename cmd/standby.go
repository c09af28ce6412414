package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"backlog/backlog"
)

// standBy takes the leader lock, waiting while another daemon has it. since is
// when that one was last seen alive, zero if there was none. The lock is nil
// when ctx is done.
func (d *server) standBy(ctx context.Context) (lock backlog.Lock, since time.Time, err error) {
	alive, stopAlive := watchdog()
	defer stopAlive()
	away := false // and said so
	for {
		lock, err = d.app.table.TryLock(ctx, backlog.LeaderLock)
		switch {
		case err == nil && since.IsZero():
			return lock, since, nil
		case err == nil:
			since = d.takeOver(since)
			if d.wait(ctx, takeOverAfter, alive) {
				if err = lock.Check(ctx); err == nil {
					return lock, since, nil
				}
				d.log.Warn("the take-over has failed: the lock is lost again", "error", err)
			}
			lock.Unlock()
		case ctx.Err() != nil: // that is all there is to it
		case errors.Is(err, backlog.ErrLocked):
			if since.IsZero() {
				d.log.Info("standing by: another daemon leads")
				notify(d.log, "STATUS=standing by")
			} else if away {
				d.log.Info("the database answers again, another daemon leads")
			}
			since, away = time.Now(), false
		case !errors.Is(err, backlog.ErrAway):
			return nil, since, err
		case !away:
			away = true
			d.log.Warn("the leader lock cannot be asked for, waiting", "error", err)
		}
		if !d.wait(ctx, lockEvery, alive) {
			d.stopping()
			return nil, since, nil
		}
	}
}

// wait waits while there is no loop, and reports whether ctx was not done
// before.
func (d *server) wait(ctx context.Context, pause time.Duration, alive <-chan time.Time) bool {
	over := time.NewTimer(pause)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-d.hups():
			d.rewire(ctx)
		case r := <-d.rewired:
			d.reload(r, nil)
		case <-alive:
			notify(d.log, daemon.SdNotifyWatchdog)
		case <-over.C:
			return true
		}
	}
}

// takeOver returns from when on ticks count after another leader was last seen
// alive. If that one kept its state where we do, its last wake is exact.
func (d *server) takeOver(seen time.Time) time.Time {
	d.log.Warn("the leader is gone, taking over", "last_seen", when(seen))
	if s, err := d.state.Load(); err == nil && s.LastWake.Before(seen) && seen.Sub(s.LastWake) < time.Minute {
		return s.LastWake
	}
	return seen
}
