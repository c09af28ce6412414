package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/inspect"
	"backlog/backlog/table"
)

func newExplain(g *globalOptions) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Explain one record: whether it is due, why, and when it will next be tried",
		Long:  idHelp,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("say which record, as in: backlog explain 4")
			case 1:
				return nil
			}
			return errors.New("explain takes one ID; a key of several columns is one JSON array in quotes, as in: backlog explain '[\"mail\", 7]'")
		},
		RunE: func(c *cobra.Command, args []string) error { return runExplain(c.Context(), args[0], o, g) },
	}
	o.AddFlags(c.Flags())
	return c
}

// idHelp is the last paragraph in the help of commands that take IDs.
const idHelp = `

If an ID begins with a dash, write it last, after --.`

func runExplain(ctx context.Context, id string, o dataFlags, g *globalOptions) error {
	return g.onTable(ctx, o, table.Options{ReadOnly: true}, func(a *setup, now time.Time) error {
		row, err := a.view.Row(ctx, id, now)
		if err != nil {
			return err
		}
		s := a.view.Sheet(row, now)
		if o.JSON {
			return printJSON(g.out, s)
		}
		if err := printTable(g.out, s.Lines); err != nil {
			return err
		}
		g.printPause(a, now)
		return nil
	})
}

// printPause prints the pause in which no record is tried, if there is one.
func (g *globalOptions) printPause(a *setup, now time.Time) {
	saved, _ := stateOf(a.cfg, a.log).State() // if it cannot be read, it has no pause for passes either
	if pause := saved.Current(now); pause != nil {
		g.printf("paused %s: no tick starts a pass until then\n", inspect.Escaped(pause.String()))
	}
}
