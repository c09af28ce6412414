package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"backlog/backlog/simulate"
	"backlog/tiers"
)

// A column is a figure by which candidates are compared: the least is best.
type column struct {
	title string
	name  string // where it stands alone
	value func(*simulate.Report) int64
	text  func(int64) string
}

// figures are what a simulation is judged by.
func figures() []column {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	wait := func(n int64) string { return tiers.FormatDuration(time.Duration(n).Round(time.Second)) }
	quantile := func(q float64) func(*simulate.Report) int64 {
		return func(r *simulate.Report) int64 { return int64(r.RecoveryQuantile(q)) }
	}
	return []column{
		{"CALLS", "calls", func(r *simulate.Report) int64 { return int64(r.Attempts) }, count},
		{"FAILED", "calls that fail", func(r *simulate.Report) int64 { return int64(r.Failed) }, count},
		{"PEAK/MIN", "calls in one minute, at most", func(r *simulate.Report) int64 { return int64(r.PeakPerMinute) }, count},
		{"RECOVERY P50", "recovery, half of them within", quantile(0.5), wait}, {"P95", "recovery, 95% within", quantile(0.95), wait}, {"MAX", "recovery, all within", quantile(1), wait},
		{"DEAD", "dead", func(r *simulate.Report) int64 { return int64(r.Dead) }, count},
		{"PENDING", "pending at the end", func(r *simulate.Report) int64 { return int64(r.Pending) }, count},
	}
}

func (g *globals) printWorkload(w *simulate.Workload, all []simulated) error {
	g.printf("%s inserted from %s to %s.\n\n", plural(all[0].Records, "record"), when(w.From), when(w.To))
	if err := g.printFigures(all); err != nil {
		return err
	}
	g.printMarks(all)
	return nil
}

// printFigures compares the candidates by what they cost and what they bring.
func (g *globals) printFigures(all []simulated) error {
	columns := figures()
	t := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "POLICY")
	for _, c := range columns {
		fmt.Fprintf(t, "\t%s", c.title)
	}
	fmt.Fprintln(t)
	for _, s := range all {
		fmt.Fprint(t, s.name)
		for _, c := range columns {
			v, mark := c.value(s.Report), ""
			worse := func(o simulated) bool { return c.value(o.Report) > v }
			better := func(o simulated) bool { return c.value(o.Report) < v }
			if slices.ContainsFunc(all, worse) && !slices.ContainsFunc(all, better) {
				mark = "*"
			}
			fmt.Fprintf(t, "\t%s%s", c.text(v), mark)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(all) > 1 {
		g.printf("\n* the best of the column\n")
	}
	return nil
}

// printDiff prints the figures in which two candidates differ.
func (g *globals) printDiff(was, will simulated) error {
	t := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	differ := false
	fmt.Fprintf(t, "FIGURE\t%s\t%s\tCHANGE\n", strings.ToUpper(was.name), strings.ToUpper(will.name))
	for _, c := range figures() {
		a, b := c.value(was.Report), c.value(will.Report)
		if a == b {
			continue
		}
		differ = true
		change := "new"
		if a != 0 {
			change = fmt.Sprintf("%+.1f%%", 100*float64(b-a)/float64(a))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.name, c.text(a), c.text(b), change)
	}
	if !differ {
		g.printf("Nothing changes.\n")
		return nil
	}
	return t.Flush()
}

// printMarks draws the series.
func (g *globals) printMarks(all []simulated) {
	for _, s := range all {
		if len(s.Series) < 2 {
			continue
		}
		g.printf("\n%s: calls and records pending, %s a mark, at most %s\n", s.name, tiers.FormatDuration(s.Series[1].At.Sub(s.Series[0].At)), peaks(s.Series))
		g.printf("  calls    %s\n", marks(s.Series, func(b simulate.Bucket) int { return b.Attempts }))
		g.printf("  pending  %s\n", marks(s.Series, func(b simulate.Bucket) int { return b.Pending }))
	}
}

// peaks tells what the tallest marks stand for.
func peaks(series []simulate.Bucket) string {
	calls, pending := 0, 0
	for _, b := range series {
		calls, pending = max(calls, b.Attempts), max(pending, b.Pending)
	}
	return fmt.Sprintf("%d and %d", calls, pending)
}

// marks draws a series as a line of blocks, the tallest for the greatest.
func marks(series []simulate.Bucket, value func(simulate.Bucket) int) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	most := 1
	for _, b := range series {
		most = max(most, value(b))
	}
	var line strings.Builder
	for _, b := range series {
		line.WriteRune(blocks[(value(b)*(len(blocks)-1)+most-1)/most])
	}
	return line.String()
}
