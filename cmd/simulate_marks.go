package cmd

import (
	"fmt"
	"strings"

	"backlog/backlog/simulate"
	"backlog/tiers"
)

// mostMarks is how many fit into a line of a terminal.
const mostMarks = 68

// printMarks draws the series.
func (g *globals) printMarks(all []simulated) {
	for _, s := range all {
		series := condensed(s.Series, mostMarks)
		if len(series) < 2 {
			continue
		}
		width := series[1].At.Sub(series[0].At)
		rows := []struct {
			name, what string
			value      func(simulate.Bucket) int
		}{
			{"calls", "calls", func(b simulate.Bucket) int { return b.Attempts }},
			{"pending", "records pending", func(b simulate.Bucket) int { return b.Most }},
			{"dead", "dead", func(b simulate.Bucket) int { return b.Dead }},
		}
		if s.Dead == 0 {
			rows = rows[:2]
		}
		var scale, lines strings.Builder
		for _, r := range rows {
			most := 0
			for _, b := range series {
				most = max(most, r.value(b))
			}
			fmt.Fprintf(&scale, ", %d %s", most, r.what)
			drawn := series
			if last := series[len(series)-1].At; r.name == "calls" && s.to.Sub(last) < width {
				drawn = series[:len(series)-1] // a shorter time has fewer
			}
			fmt.Fprintf(&lines, "  %-7s  %s\n", r.name, marks(drawn, r.value))
		}
		g.printf("\n%s: %s a mark, at most%s\n%s", shown(s.name), tiers.FormatDuration(width), scale.String()[1:], lines.String())
	}
}

// condensed returns the series in fewer buckets, each of as many as it takes.
func condensed(series []simulate.Bucket, most int) (list []simulate.Bucket) {
	each := (len(series) + most - 1) / most
	for i, b := range series {
		if i%each == 0 {
			list = append(list, b)
			continue
		}
		sum := &list[len(list)-1]
		sum.Attempts, sum.Failed, sum.Dead, sum.Pending, sum.Most = sum.Attempts+b.Attempts, sum.Failed+b.Failed, sum.Dead+b.Dead, b.Pending, max(sum.Most, b.Most)
	}
	return list
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
		line.WriteRune(blocks[(max(0, value(b))*(len(blocks)-1)+most-1)/most])
	}
	return strings.TrimRight(line.String(), " ")
}
