package metrics

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A scrape collects the answer to a scrape, in the text format of Prometheus, version 0.0.4.
type scrape struct {
	m     *Metrics
	lines map[string][]string // by family; one string per series
}

// add adds a series with the values of its labels, unless this process does not export the family.
func (x scrape) add(name string, v float64, values ...string) {
	if f, ok := x.m.families[name]; ok {
		x.lines[name] = append(x.lines[name], name+x.labels(f, "", values...)+" "+number(v)+"\n")
	}
}

// addEach adds a series of each metric, all with the same labels.
func (x scrape) addEach(metrics map[string]float64, values ...string) {
	for name, v := range metrics {
		x.add(name, v, values...)
	}
}

// labels returns the labels of a series in alphabetical order: the first of the family's labels with
// the given values, and the configured name. The bound of a bucket comes last; "": none.
func (x scrape) labels(f family, bound string, values ...string) string {
	names := strings.Fields(f.labels)[:len(values)]
	var list []string
	for i, v := range values {
		list = append(list, names[i]+`="`+escape.Replace(v)+`"`)
	}
	if name := x.m.o.Name; name != "" && strings.HasPrefix(f.name, "backlog_") {
		list = append(list, `name="`+escape.Replace(name)+`"`)
	}
	slices.Sort(list)
	if bound != "" {
		list = append(list, `le="`+bound+`"`)
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// text returns the whole answer, ordered by name and labels.
func (x scrape) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(x.lines)) {
		f := x.m.families[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, f.help, f.kind())
		series := x.lines[name]
		slices.Sort(series)
		for _, s := range slices.CompactFunc(series, sameLabels) {
			b.WriteString(s)
		}
	}
	return b.String()
}

// sameLabels reports whether two lines have the same name and labels.
func sameLabels(s, t string) bool {
	return s[:strings.LastIndexByte(s, ' ')] == t[:strings.LastIndexByte(t, ' ')]
}

// kind returns the family's type.
func (f family) kind() string {
	switch {
	case strings.HasSuffix(f.name, "_total"):
		return "counter"
	case strings.HasSuffix(f.labels, "le"):
		return "histogram"
	case f.name == "go_gc_duration_seconds":
		return "summary"
	}
	return "gauge"
}

// A histogram counts values in buckets.
type histogram struct {
	bounds []float64 // the greatest value of each bucket but the last
	counts []int64   // of each bucket alone; the last one has the values above all bounds
	sum    float64
}

func newHistogram(bounds ...float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// addHistogram adds the series of a histogram with the values of its labels.
func (x scrape) addHistogram(name string, h *histogram, values ...string) {
	f, ok := x.m.families[name]
	if !ok {
		return
	}
	var b strings.Builder
	var n int64
	for i, c := range h.counts {
		n += c
		le := "+Inf"
		if i < len(h.bounds) {
			le = number(h.bounds[i])
		}
		fmt.Fprintf(&b, "%s_bucket%s %d\n", name, x.labels(f, le, values...), n)
	}
	fmt.Fprintf(&b, "%s_sum%s %s\n%[1]s_count%[2]s %[4]d\n", name, x.labels(f, "", values...), number(h.sum), n)
	x.lines[name] = append(x.lines[name], b.String())
}

// addProcess adds the metrics of any Go program, by the names of Prometheus' own client.
func (x scrape) addProcess() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	threads, _ := runtime.ThreadCreateProfile(nil)
	x.addEach(map[string]float64{
		"go_memstats_alloc_bytes":          float64(mem.Alloc),
		"go_memstats_alloc_bytes_total":    float64(mem.TotalAlloc),
		"go_memstats_sys_bytes":            float64(mem.Sys),
		"go_memstats_next_gc_bytes":        float64(mem.NextGC),
		"go_memstats_heap_idle_bytes":      float64(mem.HeapIdle),
		"go_memstats_heap_inuse_bytes":     float64(mem.HeapInuse),
		"go_memstats_heap_objects":         float64(mem.HeapObjects),
		"go_memstats_heap_released_bytes":  float64(mem.HeapReleased),
		"go_memstats_stack_inuse_bytes":    float64(mem.StackInuse),
		"go_memstats_last_gc_time_seconds": float64(mem.LastGC) / 1e9,
		"go_threads":                       float64(threads),
		"go_goroutines":                    float64(runtime.NumGoroutine()),
	})
	const gc = "go_gc_duration_seconds"
	x.lines[gc] = []string{fmt.Sprintf("%s_sum %s\n%[1]s_count %[3]d\n", gc, number(float64(mem.PauseTotalNs)/1e9), mem.NumGC)}
	x.add("go_info", 1, runtime.Version())

	x.addTime("process_start_time_seconds", x.m.started)
	var used syscall.Rusage
	var files syscall.Rlimit
	if errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &used), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)) == nil {
		x.add("process_cpu_seconds_total", time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
		x.add("process_max_fds", float64(files.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		x.add("process_open_fds", float64(len(open)-1)) // without the one that reads the folder
	}
	var pages, resident float64
	text, _ := os.ReadFile("/proc/self/statm") // on Linux only
	if n, _ := fmt.Sscan(string(text), &pages, &resident); n == 2 {
		x.add("process_virtual_memory_bytes", pages*float64(os.Getpagesize()))
		x.add("process_resident_memory_bytes", resident*float64(os.Getpagesize()))
	}
}
