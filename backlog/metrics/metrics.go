// Package metrics counts what happens, told by Observe, and shows it to Prometheus. It does
// no I/O but to answer a scrape, which reads memory only.
package metrics

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

	took   *histogram
	tiers  atomic.Pointer[map[string]*tier]
	other  tier                        // of outcomes that are told after the pass, and of tiers that are no more
	counts map[[2]string]*atomic.Int64 // by name and label; not changed

	mu       sync.Mutex // guards what follows, and the times of tiers
	dead     bool
	since    time.Time     // when the database went away; zero: it is there
	away     time.Duration // before
	reloaded time.Time
}

// A tier is what is known of one.
type tier struct {
	tiers.Tier
	*tally
	interval                   time.Duration
	next, lastPass, lastFinish time.Time
}

// A tally is what is counted of a tier.
type tally struct {
	attempts                 [backlog.HandedOver]atomic.Int64 // by outcome
	passes                   [8]atomic.Int64                  // as in results
	seconds                  *histogram
	missed, skipped, covered atomic.Int64
}

func newTally() *tally {
	return &tally{seconds: newHistogram(.1, .5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600)}
}

// results are how a pass ends.
var results = []string{
	"complete", backlog.StoppedMaxRecords, backlog.StoppedAbortAfter, backlog.StoppedSignal, backlog.StoppedReload,
	backlog.StoppedLock, backlog.StoppedPause, backlog.StoppedError,
}

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
		families: make(map[string]family), counts: make(map[[2]string]*atomic.Int64),
		took:  newHistogram(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 150, 300, 600),
		other: tier{tally: newTally()},
	}
	for _, f := range families {
		if f.table && !o.Table {
			continue
		}
		m.families[f.name] = f
		for value := range strings.FieldsSeq(f.values) {
			m.counts[[2]string{f.name, strings.Trim(value, "-")}] = new(atomic.Int64)
		}
	}
	for name := range strings.FieldsSeq(ofProcess) {
		m.families[name] = family{name: name, help: "As of any program in Go.", labels: "version"}
	}
	m.tiers.Store(new(map[string]*tier))
	return m
}

// Handler answers scrapes, two at a time.
func (m *Metrics) Handler() http.Handler {
	room := make(chan struct{}, 2)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case room <- struct{}{}:
			text := m.scrape(func() { <-room }) // before a slow reader has it
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_, _ = io.WriteString(w, text)
		default:
			http.Error(w, "two scrapes are being answered", http.StatusServiceUnavailable)
		}
	})
}

// SetSchedule shows the tiers of the schedule from now on, and no others. What they have
// counted goes on. dead says that there is a status for dead records.
func (m *Metrics) SetSchedule(list []tiers.Tier, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, now := *m.tiers.Load(), m.o.Now()
	all := make(map[string]*tier)
	for _, t := range list {
		x := &tier{Tier: t, lastPass: now, lastFinish: now}
		if o := old[t.Name]; o != nil {
			x.tally, x.lastPass, x.lastFinish = o.tally, o.lastPass, o.lastFinish
		} else {
			x.tally = newTally()
		}
		if m.o.Table {
			next := t.Next(now)
			x.interval = t.Next(next).Sub(next)
		}
		all[t.Name] = x
	}
	m.dead = dead
	m.tiers.Store(&all)
}

// LastPass notes a pass of an earlier life. It is called in the order in which passes ended.
func (m *Metrics) LastPass(maxAge time.Duration, ended time.Time, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range *m.tiers.Load() {
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
		result, m.reloaded = "success", m.o.Now()
	}
	m.add(1, "backlog_config_reloads_total", result)
}

// Pinged counts a ping: success, failure or dropped.
func (m *Metrics) Pinged(result string) { m.add(1, "backlog_pings_total", result) }

func (m *Metrics) add(n int, name, label string) {
	if c := m.counts[[2]string{name, label}]; c != nil {
		c.Add(int64(n))
	}
}

// Observe takes one event. It is cheap: there may be millions.
func (m *Metrics) Observe(ev backlog.Event) {
	t := (*m.tiers.Load())[ev.Tier]
	if t == nil { // it is no more, or the event has none
		t = &m.other
	}
	if ev.Kind != backlog.AttemptEnded {
		m.rare(t, ev)
		return
	}
	if ev.Outcome >= backlog.HandedOver { // the outcome follows
		return
	}
	t.attempts[ev.Outcome].Add(1)
	if ev.Took > 0 {
		m.took.observe(ev.Took.Seconds())
	}
}

// rare takes any event but the end of an attempt.
func (m *Metrics) rare(t *tier, ev backlog.Event) {
	if c, ok := plain[ev.Kind]; ok {
		m.add(1, c[0], c[1])
	}
	switch ev.Kind {
	case backlog.Settled:
		m.add(ev.N, "backlog_settlements_total", "written")
	case backlog.Expired:
		m.add(ev.N, "backlog_dead_records_total", "expired")
	case backlog.TicksMissed:
		t.missed.Add(int64(ev.N))
	case backlog.TierSkipped:
		t.skipped.Add(1)
	case backlog.TierCovered:
		t.covered.Add(1)
	case backlog.PassEnded:
		m.passEnded(t, ev)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch ev.Kind {
	case backlog.Died:
		if m.dead {
			m.add(1, "backlog_dead_records_total", strings.ReplaceAll(ev.Record.Reason, " ", "_"))
		}
	case backlog.StoreUnavailable:
		m.since = ev.At
	case backlog.StoreBack:
		m.away, m.since = m.awayUntil(ev.At), time.Time{}
	case backlog.Woke: // the loop plans
		for _, t := range *m.tiers.Load() {
			t.next = t.Next(ev.At)
			t.interval = t.Next(t.next).Sub(t.next)
		}
	}
}

// awayUntil is how long the database has been away in all. The caller holds the lock.
func (m *Metrics) awayUntil(now time.Time) time.Duration {
	return m.away + max(0, now.Sub(cmp.Or(m.since, now)))
}

func (m *Metrics) passEnded(t *tier, ev backlog.Event) {
	r := ev.Report
	stopped := r.Stopped
	if r.Complete {
		stopped = results[0]
	}
	if i := slices.Index(results, stopped); i >= 0 {
		t.passes[i].Add(1)
	}
	if r.Started.IsZero() { // it got no lock
		return
	}
	t.seconds.observe(r.Duration.Seconds())
	m.LastPass(r.MaxAge, ev.At, r.Complete)
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
