package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
)

// A State is what a scrape shows of the process beside what its events add up to.
type State struct {
	Leads       bool // also where nobody can stand by
	StoreUp     bool
	Paused      bool
	PauseUntil  time.Time // zero: until it is resumed
	Concurrency int
	InFlight    int // handler calls

	Counts      *inspect.Status // nil: not counted yet
	Counted     time.Time
	Took        time.Duration // for counting
	CountErrors int

	Answers [6]int64 // to requests for pages and the API; at 2 those with 2xx
	Broker  *Broker  // nil: none is used
}

// A Broker is what RabbitMQ has been given and has brought.
type Broker struct {
	Up                                             bool
	Dispatched, Settled, Late, Stale, Forged, Lost uint64
}

func (x scrape) is(name string, b bool) { x.show(name, map[bool]float64{true: 1}[b]) }

func (x scrape) at(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		x.show(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// scrape returns what there is, in the text format of Prometheus. done is called at its
// end, also that by a panic.
func (m *Metrics) scrape(done func()) string {
	defer done()
	x := scrape{m, make(map[string][]string)}
	x.process()
	x.backlog()
	return x.text()
}

// backlog shows all that is not of the process itself.
func (x scrape) backlog() {
	m := x.m
	s := m.o.State()
	m.mu.Lock()
	defer m.mu.Unlock()
	x.show("backlog_build_info", 1, m.o.GoVersion, m.o.Revision, m.o.Version)
	x.histogram("backlog_attempt_duration_seconds", m.took)
	x.is("backlog_leader", s.Leads)
	x.is("backlog_store_up", s.StoreUp)
	x.each(map[string]float64{
		"backlog_in_flight":           float64(s.InFlight),
		"backlog_concurrency":         float64(s.Concurrency),
		"backlog_counts_errors_total": float64(s.CountErrors),
	})
	switch {
	case !s.Paused:
		x.show("backlog_pause_until_timestamp_seconds", 0)
	case s.PauseUntil.IsZero():
		x.show("backlog_pause_until_timestamp_seconds", math.Inf(1))
	}
	x.at("backlog_pause_until_timestamp_seconds", s.PauseUntil)
	x.counters(m.counts)
	for i, n := range s.Answers[2:] {
		x.show("backlog_web_requests_total", float64(n), strconv.Itoa(2+i)+"xx")
	}
	if s.Broker != nil {
		x.broker(s.Broker)
	}
	x.show("backlog_store_unavailable_seconds_total", m.awayUntil(m.o.Now()).Seconds())
	x.at("backlog_config_last_reload_success_timestamp_seconds", m.reloaded)
	if !s.Leads {
		return
	}
	for name, t := range m.tiers {
		x.tier(name, t)
	}
	for key, n := range m.other.counts {
		if key[0] == attempts {
			x.show(attempts, float64(n), key[1], "")
		}
	}
	if s.Counts != nil {
		x.counts(&s)
	}
}

// counters shows counts, with the labels of all of them behind their own.
func (x scrape) counters(c counts, labels ...string) {
	for key, n := range c {
		x.show(key[0], float64(n), append(strings.Fields(key[1]), labels...)...)
	}
}

// tier shows a tier. The caller holds the lock.
func (x scrape) tier(name string, t *tier) {
	x.counters(t.counts, name)
	x.histogram("backlog_pass_duration_seconds", t.seconds, name)
	x.show("backlog_tier_interval_seconds", t.interval.Seconds(), name)
	x.at("backlog_next_tick_timestamp_seconds", t.next, name)
	x.at("backlog_last_pass_timestamp_seconds", t.lastPass, name)
	x.at("backlog_last_complete_pass_timestamp_seconds", t.lastFinish, name)
}

func (x scrape) counts(s *State) {
	c := s.Counts
	for _, b := range append(c.Bands[:len(c.Bands):len(c.Bands)], inspect.TierBand{Tier: "beyond", Band: c.Beyond}) {
		if x.m.tiers[b.Tier] == nil && b.Tier != "beyond" {
			continue // it was counted before a reload
		}
		x.show("backlog_pending_records", float64(b.Fresh), "fresh", b.Tier)
		x.show("backlog_pending_records", float64(b.Failed), "failed", b.Tier)
		x.at("backlog_oldest_pending_timestamp_seconds", time.Time(b.Oldest), b.Tier)
	}
	x.each(map[string]float64{
		"backlog_exhausted_records":       float64(c.Exhausted),
		"backlog_unreadable_records":      float64(c.Unreadable),
		"backlog_counts_duration_seconds": s.Took.Seconds(),
	})
	x.at("backlog_counts_timestamp_seconds", s.Counted)
}

func (x scrape) broker(b *Broker) {
	x.is("backlog_broker_up", b.Up)
	x.each(map[string]float64{
		"backlog_dispatched_total":    float64(b.Dispatched),
		"backlog_lost_attempts_total": float64(b.Lost),
	})
	for result, n := range map[string]uint64{"settled": b.Settled, "late": b.Late, "stale": b.Stale, "forged": b.Forged} {
		x.show("backlog_outcomes_total", float64(n), result)
	}
}
