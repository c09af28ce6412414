// Package metrics counts what happens, told by Observe, and shows it to Prometheus. It does
// no I/O but to answer a scrape, which reads memory only.
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

// Options say what is counted. The functions are called by every scrape, perhaps by two at
// a time, and return at once.
type Options struct {
	Version, Revision, GoVersion string

	Name string // of the work, a label of all its series; "": none

	Now   func() time.Time
	State func() State

	Table bool // the records are a table's, whose passes have ticks; else a queue's
}

// Metrics is what is counted, and what feeds it. All methods may be called concurrently.
type Metrics struct {
	o        Options
	families map[string]family
	started  time.Time

	mu       sync.Mutex // guards what follows
	took     *histogram
	counts   counts
	tiers    map[string]*tier
	other    *tier // of outcomes that are told after the pass, and of tiers that are no more
	dead     bool
	since    time.Time     // when the database went away; zero: it is there
	away     time.Duration // before
	reloaded time.Time
}

// A tier is what is known of one.
type tier struct {
	tiers.Tier
	counts                     counts
	seconds                    *histogram // of its passes
	interval                   time.Duration
	next, lastPass, lastFinish time.Time
}

func newTier(c counts) *tier {
	return &tier{counts: c, seconds: newHistogram(.1, .5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600)}
}

// counts are counters by name and label.
type counts map[[2]string]int64

func (c counts) add(n int, name, label string) { c[[2]string{name, label}] += int64(n) }

// plain are the counters of events that are only counted.
var plain = map[backlog.EventKind][2]string{
	backlog.Conflicted:       {"backlog_settlements_total", "conflict"},
	backlog.Refused:          {"backlog_settlements_total", "refused"},
	backlog.Unwritten:        {"backlog_settlements_total", "unwritten"},
	backlog.Paused:           {"backlog_handler_pauses_total"},
	backlog.UnreadableRow:    {"backlog_unreadable_rows_total"},
	backlog.Panicked:         {"backlog_panics_total"},
	backlog.StoreUnavailable: {"backlog_store_unavailable_total"},
	backlog.OnDeadFailed:     {"backlog_on_dead_failures_total"},
	backlog.LockLost:         {"backlog_lock_lost_total"},
	backlog.ClockSetBack:     {"backlog_clock_set_back_total"},
	backlog.StateFailed:      {"backlog_state_failures_total"},
}

// New returns metrics that are all zero.
func New(o Options) *Metrics {
	m := &Metrics{
		o: o, started: o.Now(), reloaded: o.Now(),
		families: make(map[string]family),
		took:     newHistogram(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600),
		other:    newTier(make(counts)),
	}
	for _, f := range families {
		if o.Table || !f.table {
			m.families[f.name] = f
		}
	}
	m.counts = m.zeros(false)
	for name := range strings.FieldsSeq(ofProcess) {
		m.families[name] = family{name: name, help: "As of any program in Go.", labels: "version"}
	}
	return m
}

// zeros returns the counters that there are from the start: those of a tier, or all others.
func (m *Metrics) zeros(ofTier bool) counts {
	c := make(counts)
	for _, f := range m.families {
		if strings.HasSuffix(f.labels, "tier") == ofTier {
			for value := range strings.FieldsSeq(f.values) {
				c.add(0, f.name, strings.Trim(value, "-"))
			}
		}
	}
	return c
}

// Handler answers scrapes, two at a time.
func (m *Metrics) Handler() http.Handler {
	room := semaphore.NewWeighted(2)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !room.TryAcquire(1) {
			http.Error(w, "two scrapes are being answered", http.StatusServiceUnavailable)
			return
		}
		text := m.scrape(func() { room.Release(1) }) // before a slow reader has it
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, text)
	})
}

// SetSchedule shows the tiers of the schedule from now on, and no others. What they have
// counted goes on. dead says that there is a status for dead records.
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
			x.lastFinish = now
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

// LastPass notes a pass of an earlier life. It is called in the order in which passes ended.
func (m *Metrics) LastPass(maxAge time.Duration, ended time.Time, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached(maxAge, ended, complete)
}

// reached notes a pass that has ended. The caller holds the lock, here and below.
func (m *Metrics) reached(maxAge time.Duration, ended time.Time, complete bool) {
	for _, t := range m.tiers {
		if t.MaxAge <= maxAge {
			t.lastPass = ended // of a wider tier, it was one of this, too
			if complete {
				t.lastFinish = ended
			}
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
	if c, ok := plain[ev.Kind]; ok {
		m.counts.add(1, c[0], c[1])
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
		m.since = ev.At
	case backlog.StoreBack:
		m.away = m.awayUntil(ev.At)
		m.since = time.Time{}
	case backlog.Woke: // the loop plans
		for _, t := range m.tiers {
			t.next = t.Next(ev.At)
			t.interval = t.Next(t.next).Sub(t.next)
		}
	}
}

func (m *Metrics) attemptEnded(t *tier, ev backlog.Event) {
	if ev.Outcome == backlog.HandedOver { // the outcome follows
		return
	}
	t.counts.add(1, attempts, ev.Outcome.String())
	if ev.Took > 0 {
		m.took.observe(ev.Took.Seconds())
	}
}

// awayUntil is how long the database has been away in all.
func (m *Metrics) awayUntil(now time.Time) time.Duration {
	return m.away + max(0, now.Sub(cmp.Or(m.since, now)))
}

func (m *Metrics) passEnded(t *tier, ev backlog.Event) {
	r := ev.Report
	t.counts.add(1, "backlog_passes_total", cmp.Or(r.Stopped, "complete"))
	if r.Started.IsZero() { // it got no lock
		return
	}
	t.seconds.observe(r.Duration.Seconds())
	m.reached(r.MaxAge, ev.At, r.Complete)
}

// Settings are what the configuration says of a listener for metrics alone.
type Settings struct {
	Listen string `yaml:"listen" required:"127.0.0.1:9464"` // host:port, or unix: and a path
	Open   bool   `yaml:"open"`                             // nobody is asked for the token
}

// Check reports what is wrong with the settings themselves.
func (s *Settings) Check(fail func(field, problem string)) {
	_, _, err := net.SplitHostPort(s.Listen)
	if s.Listen != "" && err != nil && !strings.HasPrefix(s.Listen, "unix:") {
		fail("listen", "is no address; write a host and a port such as 127.0.0.1:9464 or :9464, or unix:/run/backlog/metrics.sock")
	}
}
