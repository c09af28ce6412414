package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"backlog/tiers"
)

// A Candidate is a schedule and a policy that a workload is simulated with.
type Candidate struct {
	Name string
	Options
}

// A Result is what became of a workload under a candidate.
type Result struct {
	Name     string          `json:"policy"`
	Seed     uint64          `json:"seed"`
	Schedule *tiers.Schedule `json:"-"`
	To       time.Time       `json:"-"` // the end of the workload
	*Report
}

// Compare lets the workload happen to each candidate, one after the other. With
// an error it returns the results so far; the last may be incomplete.
func Compare(ctx context.Context, w *Workload, list []Candidate) (all []Result, err error) {
	for _, c := range list {
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		r, err := Run(ctx, w, c.Options)
		if r.Complete || r.Attempts > 0 {
			all = append(all, Result{c.Name, w.Seed, c.Schedule, w.To, r})
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// A Figure is a number by which results are compared: the least is best.
type Figure struct {
	Title string // of its column
	Name  string // where it stands alone
	Key   string // in JSON
	value func(*Report) int64
	time  bool // the value is a time.Duration, in JSON seconds
	rare  bool // not worth a column where it is nothing

	// recovery: how soon records succeed that an outage held up. Without such
	// records it is no figure, and where some were lost it is no praise.
	recovery bool
}

var figures = []Figure{
	{Title: "CALLS", Name: "calls", Key: "attempts", value: func(r *Report) int64 { return int64(r.Attempts) }},
	{Title: "FAILED", Name: "calls that fail", Key: "failed", value: func(r *Report) int64 { return int64(r.Failed) }},
	{Title: "PEAK/MIN", Name: "calls in one minute, at most", Key: "peak_per_minute", value: func(r *Report) int64 { return int64(r.PeakPerMinute) }},
	{Title: "RECOVERY P50", Name: "recovery, half of them within", Key: "recovery_p50_seconds", value: recoveryWithin(0.5), time: true, recovery: true},
	{Title: "P95", Name: "recovery, 95% within", Key: "recovery_p95_seconds", value: recoveryWithin(0.95), time: true, recovery: true},
	{Title: "MAX", Name: "recovery, all within", Key: "recovery_max_seconds", value: recoveryWithin(1), time: true, recovery: true},
	{Title: "LOST", Name: "lost in an outage", Key: "lost", value: func(r *Report) int64 { return int64(r.Lost) }, rare: true},
	{Title: "LONGEST PASS", Name: "the longest pass", Key: "longest_pass_seconds", value: func(r *Report) int64 { return int64(r.LongestPass) }, time: true, rare: true},
	{Title: "TICKS SKIPPED", Name: "ticks skipped while a pass ran", Key: "skipped_ticks", value: func(r *Report) int64 { return int64(r.SkippedTicks) }, rare: true},
	{Title: "DEAD", Name: "dead", Key: "dead", value: func(r *Report) int64 { return int64(r.Dead) }},
	{Title: "PENDING", Name: "pending at the end", Key: "pending", value: func(r *Report) int64 { return int64(r.Pending) }},
}

func recoveryWithin(q float64) func(*Report) int64 {
	return func(r *Report) int64 { return int64(r.RecoveryQuantile(q)) }
}

// Figures returns the figures that are worth a column.
func Figures(all []Result) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool {
		return f.rare && !slices.ContainsFunc(all, func(r Result) bool { return f.value(r.Report) != 0 })
	})
}

// Changed returns the figures in which two results differ.
func Changed(was, will Result) []Figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f Figure) bool { return f.value(was.Report) == f.value(will.Report) })
}

// Text returns the figure as people read it.
func (f *Figure) Text(r *Report) string {
	switch {
	case f.recovery && len(r.Recovery) == 0:
		return "-"
	case f.time:
		return Span(f.value(r)).String()
	}
	return strconv.FormatInt(f.value(r), 10)
}

// Number returns the figure for JSON.
func (f *Figure) Number(r *Report) json.Number {
	if f.time {
		return json.Number(Span(f.value(r)).Seconds())
	}
	return json.Number(strconv.FormatInt(f.value(r), 10))
}

// Cells returns the texts of a column. The best ones end in a star, unless all
// look alike or one result is incomplete.
func (f *Figure) Cells(all []Result) []string {
	cells := make([]string, len(all))
	least, best := int64(math.MaxInt64), ""
	for i, r := range all {
		cells[i] = f.Text(r.Report)
		if v := f.value(r.Report); f.mayWin(r.Report) && v < least {
			least, best = v, cells[i]
		}
	}
	part := slices.ContainsFunc(all, func(r Result) bool { return !r.Complete })
	if part || !slices.ContainsFunc(cells, func(c string) bool { return c != best }) {
		return cells
	}
	for i, r := range all {
		if cells[i] == best && f.mayWin(r.Report) {
			cells[i] += "*"
		}
	}
	return cells
}

// mayWin tells whether the value is one that can be praised.
func (f *Figure) mayWin(r *Report) bool {
	return !f.recovery || len(r.Recovery) > 0 && r.Lost == 0
}

// Change returns the difference in percent, or that the figure is new or gone.
func (f *Figure) Change(was, will *Report) string {
	a, b := f.value(was), f.value(will)
	switch {
	case f.Text(will) == "-":
		return "gone"
	case a != 0:
		return fmt.Sprintf("%+.1f%%", 100*float64(b-a)/float64(a))
	}
	return "new"
}
