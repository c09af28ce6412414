package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/table/doctor"
)

func newInit(g *globalOptions) *cobra.Command {
	var onlyPrint, createTable bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Create what is missing: indexes, a policy's columns and, on request, the table",
		RunE:  func(c *cobra.Command, _ []string) error { return runInit(c.Context(), onlyPrint, createTable, g) },
	}
	c.Flags().BoolVar(&createTable, "create-table", false, "create the table if it does not exist, and the database file")
	c.Flags().BoolVar(&onlyPrint, "print", false, "print the SQL and do nothing")
	return c
}

func runInit(ctx context.Context, onlyPrint, createTable bool, g *globalOptions) error {
	cfg, err := g.loadAny()
	if err != nil {
		return err
	}
	if sourceOf(cfg) != nil {
		return initSource(ctx, g, cfg, onlyPrint)
	}
	server, err := serverOf(cfg.Database)
	if err != nil {
		return err
	}
	steps, err := doctor.Missing(ctx, server, cfg.Database, doctor.Requirements{Mapping: mappingOf(cfg), CreateTable: createTable, Now: time.Now()})
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		g.printf("-- nothing is missing\n")
		return nil
	}
	for _, s := range steps {
		if !onlyPrint {
			if err := doctor.Create(ctx, server, cfg.Database, []string{s}); err != nil {
				return err
			}
		}
		g.printf("%s;\n", s)
	}
	return nil
}
