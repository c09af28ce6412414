package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
)

// A State is what a scrape exports of the process besides the counts of its events.
type State struct {
	Leads       bool // it is the leader, or there is no leader
	StoreUp     bool
	Paused      bool
	PauseUntil  time.Time // zero: until it is ended by hand
	Concurrency int
	InFlight    int // handler calls
	Snoozed     int // records that no row keeps as snoozed

	Counts      *inspect.Status // nil: not counted yet
	Counted     time.Time
	Took        time.Duration // the count
	CountErrors int

	Answers [6]int64 // requests for pages and the API by the first digit of their status
	Broker  *Broker  // nil: no broker is used
}

// A Broker counts the records dispatched to RabbitMQ and the outcomes that came back.
type Broker struct {
	Up bool

	Dispatched uint64
	Settled    uint64
	Late       uint64
	Stale      uint64
	Forged     uint64
	Lost       uint64
}

// addBool adds a gauge that is 1 or 0.
func (x scrape) addBool(name string, b bool) {
	value := 0.0
	if b {
		value = 1
	}
	x.add(name, value)
}

// addTime adds a gauge in Unix seconds, unless the time is zero.
func (x scrape) addTime(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		x.add(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// scrape returns all metrics in the text format of Prometheus. It calls done when it ends, also by a
// panic.
func (m *Metrics) scrape(done func()) string {
	defer done()
	x := scrape{m: m, lines: make(map[string][]string)}
	x.addProcess()
	x.addBacklog()
	return x.text()
}

// addBacklog adds all metrics but those that any Go program has.
func (x scrape) addBacklog() {
	m := x.m
	s := m.o.State()
	m.mu.Lock()
	defer m.mu.Unlock()
	x.add("backlog_build_info", 1, m.o.GoVersion, m.o.Revision, m.o.Version)
	x.addHistogram("backlog_attempt_duration_seconds", m.attemptSeconds)
	x.addBool("backlog_leader", s.Leads)
	x.addBool("backlog_store_up", s.StoreUp)
	x.addEach(map[string]float64{
		"backlog_in_flight":           float64(s.InFlight),
		"backlog_snoozed_records":     float64(s.Snoozed),
		"backlog_concurrency":         float64(s.Concurrency),
		"backlog_counts_errors_total": float64(s.CountErrors),
	})
	switch {
	case !s.Paused:
		x.add("backlog_pause_until_timestamp_seconds", 0)
	case s.PauseUntil.IsZero():
		x.add("backlog_pause_until_timestamp_seconds", math.Inf(1))
	}
	x.addTime("backlog_pause_until_timestamp_seconds", s.PauseUntil)
	x.addCounters(m.counts)
	for i, n := range s.Answers[2:] {
		x.add("backlog_web_requests_total", float64(n), strconv.Itoa(2+i)+"xx")
	}
	if s.Broker != nil {
		x.addBroker(s.Broker)
	}
	x.add("backlog_store_unavailable_seconds_total", m.unavailableUntil(m.o.Now()).Seconds())
	x.addTime("backlog_config_last_reload_success_timestamp_seconds", m.reloaded)
	if !s.Leads {
		return
	}
	for name, t := range m.tiers {
		x.addTier(name, t)
	}
	for key, n := range m.other.counts {
		if key[0] == attempts {
			x.add(attempts, float64(n), key[1], "")
		}
	}
	if s.Counts != nil {
		x.addCounts(&s)
	}
}

// addCounters adds counters. The labels follow their own label.
func (x scrape) addCounters(c counts, labels ...string) {
	for key, n := range c {
		x.add(key[0], float64(n), append(strings.Fields(key[1]), labels...)...)
	}
}

// addTier adds the metrics of a tier. The caller holds the lock.
func (x scrape) addTier(name string, t *tier) {
	x.addCounters(t.counts, name)
	x.addHistogram("backlog_pass_duration_seconds", t.passSeconds, name)
	x.add("backlog_tier_interval_seconds", t.interval.Seconds(), name)
	x.addTime("backlog_next_tick_timestamp_seconds", t.next, name)
	x.addTime("backlog_last_pass_timestamp_seconds", t.lastPass, name)
	x.addTime("backlog_last_complete_pass_timestamp_seconds", t.lastComplete, name)
}

// addCounts adds the counts of the table. The caller holds the lock.
func (x scrape) addCounts(s *State) {
	c := s.Counts
	bands := append(slices.Clone(c.Bands), inspect.TierBand{Tier: inspect.Beyond, Band: c.Beyond})
	for _, b := range bands {
		if x.m.tiers[b.Tier] == nil && b.Tier != inspect.Beyond {
			continue // a reload has removed the tier since the count
		}
		x.add("backlog_pending_records", float64(b.Fresh), "fresh", b.Tier)
		x.add("backlog_pending_records", float64(b.Failed), "failed", b.Tier)
		x.addTime("backlog_oldest_pending_timestamp_seconds", time.Time(b.Oldest), b.Tier)
	}
	x.addEach(map[string]float64{
		"backlog_exhausted_records":       float64(c.Exhausted),
		"backlog_unreadable_records":      float64(c.Unreadable),
		"backlog_counts_duration_seconds": s.Took.Seconds(),
	})
	x.addTime("backlog_counts_timestamp_seconds", s.Counted)
}

// addBroker adds the metrics of dispatched records.
func (x scrape) addBroker(b *Broker) {
	x.addBool("backlog_broker_up", b.Up)
	x.addEach(map[string]float64{
		"backlog_dispatched_total":    float64(b.Dispatched),
		"backlog_lost_attempts_total": float64(b.Lost),
	})
	results := map[string]uint64{"settled": b.Settled, "late": b.Late, "stale": b.Stale, "forged": b.Forged}
	for result, n := range results {
		x.add("backlog_outcomes_total", float64(n), result)
	}
}
