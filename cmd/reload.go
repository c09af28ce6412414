package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/tiers"
)

const refused = "reload refused, the old configuration stays: "

// Signals to reload are one when they come so close together: after a quiet
// second, at the latest ten seconds after the first.
const (
	hupQuiet = time.Second
	hupMost  = 10 * time.Second
)

// reloads reloads the configuration at signals, until ctx is done.
func (d *server) reloads(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-hup:
		case <-ctx.Done():
			return
		}
		latest := time.After(hupMost)
		for quiet := false; !quiet; {
			quiet = true
			select {
			case <-hup:
				quiet = false
			case <-time.After(hupQuiet):
			case <-latest:
			case <-ctx.Done():
			}
		}
		if ctx.Err() == nil {
			d.reload(ctx)
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
		d.log.Error(refused + err.Error())
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

// A starting is a daemon that has not been wired yet.
type starting struct {
	g   *globals
	cfg *config.Config
	log *slog.Logger
	hup <-chan os.Signal
}

// wire wires the app. After a signal to reload it reads the configuration again.
// As nothing is led yet, all of it may have changed. One by which the database is
// away cannot be told from a good one, and is waited for.
func (s *starting) wire(ctx context.Context) (a *app, err error) {
	select {
	case <-s.hup:
	default:
		return s.g.wireServer(ctx, s.cfg, s.log, nil)
	}
	cfg, err := s.g.load()
	if err == nil {
		a, err = s.g.wireServer(ctx, cfg, newLog(cfg.Log, s.g.err), nil)
	}
	switch away := errors.Is(err, backlog.ErrUnavailable); {
	case err == nil, away:
		s.cfg, s.log = cfg, newLog(cfg.Log, s.g.err)
		s.log.Info("configuration reloaded", "tiers", len(cfg.Tiers.Tiers()))
		if away {
			s.log.Warn("the database is still away", "error", err)
		}
		return a, err
	case ctx.Err() == nil:
		s.log.Error(refused + err.Error())
	}
	return s.g.wireServer(ctx, s.cfg, s.log, nil)
}
