package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"

	"github.com/coreos/go-systemd/v22/daemon"

	"backlog/backlog"
	"backlog/backlog/config"
)

// A rewiring is what has come of building the app anew.
type rewiring struct {
	app *app
	err error
}

const refused = "reload refused, the old configuration stays: "

// hups returns the channel of signals to reload. One that comes during a reload
// waits for its end.
func (d *server) hups() <-chan os.Signal {
	if d.rewired != nil {
		return nil
	}
	return d.hup
}

// rewire begins a reload, which ends with what comes through d.rewired: a
// database that does not answer can take its time, and the lock is to be looked
// at meanwhile.
func (d *server) rewire(ctx context.Context) {
	notify(d.log, daemon.SdNotifyReloading)
	old, ready := d.app.cfg, make(chan rewiring, 1)
	d.rewired = ready
	go func() {
		a, err := d.g.rewire(ctx, old, d.log)
		ready <- rewiring{a, err}
	}()
}

// reload ends a reload. Whatever was wrong, the old configuration stays in
// force. loop is nil while standing by.
func (d *server) reload(r rewiring, loop *backlog.Loop) {
	d.rewired = nil
	defer notify(d.log, daemon.SdNotifyReady)
	if r.err != nil {
		d.log.Error(refused + r.err.Error())
		return
	}
	r.app.introduce(slog.LevelInfo)
	old := d.app
	d.app = r.app
	if loop != nil {
		loop.Reload(d.app.cfg.Tiers, d.newEngine())
	}
	if loop != nil || old.passes.Load() > 0 {
		d.old = append(d.old, old) // passes of its engine may still use it
	} else {
		old.close()
	}
	d.log.Info("configuration reloaded", "tiers", len(d.app.cfg.Tiers.Tiers()))
}

// rewire builds the app anew. What the locks and the state belong to cannot
// change under a running daemon.
func (g *globals) rewire(ctx context.Context, old *config.Config, log *slog.Logger) (*app, error) {
	cfg, err := g.load()
	if err != nil {
		return nil, err
	}
	if cfg.Database != old.Database || cfg.Table.Schema != old.Table.Schema || cfg.Table.Name != old.Table.Name ||
		cfg.State != old.State || !reflect.DeepEqual(cfg.Log, old.Log) {
		return nil, errors.New("another database, table, state or log needs a restart")
	}
	return g.wireServer(ctx, cfg, log)
}

// A starting is a daemon that has not been wired yet.
type starting struct {
	g   *globals
	cfg *config.Config
	log *slog.Logger
	hup <-chan os.Signal
}

// wire wires the app, by the configuration as it is now where a signal to
// reload has come.
func (s *starting) wire(ctx context.Context) (*app, error) {
	select {
	case <-s.hup:
		return s.rewire(ctx)
	default:
		return s.g.wireServer(ctx, s.cfg, s.log)
	}
}

// rewire reads the configuration again. As nothing is led yet, all of it may
// have changed. One by which the database is away cannot be told from a good
// one, and is waited for.
func (s *starting) rewire(ctx context.Context) (a *app, err error) {
	cfg, err := s.g.load()
	if err == nil {
		a, err = s.g.wireServer(ctx, cfg, newLog(cfg.Log, s.g.err))
	}
	switch away := errors.Is(err, backlog.ErrAway); {
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
	return s.g.wireServer(ctx, s.cfg, s.log)
}
