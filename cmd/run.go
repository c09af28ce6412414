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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/daemon"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/backlog/watch"
	"backlog/tiers"
)

func newRun(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:         "run",
		Short:       "Run the schedule as a daemon",
		Annotations: map[string]string{"0": "stopped, with every outcome written", "1": "could not do it, or not write every outcome before its end"},
		RunE:        func(c *cobra.Command, _ []string) error { return runRun(c.Context(), g) },
	}
	c.Flags().StringVar(&g.listen, "listen", "", listenUsage)
	c.Flags().BoolVar(&g.replace, "replace", false, replaceUsage+", once that ends")
	return c
}

func runRun(ctx context.Context, g *globals) error {
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
	defer signal.Stop(hup)
	log := newLog(cfg.Log, g.err)
	state := stateOf(cfg, log)
	desk := g.newDesk(cfg, state, new(watch.Picture), log)
	desk.serves(nil, false)
	desk.invite()
	defer desk.close()
	if err := desk.listen(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { desk.stopping.Store(true) })()
	away := false
	a, err := whenThere(ctx, log, "database", 0, func() (*app, error) {
		a, err := g.wireServer(ctx, cfg, log, nil)
		away = away || err != nil
		return a, err
	})
	if ctx.Err() != nil && isEnd(err) {
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
	history := a.newHistory(state, desk.picture)
	var unwritten atomic.Int64 // outcomes, once the stop has begun
	p := &process{
		g: g, log: log, state: state, history: history, desk: desk,
		paused: state.PausedBy(time.Now, log),
		observe: newProgress(g.err, a.table.Count, func(ev backlog.Event) {
			if ev.Kind == backlog.Unwritten && ctx.Err() != nil {
				unwritten.Add(1)
			}
			history.Observe(ev)
			desk.hear(ev)
		}),
	}
	p.daemon = p.newDaemon(away && !a.onFile())
	desk.follow(a)
	err = errors.Join(p.run(ctx, hup), p.app().dispatching((*dispatch).Err))
	history.end()
	desk.pings.Close(hardOf(ctx))
	a.db.Close()
	if n := unwritten.Load(); err == nil && n > 0 {
		err = fmt.Errorf("outcomes that could not be written before the end: %d; their records will be handled again; the log names them", n)
	}
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// A process is a daemon with its configuration, and with all that shows what it does.
type process struct {
	g       *globals
	log     *slog.Logger
	observe func(backlog.Event)
	paused  func() bool
	state   *checkpoint.File
	history *history
	desk    *desk
	daemon  *daemon.Daemon

	unmark              func()    // ends the mark of the state file's leader
	stopped, introduced sync.Once // it is logged
}

// app is another one after each reload, over the same database.
func (p *process) app() *app { return p.history.app.Load() }

// leads reports whether the loop runs under the leader lock.
func (p *process) leads() bool { return p.daemon.Role() == daemon.Leader }

// lastWake returns when the loop last looked at the clock.
func (p *process) lastWake() time.Time { return p.daemon.Loop.LastWake() }

// newDaemon returns the daemon of the process. It is doubtful if another one may have led until now.
func (p *process) newDaemon(doubtful bool) *daemon.Daemon {
	passes := lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return p.app().locker(true).TryLock(ctx, name)
	})
	leaders := lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return p.app().table.Locker(p.app().work).TryLock(ctx, name)
	})
	return &daemon.Daemon{
		Loop:        &backlog.Loop{Schedule: p.app().cfg.Tiers, Engine: p.newEngine(), State: p.state, Locker: passes, Observe: p.observe},
		Leaders:     leaders,
		Changed:     p.changed,
		Patient:     isDenied,
		Doubtful:    doubtful,
		Replace:     p.g.replace,
		Reconfigure: p.reload,
	}
}

// newEngine returns an engine of the present app.
func (p *process) newEngine() *backlog.Engine {
	e := p.app().engine(nil, p.observe)
	e.Paused = p.paused
	p.desk.engine.Store(e)
	return e
}

// run runs the daemon until ctx is done.
func (p *process) run(ctx context.Context, hup <-chan os.Signal) error {
	p.desk.serves(p, false)
	running, end := context.WithCancel(context.Background())
	defer end()
	go p.desk.watchStore(ctx)
	go keepWatchdog(running, p.log, func() bool { return !p.leads() || time.Since(p.lastWake()) < 2*time.Minute })
	go reloadAt(running, hup, p.daemon.Reload)
	defer context.AfterFunc(ctx, p.stopping)()
	notify(p.log, systemd.SdNotifyReady)
	err := p.daemon.Run(ctx)
	if ctx.Err() != nil {
		p.stopping()
	}
	p.app().closeHandlers()
	return p.app().lockError(err, false)
}

// reloadAt calls reload at each signal, until ctx is done.
func reloadAt(ctx context.Context, signals <-chan os.Signal, reload func()) {
	for {
		select {
		case <-signals:
			reload()
		case <-ctx.Done():
			return
		}
	}
}

// changed follows the daemon.
func (p *process) changed(c daemon.Change) {
	if c.Was == daemon.TakingOver && c.Err != nil {
		p.log.Warn("the take-over has failed: the lock is lost again", "error", c.Err)
		return
	}
	switch c.Role {
	case daemon.Unavailable:
		p.log.Warn("the leader lock cannot be asked for, waiting", "error", c.Err)
	case daemon.Standby:
		p.standBy(c)
	case daemon.TakingOver:
		p.takeOver(c.Seen)
	case daemon.Leader:
		p.lead()
	case daemon.Demoted:
		p.desk.hear(backlog.Event{Kind: backlog.LockLost, At: time.Now()})
		p.log.Error("the leader lock is lost: passes are stopped until it is taken again", "error", c.Err)
	case daemon.Waiting:
		if p.unmark != nil {
			p.endLead()
		}
	}
}

