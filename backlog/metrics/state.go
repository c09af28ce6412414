package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"backlog/backlog"
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

// Describe implements [prometheus.Collector]: what there is depends on the schedule.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// A scrape is the answer to one.
type scrape struct {
	m  *Metrics
	ch chan<- prometheus.Metric
}

// show adds a series, unless it is of a table, which this process does not have.
func (x scrape) show(name string, v float64, labels ...string) {
	d, kind := x.m.descs[name], prometheus.GaugeValue
	if d == nil {
		return
	}
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	x.ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
}

func (x scrape) is(name string, b bool) { x.show(name, map[bool]float64{true: 1}[b]) }

func (x scrape) at(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		x.show(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	s, x := m.o.State(), scrape{m, ch}
	x.show("backlog_build_info", 1, m.o.Version, m.o.Revision, m.o.GoVersion)
	x.is("backlog_leader", s.Leads)
	x.is("backlog_store_up", s.StoreUp)
	x.show("backlog_in_flight", float64(s.InFlight))
	x.show("backlog_concurrency", float64(s.Concurrency))
	x.show("backlog_counts_errors_total", float64(s.CountErrors))
	switch {
	case !s.Paused:
		x.show("backlog_pause_until_timestamp_seconds", 0)
	case s.PauseUntil.IsZero():
		x.show("backlog_pause_until_timestamp_seconds", math.Inf(1))
	}
	x.at("backlog_pause_until_timestamp_seconds", s.PauseUntil)
	for key, n := range m.counts {
		var labels []string
		if key[1] != "" {
			labels = key[1:]
		}
		x.show(key[0], float64(n.Load()), labels...)
	}
	for class := 2; class < len(s.Answers); class++ {
		x.show("backlog_web_requests_total", float64(s.Answers[class]), strconv.Itoa(class)+"xx")
	}
	if s.Broker != nil {
		x.broker(s.Broker)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x.show("backlog_store_unavailable_seconds_total", m.awayUntil(m.o.Now()).Seconds())
	x.at("backlog_config_last_reload_success_timestamp_seconds", m.reloaded)
	if !s.Leads {
		return
	}
	for name, t := range *m.tiers.Load() {
		x.tier(name, t)
	}
	for o := range m.other.attempts {
		if n := m.other.attempts[o].Load(); n > 0 {
			x.show("backlog_attempts_total", float64(n), "", backlog.Outcome(o).String())
		}
	}
	if s.Counts != nil {
		x.counts(&s)
	}
}

// tier shows a tier. The caller holds the lock.
func (x scrape) tier(name string, t *tier) {
	for o := range t.attempts {
		x.show("backlog_attempts_total", float64(t.attempts[o].Load()), name, backlog.Outcome(o).String())
	}
	if !x.m.o.Table {
		return
	}
	for i, result := range results {
		x.show("backlog_passes_total", float64(t.passes[i].Load()), name, result)
	}
	t.seconds.Collect(x.ch)
	x.show("backlog_ticks_missed_total", float64(t.missed.Load()), name)
	x.show("backlog_tiers_skipped_total", float64(t.skipped.Load()), name)
	x.show("backlog_tiers_covered_total", float64(t.covered.Load()), name)
	x.show("backlog_tier_interval_seconds", t.interval.Seconds(), name)
	x.at("backlog_next_tick_timestamp_seconds", t.next, name)
	x.at("backlog_last_pass_timestamp_seconds", t.lastPass, name)
	x.at("backlog_last_complete_pass_timestamp_seconds", t.lastFinish, name)
}

func (x scrape) counts(s *State) {
	c := s.Counts
	for _, b := range append(c.Bands[:len(c.Bands):len(c.Bands)], inspect.TierBand{Tier: "beyond", Band: c.Beyond}) {
		if t := (*x.m.tiers.Load())[b.Tier]; t == nil && b.Tier != "beyond" {
			continue // it was counted before a reload
		}
		x.show("backlog_pending_records", float64(b.Fresh), b.Tier, "fresh")
		x.show("backlog_pending_records", float64(b.Failed), b.Tier, "failed")
		x.at("backlog_oldest_pending_timestamp_seconds", time.Time(b.Oldest), b.Tier)
	}
	x.show("backlog_exhausted_records", float64(c.Exhausted))
	x.show("backlog_unreadable_records", float64(c.Unreadable))
	x.at("backlog_counts_timestamp_seconds", s.Counted)
	x.show("backlog_counts_duration_seconds", s.Took.Seconds())
}

func (x scrape) broker(b *Broker) {
	x.is("backlog_broker_up", b.Up)
	x.show("backlog_dispatched_total", float64(b.Dispatched))
	x.show("backlog_lost_attempts_total", float64(b.Lost))
	for result, n := range map[string]uint64{"settled": b.Settled, "late": b.Late, "stale": b.Stale, "forged": b.Forged} {
		x.show("backlog_outcomes_total", float64(n), result)
	}
}

// A family is a metric with all its series.
type family struct {
	table      bool // only where the records are a table's
	name, help string
	labels     string
	values     string // of its label, if the series are counters that there are from the start; "-": it has no label
}

// families are all of them but the histograms.
var families = []family{
	{false, "backlog_build_info", "What the program was built from.", "version revision goversion", ""},
	{false, "backlog_leader", "1 if this process works on the table, 0 if it stands by.", "", ""},
	{false, "backlog_in_flight", "Handler calls under way.", "", ""},
	{false, "backlog_concurrency", "Handler calls that can be under way.", "", ""},
	{false, "backlog_pause_until_timestamp_seconds", "Until when nothing is started; 0: there is no pause; +Inf: until it is resumed.", "", ""},
	{false, "backlog_attempts_total", "Attempts that have ended, by outcome.", "tier outcome", ""},
	{false, "backlog_settlements_total", "Outcomes of attempts by what became of them.", "result", "written conflict refused unwritten"},
	{false, "backlog_handler_pauses_total", "Pauses that handlers have asked for.", "", "-"},
	{false, "backlog_unreadable_rows_total", "Rows that could not be records, each time that one was met.", "", "-"},
	{false, "backlog_panics_total", "Panics that were survived.", "", "-"},
	{false, "backlog_store_unavailable_total", "Times that the database or the broker went away.", "", "-"},
	{false, "backlog_store_unavailable_seconds_total", "How long the database or the broker was away.", "", ""},
	{true, "backlog_store_up", "1 if the database answers.", "", ""},
	{true, "backlog_passes_total", "Passes that have ended, by how.", "tier result", ""},
	{true, "backlog_ticks_missed_total", "Ticks while nothing ran, which one pass has made up for.", "tier", ""},
	{true, "backlog_tiers_skipped_total", "Ticks of a tier whose last pass still ran.", "tier", ""},
	{true, "backlog_tiers_covered_total", "Ticks of a tier that the pass of a wider one has covered.", "tier", ""},
	{true, "backlog_tier_interval_seconds", "Time between the next two ticks of a tier.", "tier", ""},
	{true, "backlog_next_tick_timestamp_seconds", "The next tick of a tier that the loop has planned.", "tier", ""},
	{true, "backlog_last_pass_timestamp_seconds", "When the last pass over a tier's records ended.", "tier", ""},
	{true, "backlog_last_complete_pass_timestamp_seconds", "When the last pass that came to all of a tier's records ended.", "tier", ""},
	{true, "backlog_pending_records", "Pending records by the tier that their age falls into; beyond: older than every tier.", "tier lane", ""},
	{true, "backlog_oldest_pending_timestamp_seconds", "When the oldest pending record of a tier was inserted.", "tier", ""},
	{true, "backlog_exhausted_records", "Failed records that are out of retries.", "", ""},
	{true, "backlog_unreadable_records", "Pending rows without a date that can be read.", "", ""},
	{true, "backlog_counts_timestamp_seconds", "When the records were counted.", "", ""},
	{true, "backlog_counts_duration_seconds", "How long it took to count the records.", "", ""},
	{true, "backlog_counts_errors_total", "Counts of the records that have failed.", "", ""},
	{true, "backlog_dead_records_total", "Records that are never tried again, by why.", "reason", "rejected out_of_retries expired discarded"},
	{false, "backlog_on_dead_failures_total", "Calls of on_dead that failed: nobody was told of a dead record.", "", "-"},
	{true, "backlog_lock_lost_total", "Times that the lock over the table was lost.", "", "-"},
	{true, "backlog_clock_set_back_total", "Times that the clock was set back.", "", "-"},
	{true, "backlog_state_failures_total", "Times that the state file could not be read or written.", "", "-"},
	{true, "backlog_config_reloads_total", "Reloads of the configuration.", "result", "success failure"},
	{true, "backlog_config_last_reload_success_timestamp_seconds", "When the configuration was loaded that is in force.", "", ""},
	{true, "backlog_pings_total", "Pings by what became of them.", "result", "success failure dropped"},
	{true, "backlog_web_requests_total", "Requests for pages and the API, by class of their status.", "code", ""},
	{false, "backlog_broker_up", "1 if there is a connection to the broker.", "", ""},
	{true, "backlog_dispatched_total", "Records given to workers.", "", ""},
	{true, "backlog_outcomes_total", "Outcomes that workers have sent, by what became of them.", "result", ""},
	{true, "backlog_lost_attempts_total", "Records given to workers of which nothing was heard again.", "", ""},
}
