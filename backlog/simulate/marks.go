package simulate

import (
	"fmt"
	"strings"
	"time"

	"backlog/tiers"
)

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
