package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"backlog/backlog/web"
)

func newHealth(g *globalOptions) *cobra.Command {
	var base string
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask a running daemon whether it works, as a container's probe",
		RunE:  func(c *cobra.Command, _ []string) error { return runHealth(c.Context(), g, base) },
	}
	c.Flags().StringVar(&base, "url", "", "ask the daemon at `URL`, such as http://10.1.2.3:8080, instead of the configured address")
	return c
}

func runHealth(ctx context.Context, g *globalOptions, base string) error {
	probe := web.NewProbe(base)
	if base == "" {
		cfg, err := g.loadFile(knownSettings())
		if err != nil {
			return err
		}
		probe = web.LocalProbe(probeAddress(cfg))
	}
	answer, err := probe.Ask(ctx)
	if errors.As(err, new(*web.Problem)) {
		return usagef("--url: %v", err)
	}
	if answer != "" {
		g.printf("%s\n", answer)
	}
	return err
}
