package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"backlog/tiers"
)

// A Report is what became of a workload.
type Report struct {
	Records   int `json:"records"` // Succeeded + Dead + Pending
	Attempts  int `json:"attempts"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"` // attempts that failed
	Dead      int `json:"dead"`
	Pending   int `json:"pending"`

	// Recovery is how long after the end of an outage those that were pending
	// at that moment succeeded, the last outage if there were several. Lost
	// is how many of those that could have succeeded were pending in one and
	// died.
	Recovery  Recovery `json:"recovery_seconds"`
	Recovered int      `json:"recovered"` // how many Recovery is about
	Lost      int      `json:"lost"`

	PeakPerMinute int      `json:"peak_per_minute"`      // attempts that begin in one minute of the clock, at most
	LongestPass   Span     `json:"longest_pass_seconds"` // from its tick to its end
	SkippedTicks  int      `json:"skipped_ticks"`        // of tiers whose last pass still ran
	Complete      bool     `json:"complete"`             // it was not stopped
	Series        []Bucket `json:"series"`
	Ticks         []Tick   `json:"ticks,omitzero"` // in their order; nil unless asked for
}

// A Recovery is how long each record took, the shortest first.
type Recovery []time.Duration

// MarshalJSON writes how long half of them took at most, nearly all, and all.
func (r Recovery) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"p50":%s,"p95":%s,"max":%s}`, Span(r.within(0.5)).Seconds(), Span(r.within(0.95)).Seconds(), Span(r.within(1)).Seconds()), nil
}

// A Tick is one that started a pass with attempts, whenever these begin.
type Tick struct {
	At       time.Time `json:"at"`
	Tier     string    `json:"tier"`
	Attempts int       `json:"attempts"`
}

// A Bucket is what happened in (At, At + the width of a bucket].
type Bucket struct {
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
	Failed   int       `json:"failed"`
	Dead     int       `json:"dead"`        // records given up or past their time
	Pending  int       `json:"pending"`     // at the end of it
	Most     int       `json:"pending_max"` // pending at any time in it
}

// A Sum is what the passes of one tier amount to.
type Sum struct{ Passes, Attempts, Most int }

// ByTier sums up the ticks by tier.
func (r *Report) ByTier() map[string]Sum {
	sums := make(map[string]Sum)
	for _, t := range r.Ticks {
		x := sums[t.Tier]
		sums[t.Tier] = Sum{x.Passes + 1, x.Attempts + t.Attempts, max(x.Most, t.Attempts)}
	}
	return sums
}

// finish works out what is known only when all has happened.
func (x *run) finish() {
	r := x.report
	r.Pending = r.Records - r.Succeeded - r.Dead
	for i := range r.Series {
		r.Series[i].At = x.w.From.Add(time.Duration(i) * x.Bucket)
	}
	now := 0
	for i, come := range x.flow.come {
		b := &r.Series[x.bucket(x.w.From.Add(time.Duration(i)*x.flow.cell))]
		now += int(come)
		b.Most = max(b.Most, now)
		now -= int(x.flow.going[i])
		b.Pending = now
	}
	r.PeakPerMinute = int(slices.Max(x.minutes))
	slices.Sort(r.Recovery)
	r.Recovered = len(r.Recovery)
	if x.Ticks {
		r.Ticks = slices.AppendSeq([]Tick{}, maps.Values(x.ticks))
		slices.SortFunc(r.Ticks, func(a, b Tick) int { return a.At.Compare(b.At) })
	}
}

// RecoveryQuantile returns how long that share of the records that Recovery is
// about waited at most, zero if there are none.
func (r *Report) RecoveryQuantile(q float64) time.Duration { return r.Recovery.within(q) }

func (r Recovery) within(q float64) time.Duration {
	n := len(r)
	if n == 0 {
		return 0
	}
	return r[min(max(0, int(math.Ceil(q*float64(n)))-1), n-1)]
}

// bucketOf returns the width of the buckets of a series: about a hundred, of a
// length that people know.
func bucketOf(length time.Duration) time.Duration {
	const hour = time.Hour
	for _, w := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, hour, 3 * hour, 6 * hour, 24 * hour, 7 * 24 * hour} {
		if length <= 150*w {
			return w
		}
	}
	return 30 * 24 * hour
}

// mostMarks is how many marks fit into a line of a terminal.
const mostMarks = 68

// Marks draws calls, pending and dead records as lines of blocks below a line
// that tells their scale. It returns "" for a series of one bucket.
func (r *Result) Marks() string {
	series := condensed(r.Series, mostMarks)
	if len(series) < 2 {
		return ""
	}
	width := series[1].At.Sub(series[0].At)
	rows := []struct {
		name, what string
		value      func(Bucket) int
	}{
		{"calls", "calls", func(b Bucket) int { return b.Attempts }},
		{"pending", "records pending", func(b Bucket) int { return b.Most }},
		{"dead", "dead", func(b Bucket) int { return b.Dead }},
	}
	if r.Dead == 0 {
		rows = rows[:2]
	}
	var scale, lines strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&scale, ", %d %s", greatest(series, row.value), row.what)
		drawn := series
		if last := series[len(series)-1].At; row.name == "calls" && r.To.Sub(last) < width {
			drawn = series[:len(series)-1] // a shorter time has fewer
		}
		fmt.Fprintf(&lines, "  %-7s  %s\n", row.name, blocks(drawn, row.value))
	}
	return fmt.Sprintf("%s a mark, at most%s\n%s", tiers.FormatDuration(width), scale.String()[1:], lines.String())
}

// Deaths are records that died, at the latest at By.
type Deaths struct {
	By      time.Time
	Records int
}

// Deaths sums up when records died, in at most a dozen periods.
func (r *Result) Deaths() (list []Deaths) {
	series := condensed(r.Series, 12)
	for i, b := range series {
		if b.Dead == 0 {
			continue
		}
		end := r.To
		if i+1 < len(series) {
			end = series[i+1].At
		}
		list = append(list, Deaths{end, b.Dead})
	}
	return list
}

// condensed returns what is drawn of the series in fewer buckets, each of as many
// as it takes.
func condensed(series []Bucket, most int) (list []Bucket) {
	each := (len(series) + most - 1) / most
	for i, b := range series {
		if i%each == 0 {
			list = append(list, b)
			continue
		}
		sum := &list[len(list)-1]
		sum.Attempts, sum.Dead, sum.Most = sum.Attempts+b.Attempts, sum.Dead+b.Dead, max(sum.Most, b.Most)
	}
	return list
}

// blocks draws a series as a line of blocks, the tallest for the greatest.
func blocks(series []Bucket, value func(Bucket) int) string {
	heights := []rune(" ▁▂▃▄▅▆▇█")
	most := max(1, greatest(series, value))
	var line strings.Builder
	for _, b := range series {
		line.WriteRune(heights[(max(0, value(b))*(len(heights)-1)+most-1)/most])
	}
	return strings.TrimRight(line.String(), " ")
}

func greatest(series []Bucket, value func(Bucket) int) (most int) {
	for _, b := range series {
		most = max(most, value(b))
	}
	return most
}
