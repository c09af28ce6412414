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
	"backlog/backlog/logging"
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
	ctx, signals := onTermSignal(ctx)
	defer signals.stop()
	g.signals = signals
	ignoreSIGPIPE()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer func() {
		signal.Stop(hup)
		close(hup) // ends the goroutine that reads it
	}()
	log := newLog(cfg.Log, g.err)
	state := stateOf(cfg, log)
	pages := g.newServer(cfg, state, log, nil)
	pages.SetDaemon(nil, false)
	pages.ObserveEvents()
	defer pages.Close()
	if err := pages.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, pages.SetStopping)()
	a, waited, err := retryOpen(ctx, log, "database", 0, func() (*setup, error) {
		return g.wireDaemon(ctx, wiring{cfg: cfg, log: log})
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		log.Info("stopped")
		return nil
	}
	if err != nil {
		return err
	}
	if err := g.checkTicks(state, cfg, time.Now()); err != nil {
		a.close()
		return err
	}
	a.logFindings(slog.LevelInfo, slog.LevelWarn)
	history := a.newHistory(state, pages.Picture)
	var unwritten atomic.Int64 // outcomes that are not written, since the stop began
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
	p.observeSchedule()
	err = errors.Join(p.run(ctx, hup), p.setup().withDispatch((*dispatch).Err))
	history.end()
	pages.Pings.Close(signals.hard())
	a.db.Close()
	if n := unwritten.Load(); err == nil && n > 0 {
		err = fmt.Errorf("outcomes that could not be written before the end: %d; their records will be handled again; the log names them", n)
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// wireDaemon is wirePass with further checks and warnings, because an operator sees the start of a daemon and
// can act on them. It sets w.now.
func (g *globalOptions) wireDaemon(ctx context.Context, w wiring) (*setup, error) {
	w.now = time.Now()
	a, err := g.wirePass(ctx, w)
	if err != nil {
		return nil, err
	}
	err = a.db.CheckRights(ctx)
	if err == nil {
		err = a.withDispatch(func(d *dispatch) error { return d.Ready(ctx) }) // problems that waiting does not solve
	}
	if err == nil {
		a.samples, err = doctor.Samples(ctx, a.table, time.Now())
	}
	if err != nil {
		a.close()
		return nil, err
	}
	if ahead, err := a.db.Skew(ctx, time.Now); err == nil && ahead.Abs() > mostSkew {
		a.log.Warn("the clocks differ", "how", doctor.Apart(ahead)) // so the ages of records are wrong
	}
	a.warnMissingIndexes(ctx)
	return a, nil
}

// warnMissingIndexes warns if the query plans show that an index is missing. Without it, pages of a
// growing table take longer and longer, until they take too long.
func (a *setup) warnMissingIndexes(ctx context.Context) {
	plans, err := doctor.QueryPlans(ctx, a.table, a.table.PassQueries(time.Now()))
	if err != nil {
		a.log.Debug("the plans cannot be looked at", "error", err)
		return
	}
	var reasons, statements []string
	for _, p := range plans {
		if p.Problem != "" && !slices.Contains(statements, p.Hint) {
			reasons = append(reasons, p.What+": "+p.Problem)
			statements = append(statements, p.Hint)
		}
	}
	if len(statements) > 0 {
		a.log.Warn("an index is missing; `backlog init` creates it", "why", strings.Join(reasons, "; "), "create", strings.Join(statements, "; "))
	}
}

// notifySystemd sends the state to systemd, if that has started the program.
func notifySystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Debug("systemd cannot be notified", "error", err)
	}
}

// keepWatchdog notifies systemd's watchdog, if there is one, as long as alive returns true and until
// ctx is done. Systemd then restarts a daemon whose loop hangs.
func keepWatchdog(ctx context.Context, log *slog.Logger, alive func() bool) {
	every, err := systemd.SdWatchdogEnabled(false)
	for err == nil && every > 0 && backlog.Sleep(ctx, every/2) {
		if alive() {
			notifySystemd(log, systemd.SdNotifyWatchdog)
		}
	}
}

// rewire makes the setup of a reload over the database of the old one. What locks and state belong to
// cannot change while the daemon runs: that is an error.
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
		{"web.listen", webAddress(cfg) != "" && webAddress(cfg) != webAddress(was)},
		{"metrics.listen", metricsAddress(cfg) != metricsAddress(was)},
	} {
		if x.changed {
			return nil, fmt.Errorf("%s has changed; another database, table, state, log or address needs a restart", x.key)
		}
	}
	if at, err := g.checkPages(cfg); at != "" && err != nil {
		return nil, err
	}
	return g.wireDaemon(ctx, wiring{cfg: cfg, log: log, db: old.db})
}
