package cmd

import (
	"fmt"

	"backlog/backlog"
	"backlog/backlog/simulate"
)

type refreshedJSON struct {
	N        int   `json:"n"`
	No       int   `json:"attempt_no"`
	Start    stamp `json:"start"`
	Deadline stamp `json:"deadline_at"`
	Planned  stamp `json:"refresh_at"` // while it runs
	End      stamp `json:"end"`
	Next     stamp `json:"next_refresh_at"`
}

type refreshesJSON struct {
	Policy   string          `json:"policy"`
	Attempts []refreshedJSON `json:"attempts"`
	Disabled stamp           `json:"disabled_at"`
	Reason   *string         `json:"disabled_reason"`
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
	out := refreshesJSON{Policy: "refresh", Attempts: []refreshedJSON{}}
	rows := []string{"N\tATTEMPT_NO\tSTART\tDEADLINE_AT\tREFRESH_AT\tEND\tNEXT_REFRESH_AT"}
	for i, a := range list {
		r := refreshedJSON{i + 1, a.AttemptNo, stamp(a.Start), stamp(a.Deadline), stamp(a.Planned), stamp(a.End), stamp(a.Next)}
		out.Attempts = append(out.Attempts, r)
		rows = append(rows, fmt.Sprintf("%d\t%d\t%v\t%v\t%v\t%v\t%v", r.N, r.No, r.Start, r.Deadline, r.Planned, r.End, r.Next))
		if a.Disabled {
			out.Disabled, out.Reason = r.End, &a.Reason
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
