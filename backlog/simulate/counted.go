package simulate

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// maxPoints is how many records are simulated at most in place of those that are counted.
const maxPoints = 10_000

// Edges returns the ages at which to divide records into bands for [WhatIf]: the edges of the
// tiers and, between them, every hour and later every twentieth of the age.
func Edges(schedules ...*tiers.Schedule) []time.Duration {
	var edges []time.Duration
	for _, s := range schedules {
		for _, t := range s.Tiers() {
			edges = append(edges, t.MaxAge)
		}
	}
	widest := slices.Max(edges)
	for age := time.Hour; age < widest; age += max(time.Hour, age/20) {
		edges = append(edges, age)
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// Counted are the records of a table, counted in bands of age.
type Counted struct {
	inspect.Counts
	Edges []time.Duration // the upper edge of each band
	At    time.Time       // when they were counted
	Zone  *time.Location  // of the picture's dates; nil: UTC

	// Behavior is how long records stay broken, and PerHour how many new ones come in. nil: every attempt fails, and
	// none comes in.
	Behavior *Behavior
	PerHour  float64
}

// total returns the number of counted records.
func (c *Counted) total() int {
	total := 0
	for _, b := range c.Bands {
		total += b.Fresh + b.Failed
	}
	return total
}

// A Comparison is what becomes of records under each of several schedules.
type Comparison struct {
	Results []Result
	Columns []string // titles of a table of figures
	Rows    [][]string
	SVG     []byte
}

// WhatIf simulates a day of the counted records under each candidate, with their Behavior.
// Of many records, one stands for several: caps, aborts and rates are scaled down with them,
// and the results are scaled up again.
func WhatIf(ctx context.Context, counted Counted, list []Candidate) (Comparison, error) {
	from := counted.At.UTC()
	w := &Workload{
		From: from, To: from.Add(24 * time.Hour), Seed: 1, Poison: 1, Success: 1,
		Learned: counted.Behavior, Zone: counted.Zone,
	}
	scale := w.setCounted(counted)
	for i := range list {
		list[i].Options = list[i].Options.scaled(scale, counted.Behavior)
	}
	var c Comparison
	all, err := Compare(ctx, w, list)
	if err != nil {
		return c, err
	}
	c.Results = all
	c.Columns = []string{"SCHEDULE"}
	for _, r := range all {
		r.multiply(scale)
		c.Rows = append(c.Rows, []string{r.Name})
	}
	for _, f := range Figures(all) {
		if f.recovery { // there is no outage to recover from
			continue
		}
		c.Columns = append(c.Columns, f.Title)
		for i, cell := range f.Cells(all) {
			c.Rows[i] = append(c.Rows[i], cell)
		}
	}
	var svg bytes.Buffer
	err = Plot(&svg, "svg", w, all)
	c.SVG = svg.Bytes()
	return c, err
}

// scaled returns the options for a workload of which one record stands for several. If not every attempt fails, no pass
// is aborted then: few records fail in a row by chance, but many do not.
func (o Options) scaled(scale int, b *Behavior) Options {
	o.MaxRecords = divideUp(o.MaxRecords, scale)
	o.AbortAfter = divideUp(o.AbortAfter, scale)
	if scale > 1 && b != nil {
		o.AbortAfter = 0
	}
	o.Rate /= float64(scale)
	return o
}

// divideUp returns n / by, rounded up.
func divideUp(n, by int) int { return (n + by - 1) / by }

// setCounted sets the workload's records from the counts, each in the middle of its band of
// ages. It returns how many counted records one of them stands for.
func (w *Workload) setCounted(c Counted) (scale int) {
	total := c.total()
	if c.Behavior != nil {
		total += int(c.PerHour * w.To.Sub(w.From).Hours())
	}
	scale = max(1, divideUp(total, maxPoints))
	w.Records = []Record{}
	fresh := scale / 2 // counted, not yet among the records; the half rounds
	failed := scale / 2
	for i, edge := range slices.Backward(c.Edges) {
		younger := time.Duration(0)
		if i > 0 {
			younger = c.Edges[i-1]
		}
		inserted := w.From.Add(-(younger + edge) / 2)
		for fresh += c.Bands[i].Fresh; fresh >= scale; fresh -= scale {
			w.addCounted(inserted, backlog.Fresh)
		}
		for failed += c.Bands[i].Failed; failed >= scale; failed -= scale {
			w.addCounted(inserted, backlog.Failed)
		}
	}
	if c.Behavior != nil {
		w.addArrivals(c.PerHour / float64(scale))
	}
	return scale
}

// addCounted adds a record of the lane. It never succeeds unless a behavior was learned.
func (w *Workload) addCounted(inserted time.Time, l backlog.Lane) {
	seed := uint64(len(w.Records))
	r := Record{Inserted: inserted, Failed: l == backlog.Failed, Poison: true, Seed: seed}
	if w.Learned != nil {
		r.Seed = math.Float64bits(roll(w.Seed, int(seed))) // numbers in a row would not be at random
		r.Poison = w.neverRecovers(&r)
	}
	w.Records = append(w.Records, r)
}

// addArrivals adds new records at a rate.
func (w *Workload) addArrivals(perHour float64) {
	if perHour <= 0 {
		return
	}
	coming := &Workload{From: w.From, To: w.To, PerHour: perHour, Learned: w.Learned, Seed: w.Seed}
	w.Records = append(w.Records, coming.records(context.Background())...)
}

// multiply multiplies the report's counts by n.
func (r *Report) multiply(n int) {
	counts := []*int{
		&r.Records, &r.Attempts, &r.Succeeded, &r.Failed, &r.Dead, &r.Pending,
		&r.Recovered, &r.Lost, &r.PeakPerMinute,
	}
	for i := range r.Series {
		b := &r.Series[i]
		counts = append(counts, &b.Attempts, &b.Failed, &b.Dead, &b.Pending, &b.MaxPending)
	}
	for _, count := range counts {
		*count *= n
	}
}
