// Package metrics counts the events of passes and exports them to Prometheus. [Metrics.Observe] takes
// the events, and [Metrics.Handler] answers scrapes from memory: a scrape asks no database.
package metrics

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"backlog/backlog"
	"backlog/tiers"
)

// Options say what is exported. Every scrape calls the functions, at most two at a time. They return
// at once.
type Options struct {
	Version, Revision, GoVersion string

	Name string // from the configuration, a label of all series; "": none

	Now   func() time.Time
	State func() State

	Table bool // records come from a table, whose passes have ticks; else from a queue
}

// Metrics are the counters and the rest of what is exported. All methods may be called concurrently.
type Metrics struct {
	o        Options
	families map[string]family
	started  time.Time

	mu               sync.Mutex // guards what follows
	attemptSeconds   *histogram
	counts           counts
	tiers            map[string]*tier
	other            *tier // counts outcomes that come after their pass, and of tiers that no longer exist
	dead             bool
	unavailableSince time.Time     // of the database; zero: it is available
	unavailable      time.Duration // in all, before unavailableSince
	reloaded         time.Time
}

// A tier has the counts and times of a tier of the schedule.
type tier struct {
	tiers.Tier
	counts       counts
	passSeconds  *histogram
	interval     time.Duration // between the next two ticks
	next         time.Time     // tick
	lastPass     time.Time
	lastComplete time.Time // pass
}

func newTier(c counts) *tier {
	return &tier{counts: c, passSeconds: newHistogram(.1, .5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600)}
}

// counts are counters by name and value of their first label.
type counts map[[2]string]int64

func (c counts) add(n int, name, label string) { c[[2]string{name, label}] += int64(n) }

// An eventCounter is the counter of an event, and its label; "": it has none.
type eventCounter struct {
	name  string
	label string
}

// eventCounters has the counters of events that are only counted.
var eventCounters = map[backlog.EventKind]eventCounter{
	backlog.Conflicted:       {name: "backlog_settlements_total", label: "conflict"},
	backlog.Refused:          {name: "backlog_settlements_total", label: "refused"},
	backlog.Unwritten:        {name: "backlog_settlements_total", label: "unwritten"},
	backlog.Paused:           {name: "backlog_handler_pauses_total"},
	backlog.UnreadableRow:    {name: "backlog_unreadable_rows_total"},
	backlog.Panicked:         {name: "backlog_panics_total"},
	backlog.StoreUnavailable: {name: "backlog_store_unavailable_total"},
	backlog.OnDeadFailed:     {name: "backlog_on_dead_failures_total"},
	backlog.LockLost:         {name: "backlog_lock_lost_total"},
	backlog.ClockSetBack:     {name: "backlog_clock_set_back_total"},
	backlog.StateFailed:      {name: "backlog_state_failures_total"},
}

// New returns Metrics with all counters at zero.
func New(o Options) *Metrics {
	m := &Metrics{
		o:              o,
		started:        o.Now(),
		reloaded:       o.Now(),
		families:       make(map[string]family),
		attemptSeconds: newHistogram(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600),
		other:          newTier(make(counts)),
	}
	for _, f := range families {
		if o.Table || !f.table {
			m.families[f.name] = f
		}
	}
	m.counts = m.zeros(false)
	for name := range strings.FieldsSeq(processFamilies) {
		m.families[name] = family{name: name, help: "As of any program in Go.", labels: "version"}
	}
	return m
}

// zeros returns the counters that are exported from the start, with zeros: the counters
// of a tier, or the counters without a tier.
func (m *Metrics) zeros(ofTier bool) counts {
	c := make(counts)
	for _, f := range m.families {
		if strings.HasSuffix(f.labels, "tier") == ofTier {
			for value := range strings.FieldsSeq(f.zeros) {
				c.add(0, f.name, strings.Trim(value, "-"))
			}
		}
	}
	return c
}

// Handler returns a handler that answers scrapes, at most two at a time.
func (m *Metrics) Handler() http.Handler {
	scrapes := semaphore.NewWeighted(2)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !scrapes.TryAcquire(1) {
			http.Error(w, "two scrapes are being answered", http.StatusServiceUnavailable)
			return
		}
		text := m.scrape(func() { scrapes.Release(1) }) // released before a slow reader has the text
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, text)
	})
}

// SetSchedule exports exactly the tiers of the list from now on. Tiers that were exported before keep
// their counts. dead says that there is a status for dead records.
func (m *Metrics) SetSchedule(list []tiers.Tier, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	all := make(map[string]*tier)
	for _, t := range list {
		x := m.tiers[t.Name]
		if x == nil {
			x = newTier(m.zeros(true))
			x.lastPass = now
			x.lastComplete = now
		}
		x.Tier = t
		x.next = time.Time{}
		if m.o.Table {
			next := t.Next(now)
			x.interval = t.Next(next).Sub(next)
		}
		all[t.Name] = x
	}
	m.dead = dead
	m.tiers = all
}

