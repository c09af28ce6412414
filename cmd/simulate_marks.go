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
		rows := []struct {
			name, what string
			value      func(simulate.Bucket) int
		}{
			{"calls", "calls", func(b simulate.Bucket) int { return b.Attempts }},
			{"pending", "records pending", func(b simulate.Bucket) int { return b.Pending }},
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
			fmt.Fprintf(&lines, "  %-7s  %s\n", r.name, marks(series, r.value))
		}
		g.printf("\n%s: %s a mark, at most%s\n%s", shown(s.name), tiers.FormatDuration(series[1].At.Sub(series[0].At)), scale.String()[1:], lines.String())
	}
}

// condensed returns the series in fewer buckets, each of as many as it takes,
// with the most that were pending at the end of one of them.
func condensed(series []simulate.Bucket, most int) (list []simulate.Bucket) {
	each := (len(series) + most - 1) / most
	for i, b := range series {
		if i%each == 0 {
			list = append(list, b)
			continue
		}
		sum := &list[len(list)-1]
		sum.Attempts, sum.Failed, sum.Dead, sum.Pending = sum.Attempts+b.Attempts, sum.Failed+b.Failed, sum.Dead+b.Dead, max(sum.Pending, b.Pending)
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
		line.WriteRune(blocks[(value(b)*(len(blocks)-1)+most-1)/most])
	}
	return strings.TrimRight(line.String(), " ")
}
