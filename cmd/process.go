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

// A process is a daemon with its configuration, and with the log, the pages and the metrics that show
// what it does.
type process struct {
	g       *globalOptions
	log     *slog.Logger
	observe func(backlog.Event)
	paused  func() bool
	state   *checkpoint.File
	history *history
	pages   *reader.Server
	daemon  *daemon.Daemon

	unmarkLeader func() // removes the mark of the leader next to the state file; nil: this daemon does not lead
	logStart     sync.Once
	logStop      sync.Once
}

// setup returns the current setup. Each reload replaces it by another one over the same database.
func (p *process) setup() *setup { return p.history.setup.Load() }

// newDaemon returns the daemon of the process. doubtful says that another one may have led until now.
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

// newEngine returns an engine of the current setup.
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
	notifySystemd(p.log, systemd.SdNotifyReady)
	err := p.daemon.Run(ctx)
	if ctx.Err() != nil {
		p.stopping()
	}
	p.setup().closeHandlers()
	return p.setup().lockError(err, false)
}

// changed logs a change of the daemon's role, and shows and saves it.
func (p *process) changed(c daemon.Change) {
	if c.Was == daemon.TakingOver && c.Err != nil {
		p.log.Warn("the take-over has failed: the lock is lost again", "error", c.Err)
		return
	}
	switch c.Role {
	case daemon.Unavailable:
		p.log.Warn("the leader lock cannot be requested, waiting", "error", c.Err)
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
		if p.unmarkLeader != nil {
			p.endLead()
		}
	}
}

// standBy logs that the daemon stands by, and how the leader's configuration differs.
func (p *process) standBy(c daemon.Change) {
	if c.Rival != nil {
		p.log.Warn("standing by with another configuration: only the leader's records are handled", "differs", strings.Join(c.Rival.Differs, ", "))
	}
	switch {
	case c.Was == daemon.Standby: // that is logged already
	case c.Seen.IsZero():
		p.logStarted("standby")
		p.log.Info("standing by: another daemon leads")
		notifySystemd(p.log, "STATUS=standing by")
	default:
		p.log.Info("the database answers again, another daemon leads")
	}
}

// takeOver logs why the daemon waits before it leads.
func (p *process) takeOver(seen time.Time) {
	if seen.IsZero() {
		p.log.Warn("taking the lead after a wait: another daemon may have led until now", "wait", backlog.TakeOverAfter.String())
	} else {
		p.log.Warn("the leader is gone, taking over", "last_seen", inspect.When(seen))
	}
}

// lead logs, shows and saves that the daemon leads. It loads what the last leader has saved.
func (p *process) lead() {
	p.logStarted("leader")
	p.history.restore(true)
	p.pages.ObservePast()
	p.unmarkLeader = p.state.MarkLeader()
	p.saveWork()
	p.saveDaemon(&watch.Daemon{PID: os.Getpid(), Since: inspect.Stamp(time.Now())})
	if next := inspect.Starts(p.setup().cfg.Tiers, time.Now()); len(next) > 0 {
		p.log.Info("leading", "next", next[0].At.String(), "tier", next[0].Tier)
	}
	notifySystemd(p.log, "STATUS=leading")
	p.pages.SetDaemon(p, true)
}

// endLead undoes lead. All passes have ended.
func (p *process) endLead() {
	p.setup().withDispatch((*dispatch).Close) // the next leader receives what workers answer
	p.pages.SetDaemon(p, false)
	p.saveDaemon(nil)
	p.unmarkLeader()
	p.unmarkLeader = nil
}

// logStarted logs once what has started, after the first try for the leader lock.
func (p *process) logStarted(role string) {
	p.logStart.Do(func() {
		c := p.setup().cfg
		log := p.log
		if c.Name != "" {
			log = log.With("name", c.Name)
		}
		log.Info("started", "version", version(), "config", p.g.Config, "database", redactedURL(c.Database), "table", c.Table.Name,
			"handler", c.Handler.Kind, "tiers", strings.Join(c.Tiers.Names(), " "), "policy", c.Policy.Name, "role", role)
	})
}

// observeSchedule configures metrics and pings for the current setup.
func (p *process) observeSchedule() {
	a := p.setup()
	p.pages.SetSchedule(p.g.readerSettings(a.cfg, a.log), a.table.HasDead() || a.view.Refreshes())
}

// saveDaemon saves which daemon leads, for status and pause.
func (p *process) saveDaemon(d *watch.Daemon) {
	p.history.warnOnce(p.state.Change(func(s *checkpoint.State) { s.Daemon = d }))
}

// stopping logs once that the stop has begun, and notifies systemd.
func (p *process) stopping() {
	p.logStop.Do(func() {
		notifySystemd(p.log, systemd.SdNotifyStopping)
		p.setup().logStopping()
	})
}

// reload reads the configuration and replaces the setup, over the same database and under the same
// locks. If anything is wrong, the old setup stays.
func (p *process) reload(ctx context.Context) {
	notifySystemd(p.log, systemd.SdNotifyReloading)
	defer notifySystemd(p.log, systemd.SdNotifyReady)
	old := p.setup()
	next, err := p.g.rewire(ctx, old, p.log)
	if err != nil {
		p.pages.Metrics.Reloaded(false)
		p.log.Error("reload refused, the old configuration stays", "error", err)
		return
	}
	next.logFindings(slog.LevelInfo, slog.LevelWarn)
	p.daemon.Swap(func() (*tiers.Schedule, *backlog.Engine) {
		old.closeHandlers()
		p.replaceSetup(next) // newEngine makes the engine of the current setup
		return next.cfg.Tiers, p.newEngine()
	})
	if ctx.Err() != nil {
		return // stopped while it waited for handlers
	}
	if err := p.pages.Reload(p.g.readerSettings(next.cfg, next.log)); err != nil {
		p.log.Error("the pages keep their old configuration", "error", err)
	}
	p.updateMarks(ctx)
	p.pages.Metrics.Reloaded(true)
	p.log.Info("configuration reloaded", "tiers", len(next.cfg.Tiers.Tiers()))
}

// replaceSetup makes the setup the current one, and configures metrics and pings for it.
func (p *process) replaceSetup(next *setup) {
	p.history.setup.Store(next)
	p.observeSchedule()
}
