package cmd

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"backlog/backlog/simulate"
)

// A column is a figure by which candidates are compared: the least is best.
type column struct {
	title string
	name  string // where it stands alone
	key   string // in JSON
	value func(*simulate.Report) int64
	time  bool // the value is a time.Duration, in JSON seconds
	rare  bool // not worth a column where it is nothing

	// recovery: it is that of the records which an outage held up, of which
	// there may be none. It says little about who has lost some of them.
	recovery bool
}

// text returns the value as people read it.
func (c *column) text(r *simulate.Report) string {
	v := c.value(r)
	switch {
	case c.recovery && len(r.Recovery) == 0:
		return "-"
	case c.time:
		return span{}.plus(time.Duration(v)).String()
	}
	return strconv.FormatInt(v, 10)
}

// best returns the text that is marked in the column, that of the least value;
// none, if all look alike or the figures of one are those of a part.
func (c *column) best(all []simulated) (text string, marked bool) {
	least := int64(math.MaxInt64)
	for _, s := range all {
		if !s.Complete {
			return "", false
		}
		if v := c.value(s.Report); c.mayWin(s.Report) && v < least {
			least, text = v, c.text(s.Report)
		}
	}
	return text, slices.ContainsFunc(all, func(s simulated) bool { return c.text(s.Report) != text })
}

// mayWin tells whether the value is one that can be praised.
func (c *column) mayWin(r *simulate.Report) bool {
	return !c.recovery || len(r.Recovery) > 0 && r.Lost == 0
}

func (c *column) number(v int64) json.Number {
	if c.time {
		return json.Number(span{}.plus(time.Duration(v)).seconds())
	}
	return json.Number(strconv.FormatInt(v, 10))
}

// figures are what a simulation is judged by.
func figures() []column {
	quantile := func(q float64) func(*simulate.Report) int64 {
		return func(r *simulate.Report) int64 { return int64(r.RecoveryQuantile(q)) }
	}
	return []column{
		{title: "CALLS", name: "calls", key: "attempts", value: func(r *simulate.Report) int64 { return int64(r.Attempts) }},
		{title: "FAILED", name: "calls that fail", key: "failed", value: func(r *simulate.Report) int64 { return int64(r.Failed) }},
		{title: "PEAK/MIN", name: "calls in one minute, at most", key: "peak_per_minute", value: func(r *simulate.Report) int64 { return int64(r.PeakPerMinute) }},
		{title: "RECOVERY P50", name: "recovery, half of them within", key: "recovery_p50_seconds", value: quantile(0.5), time: true, recovery: true},
		{title: "P95", name: "recovery, 95% within", key: "recovery_p95_seconds", value: quantile(0.95), time: true, recovery: true},
		{title: "MAX", name: "recovery, all within", key: "recovery_max_seconds", value: quantile(1), time: true, recovery: true},
		{title: "LOST", name: "lost in an outage", key: "lost", value: func(r *simulate.Report) int64 { return int64(r.Lost) }, rare: true},
		{title: "LONGEST PASS", name: "the longest pass", key: "longest_pass_seconds", value: func(r *simulate.Report) int64 { return int64(r.LongestPass) }, time: true, rare: true},
		{title: "TICKS SKIPPED", name: "ticks skipped while a pass ran", key: "skipped_ticks", value: func(r *simulate.Report) int64 { return int64(r.SkippedTicks) }, rare: true},
		{title: "DEAD", name: "dead", key: "dead", value: func(r *simulate.Report) int64 { return int64(r.Dead) }},
		{title: "PENDING", name: "pending at the end", key: "pending", value: func(r *simulate.Report) int64 { return int64(r.Pending) }},
	}
}

// shownFigures are those worth a column.
func shownFigures(all []simulated) []column {
	return slices.DeleteFunc(figures(), func(c column) bool {
		return c.rare && !slices.ContainsFunc(all, func(s simulated) bool { return c.value(s.Report) != 0 })
	})
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
	columns := shownFigures(all)
	t := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "POLICY")
	for _, c := range columns {
		fmt.Fprintf(t, "\t%s", c.title)
	}
	fmt.Fprintln(t)
	stars := false
	for _, s := range all {
		fmt.Fprint(t, shown(s.name))
		for _, c := range columns {
			text, mark := c.text(s.Report), ""
			if best, marked := c.best(all); marked && text == best && c.mayWin(s.Report) {
				mark, stars = "*", true
			}
			fmt.Fprintf(t, "\t%s%s", text, mark)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if stars {
		g.printf("\n* the best of the column\n")
	}
	return nil
}

// diffJSON is what simulate --diff prints: the figures that differ.
type diffJSON struct {
	Policies [2]string    `json:"policies"`
	Seed     uint64       `json:"seed"`
	Complete bool         `json:"complete"` // false: it was stopped
	Changes  []changeJSON `json:"changes"`
}

type changeJSON struct {
	Figure string      `json:"figure"`
	Was    json.Number `json:"was"`
	Will   json.Number `json:"will"`
}

// changed are the figures in which two candidates differ.
func changed(was, will simulated) []column {
	return slices.DeleteFunc(figures(), func(c column) bool { return c.value(was.Report) == c.value(will.Report) })
}

func (g *globals) printDiffJSON(was, will simulated, seed uint64) error {
	list := each(changed(was, will), func(c column) changeJSON {
		return changeJSON{c.key, c.number(c.value(was.Report)), c.number(c.value(will.Report))}
	})
	return printJSON(g.out, diffJSON{[2]string{was.name, will.name}, seed, was.Complete && will.Complete, list})
}

// printDiff prints the figures in which two candidates differ.
func (g *globals) printDiff(was, will simulated) error {
	list := changed(was, will)
	if len(list) == 0 {
		g.printf("Nothing changes.\n")
		return nil
	}
	t := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "FIGURE\t%s\t%s\tCHANGE\n", shown(strings.ToUpper(was.name)), shown(strings.ToUpper(will.name)))
	for _, c := range list {
		a, b := c.value(was.Report), c.value(will.Report)
		from, to := c.text(was.Report), c.text(will.Report)
		change := "new"
		switch {
		case to == "-":
			change = "gone"
		case a != 0:
			change = fmt.Sprintf("%+.1f%%", 100*float64(b-a)/float64(a))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.name, from, to, change)
	}
	return t.Flush()
}
