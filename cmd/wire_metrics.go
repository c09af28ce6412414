package cmd

import (
	"context"
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

// lastPings is how long the end waits for pings that are still to be sent.
const lastPings = 3 * time.Second

// An audience hears of what happens, beside the log and the pages.
type audience struct {
	metrics *metrics.Metrics
	pings   *pings.Pings
	engine  atomic.Pointer[backlog.Engine] // nil: nothing has begun
	queue   *amqp.Source                   // that is worked off instead of a table; nil: none
}

// invite makes an audience.
func (d *desk) invite() {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	d.metrics = metrics.New(metrics.Options{Version: version(), Revision: revision, GoVersion: runtime.Version(), Now: time.Now, State: d.scraped, Table: d.queue == nil})
	d.pings = pings.New(d.log, d.metrics.Pinged)
}

// metricsOf returns the settings of a listener for metrics alone, nil if there is to be none.
func metricsOf(cfg *config.Config) *metrics.Settings {
	s, _ := cfg.Watching["metrics"].(*metrics.Settings)
	return s
}

// scrapedAt returns where that listens; empty: nowhere.
func scrapedAt(cfg *config.Config) string {
	if s := metricsOf(cfg); s != nil {
		return s.Listen
	}
	return ""
}

// checkPings reports a tier that pings are about and that does not exist.
func checkPings(cfg *config.Config) error {
	if s, ok := cfg.Watching["pings"].(*pings.Settings); ok {
		return s.CheckTiers(cfg.Tiers.Tiers())
	}
	return nil
}

// tokens reads the tokens, if somebody is to show one.
func (d *desk) tokens(set *web.Settings) (web.Tokens, error) {
	if m := metricsOf(d.cfg); set.Listen == "" && m != nil && m.Open {
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
		return err
	}
	open := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		s := metricsOf(d.cfg)
		return s != nil && s.Open
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
		StoreUp: d.picture.Away().IsZero() && now.Sub(d.answered) < time.Minute, Answers: d.site.Answers(),
		Counts: d.status, Counted: d.at, Took: d.took, CountErrors: d.failed,
	}
	if p := d.pause; p != nil && (p.Until == nil || now.Before(*p.Until)) {
		if s.Paused = true; p.Until != nil {
			s.PauseUntil = *p.Until
		}
	}
	if e := d.engine.Load(); e != nil {
		s.InFlight = e.InFlight()
		s.Concurrency = e.Concurrency
	}
	switch {
	case d.queue != nil:
		s.Leads, s.Broker = true, &metrics.Broker{Up: d.queue.Up()}
	case d.daemon != nil:
		s.Leads = d.daemon.leads.Load()
		if h, ok := d.daemon.chronicle.app.Load().handler.(*amqp.Dispatch); ok {
			b := metrics.Broker(h.Counts())
			s.Broker = &b
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
	list, told := a.cfg.Tiers.Tiers(), new(pings.Settings)
	d.metrics.SetSchedule(list, a.table.HasDead() || a.again != nil)
	if s, ok := a.cfg.Watching["pings"].(*pings.Settings); ok {
		told = s
	}
	d.pings.Configure(*told, list)
}

// recall tells metrics of the passes that the picture remembers.
func (d *desk) recall() {
	for _, p := range slices.Backward(d.picture.Passes()) {
		d.metrics.LastPass(time.Duration(p.MaxAge*float64(time.Second)), p.Ended(), p.Complete)
	}
}

// hangUp sends the last pings, unless the end is a hard one.
func (d *desk) hangUp(hard <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), lastPings)
	defer cancel()
	go func() {
		select {
		case <-hard:
			cancel()
		case <-ctx.Done():
		}
	}()
	d.pings.Close(ctx)
}

// attend shows the work of an engine on a queue, if its configuration wants that, until the
// function it returns is called.
func (a *app) attend(g *globals, name string, e *backlog.Engine) (stop func(), err error) {
	if metricsOf(a.cfg) == nil {
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
