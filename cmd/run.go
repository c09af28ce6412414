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

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// lockEvery is how often a standby looks whether there is still a leader.
const lockEvery = 2 * time.Second

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
	obs := a.newChronicle(state, desk.picture)
	var unwritten atomic.Int64 // outcomes, once the stop has begun
	d := &server{
		paused: state.PausedBy(time.Now, log),
		g:      g, log: log, state: state, chronicle: obs, desk: desk,
		observe: newProgress(g.err, a.table.Count, func(ev backlog.Event) {
			if ev.Kind == backlog.Unwritten && ctx.Err() != nil {
				unwritten.Add(1)
			}
			obs.Observe(ev)
			desk.hear(ev)
		}),
	}
	d.leader.Locker = lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return d.app().table.Locker(d.app().work).TryLock(ctx, name)
	})
	if away && !a.onFile() {
		d.leader.Doubt() // another daemon may have led until now
	}
	desk.follow(a)
	err = errors.Join(d.serve(ctx, hup), d.app().dispatching((*dispatch).Err))
	obs.end()
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

// A server is the daemon: it leads, or waits until it can.
type server struct {
	g         *globals
	log       *slog.Logger
	observe   func(backlog.Event)
	paused    func() bool
	state     *checkpoint.File
	chronicle *chronicle
	desk      *desk
	loop      *backlog.Loop
	leader    backlog.Claim // of the leader lock

	leads               atomic.Bool                  // the loop runs under the leader lock
	lock                atomic.Pointer[backlog.Lock] // that lock
	stopped, introduced sync.Once                    // it is logged
	beside              beside
}

// app is another one after each reload, over the same database.
func (d *server) app() *app { return d.chronicle.app.Load() }

// serve leads whenever it can, until ctx is done.
func (d *server) serve(ctx context.Context, hup <-chan os.Signal) error {
	locker := lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return d.app().locker(true).TryLock(ctx, name)
	})
	d.loop = &backlog.Loop{Schedule: d.app().cfg.Tiers, Engine: d.newEngine(), State: d.state, Locker: locker, Observe: d.told}
	d.desk.serves(d, false)
	over, end := context.WithCancel(context.Background())
	defer end()
	go d.desk.watchStore(ctx)
	go keepWatchdog(over, d.log, func() bool { return !d.leads.Load() || time.Since(d.loop.LastWake()) < 2*time.Minute })
	rctx, endReloads := context.WithCancel(ctx)
	defer endReloads()
	var reloading sync.WaitGroup
	reloading.Go(func() { reloads(rctx, hup, d.reload) })
	defer context.AfterFunc(ctx, d.stopping)()
	notify(d.log, daemon.SdNotifyReady)
	var err error
	for err == nil && ctx.Err() == nil {
		err = d.lead(ctx)
	}
	endReloads()
	reloading.Wait()
	if ctx.Err() != nil {
		d.stopping()
	}
	fctx, cancel := context.WithTimeout(over, d.app().cfg.ShutdownTimeout)
	defer cancel()
	d.loop.Engine.Flush(fctx) // what is left of a time when the lock was lost
	d.app().closeHandlers()
	return err
}

// lead waits for the leader lock, then runs the loop until ctx is done or the
// lock is lost.
func (d *server) lead(ctx context.Context) error {
	lock, since, err := d.standBy(ctx)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	held, release := backlog.WhileHeld(ctx, lock, time.Now, func(err error) {
		d.leads.Store(false)
		d.desk.hear(backlog.Event{Kind: backlog.LockLost, At: time.Now()})
		d.log.Error("the leader lock is lost: passes are stopped until it is taken again", "error", err)
	})
	defer d.leader.Doubt() // if this is no stop, the lock is lost
	defer release()
	d.lock.Store(&lock)
	d.loop.Since = since
	d.sayStarted("leader")
	d.chronicle.restore(true)
	d.desk.recall()
	defer d.state.Lead()()
	d.beside.agreed = true
	d.keepWork()
	d.keepDaemon(&watch.Daemon{PID: os.Getpid(), Since: inspect.Stamp(time.Now())})
	defer d.keepDaemon(nil)
	if next := inspect.Starts(d.app().cfg.Tiers, time.Now()); len(next) > 0 {
		d.log.Info("leading", "next", next[0].At.String(), "tier", next[0].Tier)
	}
	notify(d.log, "STATUS=leading")
	d.leads.Store(true)
	defer d.leads.Store(false)
	d.desk.serves(d, true)
	defer d.desk.serves(d, false)
	err = d.loop.Run(held)
	d.app().dispatching((*dispatch).Close) // what workers answer is heard by who leads now
	return err
}

// sayStarted says once what has been started, after the first try for the lock.
func (d *server) sayStarted(role string) {
	d.introduced.Do(func() {
		c := d.app().cfg
		log := d.log
		if c.Name != "" {
			log = log.With("name", c.Name)
		}
		log.Info("started", "version", version(), "config", d.g.Config, "database", shownURL(c.Database), "table", c.Table.Name,
			"handler", c.Handler.Kind, "tiers", strings.Join(tierNames(c.Tiers), " "), "policy", c.Policy.Name, "role", role)
	})
}

