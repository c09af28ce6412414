package simulate

import (
	"context"
	"io"
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

// WhatIf shows what the candidates would do within a day with records that are counted by
// age, if every attempt failed: a table of figures, and an SVG. Where there are many records,
// each that is simulated stands for several.
func WhatIf(
	ctx context.Context, svg io.Writer, counts inspect.Counts, edges []time.Duration, list []Candidate, now time.Time,
) (columns []string, rows [][]string, err error) {
	w := &Workload{From: now, To: now.Add(24 * time.Hour), Seed: 1, Poison: 1}
	n := w.setCounted(counts, edges)
	for i := range list {
		o := &list[i].Options
		o.MaxRecords, o.AbortAfter, o.Rate = (o.MaxRecords+n-1)/n, (o.AbortAfter+n-1)/n, o.Rate/float64(n)
	}
	all, err := Compare(ctx, w, list)
	if err != nil {
		return nil, nil, err
	}
	columns = []string{"SCHEDULE"}
	for _, r := range all {
		r.times(n)
		rows = append(rows, []string{r.Name})
	}
	for _, f := range Figures(all) {
		if f.recovery { // there is no outage to recover from
			continue
		}
		columns = append(columns, f.Title)
		for i, cell := range f.Cells(all) {
			rows[i] = append(rows[i], cell)
		}
	}
	return columns, rows, Plot(svg, "svg", w, all)
}

// setCounted makes points of the records in bands of ages, in the middle of each, and returns
// for how many records one stands.
func (w *Workload) setCounted(c inspect.Counts, edges []time.Duration) (n int) {
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
