package cmd

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/daemon"
	"backlog/backlog/inspect"
	"backlog/backlog/reader"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// A process is a daemon with its configuration, and with all that shows what it does.
type process struct {
	g       *globalOptions
	log     *slog.Logger
	observe func(backlog.Event)
	paused  func() bool
	state   *checkpoint.File
	history *history
	pages   *reader.Server
	daemon  *daemon.Daemon

	unmark              func()    // ends the mark of the state file's leader
	stopped, introduced sync.Once // it is logged
}

// setup is another one after each reload, over the same database.
func (p *process) setup() *setup { return p.history.setup.Load() }

// newDaemon returns the daemon of the process. It is doubtful if another one may have led until now.
func (p *process) newDaemon(doubtful bool) *daemon.Daemon {
	passes := lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return p.setup().locker(true).TryLock(ctx, name)
	})
	leaders := lockerFunc(func(ctx context.Context, name string) (backlog.Lock, error) {
		return p.setup().table.Locker(p.setup().work).TryLock(ctx, name)
	})
	return &daemon.Daemon{
		Loop:        &backlog.Loop{Schedule: p.setup().cfg.Tiers, Engine: p.newEngine(), State: p.state, Locker: passes, Observe: p.observe},
		Leaders:     leaders,
		Changed:     p.changed,
		Patient:     isDenied,
		Doubtful:    doubtful,
		Replace:     p.g.replace,
		Reconfigure: p.reload,
	}
}

// newEngine returns an engine of the present setup.
func (p *process) newEngine() *backlog.Engine {
	e := p.setup().engine(nil, p.observe)
	e.Paused = p.paused
	p.pages.SetEngine(e)
	return e
}

// run runs the daemon until ctx is done.
func (p *process) run(ctx context.Context, hup <-chan os.Signal) error {
	p.pages.SetDaemon(p, false)
	running, end := context.WithCancel(context.Background())
	defer end()
	go p.pages.WatchStore(ctx)
	go keepWatchdog(running, p.log, func() bool { return !p.Leads() || time.Since(p.LastWake()) < 2*time.Minute })
	go func() {
		for range hup {
			p.daemon.Reload()
		}
	}()
	defer context.AfterFunc(ctx, p.stopping)()
	notify(p.log, systemd.SdNotifyReady)
	err := p.daemon.Run(ctx)
	if ctx.Err() != nil {
		p.stopping()
	}
	p.setup().closeHandlers()
	return p.setup().lockError(err, false)
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
		p.pages.Observe(backlog.Event{Kind: backlog.LockLost, At: time.Now()})
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
	} else {
		p.log.Warn("the leader is gone, taking over", "last_seen", inspect.When(seen))
	}
}

// lead notes that the daemon leads, and goes on with what the last leader has kept.
func (p *process) lead() {
	p.logStarted("leader")
	p.history.restore(true)
	p.pages.ObservePast()
	p.unmark = p.state.Lead()
	p.keepWork()
	p.keepDaemon(&watch.Daemon{PID: os.Getpid(), Since: inspect.Stamp(time.Now())})
	if next := inspect.Starts(p.setup().cfg.Tiers, time.Now()); len(next) > 0 {
		p.log.Info("leading", "next", next[0].At.String(), "tier", next[0].Tier)
	}
	notify(p.log, "STATUS=leading")
	p.pages.SetDaemon(p, true)
}

// endLead takes back what lead has noted: all passes have ended.
func (p *process) endLead() {
	p.setup().dispatching((*dispatch).Close) // what workers answer is heard by who leads now
	p.pages.SetDaemon(p, false)
	p.keepDaemon(nil)
	p.unmark()
	p.unmark = nil
}

// logStarted says once what has been started, after the first try for the lock.
func (p *process) logStarted(role string) {
	p.introduced.Do(func() {
		c := p.setup().cfg
		log := p.log
		if c.Name != "" {
			log = log.With("name", c.Name)
		}
		log.Info("started", "version", version(), "config", p.g.Config, "database", shownURL(c.Database), "table", c.Table.Name,
			"handler", c.Handler.Kind, "tiers", strings.Join(c.Tiers.Names(), " "), "policy", c.Policy.Name, "role", role)
	})
}

// followSchedule makes metrics and pings those of the present setup.
func (p *process) followSchedule() {
	a := p.setup()
	p.pages.SetSchedule(p.g.readerSettings(a.cfg, a.log), a.table.HasDead() || a.view.Refreshes())
}

// keepDaemon notes who leads, for status and pause.
func (p *process) keepDaemon(who *watch.Daemon) {
	p.history.keep(p.state.Change(func(s *checkpoint.State) { s.Daemon = who }))
}

// stopping says once that the end has begun.
func (p *process) stopping() {
	p.stopped.Do(func() {
		notify(p.log, systemd.SdNotifyStopping)
		p.setup().sayStopping()
	})
}

// reload puts a setup of the configuration as it is now in the place of the old
// one, over the same database and under the same locks. If anything is wrong,
// the old one stays.
func (p *process) reload(ctx context.Context) {
	notify(p.log, systemd.SdNotifyReloading)
	defer notify(p.log, systemd.SdNotifyReady)
	a, err := p.g.rewire(ctx, p.setup(), p.log)
	if err != nil {
		p.pages.Metrics.Reloaded(false)
		p.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	a.introduce(slog.LevelInfo, slog.LevelWarn)
	p.daemon.Swap(func() (*tiers.Schedule, *backlog.Engine) {
		p.setup().closeHandlers()
		p.history.setup.Store(a)
		p.followSchedule()
		return a.cfg.Tiers, p.newEngine()
	})
	if ctx.Err() != nil {
		return // a stop came while handlers were waited for
	}
	if err := p.pages.Reload(p.g.readerSettings(a.cfg, a.log)); err != nil {
		p.log.Error("the pages keep their old configuration", "error", err)
	}
	p.remark(ctx)
	p.pages.Metrics.Reloaded(true)
	p.log.Info("configuration reloaded", "tiers", len(a.cfg.Tiers.Tiers()))
}
