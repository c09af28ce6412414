package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/backlog/reader"
	"backlog/backlog/table"
)

func newDiscard(g *globalOptions) *cobra.Command {
	var o ChangeOptions
	c := &cobra.Command{
		Use:   "discard {ID... | FILTER}",
		Short: "Give up pending records: they get the dead status",
		Long:  idHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			o.IDs = ids
			return runDiscard(c.Context(), o, g)
		},
	}
	o.AddFlags(c.Flags(), "fresh, failed, exhausted, unreadable")
	return c
}

func runDiscard(ctx context.Context, o ChangeOptions, g *globalOptions) error {
	if (len(o.IDs) > 0) == o.Narrows() {
		return usagef("say which records: their IDs, or one or more of --state, --tier, --cause and --older-than")
	}
	return g.onTable(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun}, func(a *setup, now time.Time) error {
		if a.view.Refreshes() {
			return usagef("under the policy refresh a record is disabled, not dead; write to the policy's column disabled")
		}
		if !a.table.HasDead() {
			return usagef("no dead status is configured; statuses.dead says which discarded records get")
		}
		filter, err := a.view.Choose(ctx, o.Selection, inspect.Discarded, now)
		if err != nil {
			return err
		}
		var r reader.Discarded
		a.onDead, err = g.newOnDead(ctx, a.cfg, a.log)
		err = cmp.Or(err, hasColumns(a.table.HandlerColumns(), "on_dead."+a.cfg.OnDead.Kind, a.onDead))
		if err == nil {
			r.Selected, _, err = a.table.CountSelected(ctx, filter, inspect.Discarded, now, time.Time{})
		}
		if err != nil {
			return err
		}
		var calls string
		if a.onDead != nil {
			calls = ", with " + inspect.Plural(r.Selected, "call") + " of on_dead"
		}
		may, err := o.mayChange(ctx, a, r.Selected, fmt.Sprintf("discard %d records%s", r.Selected, calls))
		switch {
		case err != nil:
			return err
		case may:
			err = a.discard(ctx, filter, now, &r)
		case o.DryRun && a.onDead != nil:
			r.OnDead = r.Selected
		}
		switch {
		case o.JSON:
			return errors.Join(err, printJSON(g.out, r))
		case o.DryRun:
			g.printf("%s would be discarded%s\n", inspect.Plural(r.Selected, "record"), calls)
		default:
			g.printf("%s discarded\n", inspect.Plural(r.Discarded, "record"))
		}
		return err
	})
}

// discard gives the records the dead status and, if on_dead is configured, calls it for each of them first.
func (a *setup) discard(ctx context.Context, f table.Filter, now time.Time, r *reader.Discarded) error {
	ctx, signals := onTermOrHangup(ctx)
	defer signals.stop()
	obs := logging.New(a.log)
	obs.Dead = true
	defer obs.End()
	var call func(context.Context, *backlog.Record) error
	if a.onDead != nil {
		call = a.engine(time.Now, nil).NotifyDiscarded
	}
	return a.view.Discard(ctx, f, now, r, reader.Discarding{Call: call, Observe: obs.Observe})
}
