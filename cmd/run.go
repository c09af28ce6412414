package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/logging"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

func newRun(g *globalOptions) *cobra.Command {
	c := &cobra.Command{
		Use:         "run",
		Short:       "Run the schedule as a daemon",
		Annotations: map[string]string{"0": "stopped, with every outcome written", "1": "could not do it, or could not write every outcome before it ended"},
		RunE:        func(c *cobra.Command, _ []string) error { return runRun(c.Context(), g) },
	}
	c.Flags().StringVar(&g.listen, "listen", "", listenUsage)
	c.Flags().BoolVar(&g.replace, "replace", false, replaceUsage+", once that ends")
	return c
}

func runRun(ctx context.Context, g *globalOptions) error {
	cfg, err := g.loadAny()
	if err != nil {
		return err
	}
	if sourceOf(cfg) != nil {
		if g.listen != "" {
			return usagef("--listen: a source has no records to show; the broker's own page has its queues")
		}
		return runSource(ctx, g, cfg)
	}
	ctx, stop := stopAtEnd(ctx)
	defer stop()
	surviveReaders()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer func() {
		signal.Stop(hup)
		close(hup) // ends the goroutine that listens
	}()
	log := newLog(cfg.Log, g.err)
	state := stateOf(cfg, log)
	pages := g.newServer(cfg, state, log, nil)
	pages.SetDaemon(nil, false)
	pages.ObserveEvents()
	defer pages.Close()
	if err := pages.Listen(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, pages.SetStopping)()
	a, waited, err := whenThere(ctx, log, "database", 0, func() (*setup, error) {
		return g.wireServer(ctx, cfg, log, nil)
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		log.Info("stopped")
		return nil
	}
	if err != nil {
		return err
	}
	if err := g.lookAtState(state, cfg, time.Now()); err != nil {
		a.close()
		return err
	}
	a.introduce(slog.LevelInfo, slog.LevelWarn)
	history := a.newHistory(state, pages.Picture)
	var unwritten atomic.Int64 // outcomes, once the stop has begun
	p := &process{
		g: g, log: log, state: state, history: history, pages: pages,
		paused: state.PausedBy(time.Now, log),
		observe: logging.ShowPasses(g.err, a.table.Count, func(ev backlog.Event) {
			if ev.Kind == backlog.Unwritten && ctx.Err() != nil {
				unwritten.Add(1)
			}
			history.Observe(ev)
			pages.Observe(ev)
		}),
	}
	p.daemon = p.newDaemon(waited && !a.onFile())
	p.followSchedule()
	err = errors.Join(p.run(ctx, hup), p.setup().dispatching((*dispatch).Err))
	history.end()
	pages.Pings.Close(hardOf(ctx))
	a.db.Close()
	if n := unwritten.Load(); err == nil && n > 0 {
		err = fmt.Errorf("outcomes that could not be written before the end: %d; their records will be handled again; the log names them", n)
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// wireServer is wireApp with a look at what its owner, who is there when a daemon
// starts, had better know at once.
func (g *globalOptions) wireServer(ctx context.Context, cfg *config.Config, log *slog.Logger, db *table.DB) (*setup, error) {
	a, err := g.wireApp(ctx, cfg, log, time.Now(), db)
	if err != nil {
		return nil, err
	}
	if err = a.db.CheckRights(ctx); err == nil {
		err = a.dispatching(func(d *dispatch) error { return d.Ready(ctx) }) // what no time heals
	}
	if err == nil {
		a.samples, err = doctor.Samples(ctx, a.table, time.Now())
	}
	if err != nil {
		a.close()
		return nil, err
	}
	if ahead, err := a.db.Skew(ctx, time.Now); err == nil && ahead.Abs() > mostSkew {
		a.log.Warn("the clocks differ", "how", doctor.Apart(ahead)) // records are older or younger than they seem
	}
	a.missIndexes(ctx)
	return a, nil
}

// missIndexes warns of what check finds by the plans: in a table that grows,
// pages take longer and longer without an index, until they take too long.
func (a *setup) missIndexes(ctx context.Context) {
	plans, err := doctor.Plans(ctx, a.table, a.table.Readings(time.Now()))
	if err != nil {
		a.log.Debug("the plans cannot be looked at", "error", err)
		return
	}
	var bad, create []string
	for _, p := range plans {
		if p.Problem != "" && !slices.Contains(create, p.Hint) {
			bad, create = append(bad, p.What+": "+p.Problem), append(create, p.Hint)
		}
	}
	if len(create) > 0 {
		a.log.Warn("an index is missing; `backlog init` creates it", "why", strings.Join(bad, "; "), "create", strings.Join(create, "; "))
	}
}

// notify tells systemd, if that is who started us.
func notify(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Debug("systemd cannot be notified", "error", err)
	}
}

// keepWatchdog tells systemd while we are alive, until ctx is done, where a
// watchdog is set. A loop that hangs is to be restarted.
func keepWatchdog(ctx context.Context, log *slog.Logger, alive func() bool) {
	every, err := systemd.SdWatchdogEnabled(false)
	for err == nil && every > 0 && backlog.Sleep(ctx, every/2) {
		if alive() {
			notify(log, systemd.SdNotifyWatchdog)
		}
	}
}

// rewire builds the setup anew over the database of the old one. What the locks
// and the state belong to cannot change under a running daemon.
func (g *globalOptions) rewire(ctx context.Context, old *setup, log *slog.Logger) (*setup, error) {
	cfg, err := g.load()
	if err != nil {
		return nil, err
	}
	was := old.cfg
	for _, x := range []struct {
		key     string
		changed bool
	}{
		{"database", cfg.Database != was.Database},
		{"name", cfg.Name != was.Name},
		{"table", cfg.Table.Schema != was.Table.Schema || cfg.Table.Name != was.Table.Name},
		{"state", cfg.State != was.State},
		{"log", cfg.Log != was.Log},
		{"web.listen", listens(cfg) != "" && listens(cfg) != listens(was)},
		{"metrics.listen", scrapedAt(cfg) != scrapedAt(was)},
	} {
		if x.changed {
			return nil, fmt.Errorf("%s has changed; another database, table, state, log or address needs a restart", x.key)
		}
	}
	if at, err := g.checkPages(cfg); at != "" && err != nil {
		return nil, err
	}
	return g.wireServer(ctx, cfg, log, old.db)
}
