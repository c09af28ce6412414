package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// AttemptsText returns the attempts under the policy for people.
func AttemptsText(p *backlog.Policy, list []Attempt) string {
	rows := []string{"ATTEMPT\tAFTER\tDELAY"}
	least, most := p.Wait(1)
	drawn := least != most // there is something to choose from
	if drawn {
		rows[0] += "\tDRAWN FROM"
	}
	for _, a := range list {
		row := fmt.Sprintf("%d\t%v\t%v", a.N, a.At, a.Delay)
		if drawn && a.N > 1 {
			row += fmt.Sprintf("\t%v to %v", a.Least, a.Most)
		}
		rows = append(rows, row)
	}
	text := inspect.Columns(rows)
	if p.GivenUp(len(list)) {
		text += fmt.Sprintf("The record is given up after attempt %d.\n", len(list))
	}
	return text
}

// Text returns the life under the policy for people. It is not complete where its
// simulation was stopped.
func (l Life) Text(policy string, complete bool) string {
	rows := []string{"TIER\tAGE\tTICKS\tATTEMPTS"}
	from := time.Duration(0)
	for _, t := range l.ByTier {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d", inspect.Shown(t.Tier.Name), inspect.Ages(from, t.Tier.MaxAge), inspect.Often(t.Tier), t.Attempts))
		from = t.Tier.MaxAge
	}
	text := fmt.Sprintf("A record inserted at %s that never succeeds, policy %s:\n\n%s", inspect.When(l.Inserted), policy, inspect.Columns(rows))
	switch {
	case l.Total == 0 && complete:
		text += "\nNo attempt.\n"
	case l.Total > 0:
		text += fmt.Sprintf("\n%s, the first at %s, the last at %s.\n", inspect.Plural(l.Total, "attempt"), inspect.When(l.First), inspect.When(l.Last))
	}
	switch {
	case !complete:
		text += "What comes later was not counted.\n"
	case l.GivenUp:
		text += "After the last it is given up.\n"
	default:
		text += fmt.Sprintf("After %s it is older than every tier and not tried any more.\n", inspect.When(l.Expires))
	}
	return text
}

// RefreshText returns the attempts of a record of the policy refresh for people.
func RefreshText(list []Refreshed) string {
	rows, disabled := []string{"N\tATTEMPT_NO\tSTART\tDEADLINE_AT\tREFRESH_AT\tEND\tNEXT_REFRESH_AT"}, ""
	for _, a := range list {
		rows = append(rows, fmt.Sprintf("%d\t%d\t%v\t%v\t%v\t%v\t%v", a.N, a.AttemptNo, a.Start, a.Deadline, a.Planned, a.End, a.Next))
		if a.Disabled {
			disabled = fmt.Sprintf("The record is disabled at %v: %s\n", a.End, inspect.Shown(a.Reason))
		}
	}
	return inspect.Columns(rows) + disabled
}

// ResultsText returns the results for people: their figures side by side, what passes did
// if ticks were asked for, and what happened in the course of time.
func ResultsText(all []Result) string {
	text := figuresText(all)
	for _, r := range all {
		text += r.passesText()
	}
	for _, r := range all {
		if marks := r.Marks(); marks != "" {
			text += fmt.Sprintf("\n%s: %s", inspect.Shown(r.Name), marks)
		}
	}
	return text
}

// figuresText compares the results by what they cost and what they bring.
func figuresText(all []Result) string {
	lines := []string{"POLICY"}
	for _, r := range all {
		lines = append(lines, inspect.Shown(r.Name))
	}
	stars := ""
	for _, f := range Figures(all) {
		for i, cell := range append([]string{f.Title}, f.Cells(all)...) {
			lines[i] += "\t" + cell
			if strings.HasSuffix(cell, "*") {
				stars = "\n* the best of the column\n"
			}
		}
	}
	return inspect.Columns(lines) + stars
}

// passesText tells what each tier does and when records die.
func (r Result) passesText() string {
	if r.Ticks == nil {
		return ""
	}
	rows := []string{"TIER\tPASSES\tCALLS\tMOST IN ONE"}
	for _, t := range r.Schedule.Tiers() {
		passes, calls, most := 0, 0, 0
		for _, x := range r.Ticks {
			if x.Tier == t.Name {
				passes, calls, most = passes+1, calls+x.Attempts, max(most, x.Attempts)
			}
		}
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%d", inspect.Shown(t.Name), passes, calls, most))
	}
	text := fmt.Sprintf("\n%s: passes that find something\n%s", inspect.Shown(r.Name), inspect.Columns(rows))
	if r.Dead == 0 {
		return text
	}
	rows = []string{"BY\tRECORDS"}
	series := condensed(r.Series, 12)
	for i, b := range series {
		end := r.To
		if i+1 < len(series) {
			end = series[i+1].At
		}
		if b.Dead > 0 {
			rows = append(rows, fmt.Sprintf("%s\t%d", inspect.When(end), b.Dead))
		}
	}
	return text + fmt.Sprintf("\n%s: too old, expired or given up\n%s", inspect.Shown(r.Name), inspect.Columns(rows))
}

// DiffText returns the figures in which two results differ, for people.
func DiffText(was, will Result) string {
	list := Changed(was, will)
	if len(list) == 0 {
		return "Nothing changes.\n"
	}
	rows := []string{fmt.Sprintf("FIGURE\t%s\t%s\tCHANGE", inspect.Shown(strings.ToUpper(was.Name)), inspect.Shown(strings.ToUpper(will.Name)))}
	for _, f := range list {
		rows = append(rows, strings.Join([]string{f.Name, f.Text(was.Report), f.Text(will.Report), f.Change(was.Report, will.Report)}, "\t"))
	}
	return inspect.Columns(rows)
}

// A Diff is the figures in which two results differ, for programs.
type Diff struct {
	Policies [2]string `json:"policies"`
	Seed     uint64    `json:"seed"`
	Complete bool      `json:"complete"` // false: one was stopped
	Changes  []Change  `json:"changes"`
}

// A Change is one of a [Diff].
type Change struct {
	Figure string      `json:"figure"`
	Was    json.Number `json:"was"`
	Will   json.Number `json:"will"`
}

// NewDiff compares two results.
func NewDiff(was, will Result) Diff {
	d := Diff{[2]string{was.Name, will.Name}, was.Seed, was.Complete && will.Complete, []Change{}}
	for _, f := range Changed(was, will) {
		d.Changes = append(d.Changes, Change{f.Key, f.Number(was.Report), f.Number(will.Report)})
	}
	return d
}

// WriteSeries writes a line of CSV for each bucket of each result.
func WriteSeries(out io.Writer, all []Result) error {
	rows := [][]string{{"policy", "at", "attempts", "failed", "dead", "pending", "pending_max"}}
	for _, r := range all {
		for _, b := range r.Series {
			row := []string{r.Name, b.At.Format(time.RFC3339)}
			for _, n := range []int{b.Attempts, b.Failed, b.Dead, b.Pending, b.Most} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(out).WriteAll(rows)
}
