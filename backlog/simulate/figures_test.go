package simulate_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/simulate"
)

// What looks alike is marked alike, and neither a recovery that there was not
// nor one of the few that were left is praised.
func TestStars(t *testing.T) {
	min := func(n ...time.Duration) (list []time.Duration) {
		for _, m := range n {
			list = append(list, m*time.Minute)
		}
		return list
	}
	for _, c := range []struct {
		name    string
		reports []simulate.Report
		want    []string // the cells of a column without blanks between them
	}{
		{"alone", []simulate.Report{{Recovery: min(5)}}, []string{"0 0 0 5m 5m 5m 0 0"}},
		{"alike", []simulate.Report{{Recovery: min(5)}, {Recovery: min(5)}}, []string{"0 0 0 5m 5m 5m 0 0", "0 0 0 5m 5m 5m 0 0"}},
		{"no outage", []simulate.Report{{Attempts: 1}, {Attempts: 2}}, []string{"1* 0 0 - - - 0 0", "2 0 0 - - - 0 0"}},
		{"none recovered", []simulate.Report{{}, {Recovery: min(1, 7)}}, []string{"0 0 0 - - - 0 0", "0 0 0 1m* 7m* 7m* 0 0"}},
		{"some lost", []simulate.Report{{Recovery: min(0), Lost: 3}, {Recovery: min(1)}, {Recovery: min(2)}}, []string{
			"0 0 0 0s 0s 0s 3 0 0", "0 0 0 1m* 1m* 1m* 0* 0 0", "0 0 0 2m 2m 2m 0* 0 0"}},
		{"the same to the eye", []simulate.Report{{LongestPass: 20_400_000_000}, {LongestPass: 20_000_000_000}, {LongestPass: simulate.Span(time.Minute)}}, []string{
			"0 0 0 - - - 20s* 0 0", "0 0 0 - - - 20s* 0 0", "0 0 0 - - - 1m 0 0"}},
		{"short passes", []simulate.Report{{LongestPass: 12_345_678}, {LongestPass: 1_000_000}}, []string{"0 0 0 - - - 12ms 0 0", "0 0 0 - - - 1ms* 0 0"}},
	} {
		var all []simulate.Result
		for i := range c.reports {
			c.reports[i].Complete = true
			all = append(all, simulate.Result{Name: "p", Report: &c.reports[i]})
		}
		text := ""
		print := func() (rows []string) {
			text = simulate.ResultsText(all)
			for _, line := range strings.Split(text, "\n")[1:] {
				if cells, ok := strings.CutPrefix(line, "p "); ok {
					rows = append(rows, strings.Join(strings.Fields(cells), " "))
				}
			}
			return rows
		}
		if got := strings.Join(print(), "\n"); got != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, strings.Join(c.want, "\n"))
		}
		if says := strings.Contains(text, "\n* the best"); says != strings.Contains(strings.Join(c.want, ""), "*") {
			t.Errorf("%s: it says what a star means: %v", c.name, says)
		}
		// A part is compared with nothing.
		all[len(all)-1].Complete = false
		if got := strings.Join(print(), "\n"); strings.Contains(got, "*") {
			t.Errorf("%s, of which the last was stopped:\n%s", c.name, got)
		}
	}
}

// A difference to nothing is none in percent.
func TestDiffOfRecovery(t *testing.T) {
	some, none := &simulate.Report{Recovery: []time.Duration{time.Minute}}, &simulate.Report{}
	for _, c := range []struct {
		was, will *simulate.Report
		want      string
	}{
		{none, some, "-    1m  new"},
		{some, none, "1m   -  gone"},
		{some, some, "Nothing changes."},
	} {
		text := simulate.DiffText(simulate.Result{Name: "now", Report: c.was}, simulate.Result{Name: "b", Report: c.will})
		if !strings.Contains(text, c.want) {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}
