package cmd

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
)

// lockEvery is how often a standby looks whether there is still a leader, and
// a leader whether it still holds the lock.
const lockEvery = 2 * time.Second

// takeOverAfter is how long a standby that has got the lock lets the old leader
// have for its end: it may be there and not know yet that the lock is lost.
const takeOverAfter = backlog.LockGrace + time.Second

func newRun(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the schedule as a daemon",
		Long: `Run starts the passes of the schedule as their tiers tick, until it is stopped.

One daemon leads for a table; a second one stands by and takes over within
seconds. Ticks missed while none ran are made up for by one pass. While the
database is away, at the start or later, it waits. At the start it warns of an
index that is missing.

SIGTERM or SIGINT: select nothing more, let running handlers finish for
shutdown_timeout, settle, exit. A second one: end the handlers at once.
SIGHUP: read the configuration again; one that is wrong is refused and the old
one stays. Passes under way hand out nothing more: what is left is taken up with
the new one when their handlers have ended. Another database, table, state or log
needs a restart, but for a daemon that still waits for its first database. As a service of systemd, in /etc/systemd/system/backlog.service:

    [Unit]
    Description=Work off the backlog
    After=network-online.target

    [Service]
    Type=notify
    ExecStart=/usr/local/bin/backlog run
    ExecReload=kill -HUP $MAINPID
    WorkingDirectory=/path/to/it
    StateDirectory=backlog
    WatchdogSec=60
    TimeoutStopSec=60
    Restart=on-failure

    [Install]
    WantedBy=multi-user.target

TimeoutStopSec is to be longer than shutdown_timeout. Then: systemctl
daemon-reload, systemctl enable backlog, systemctl start backlog.` + exitStatusHelp,
		Args: noArgs,
		RunE: ran(func(ctx context.Context) error { return runRun(ctx, g) }),
	}
}

func runRun(ctx context.Context, g *globals) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	ctx, stop := stopAtEnd(ctx)
	defer stop.close()
	surviveReaders()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	s := &starting{g, cfg, newLog(cfg.Log, g.err), hup}
	a, err := whenThere(ctx, s.log, 0, func() (*app, error) { return s.wire(ctx) })
	log := s.log
	if ctx.Err() != nil && isEnd(err) {
		log.Info("stopped")
		return nil
	}
	if err != nil {
		return err
	}
	a.introduce(slog.LevelInfo)
	d := &server{g: g, app: a, log: log, hard: stop.hard, state: a.state(log), hup: hup}
	d.observe = newProgress(g.err, a.table, newObserver(log).Observe)
	defer d.close()

	notify(log, daemon.SdNotifyReady)
	for ctx.Err() == nil {
		if err := d.lead(ctx); err != nil {
			return err
		}
	}
	d.stopping()
	d.finish()
	log.Info("stopped")
	return nil
}

// A server is the daemon: it leads, or waits until it can.
type server struct {
	g       *globals
	app     *app
	log     *slog.Logger
	observe func(backlog.Event)
	state   *stateFile
	hard    <-chan struct{}
	hup     <-chan os.Signal
	engine  *backlog.Engine // the last one; nil: it has never led
	rewired chan rewiring   // not nil: a reload is under way
	old     []*app          // of before reloads
	closing sync.WaitGroup
	stopped bool // and said so
}

// close closes handlers and connections: also those that passes of an old app
// went on with until the end. Connections that are idle have been closed long
// before.
func (d *server) close() {
	if d.rewired != nil {
		if r := <-d.rewired; r.err == nil {
			r.app.close()
		}
	}
	d.closing.Wait()
	for _, a := range append(d.old, d.app) {
		a.close()
	}
}

// closeOld closes the handlers of old apps that have no pass under way any
// more, so that no worker stays behind each reload. It does not wait: they may
// take a moment to end.
func (d *server) closeOld() {
	for _, a := range d.old {
		idle := a.passes.Load() == 0
		if idle && a.idle && !a.closed { // at two looks: a pass may have been about to begin at the first
			a.closed = true
			d.closing.Go(a.closeHandlers)
		}
		a.idle = idle
	}
}