// keepDaemon notes who leads, for status and pause.
func (d *server) keepDaemon(who *watch.Daemon) {
	d.chronicle.keep(d.state.Change(func(s *checkpoint.State) { s.Daemon = who }))
}

// told observes the loop. What takes one lock takes both, which is logged once.
func (d *server) told(ev backlog.Event) {
	if ev.Kind == backlog.LockLost && (*d.lock.Load()).Check(context.Background()) != nil {
		return
	}
	d.observe(ev)
}

// newEngine returns an engine of the present app.
func (d *server) newEngine() *backlog.Engine {
	e := d.app().engine(nil, d.observe)
	e.Paused = d.paused
	d.desk.engine.Store(e)
	return e
}

// stopping says once that the end has begun.
func (d *server) stopping() {
	d.stopped.Do(func() {
		notify(d.log, daemon.SdNotifyStopping)
		d.app().sayStopping()
	})
}

// standBy takes the leader lock, waiting while another daemon has it or may have
// handlers yet. since is when that one was last seen alive, zero if there was none.
// The lock is nil when ctx is done.
func (d *server) standBy(ctx context.Context) (lock backlog.Lock, since time.Time, err error) {
	away := false // and logged
	for {
		lock, err = d.leader.TryLock(ctx, backlog.LeaderLock)
		switch {
		case err == nil:
			if since, err = d.settle(ctx, lock, since); err == nil {
				return lock, since, nil
			}
		case ctx.Err() != nil: // that is all there is to it
		case errors.Is(err, backlog.ErrLocked):
			d.leader.Doubt()
			if err := d.standBeside(err); err != nil {
				return nil, since, err
			}
			if since.IsZero() {
				d.sayStarted("standby")
				d.log.Info("standing by: another daemon leads")
				notify(d.log, "STATUS=standing by")
			} else if away {
				d.log.Info("the database answers again, another daemon leads")
			}
			since, away = time.Now(), false
		case !errors.Is(err, backlog.ErrUnavailable) && !isDenied(err):
			return nil, since, err
		case !away:
			away = true
			d.log.Warn("the leader lock cannot be asked for, waiting", "error", err)
		}
		if !sleep(ctx, lockEvery) {
			return nil, since, nil
		}
	}
}

// settle waits until the handlers of a leader are dead that may have had the lock
// until now. seen is when one was last seen alive; settle returns from when on ticks
// count. On an error the lock is given back.
func (d *server) settle(ctx context.Context, lock backlog.Lock, seen time.Time) (since time.Time, err error) {
	switch {
	case !seen.IsZero():
		seen = d.takeOver(seen)
	case d.leader.Unsure():
		d.log.Warn("taking the lead after a wait: another daemon may have led until now", "wait", backlog.TakeOverAfter.String())
	}
	err = d.leader.Settle(ctx, lock)
	if err != nil && ctx.Err() == nil {
		d.log.Warn("the take-over has failed: the lock is lost again", "error", err)
	}
	return seen, err
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

// takeOver returns from when on ticks count after another leader was last seen
// alive. If that one kept its state where we do, its last wake is exact, and the state has what
// is unfinished; else a pass of the widest tier is owed.
func (d *server) takeOver(seen time.Time) time.Time {
	d.log.Warn("the leader is gone, taking over", "last_seen", when(seen))
	s, err := d.state.Load()
	if err == nil && seen.Sub(s.LastWake).Abs() < time.Minute {
		return s.LastWake
	}
	// That one may have ended in the middle of a pass, whose tick is before it was seen.
	widest := d.app().cfg.Tiers.Widest().Name
	d.chronicle.keep(d.state.Update(func(s *backlog.Checkpoint) { s.Owe(widest) }))
	return seen
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
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Debug("systemd cannot be notified", "error", err)
	}
}

// keepWatchdog tells systemd while we are alive, until ctx is done, where a
// watchdog is set. A loop that hangs is to be restarted.
func keepWatchdog(ctx context.Context, log *slog.Logger, alive func() bool) {
	every, err := daemon.SdWatchdogEnabled(false)
	for err == nil && every > 0 && sleep(ctx, every/2) {
		if alive() {
			notify(log, daemon.SdNotifyWatchdog)
		}
	}
}

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
	a, err := d.g.rewire(ctx, d.app(), d.log)
	if err != nil {
		d.desk.metrics.Reloaded(false)
		d.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	a.introduce(slog.LevelInfo, slog.LevelWarn)
	d.loop.Reload(func() (*tiers.Schedule, *backlog.Engine) {
		d.app().closeHandlers()
		d.chronicle.app.Store(a)
		d.desk.follow(a)
		return a.cfg.Tiers, d.newEngine()
	})
	if ctx.Err() != nil {
		return // a stop came while handlers were waited for
	}
	if err := d.desk.reload(a.cfg); err != nil {
		d.log.Error("the pages keep their old configuration", "error", err)
	}
	d.remark(ctx)
	d.desk.metrics.Reloaded(true)
	d.log.Info("configuration reloaded", "tiers", len(a.cfg.Tiers.Tiers()))
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
