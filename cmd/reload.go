package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"backlog/backlog"
	"backlog/tiers"
)

// Signals to reload are one when they come so close together: after a quiet
// second, at the latest ten seconds after the first.
const (
	hupQuiet = time.Second
	hupMost  = 10 * time.Second
)

// reloads calls reload at signals, until ctx is done.
func reloads(ctx context.Context, hup <-chan os.Signal, reload func(context.Context)) {
	for {
		select {
		case <-hup:
		case <-ctx.Done():
			return
		}
		latest, cancel := context.WithTimeout(ctx, hupMost)
		for quiet := false; !quiet && latest.Err() == nil; {
			select {
			case <-hup:
			case <-time.After(hupQuiet):
				quiet = true
			case <-latest.Done():
			}
		}
		cancel()
		if ctx.Err() == nil {
			reload(ctx)
		}
	}
}

// reload puts an app of the configuration as it is now in the place of the old
// one, over the same database and under the same locks. If anything is wrong,
// the old one stays.
func (d *server) reload(ctx context.Context) {
	notify(d.log, daemon.SdNotifyReloading)
	defer notify(d.log, daemon.SdNotifyReady)
	a, err := d.g.rewire(ctx, d.app, d.log)
	if err != nil {
		d.log.Error("reload refused, the old configuration stays: " + err.Error())
		return
	}
	a.introduce(slog.LevelInfo)
	d.loop.Reload(func() (*tiers.Schedule, *backlog.Engine) {
		d.app.closeHandlers()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.app = a
		return a.cfg.Tiers, d.newEngine()
	})
	if ctx.Err() != nil {
		return // a stop came while handlers were waited for
	}
	d.log.Info("configuration reloaded", "tiers", len(a.cfg.Tiers.Tiers()))
}

// rewire builds the app anew over the database of the old one. What the locks
// and the state belong to cannot change under a running daemon.
func (g *globals) rewire(ctx context.Context, old *app, log *slog.Logger) (*app, error) {
	cfg, err := g.load()
	if err != nil {
		return nil, err
	}
	changed, was := "", old.cfg
	switch {
	case cfg.Database != was.Database:
		changed = "database"
	case cfg.Table.Schema != was.Table.Schema || cfg.Table.Name != was.Table.Name:
		changed = "table"
	case cfg.State != was.State:
		changed = "state"
	case cfg.Log != was.Log:
		changed = "log"
	}
	if changed != "" {
		return nil, fmt.Errorf("%s has changed; another database, table, state or log needs a restart", changed)
	}
	return g.wireServer(ctx, cfg, log, old.db)
}