// LastPass sets the times of a pass of an earlier process. It is called in the order in which the
// passes ended.
func (m *Metrics) LastPass(maxAge time.Duration, ended time.Time, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setLastPass(maxAge, ended, complete)
}

// setLastPass sets the times of a pass that has ended, also for the narrower tiers, which it covers.
// The caller holds the lock.
func (m *Metrics) setLastPass(maxAge time.Duration, ended time.Time, complete bool) {
	for _, t := range m.tiers {
		if t.MaxAge > maxAge {
			continue
		}
		t.lastPass = ended
		if complete {
			t.lastComplete = ended
		}
	}
}

// Reloaded counts a reload of the configuration.
func (m *Metrics) Reloaded(ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	result := "failure"
	if ok {
		result = "success"
		m.reloaded = m.o.Now()
	}
	m.counts.add(1, "backlog_config_reloads_total", result)
}

// Pinged counts a ping: success, failure or dropped.
func (m *Metrics) Pinged(result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.add(1, "backlog_pings_total", result)
}

// Observe takes one event. It is cheap: there may be millions.
func (m *Metrics) Observe(ev backlog.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := cmp.Or(m.tiers[ev.Tier], m.other)
	if ev.Kind == backlog.AttemptEnded {
		m.attemptEnded(t, ev)
		return
	}
	if c, ok := eventCounters[ev.Kind]; ok {
		m.counts.add(1, c.name, c.label)
	}
	switch ev.Kind {
	case backlog.Settled:
		m.counts.add(ev.N, "backlog_settlements_total", "written")
	case backlog.Expired:
		m.counts.add(ev.N, "backlog_dead_records_total", "expired")
	case backlog.TicksMissed:
		t.counts.add(ev.N, "backlog_ticks_missed_total", "")
	case backlog.TierSkipped:
		t.counts.add(1, "backlog_tiers_skipped_total", "")
	case backlog.TierCovered:
		t.counts.add(1, "backlog_tiers_covered_total", "")
	case backlog.PassEnded:
		m.passEnded(t, ev)
	case backlog.Died:
		if m.dead {
			m.counts.add(1, "backlog_dead_records_total", strings.ReplaceAll(ev.Record.Reason, " ", "_"))
		}
	case backlog.StoreUnavailable:
		m.unavailableSince = ev.At
	case backlog.StoreBack:
		m.unavailable = m.unavailableUntil(ev.At)
		m.unavailableSince = time.Time{}
	case backlog.Woke:
		for _, t := range m.tiers {
			t.next = t.Next(ev.At)
			t.interval = t.Next(t.next).Sub(t.next)
		}
	}
}

// attemptEnded counts an attempt that has ended. The caller holds the lock.
func (m *Metrics) attemptEnded(t *tier, ev backlog.Event) {
	if ev.Outcome == backlog.HandedOver { // another event has its outcome
		return
	}
	t.counts.add(1, attempts, ev.Outcome.String())
	if ev.Took > 0 {
		m.attemptSeconds.observe(ev.Took.Seconds())
	}
}

// unavailableUntil returns how long the database was unavailable in all until now. The caller holds
// the lock.
func (m *Metrics) unavailableUntil(now time.Time) time.Duration {
	if m.unavailableSince.IsZero() {
		return m.unavailable
	}
	return m.unavailable + max(0, now.Sub(m.unavailableSince))
}

// passEnded counts a pass that has ended. The caller holds the lock.
func (m *Metrics) passEnded(t *tier, ev backlog.Event) {
	r := ev.Report
	t.counts.add(1, "backlog_passes_total", cmp.Or(r.Stopped, "complete"))
	if r.Started.IsZero() { // it did not get the lock
		return
	}
	t.passSeconds.observe(r.Duration.Seconds())
	m.setLastPass(r.MaxAge, ev.At, r.Complete)
}

// Settings are the configuration of a listener that serves only metrics and probes.
type Settings struct {
	Listen string `yaml:"listen" required:"127.0.0.1:9464"` // host:port, or unix:/path
	Open   bool   `yaml:"open"`                             // without a token
}

// Check calls fail for each thing that is wrong with the settings, with its key.
func (s *Settings) Check(fail func(field, problem string)) {
	_, _, err := net.SplitHostPort(s.Listen)
	if s.Listen != "" && err != nil && !strings.HasPrefix(s.Listen, "unix:") {
		fail("listen", "is no address; write a host and a port such as 127.0.0.1:9464 or :9464, or unix:/run/backlog/metrics.sock")
	}
}