// standBy says beside whom the daemon stands by.
func (p *process) standBy(c daemon.Change) {
	if c.Rival != nil {
		p.log.Warn("standing by beside another configuration: only the leader's records are handled", "differs", strings.Join(c.Rival.Differs, ", "))
	}
	switch {
	case c.Was == daemon.Standby: // it is said again
	case c.Seen.IsZero():
		p.logStarted("standby")
		p.log.Info("standing by: another daemon leads")
		notify(p.log, "STATUS=standing by")
	default:
		p.log.Info("the database answers again, another daemon leads")
	}
}

// takeOver says why the daemon waits before it leads.
func (p *process) takeOver(seen time.Time) {
	if seen.IsZero() {
		p.log.Warn("taking the lead after a wait: another daemon may have led until now", "wait", backlog.TakeOverAfter.String())
		return
	}
	p.log.Warn("the leader is gone, taking over", "last_seen", when(seen))
}

// lead notes that the daemon leads, and goes on with what the last leader has kept.
func (p *process) lead() {
	p.logStarted("leader")
	p.history.restore(true)
	p.desk.recall()
	p.unmark = p.state.Lead()
	p.keepWork()
	p.keepDaemon(&watch.Daemon{PID: os.Getpid(), Since: inspect.Stamp(time.Now())})
	if next := inspect.Starts(p.app().cfg.Tiers, time.Now()); len(next) > 0 {
		p.log.Info("leading", "next", next[0].At.String(), "tier", next[0].Tier)
	}
	notify(p.log, "STATUS=leading")
	p.desk.serves(p, true)
}

// endLead takes back what lead has noted: all passes have ended.
func (p *process) endLead() {
	p.app().dispatching((*dispatch).Close) // what workers answer is heard by who leads now
	p.desk.serves(p, false)
	p.keepDaemon(nil)
	p.unmark()
	p.unmark = nil
}

// logStarted says once what has been started, after the first try for the lock.
func (p *process) logStarted(role string) {
	p.introduced.Do(func() {
		c := p.app().cfg
		log := p.log
		if c.Name != "" {
			log = log.With("name", c.Name)
		}
		log.Info("started", "version", version(), "config", p.g.Config, "database", shownURL(c.Database), "table", c.Table.Name,
			"handler", c.Handler.Kind, "tiers", strings.Join(tierNames(c.Tiers), " "), "policy", c.Policy.Name, "role", role)
	})
}

// keepDaemon notes who leads, for status and pause.
func (p *process) keepDaemon(who *watch.Daemon) {
	p.history.keep(p.state.Change(func(s *checkpoint.State) { s.Daemon = who }))
}

// stopping says once that the end has begun.
func (p *process) stopping() {
	p.stopped.Do(func() {
		notify(p.log, systemd.SdNotifyStopping)
		p.app().sayStopping()
	})
}

// sleep reports whether ctx was not done before the pause was over.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// wireServer is wireApp with a look at what its owner, who is there when a daemon
// starts, had better know at once.
func (g *globals) wireServer(ctx context.Context, cfg *config.Config, log *slog.Logger, db *table.DB) (*app, error) {
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
		a.log.Warn("the clocks differ", "how", apart(ahead)) // records are older or younger than they seem
	}
	a.missIndexes(ctx)
	return a, nil
}

// missIndexes warns of what check finds by the plans: in a table that grows,
// pages take longer and longer without an index, until they take too long.
func (a *app) missIndexes(ctx context.Context) {
	plans, err := doctor.Plans(ctx, a.table, a.table.Readings(time.Now()))
	if err != nil {
		a.log.Debug("the plans cannot be looked at", "error", err)
		return
	}
	var bad, create []string
	for _, p := range plans {
		if p.Bad != "" && !slices.Contains(create, p.Hint) {
			bad, create = append(bad, p.What+": "+p.Bad), append(create, p.Hint)
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
	for err == nil && every > 0 && sleep(ctx, every/2) {
		if alive() {
			notify(log, systemd.SdNotifyWatchdog)
		}
	}
}

// reload puts an app of the configuration as it is now in the place of the old
// one, over the same database and under the same locks. If anything is wrong,
// the old one stays.
func (p *process) reload(ctx context.Context) {
	notify(p.log, systemd.SdNotifyReloading)
	defer notify(p.log, systemd.SdNotifyReady)
	a, err := p.g.rewire(ctx, p.app(), p.log)
	if err != nil {
		p.desk.metrics.Reloaded(false)
		p.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	a.introduce(slog.LevelInfo, slog.LevelWarn)
	p.daemon.Swap(func() (*tiers.Schedule, *backlog.Engine) {
		p.app().closeHandlers()
		p.history.app.Store(a)
		p.desk.follow(a)
		return a.cfg.Tiers, p.newEngine()
	})
	if ctx.Err() != nil {
		return // a stop came while handlers were waited for
	}
	if err := p.desk.reload(a.cfg); err != nil {
		p.log.Error("the pages keep their old configuration", "error", err)
	}
	p.remark(ctx)
	p.desk.metrics.Reloaded(true)
	p.log.Info("configuration reloaded", "tiers", len(a.cfg.Tiers.Tiers()))
}

// rewire builds the app anew over the database of the old one. What the locks
// and the state belong to cannot change under a running daemon.
func (g *globals) rewire(ctx context.Context, old *app, log *slog.Logger) (*app, error) {
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
