package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog/table"
)

// InitOptions are the flags of init.
type InitOptions struct {
	Print bool
}

func (o *InitOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Print, "print", false, "print the SQL and do nothing")
}

func newInit(g *globals) *cobra.Command {
	var o InitOptions
	c := &cobra.Command{
		Use:   "init",
		Short: "Create what is missing: the table, the indexes, a policy's columns",
		Long: `Init creates what the configuration names and the database does not have: the
database file, the table, an index for each status that is read, and the columns in which
a policy keeps its state: those it adds to a table that is there. It alters and
drops nothing else and may be run again. It prints each statement that it has run.` + exitStatusHelp,
		Args: noArgs,
		RunE: ran(func(ctx context.Context) error { return runInit(ctx, o, g) }),
	}
	o.AddFlags(c.Flags())
	return c
}

func runInit(ctx context.Context, o InitOptions, g *globals) error {
	cfg, err := g.load()
	if err != nil {
		return err
	}
	steps, err := table.Missing(ctx, cfg.Database, mapping(cfg), time.Now())
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		g.printf("-- nothing is missing\n")
		return nil
	}
	for _, s := range steps {
		if !o.Print {
			if err := table.Create(ctx, cfg.Database, []string{s}); err != nil {
				return err
			}
		}
		g.printf("%s;\n", s)
	}
	return nil
}
