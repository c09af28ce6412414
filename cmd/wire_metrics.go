package cmd

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/amqp"
	"backlog/backlog/config"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/tiers"
)

// An audience hears of what happens, beside the log and the pages.
type audience struct {
	metrics *metrics.Metrics
	pings   *pings.Pings
	engine  atomic.Pointer[backlog.Engine] // nil: nothing has begun
	queue   *amqp.Source                   // that is worked off instead of a table; nil: none
}

// invite makes an audience.
func (d *desk) invite() {
	info, _ := debug.ReadBuildInfo()
	revision := ""
	for _, s := range cmp.Or(info, new(debug.BuildInfo)).Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	d.metrics = metrics.New(metrics.Options{
		Name: d.cfg.Name, Version: version(), Revision: revision, GoVersion: runtime.Version(), Now: time.Now, State: d.scraped, Table: d.queue == nil,
	})
	d.pings = pings.New(d.log, d.metrics.Pinged)
}

// watching returns the settings of that name.
func watching[T any](cfg *config.Config, name string) *T { return cfg.Watching[name].(*T) }

// scrapedAt returns where metrics are served apart from pages; empty: nowhere.
func scrapedAt(cfg *config.Config) string { return watching[metrics.Settings](cfg, "metrics").Listen }

// checkPings reports a tier that pings are about and that does not exist.
func checkPings(cfg *config.Config) error {
	if s := watching[pings.Settings](cfg, "pings"); s.URL != "" {
		return s.CheckTiers(cfg.Tiers.Tiers())
	}
	return nil
}

// tokens reads the tokens, if somebody is to show one.
func (d *desk) tokens(set *web.Settings) (web.Tokens, error) {
	if set.Listen == "" && watching[metrics.Settings](d.cfg, "metrics").Open {
		return web.Tokens{}, nil
	}
	return set.ReadTokens(d.folder(), d.stateFolder())
}

// listenForMetrics serves metrics by a listener of their own, if there is to be one, else
// with the pages.
func (d *desk) listenForMetrics() error {
	address := scrapedAt(d.cfg)
	if address == "" {
		d.site.Metrics = d.metrics.Handler()
		return nil
	}
	l, err := web.Listen(address)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w", err)
	}
	open := func() bool {
		cfg, _, _ := d.present()
		return watching[metrics.Settings](cfg, "metrics").Open
	}
	d.serving.Go(func() {
		if err := d.site.ServeProbes(d.ctx, l, d.metrics.Handler(), open); err != nil {
			d.log.Error("metrics are served no more", "error", err)
		}
	})
	d.log.Info("metrics are served", "at", urlOf(new(web.Settings), l.Addr())+"metrics")
	return nil
}

// scraped returns what a scrape shows, from memory.
func (d *desk) scraped() metrics.State {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := metrics.State{
		Answers: d.site.Answers(),
		Counts:  d.status, Counted: d.at, Took: d.took, CountErrors: d.failed,
	}
	trouble := d.trouble(now)
	s.StoreUp = trouble == nil || trouble.Handler
	if p := d.pause; p != nil && p.Until == nil {
		s.Paused = true
	} else if p != nil && now.Before(*p.Until) {
		s.Paused, s.PauseUntil = true, *p.Until
	}
	if e := d.engine.Load(); e != nil {
		s.InFlight = e.InFlight()
		s.Concurrency = e.Concurrency
	}
	switch {
	case d.queue != nil:
		s.Leads, s.Broker = true, &metrics.Broker{Up: d.queue.Up()}
	case d.daemon != nil:
		s.Leads = d.daemon.leads()
		if h, ok := d.daemon.app().handler.(*amqp.Dispatch); ok {
			s.Broker = new(metrics.Broker(h.Counts()))
		}
	}
	return s
}

// hear takes one event.
func (d *desk) hear(ev backlog.Event) {
	d.metrics.Observe(ev)
	d.pings.Observe(ev)
}

// follow goes on with the schedule of an app, and with whom it wants to be told.
func (d *desk) follow(a *app) {
	list := a.cfg.Tiers.Tiers()
	d.metrics.SetSchedule(list, a.table.HasDead() || a.again != nil)
	d.pings.Configure(*watching[pings.Settings](a.cfg, "pings"), list)
}

// recall tells metrics of the passes that the picture remembers.
func (d *desk) recall() {
	for _, p := range slices.Backward(d.picture.Passes()) {
		d.metrics.LastPass(time.Duration(p.MaxAge*float64(time.Second)), p.Ended(), p.Complete)
	}
}

// attend shows the work of an engine on a queue, if its configuration wants that, until the
// function it returns is called.
func (a *app) attend(g *globals, name string, e *backlog.Engine) (stop func(), err error) {
	if scrapedAt(a.cfg) == "" {
		return func() {}, nil
	}
	d := g.newDesk(a.cfg, stateOf(a.cfg, a.log), new(watch.Picture), a.log)
	d.role, d.queue = web.Leader, a.source
	d.invite()
	d.engine.Store(e)
	d.metrics.SetSchedule([]tiers.Tier{{Name: name}}, false)
	logged := e.Observe
	e.Observe = func(ev backlog.Event) {
		logged(ev)
		d.metrics.Observe(ev)
	}
	return d.close, d.listen()
}
