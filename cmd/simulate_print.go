package cmd

import (
	"fmt"

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
	g.printf("%s", simulate.AttemptsText(p, list))
	return nil
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
	g.printf("%s", l.Text(policy, complete))
	return nil
}

// printResults prints the results in the form that is asked for.
func (o *SimulateOptions) printResults(g *globals, c *course, all []simulate.Result) error {
	if c.left > 0 {
		fmt.Fprintf(g.err, "backlog: %s without a date that can be read: left out, as passes do\n", plural(c.left, "pending row"))
	}
	switch {
	case o.JSON && o.Diff != "":
		return printJSON(g.out, simulate.NewDiff(all[0], all[1]))
	case o.JSON && o.Compare == "":
		return printJSON(g.out, all[0])
	case o.JSON:
		return printJSON(g.out, all)
	case o.CSV:
		return simulate.WriteSeries(g.out, all)
	case o.Diff != "":
		g.printf("%s", simulate.DiffText(all[0], all[1]))
		return nil
	case o.Live:
		g.printf("%s in the table, with --assume %s,", plural(len(c.Records), "pending record"), o.Assume)
	default:
		g.printf("%s inserted", plural(all[0].Records, "record"))
	}
	g.printf(" from %s to %s.\n\n%s", when(c.From), when(c.To), simulate.ResultsText(all))
	return nil
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
	if !o.JSON {
		g.printf("%s", simulate.RefreshText(list))
		return nil
	}
	out := refreshesJSON{Policy: "refresh", Attempts: list}
	for _, a := range list {
		if a.Disabled {
			out.Disabled, out.Reason = a.End, &a.Reason
		}
	}
	return printJSON(g.out, out)
}
