package cmd

import (
	"fmt"

	"backlog/backlog"
	"backlog/backlog/simulate"
)

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
