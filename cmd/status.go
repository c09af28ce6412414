package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/tiers"
)

func newStatus(g *globals) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Count records by status and by age, and show the next ticks",
		Long: `Status counts the records of the table by status, the pending ones by the tier
that their age puts them in, and shows when the next passes start. Records that
are out of retries are no longer pending and counted apart. It only reads the
table.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if cfg, err := g.loadAny(); err == nil && sourceOf(cfg) != nil {
				return statusSource(c.Context(), g, cfg, o.JSON)
			}
			return runStatus(c.Context(), o, g)
		},
	}
	o.AddFlags(c.Flags())
	return c
}

func runStatus(ctx context.Context, o dataFlags, g *globals) error {
	a, now, err := g.open(ctx, o, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	s, err := a.status(ctx, now)
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(g.out, s)
	}
	return printTable(g.out, s.Lines())
}

func (a *app) status(ctx context.Context, now time.Time) (*inspect.Status, error) {
	if a.again != nil {
		counts, err := a.again.Count(ctx)
		return inspect.NewRefreshStatus(counts, a.cfg.Tiers, now), err
	}
	counts, err := countOf(ctx, a.table, a.cfg, now)
	if err != nil {
		return nil, err
	}
	return inspect.NewStatus(counts, a.cfg.Tiers, now), nil
}

// countOf counts the records in the tiers' bands.
func countOf(ctx context.Context, t *table.Table, cfg *config.Config, now time.Time) (inspect.Counts, error) {
	c, err := t.Count(ctx, now, each(cfg.Tiers.Tiers(), func(t tiers.Tier) time.Duration { return t.MaxAge }))
	if p := policyOf(cfg); p != nil && p.Never {
		c = c.TriedOnce()
	}
	return c, err
}
