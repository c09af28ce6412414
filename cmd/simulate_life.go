package cmd

import (
	"context"
	"encoding/csv"
	"fmt"
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
}

type lifeTier struct {
	Tier     string `json:"tier"`
	Attempts int    `json:"attempts"`
}

// life shows the life of one record under the schedule of the configuration.
func (o *SimulateOptions) life(ctx context.Context, g *globals, s *tiers.Schedule, p *backlog.Policy, random func() float64) error {
	_, inserted, err := o.Now.clock()
	if err != nil {
		return err
	}
	if o.Inserted != "" {
		if inserted, err = parseTime("--inserted", o.Inserted); err != nil {
			return err
		}
	}
	inserted = inserted.UTC()
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	l := simulate.LifeOf(ctx, s, p, inserted, random)
	name := "progressive"
	if p != nil {
		name = p.Name
	}
	switch {
	case o.CSV:
		return g.printLifeCSV(l)
	case !o.JSON.on:
		return g.printLife(name, l)
	}
	return printJSON(g.out, lifeJSON{
		Policy: name, Inserted: stamp(inserted), Total: l.Total, Expires: stamp(l.Expires), GivenUp: l.GivenUp,
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

func (g *globals) printLife(policy string, l simulate.Life) error {
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
	g.printf("\n%s, the first at %s, the last at %s.\n", plural(l.Total, "attempt"), when(l.First), when(l.Last))
	if l.GivenUp {
		g.printf("After the last it is given up.\n")
	} else {
		g.printf("From %s on it is older than every tier and not tried any more.\n", when(l.Expires))
	}
	return nil
}
