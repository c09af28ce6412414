package metrics

// A family is a metric with all its series.
type family struct {
	table      bool // only where the records are a table's
	name, help string
	labels     string // in alphabetical order, as Prometheus has them; le is a histogram's
	values     string // of its label, if the series are counters that there are from the start; "-": it has no label
}

const attempts = "backlog_attempts_total"

// families are all of them.
var families = []family{
	{false, "backlog_build_info", "What the program was built from.", "goversion revision version", ""},
	{false, "backlog_leader", "1 if this process works on the table, 0 if it stands by.", "", ""},
	{false, "backlog_in_flight", "Handler calls under way.", "", ""},
	{false, "backlog_concurrency", "Handler calls that can be under way.", "", ""},
	{false, "backlog_pause_until_timestamp_seconds", "Until when nothing is started; 0: there is no pause; +Inf: until it is resumed.", "", ""},
	{false, "backlog_attempt_duration_seconds", "Time that handlers take for one record.", "le", ""},
	{false, attempts, "Attempts that have ended, by outcome.", "outcome tier", "success error reject skip"},
	{false, "backlog_settlements_total", "Outcomes of attempts by what became of them.", "result", "written conflict refused unwritten"},
	{false, "backlog_handler_pauses_total", "Pauses that handlers have asked for.", "", "-"},
	{false, "backlog_unreadable_rows_total", "Rows that could not be records, each time that one was met.", "", "-"},
	{false, "backlog_panics_total", "Panics that were survived.", "", "-"},
	{false, "backlog_store_unavailable_total", "Times that the database or the broker went away.", "", "-"},
	{false, "backlog_store_unavailable_seconds_total", "How long the database or the broker was away.", "", ""},
	{true, "backlog_store_up", "1 if the database does what passes need.", "", ""},
	{true, "backlog_pass_duration_seconds", "Time that passes take.", "tier le", ""},
	{true, "backlog_passes_total", "Passes that have ended, by how.", "result tier", "complete max_records abort_after signal reload lock pause error"},
	{true, "backlog_ticks_missed_total", "Ticks while nothing ran, which one pass has made up for.", "tier", "-"},
	{true, "backlog_tiers_skipped_total", "Ticks of a tier whose last pass still ran.", "tier", "-"},
	{true, "backlog_tiers_covered_total", "Ticks of a tier that the pass of a wider one has covered.", "tier", "-"},
	{true, "backlog_tier_interval_seconds", "Time between the next two ticks of a tier.", "tier", ""},
	{true, "backlog_next_tick_timestamp_seconds", "The next tick of a tier that the loop has planned.", "tier", ""},
	{true, "backlog_last_pass_timestamp_seconds", "When the last pass over a tier's records ended.", "tier", ""},
	{true, "backlog_last_complete_pass_timestamp_seconds", "When the last pass that came to all of a tier's records ended.", "tier", ""},
	{true, "backlog_pending_records", "Pending records by the tier that their age falls into; beyond: older than every tier.", "lane tier", ""},
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

// ofProcess are metrics of any program in Go, by the names that Prometheus' own client has
// for them.
const ofProcess = `go_gc_duration_seconds go_goroutines go_info go_threads go_memstats_alloc_bytes go_memstats_alloc_bytes_total
	go_memstats_heap_idle_bytes go_memstats_heap_inuse_bytes go_memstats_heap_objects go_memstats_heap_released_bytes
	go_memstats_last_gc_time_seconds go_memstats_next_gc_bytes go_memstats_stack_inuse_bytes go_memstats_sys_bytes
	process_cpu_seconds_total process_max_fds process_open_fds process_resident_memory_bytes process_start_time_seconds process_virtual_memory_bytes`
