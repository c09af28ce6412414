package cmd

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/tiers"
)

// lifeJSON is what simulate --life prints.
type lifeJSON struct {
	Policy   string     `json:"policy"`
	Inserted stamp      `json:"inserted"`
	ByTier   []lifeTier `json:"by_tier"`
	Total    int        `json:"total"`
	Expires  stamp      `json:"expires"`
	GivenUp  bool       `json:"given_up"`
	Complete bool       `json:"complete"` // false: it was stopped
}

type lifeTier struct {
	Tier     string `json:"tier"`
	Attempts int    `json:"attempts"`
}

// life shows the life of one record under the schedule of the configuration.
func (o *SimulateOptions) life(ctx context.Context, g *globals, s *tiers.Schedule, p *backlog.Policy, random func() float64) error {
	flag := "--now"
	_, inserted, err := o.Now.clock()
	if err == nil && o.Inserted != "" {
		flag = "--inserted"
		inserted, err = parseTime(flag, o.Inserted)
	}
	if err == nil {
		err = checkYear(flag, inserted)
	}
	if err != nil {
		return err
	}
	inserted = inserted.UTC()
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	l := simulate.LifeOf(ctx, s, p, inserted, random)
	name := "progressive"
	if p != nil {
		name = p.Name
	}
	complete := ctx.Err() == nil
	switch {
	case o.CSV:
		err = g.printLifeCSV(l)
	case o.JSON.on:
		err = printLifeJSON(g.out, name, l, complete)
	default:
		err = g.printLife(name, l, complete)
	}
	if !complete {
		return errors.Join(err, errIncomplete)
	}
	return err
}

func printLifeJSON(w io.Writer, policy string, l simulate.Life, complete bool) error {
	return printJSON(w, lifeJSON{
		Policy: policy, Inserted: stamp(l.Inserted), Total: l.Total, Expires: stamp(l.Expires), GivenUp: l.GivenUp, Complete: complete,
		ByTier: each(l.ByTier, func(t simulate.TierAttempts) lifeTier { return lifeTier{t.Tier.Name, t.Attempts} }),
	})
}

// printLifeCSV prints a line for each tier.
func (g *globals) printLifeCSV(l simulate.Life) error {
	w := csv.NewWriter(g.out)
	w.Write([]string{"tier", "max_age_seconds", "attempts"})
	for _, t := range l.ByTier {
		w.Write([]string{t.Tier.Name, string(span{}.plus(t.Tier.MaxAge).seconds()), strconv.Itoa(t.Attempts)})
	}
	w.Flush()
	return w.Error()
}

func (g *globals) printLife(policy string, l simulate.Life, complete bool) error {
	if !complete {
		g.sayIncomplete()
	}
	g.printf("A record inserted at %s that never succeeds, policy %s:\n\n", when(l.Inserted), policy)
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIER\tAGE\tTICKS\tATTEMPTS")
	from := time.Duration(0)
	for _, t := range l.ByTier {
		age := "up to " + tiers.FormatDuration(t.Tier.MaxAge)
		if from > 0 {
			age = tiers.FormatDuration(from) + " to " + tiers.FormatDuration(t.Tier.MaxAge)
		}
		from = t.Tier.MaxAge
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", shown(t.Tier.Name), age, often(t.Tier), t.Attempts)
	}
	if err := w.Flush(); err != nil {
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