// lead waits for the leader lock, then runs the loop until ctx is done or the
// lock is lost.
func (d *server) lead(ctx context.Context) error {
	lock, since, err := d.standBy(ctx)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	loop, runLost := d.newLoop(since)
	next := nextStarts(d.app.cfg.Tiers, time.Now())
	if len(next) > 0 {
		d.log.Info("leading", "next", when(time.Time(next[0].At)), "tier", next[0].Tier)
	}
	notify(d.log, "STATUS=leading")

	lctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leads := &leadership{lock, time.Now(), cancel, d.log}
	done := make(chan error, 1)
	go func() { done <- loop.Run(lctx) }()
	check := time.NewTicker(lockEvery)
	defer check.Stop()
	alive, stopAlive := watchdog()
	defer stopAlive()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			d.stopping()
			return d.drain(done, alive)
		case <-d.hups():
			d.rewire(ctx)
		case r := <-d.rewired:
			d.reload(r, loop)
		case ev := <-runLost:
			if !leads.still(ctx) { // what takes one lock takes both, and is said once
				return d.drain(done, alive)
			}
			d.observe(ev)
		case <-check.C:
			if !leads.still(ctx) {
				return d.drain(done, alive)
			}
			d.closeOld()
		case <-alive:
			// A loop that hangs is to be restarted by systemd.
			if time.Since(loop.LastWake()) < 2*time.Minute {
				notify(d.log, daemon.SdNotifyWatchdog)
			}
		}
	}
}

// newLoop returns a loop on the present app, and a channel that gets what it
// tells of the run lock's loss.
func (d *server) newLoop(since time.Time) (*backlog.Loop, <-chan backlog.Event) {
	runLost := make(chan backlog.Event, 1)
	return &backlog.Loop{
		Schedule: d.app.cfg.Tiers,
		Engine:   d.newEngine(),
		State:    d.state,
		Since:    since,
		Locker:   d.app.locker(),
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.LockLost {
				select {
				case runLost <- ev:
					return
				default:
				}
			}
			d.observe(ev)
		},
	}, runLost
}

// A leadership is the leader lock with the loop under it.
type leadership struct {
	lock  backlog.Lock
	known time.Time // when the lock was last known to be held
	lose  context.CancelCauseFunc
	log   *slog.Logger
}

// still reports whether the lock is held, and stops the loop when it is lost.
func (l *leadership) still(ctx context.Context) bool {
	asked := time.Now()
	err := l.lock.Check(ctx)
	switch {
	case err == nil:
		l.known = asked
	case ctx.Err() == nil:
		l.lose(backlog.LostLock(time.Since(l.known)))
		l.log.Error("the leader lock is lost: passes are stopped until it is taken again", "error", err)
		return false
	}
	return true
}

// newEngine returns an engine of the present app that knows what those before
// it have under way: outcomes may be left of a time when the lock was lost.
func (d *server) newEngine() *backlog.Engine {
	e := d.app.engine(nil, d.hard, d.observe)
	if d.engine != nil {
		e.Replace(d.engine)
	}
	d.engine = e
	return e
}

// finish waits for outcomes that are still to be written, for as long as
// shutdown_timeout says.
func (d *server) finish() {
	if d.engine == nil {
		return
	}
	alive, stopAlive := watchdog()
	defer stopAlive()
	done := make(chan error, 1)
	go func() {
		d.engine.Finish()
		done <- nil
	}()
	d.drain(done, alive)
}

// stopping says once that the end has begun. A loop without passes may have
// ended before anybody could.
func (d *server) stopping() {
	if d.stopped {
		return
	}
	d.stopped = true
	notify(d.log, daemon.SdNotifyStopping)
	d.app.sayStopping()
}

// drain waits for the passes to end, keeping systemd's watchdog quiet.
func (d *server) drain(done <-chan error, alive <-chan time.Time) error {
	for {
		select {
		case err := <-done:
			return err
		case <-alive:
			notify(d.log, daemon.SdNotifyWatchdog)
		}
	}
}

// wireServer is wireApp with all the proofs at once: a daemon's owner is there
// when it starts, not when the first record comes.
func (g *globals) wireServer(ctx context.Context, cfg *config.Config, log *slog.Logger) (*app, error) {
	a, err := g.wireApp(ctx, cfg, log, time.Now())
	if err != nil {
		return nil, err
	}
	if err := a.store.prove(ctx); err != nil {
		a.close()
		return nil, err
	}
	a.compareClocks(ctx)
	a.missIndexes(ctx)
	return a, nil
}

// missIndexes warns of what check finds by the plans: in a table that grows,
// pages take longer and longer without an index, until they take too long.
func (a *app) missIndexes(ctx context.Context) {
	plans, err := a.table.Plans(ctx, time.Now())
	if err != nil {
		a.log.Debug("the plans cannot be looked at", "error", err)
		return
	}
	var bad, create []string
	for _, p := range plans {
		if p.Bad != "" && !p.Stale && !slices.Contains(create, p.Cure) {
			bad, create = append(bad, p.What+": "+p.Bad), append(create, p.Cure)
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

// watchdog returns a channel that ticks when systemd is to be told that we are
// alive; it never does where no watchdog is set.
func watchdog() (<-chan time.Time, func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every / 2)
	return t.C, t.Stop
}
