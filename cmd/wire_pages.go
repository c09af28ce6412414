package cmd

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"backlog/backlog"
	"backlog/backlog/amqp"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/daemon"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/reader"
	"backlog/backlog/table"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/tiers"
)

// newServer returns a server of pages and metrics that does not listen yet. up reports whether the broker
// answers; nil: the records are rows of a table.
func (g *globalOptions) newServer(
	cfg *config.Config, state *checkpoint.File, log *slog.Logger, up func() bool,
) *reader.Server {
	o := reader.Options{
		Version:  version(),
		Log:      log,
		State:    state,
		Picture:  new(watch.Picture),
		Clock:    time.Now,
		BrokerUp: up,
	}
	return reader.NewServer(reader.New(o, g.readerSettings(cfg, log)))
}

// readerSettings returns the configuration of pages and metrics.
func (g *globalOptions) readerSettings(cfg *config.Config, log *slog.Logger) *reader.Settings {
	set := &reader.Settings{
		Rules:      rulesOf(cfg),
		Database:   redactedURL(cfg.Database),
		Zone:       cfg.Timezone,
		Timer:      g.timer(cfg.ShutdownTimeout),
		Simulation: simulation(cfg, policyOf(cfg.Policy)),
		Folder:     g.folder(),
		Web:        observerSettings[web.Settings](cfg, "web"),
		Metrics:    observerSettings[metrics.Settings](cfg, "metrics"),
		Pings:      observerSettings[pings.Settings](cfg, "pings"),
	}
	set.ParseSchedule = func(text string) (*tiers.Schedule, error) {
		return config.ParseTiers(text, cfg.Timezone)
	}
	set.Open = func(ctx context.Context) (*reader.View, func(), error) {
		shown := *cfg
		if len(set.Web.Show) > 0 {
			shown.Table.Columns = set.Web.Show
		}
		a, err := g.wireTable(ctx, wiring{cfg: &shown, log: log, now: time.Now()}, table.Options{ReadOnly: true, Pool: 1})
		if err != nil {
			return nil, nil, err
		}
		return a.view, a.close, nil
	}
	return set
}

// folder is the folder of the configuration file, to which paths in it are relative.
func (g *globalOptions) folder() string { return filepath.Dir(g.Config) }

var _ reader.Daemon = (*process)(nil)

// View implements reader.Daemon.
func (p *process) View() *reader.View { return p.setup().view }

// Leads implements reader.Daemon.
func (p *process) Leads() bool { return p.daemon.Role() == daemon.Leader }

// LastWake implements reader.Daemon.
func (p *process) LastWake() time.Time { return p.daemon.Loop.LastWake() }

// Broker implements reader.Daemon.
func (p *process) Broker() *metrics.Broker {
	if h, ok := p.setup().handler.(*amqp.Dispatch); ok {
		return new(metrics.Broker(h.Counts()))
	}
	return nil
}

// Resolve implements reader.Daemon.
func (p *process) Resolve(ctx context.Context, answers []backlog.Answer) ([]error, error) {
	return p.setup().engine(nil, p.observe).Resolve(ctx, answers)
}

// serveMetrics serves the metrics of an engine that works on a queue, if they are configured, until stop is
// called.
func (a *setup) serveMetrics(g *globalOptions, name string, e *backlog.Engine) (stop func(), err error) {
	if metricsAddress(a.cfg) == "" {
		return func() {}, nil
	}
	s := g.newServer(a.cfg, stateOf(a.cfg, a.log), a.log, a.source.Up)
	s.SetDaemon(nil, true)
	s.ObserveEvents()
	s.SetEngine(e)
	s.Metrics.SetSchedule([]tiers.Tier{{Name: name}}, false)
	logEvent := e.Observe
	e.Observe = func(ev backlog.Event) {
		logEvent(ev)
		s.Metrics.Observe(ev)
	}
	return s.Close, s.Start()
}

// observerSettings returns the settings of pages, metrics or pings by their name.
func observerSettings[T any](cfg *config.Config, name string) *T { return cfg.Observers[name].(*T) }

// metricsAddress returns the address of metrics that are not served with the pages; "": none.
func metricsAddress(cfg *config.Config) string {
	return observerSettings[metrics.Settings](cfg, "metrics").Listen
}

// checkPings returns an error if pings are configured for a tier that does not exist.
func checkPings(cfg *config.Config) error {
	if s := observerSettings[pings.Settings](cfg, "pings"); s.URL != "" {
		return s.CheckTiers(cfg.Tiers.Tiers())
	}
	return nil
}

// checkPages returns the address of the pages, "" if there are none, and what is wrong with their files.
func (g *globalOptions) checkPages(cfg *config.Config) (address string, err error) {
	state, _ := stateFile(cfg) // its errors are reported apart
	return webAddress(cfg), observerSettings[web.Settings](cfg, "web").CheckFiles(g.folder(), state.Folder())
}
