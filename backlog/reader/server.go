package reader

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/web"
)

// A Server serves what a [Reader] shows: pages, an API and probes. It also serves metrics of the events that it
// observes, and sends pings for passes.
type Server struct {
	*Reader
	Metrics *metrics.Metrics // nil: no events are observed
	Pings   *pings.Pings     // nil if Metrics is

	site    *web.Site // nil: nothing is served
	ctx     context.Context
	end     context.CancelFunc
	serving sync.WaitGroup
}

// NewServer returns a server. It serves nothing before [Server.Start], and must be closed with [Server.Close].
func NewServer(r *Reader) *Server {
	s := &Server{Reader: r}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// ObserveEvents makes the metrics and pings that [Server.Observe] feeds. It must be called before
// [Server.Start].
func (s *Server) ObserveEvents() {
	info, _ := debug.ReadBuildInfo()
	revision := ""
	for _, x := range cmp.Or(info, new(debug.BuildInfo)).Settings {
		if x.Key == "vcs.revision" {
			revision = x.Value
		}
	}
	s.Metrics = metrics.New(metrics.Options{
		Name: s.currentState().Name, Version: s.Version, Revision: revision, GoVersion: runtime.Version(),
		Now: s.Clock, State: s.scraped, Table: s.BrokerUp == nil,
	})
	s.Pings = pings.New(s.Log, s.Metrics.Pinged)
}

// Observe handles one event. It is cheap and may be called concurrently. [Server.ObserveEvents] must have been
// called.
func (s *Server) Observe(ev backlog.Event) {
	s.Metrics.Observe(ev)
	s.Pings.Observe(ev)
}

// ObservePast adds the earlier passes of the picture to the metrics. It must be called before the first pass of
// this process.
func (s *Server) ObservePast() {
	for _, p := range slices.Backward(s.Picture.Passes()) {
		s.Metrics.LastPass(time.Duration(p.MaxAge*float64(time.Second)), p.Ended(), p.Complete)
	}
}

// SetSchedule configures metrics and pings by the settings. dead says whether the table has dead records.
// [Server.ObserveEvents] must have been called.
func (s *Server) SetSchedule(set *Settings, dead bool) {
	list := set.Schedule.Tiers()
	s.Metrics.SetSchedule(list, dead)
	s.Pings.Configure(*set.Pings, list)
}

// scraped returns the state that metrics show. It reads memory only.
func (s *Server) scraped() metrics.State {
	now := s.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := metrics.State{
		Answers: s.site.Answers(),
		Counts:  s.status, Counted: s.at, Took: s.took, CountErrors: s.failed,
	}
	trouble := s.trouble(now)
	state.StoreUp = trouble == nil || trouble.Handler
	if p := s.pause.Current(now); p != nil {
		state.Paused = true
		if p.Until != nil {
			state.PauseUntil = *p.Until
		}
	}
	if e := s.engine.Load(); e != nil {
		state.InFlight = e.InFlight()
		state.Snoozed = e.Snoozes()
		state.Concurrency = e.Concurrency
	}
	switch {
	case s.BrokerUp != nil:
		state.Leads = true
		state.Broker = &metrics.Broker{Up: s.BrokerUp()}
	case s.current.daemon != nil:
		state.Leads = s.current.daemon.Leads()
		state.Broker = s.current.daemon.Broker()
	}
	return state
}

// Start serves what the settings ask for, until Close. It may be called once. An [*Invalid] says that the
// settings or their files are wrong.
func (s *Server) Start() error {
	c := s.currentState()
	servesPages := c.Web.Listen != ""
	servesMetricsApart := s.Metrics != nil && c.Metrics.Listen != ""
	isOfTable := s.BrokerUp == nil
	if !servesPages && !servesMetricsApart {
		if isOfTable && s.Metrics != nil {
			s.serving.Go(func() { s.KeepCounts(s.ctx) })
		}
		return nil
	}
	tokens, err := s.tokens(c.Settings)
	if err == nil {
		s.site, err = web.New(*c.Web, c.Folder, tokens, s.Reader, s.Log)
	}
	if err != nil {
		return &Invalid{Err: err}
	}
	if s.Metrics != nil {
		if err := s.listenForMetrics(c.Settings); err != nil {
			return err
		}
	}
	if c.role == web.Viewer { // so that the first visitor sees it
		saved, _ := s.State.State() // Count reads it again and notes an error
		s.restore(saved)
	}
	if isOfTable {
		s.serving.Go(func() { s.Count(s.ctx) })
	}
	if servesPages && isOfTable {
		s.serving.Go(func() { s.Learn(s.ctx) })
	}
	if servesPages {
		return s.listenForPages(c.Settings)
	}
	return nil
}

// listenForPages serves the pages at their address.
func (s *Server) listenForPages(set *Settings) error {
	l, err := web.Listen(set.Web.Listen)
	if err != nil {
		return fmt.Errorf("web.listen: %w", err)
	}
	s.serving.Go(func() {
		if err := s.site.Serve(s.ctx, l); err != nil {
			s.Log.Error("pages are no longer served", "error", err)
		}
	})
	s.Log.Info("pages are served", "at", urlOf(set.Web, l.Addr()))
	return nil
}

// listenForMetrics serves metrics at their own address, if they have one, or else with the pages.
func (s *Server) listenForMetrics(set *Settings) error {
	if set.Metrics.Listen == "" {
		s.site.Metrics = s.Metrics.Handler()
		return nil
	}
	l, err := web.Listen(set.Metrics.Listen)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w", err)
	}
	open := func() bool { return s.currentState().Metrics.Open }
	s.serving.Go(func() {
		if err := s.site.ServeProbes(s.ctx, l, s.Metrics.Handler(), open); err != nil {
			s.Log.Error("metrics are no longer served", "error", err)
		}
	})
	s.Log.Info("metrics are served", "at", urlOf(new(web.Settings), l.Addr())+"metrics")
	return nil
}

// tokens reads the tokens, if anything that is served needs one.
func (s *Server) tokens(set *Settings) (web.Tokens, error) {
	if set.Web.Listen == "" && set.Metrics.Open {
		return web.Tokens{}, nil
	}
	return set.Web.ReadTokens(set.Folder, s.State.Folder())
}

func urlOf(set *web.Settings, at net.Addr) string {
	scheme := "http://"
	switch {
	case at.Network() == "unix":
		return at.String()
	case set.TLS.Cert != "":
		scheme = "https://"
	}
	return scheme + at.String() + strings.TrimSuffix(set.PathPrefix, "/") + "/"
}

// Reload replaces the settings. Their addresses must be the same. After an error the pages keep their old settings.
func (s *Server) Reload(set *Settings) error {
	s.Configure(set)
	if s.site == nil {
		return nil
	}
	tokens, err := s.tokens(set)
	if err != nil {
		return err
	}
	return s.site.Reload(*set.Web, set.Folder, tokens)
}

// Close stops what Start has started, waits for it, and closes the connection of the pages.
func (s *Server) Close() {
	s.end()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeView()
}
