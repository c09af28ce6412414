package cmd

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
)

func (o *SimulateOptions) printAttempts(g *globals, p *backlog.Policy, list []simulate.Attempt) error {
	if o.JSON {
		return printJSON(g.out, struct {
			Policy   string             `json:"policy"`
			Attempts []simulate.Attempt `json:"attempts"`
		}{p.Name, list})
	}
	if o.Policy != "" {
		g.printf("A record that never succeeds, policy %s:\n\n", p.Name)
	}
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
	err := printTable(g.out, rows)
	if p.GivenUp(len(list)) {
		g.printf("The record is given up after attempt %d.\n", len(list))
	}
	return err
}

func (o *SimulateOptions) printLife(g *globals, policy string, l simulate.Life, complete bool) error {
	if o.JSON {
		return printJSON(g.out, struct {
			Policy string `json:"policy"`
			simulate.Life
			Complete bool `json:"complete"` // false: it was stopped
		}{policy, l, complete})
	}
	if !complete {
		g.sayIncomplete()
	}
	g.printf("A record inserted at %s that never succeeds, policy %s:\n\n", when(l.Inserted), policy)
	rows := []string{"TIER\tAGE\tTICKS\tATTEMPTS"}
	from := time.Duration(0)
	for _, t := range l.ByTier {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d", shown(t.Tier.Name), ages(from, t.Tier.MaxAge), often(t.Tier), t.Attempts))
		from = t.Tier.MaxAge
	}
	if err := printTable(g.out, rows); err != nil {
		return err
	}
	switch {
	case l.Total == 0 && complete:
		g.printf("\nNo attempt.\n")
	case l.Total > 0:
		g.printf("\n%s, the first at %s, the last at %s.\n", plural(l.Total, "attempt"), when(l.First), when(l.Last))
	}
	switch {
	case !complete:
		g.printf("What comes later was not counted.\n")
	case l.GivenUp:
		g.printf("After the last it is given up.\n")
	default:
		g.printf("After %s it is older than every tier and not tried any more.\n", when(l.Expires))
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

// printResults prints the results in the form that is asked for.
func (o *SimulateOptions) printResults(g *globals, c *course, all []simulate.Result) error {
	if c.left > 0 {
		fmt.Fprintf(g.err, "backlog: %s without a date that can be read: left out, as passes do\n", plural(c.left, "pending row"))
	}
	switch {
	case o.JSON:
		return printJSON(g.out, o.resultsJSON(all))
	case o.CSV:
		return printSeries(g.out, all)
	case o.Diff != "":
		return g.printDiff(all[0], all[1])
	case o.Live:
		g.printf("%s in the table, with --assume %s,", plural(len(c.Records), "pending record"), o.Assume)
	default:
		g.printf("%s inserted", plural(all[0].Records, "record"))
	}
	g.printf(" from %s to %s.\n\n", when(c.From), when(c.To))
	if err := g.printFigures(all); err != nil {
		return err
	}
	for _, r := range all {
		if err := g.printPasses(r); err != nil {
			return err
		}
	}
	for _, r := range all {
		if marks := r.Marks(); marks != "" {
			g.printf("\n%s: %s", shown(r.Name), marks)
		}
	}
	return nil
}

func (o *SimulateOptions) resultsJSON(all []simulate.Result) any {
	if o.Diff != "" {
		was, will := all[0], all[1]
		changes := each(simulate.Changed(was, will), func(f simulate.Figure) changeJSON {
			return changeJSON{f.Key, f.Number(was.Report), f.Number(will.Report)}
		})
		return diffJSON{[2]string{was.Name, will.Name}, o.Seed, was.Complete && will.Complete, changes}
	}
	if o.Compare == "" {
		return all[0]
	}
	return all
}

// printSeries prints a line for each bucket of each result.
func printSeries(out io.Writer, all []simulate.Result) error {
	rows := [][]string{{"policy", "at", "attempts", "failed", "dead", "pending", "pending_max"}}
	for _, r := range all {
		for _, b := range r.Series {
			numbers := each([]int{b.Attempts, b.Failed, b.Dead, b.Pending, b.Most}, strconv.Itoa)
			rows = append(rows, append([]string{r.Name, b.At.Format(time.RFC3339)}, numbers...))
		}
	}
	return csv.NewWriter(out).WriteAll(rows)
}

// printFigures compares the results by what they cost and what they bring.
func (g *globals) printFigures(all []simulate.Result) error {
	lines := append([]string{"POLICY"}, each(all, func(r simulate.Result) string { return shown(r.Name) })...)
	stars := false
	for _, f := range simulate.Figures(all) {
		for i, cell := range append([]string{f.Title}, f.Cells(all)...) {
			lines[i] += "\t" + cell
			stars = stars || strings.HasSuffix(cell, "*")
		}
	}
	err := printTable(g.out, lines)
	if stars {
		g.printf("\n* the best of the column\n")
	}
	return err
}

// printDiff prints the figures in which two results differ.
func (g *globals) printDiff(was, will simulate.Result) error {
	list := simulate.Changed(was, will)
	if len(list) == 0 {
		g.printf("Nothing changes.\n")
		return nil
	}
	rows := []string{fmt.Sprintf("FIGURE\t%s\t%s\tCHANGE", shown(strings.ToUpper(was.Name)), shown(strings.ToUpper(will.Name)))}
	for _, f := range list {
		rows = append(rows, strings.Join([]string{f.Name, f.Text(was.Report), f.Text(will.Report), f.Change(was.Report, will.Report)}, "\t"))
	}
	return printTable(g.out, rows)
}

// printPasses tells of --live what each tier does and when records die.
func (g *globals) printPasses(r simulate.Result) error {
	if r.Ticks == nil {
		return nil
	}
	g.printf("\n%s: passes that find something\n", shown(r.Name))
	rows, sums := []string{"TIER\tPASSES\tCALLS\tMOST IN ONE"}, r.ByTier()
	for _, t := range r.Schedule.Tiers() {
		x := sums[t.Name]
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%d", shown(t.Name), x.Passes, x.Attempts, x.Most))
	}
	if err := printTable(g.out, rows); err != nil || r.Dead == 0 {
		return err
	}
	g.printf("\n%s: too old, expired or given up\n", shown(r.Name))
	rows = []string{"BY\tRECORDS"}
	for _, d := range r.Deaths() {
		rows = append(rows, fmt.Sprintf("%s\t%d", when(d.By), d.Records))
	}
	return printTable(g.out, rows)
}

type refreshesJSON struct {
	Policy   string               `json:"policy"`
	Attempts []simulate.Refreshed `json:"attempts"`
	Disabled stamp                `json:"disabled_at"`
	Reason   *string              `json:"disabled_reason"`
}

// refresh prints the first attempts of a record that always fails, as the passes of the
// schedule start them.
func (o *SimulateOptions) refresh(g *globals, p backlog.Refresher) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	list, err := simulate.Refresh(p, cfg.Tiers, o.begin(), o.CallTime, o.Attempts)
	if err != nil {
		return err
	}
	out := refreshesJSON{Policy: "refresh", Attempts: list}
	rows := []string{"N\tATTEMPT_NO\tSTART\tDEADLINE_AT\tREFRESH_AT\tEND\tNEXT_REFRESH_AT"}
	for _, a := range list {
		rows = append(rows, fmt.Sprintf("%d\t%d\t%v\t%v\t%v\t%v\t%v", a.N, a.AttemptNo, a.Start, a.Deadline, a.Planned, a.End, a.Next))
		if a.Disabled {
			out.Disabled, out.Reason = a.End, &a.Reason
		}
	}
	if o.JSON {
		return printJSON(g.out, out)
	}
	printTable(g.out, rows)
	if out.Reason != nil {
		g.printf("The record is disabled at %v: %s\n", out.Disabled, shown(*out.Reason))
	}
	return nil
}
