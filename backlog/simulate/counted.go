package simulate

import (
	"bytes"
	"context"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// maxPoints stand for the records that are counted.
const maxPoints = 10_000

// Edges returns the ages by which records are to be counted for [WhatIf]: the edges of the tiers
// and, between them, every hour and later every twentieth of the age.
func Edges(schedules ...*tiers.Schedule) (edges []time.Duration) {
	for _, s := range schedules {
		for _, t := range s.Tiers() {
			edges = append(edges, t.MaxAge)
		}
	}
	widest := slices.Max(edges)
	for at := time.Hour; at < widest; at += max(time.Hour, at/20) {
		edges = append(edges, at)
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// Counted are the records of a table, counted by age.
type Counted struct {
	inspect.Counts
	Edges []time.Duration // of their bands
	At    time.Time
	Zone  *time.Location // of the picture's dates; nil: UTC
}

// A Comparison is what becomes of records under each of several schedules.
type Comparison struct {
	Results []Result
	Columns []string // of a table of figures
	Rows    [][]string
	SVG     []byte
}

// WhatIf shows what the candidates would do within a day with the records, if every attempt
// failed. Where there are many records, each that is simulated stands for several.
func WhatIf(ctx context.Context, counted Counted, list []Candidate) (c Comparison, err error) {
	from := counted.At.UTC()
	w := &Workload{From: from, To: from.Add(24 * time.Hour), Seed: 1, Poison: 1, Zone: counted.Zone}
	n := w.setCounted(counted)
	for i := range list {
		o := &list[i].Options
		o.MaxRecords, o.AbortAfter, o.Rate = (o.MaxRecords+n-1)/n, (o.AbortAfter+n-1)/n, o.Rate/float64(n)
	}
	all, err := Compare(ctx, w, list)
	if err != nil {
		return c, err
	}
	c.Results = all
	c.Columns = []string{"SCHEDULE"}
	for _, r := range all {
		r.times(n)
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

// setCounted makes points of the records in bands of ages, in the middle of each, and returns
// for how many records one stands.
func (w *Workload) setCounted(c Counted) (n int) {
	edges := c.Edges
	total := 0
	for _, b := range c.Bands {
		total += b.Fresh + b.Failed
	}
	n = max(1, (total+maxPoints-1)/maxPoints)
	w.Records = []Record{}
	left := [2]int{backlog.Fresh: n / 2, backlog.Failed: n / 2} // of each lane, towards the next point
	for i := len(edges) - 1; i >= 0; i-- {
		younger := time.Duration(0)
		if i > 0 {
			younger = edges[i-1]
		}
		at := w.From.Add(-(younger + edges[i]) / 2)
		for lane, count := range [2]int{backlog.Fresh: c.Bands[i].Fresh, backlog.Failed: c.Bands[i].Failed} {
			for left[lane] += count; left[lane] >= n; left[lane] -= n {
				seed := uint64(len(w.Records))
				w.Records = append(w.Records, Record{Inserted: at, Failed: lane == int(backlog.Failed), Poison: true, Seed: seed})
			}
		}
	}
	return n
}

// times makes the report one in which every record is n.
func (r *Report) times(n int) {
	counts := []*int{&r.Records, &r.Attempts, &r.Succeeded, &r.Failed, &r.Dead, &r.Pending, &r.Recovered, &r.Lost, &r.PeakPerMinute}
	for i := range r.Series {
		b := &r.Series[i]
		counts = append(counts, &b.Attempts, &b.Failed, &b.Dead, &b.Pending, &b.Most)
	}
	for _, x := range counts {
		*x *= n
	}
}
