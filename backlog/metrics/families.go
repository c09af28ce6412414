package metrics

// A family is a metric with all its series.
type family struct {
	name   string
	help   string
	labels string // in alphabetical order; a histogram ends with le
	zeros  string // values of the first label whose counters are exported from the start; "-": there is no label
	table  bool   // exported only if the records come from a table
}

const attempts = "backlog_attempts_total"

// families are the metrics that only this program has.
var families = []family{
	{name: "backlog_build_info", help: "What the program was built from.", labels: "goversion revision version"},
	{name: "backlog_leader", help: "1 if this process works on the table, 0 if it stands by."},
	{name: "backlog_in_flight", help: "Handler calls under way."},
	{name: "backlog_snoozed_records", help: "Records that this process remembers not to try yet, since no row keeps it.", table: true},
	{name: "backlog_concurrency", help: "Handler calls that can be under way."},
	{name: "backlog_pause_until_timestamp_seconds", help: "Until when nothing is started; 0: there is no pause; +Inf: until it is resumed."},
	{name: "backlog_attempt_duration_seconds", help: "Time that handlers take for one record.", labels: "le"},
	{name: attempts, help: "Attempts that have ended, by outcome.", labels: "outcome tier", zeros: "success error reject skip snooze"},
	{name: "backlog_settlements_total", help: "Outcomes of attempts by what became of them.", labels: "result", zeros: "written conflict refused unwritten"},
	{name: "backlog_handler_pauses_total", help: "Pauses that handlers have asked for.", zeros: "-"},
	{name: "backlog_unreadable_rows_total", help: "Rows that could not be records, each time that one was met.", zeros: "-"},
	{name: "backlog_panics_total", help: "Panics that were survived.", zeros: "-"},
	{name: "backlog_store_unavailable_total", help: "Times that the database or the broker went away.", zeros: "-"},
	{name: "backlog_store_unavailable_seconds_total", help: "How long the database or the broker was away."},
	{name: "backlog_store_up", help: "1 if the database does what passes need.", table: true},
	{name: "backlog_pass_duration_seconds", help: "Time that passes take.", labels: "tier le", table: true},
	{name: "backlog_passes_total", help: "Passes that have ended, by how.", labels: "result tier", zeros: "complete max_records abort_after signal reload lock pause error", table: true},
	{name: "backlog_ticks_missed_total", help: "Ticks while nothing ran, which one pass has made up for.", labels: "tier", zeros: "-", table: true},
	{name: "backlog_tiers_skipped_total", help: "Ticks of a tier whose last pass still ran.", labels: "tier", zeros: "-", table: true},
	{name: "backlog_tiers_covered_total", help: "Ticks of a tier that the pass of a wider one has covered.", labels: "tier", zeros: "-", table: true},
	{name: "backlog_tier_interval_seconds", help: "Time between the next two ticks of a tier.", labels: "tier", table: true},
	{name: "backlog_next_tick_timestamp_seconds", help: "The next tick of a tier that the loop has planned.", labels: "tier", table: true},
	{name: "backlog_last_pass_timestamp_seconds", help: "When the last pass over a tier's records ended.", labels: "tier", table: true},
	{name: "backlog_last_complete_pass_timestamp_seconds", help: "When the last pass that came to all of a tier's records ended.", labels: "tier", table: true},
	{name: "backlog_pending_records", help: "Pending records by the tier that their age falls into; beyond: older than every tier.", labels: "lane tier", table: true},
	{name: "backlog_oldest_pending_timestamp_seconds", help: "When the oldest pending record of a tier was inserted.", labels: "tier", table: true},
	{name: "backlog_exhausted_records", help: "Failed records that are out of retries.", table: true},
	{name: "backlog_unreadable_records", help: "Pending rows without a date that can be read.", table: true},
	{name: "backlog_counts_timestamp_seconds", help: "When the records were counted.", table: true},
	{name: "backlog_counts_duration_seconds", help: "How long it took to count the records.", table: true},
	{name: "backlog_counts_errors_total", help: "Counts of the records that have failed.", table: true},
	{name: "backlog_dead_records_total", help: "Records that are never tried again, by why.", labels: "reason", zeros: "rejected out_of_retries expired discarded", table: true},
	{name: "backlog_on_dead_failures_total", help: "Calls of on_dead that failed: nobody was told of a dead record.", zeros: "-"},
	{name: "backlog_lock_lost_total", help: "Times that the lock over the table was lost.", zeros: "-", table: true},
	{name: "backlog_clock_set_back_total", help: "Times that the clock was set back.", zeros: "-", table: true},
	{name: "backlog_state_failures_total", help: "Times that the state file could not be read or written.", zeros: "-", table: true},
	{name: "backlog_config_reloads_total", help: "Reloads of the configuration.", labels: "result", zeros: "success failure", table: true},
	{name: "backlog_config_last_reload_success_timestamp_seconds", help: "When the configuration was loaded that is in force.", table: true},
	{name: "backlog_pings_total", help: "Pings by what became of them.", labels: "result", zeros: "success failure dropped", table: true},
	{name: "backlog_web_requests_total", help: "Requests for pages and the API, by class of their status.", labels: "code", table: true},
	{name: "backlog_broker_up", help: "1 if there is a connection to the broker."},
	{name: "backlog_dispatched_total", help: "Records given to workers.", table: true},
	{name: "backlog_outcomes_total", help: "Outcomes that workers have sent, by what became of them.", labels: "result", table: true},
	{name: "backlog_lost_attempts_total", help: "Records given to workers of which nothing was heard again.", table: true},
}

// processFamilies are the metrics of any Go program, by the names of Prometheus' own client.
const processFamilies = `go_gc_duration_seconds go_goroutines go_info go_threads go_memstats_alloc_bytes go_memstats_alloc_bytes_total
	go_memstats_heap_idle_bytes go_memstats_heap_inuse_bytes go_memstats_heap_objects go_memstats_heap_released_bytes
	go_memstats_last_gc_time_seconds go_memstats_next_gc_bytes go_memstats_stack_inuse_bytes go_memstats_sys_bytes
	process_cpu_seconds_total process_max_fds process_open_fds process_resident_memory_bytes process_start_time_seconds process_virtual_memory_bytes`
