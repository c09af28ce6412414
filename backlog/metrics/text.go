package metrics

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A scrape is the answer to one, in the text format of Prometheus, version 0.0.4: by the
// names of metrics, the lines of each of their series.
type scrape struct {
	m    *Metrics
	have map[string][]string
}

// show adds a series, unless it is of a table, which this process does not have.
func (x scrape) show(name string, v float64, values ...string) {
	if f, ok := x.m.families[name]; ok {
		x.have[name] = append(x.have[name], name+x.labelled(f, "", values...)+" "+number(v)+"\n")
	}
}

// each adds a series of each metric, all with the same labels.
func (x scrape) each(metrics map[string]float64, values ...string) {
	for name, v := range metrics {
		x.show(name, v, values...)
	}
}

// labelled returns the values of the first of the family's labels with their names, and
// the name of the work, in their order, then the bound of a histogram; "": it has none.
func (x scrape) labelled(f family, bound string, values ...string) string {
	names := strings.Fields(f.labels)[:len(values)]
	var list []string
	for i, v := range values {
		list = append(list, names[i]+`="`+escape.Replace(v)+`"`)
	}
	if work := x.m.o.Name; work != "" && strings.HasPrefix(f.name, "backlog_") {
		list = append(list, `name="`+escape.Replace(work)+`"`)
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

// text returns it all, by name and labels.
func (x scrape) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(x.have)) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, x.m.families[name].help, x.m.families[name].kind())
		series := x.have[name]
		slices.Sort(series)
		for _, s := range slices.CompactFunc(series, sameLabels) {
			b.WriteString(s)
		}
	}
	return b.String()
}

// sameLabels reports whether two lines differ in their values alone.
func sameLabels(s, t string) bool {
	return s[:strings.LastIndexByte(s, ' ')] == t[:strings.LastIndexByte(t, ' ')]
}

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

// A histogram counts values by the bounds that they are not above.
type histogram struct {
	bounds []float64
	counts []int64 // the last: above all bounds
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

func (x scrape) histogram(name string, h *histogram, values ...string) {
	f, ok := x.m.families[name]
	if !ok {
		return
	}
	var b strings.Builder
	var n int64
	for i, c := range h.counts {
		n += c
		le := number(append(h.bounds, math.Inf(1))[i])
		fmt.Fprintf(&b, "%s_bucket%s %d\n", name, x.labelled(f, le, values...), n)
	}
	fmt.Fprintf(&b, "%s_sum%s %s\n%[1]s_count%[2]s %[4]d\n", name, x.labelled(f, "", values...), number(h.sum), n)
	x.have[name] = append(x.have[name], b.String())
}

// process shows what is of any program in Go, under the names that its users know.
func (x scrape) process() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	threads, _ := runtime.ThreadCreateProfile(nil)
	x.each(map[string]float64{
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
	x.have[gc] = []string{fmt.Sprintf("%s_sum %s\n%[1]s_count %[3]d\n", gc, number(float64(mem.PauseTotalNs)/1e9), mem.NumGC)}
	x.show("go_info", 1, runtime.Version())

	x.at("process_start_time_seconds", x.m.started)
	var used syscall.Rusage
	var files syscall.Rlimit
	if errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &used), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)) == nil {
		x.show("process_cpu_seconds_total", time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
		x.show("process_max_fds", float64(files.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		x.show("process_open_fds", float64(len(open)-1)) // without the folder itself
	}
	var pages, resident float64
	text, _ := os.ReadFile("/proc/self/statm") // Linux has it
	if n, _ := fmt.Sscan(string(text), &pages, &resident); n == 2 {
		x.show("process_virtual_memory_bytes", pages*float64(os.Getpagesize()))
		x.show("process_resident_memory_bytes", resident*float64(os.Getpagesize()))
	}
}
