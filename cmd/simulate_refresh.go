package cmd

import (
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/tiers"
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
	from, err := o.moment()
	if o.Now == "" {
		from, err = parseMoment("--from", o.From)
	}
	if err != nil {
		return err
	}
	call, err := tiers.ParseDuration(o.CallTime)
	if err != nil || call < 0 {
		return usagef("--call-time: %q is not a duration; write it as in 90s", o.CallTime)
	}
	list, err := simulate.Refresh(p, cfg.Tiers, from, call, o.Attempts)
	if err != nil {
		return err
	}
	out := refreshesJSON{Policy: "refresh", Attempts: []refreshedJSON{}}
	shape := when
	if o.CSV {
		shape = iso
	}
	rows := [][]string{{"n", "attempt_no", "start", "deadline_at", "refresh_at", "end", "next_refresh_at"}}
	for i, a := range list {
		times := []time.Time{a.Start, a.Deadline, a.Planned, a.End, a.Next}
		t := each(times, func(t time.Time) stamp { return stamp(t) })
		out.Attempts = append(out.Attempts, refreshedJSON{i + 1, a.AttemptNo, t[0], t[1], t[2], t[3], t[4]})
		rows = append(rows, append([]string{strconv.Itoa(i + 1), strconv.Itoa(a.AttemptNo)}, each(times, shape)...))
		if a.Disabled {
			out.Disabled, out.Reason = stamp(a.End), &a.Reason
		}
	}
	switch {
	case o.JSON:
		return printJSON(g.out, out)
	case o.CSV:
		return csv.NewWriter(g.out).WriteAll(rows)
	}
	rows[0] = each(rows[0], strings.ToUpper)
	printTable(g.out, each(rows, func(row []string) string { return strings.Join(row, "\t") }))
	if out.Reason != nil {
		g.printf("The record is disabled at %s: %s\n", when(time.Time(out.Disabled)), shown(*out.Reason))
	}
	return nil
}

func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
