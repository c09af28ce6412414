package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog/inspect"
	"backlog/backlog/reader"
	"backlog/backlog/table"
	"backlog/tiers"
)

// ChangeOptions are the arguments and flags of commands that may change many records.
type ChangeOptions struct {
	dataFlags
	FilterOptions
	Yes, DryRun bool
}

func (o *ChangeOptions) AddFlags(f *pflag.FlagSet, states string) {
	o.FilterOptions.AddFlags(f, states, 0, "take at most `N` records, in the order of their keys; 0: all")
	f.BoolVar(&o.Yes, "yes", false, "do it, even for more than one record")
	f.BoolVar(&o.DryRun, "dry-run", false, "print how many records there would be, and change nothing")
	o.dataFlags.AddFlags(f)
}

// mayChange reports whether n records are to be changed. It returns an error if that needs --yes or a right
// that is missing. what says in words what would be done.
func (o *ChangeOptions) mayChange(ctx context.Context, a *setup, n int, what string) (bool, error) {
	if n > 1 && !o.Yes && !o.DryRun {
		return false, usagef("that would %s; add --yes to do so", what)
	}
	if n == 0 || o.DryRun {
		return false, nil
	}
	return true, a.db.CheckRights(ctx)
}

// RetryOptions are the arguments and the flags of retry.
type RetryOptions struct {
	ChangeOptions
	Match       string
	All, Errors bool
}

func newRetry(g *globalOptions) *cobra.Command {
	var o RetryOptions
	c := &cobra.Command{
		Use:   "retry {ID... | FILTER | --all}",
		Short: "Put dead or failed records back to new, as if they had never been tried",
		Long:  idHelp,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			o.IDs = ids
			if cfg, err := g.loadAny(); err == nil && sourceOf(cfg) != nil {
				return retrySource(c.Context(), g, cfg, o)
			} else if o.Errors || o.Match != "" {
				return usagef("--errors and --match are of a source, whose failures are in an error queue: in a table, say --all or which records")
			}
			return runRetry(c.Context(), o, g)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Status, "status", "", "take the records whose status is `STATUS`, one of dead or failed records")
	o.ChangeOptions.AddFlags(f, "failed, dead, exhausted, unreadable")
	f.BoolVar(&o.All, "all", false, "take all dead and failed records")
	f.BoolVar(&o.Errors, "errors", false, "with a source: take the messages of the error queue")
	f.StringVar(&o.Match, "match", "", "with --errors: only those whose error contains `TEXT`")
	return c
}

type retryJSON struct {
	Selected       int `json:"selected"`
	Reset          int `json:"reset"`
	OlderThanTiers int `json:"beyond"` // selected records that are older than every tier
	reader.Refusals
}

// selectors returns in how many ways the options say which records: by IDs, by a filter, or all.
func (o *RetryOptions) selectors() (n int) {
	for _, isGiven := range []bool{len(o.IDs) > 0, o.Narrows(), o.All} {
		if isGiven {
			n++
		}
	}
	return n
}

func runRetry(ctx context.Context, o RetryOptions, g *globalOptions) error {
	if o.selectors() != 1 {
		return usagef("say which records: their IDs, or one or more of --state, --status, --tier, --cause and --older-than, or --all")
	}
	return g.onTable(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun}, func(a *setup, now time.Time) error {
		filter, err := a.view.Choose(ctx, o.Selection, inspect.Requeued, now)
		if err != nil {
			return err
		}
		var r retryJSON
		oldest := now.Add(-a.cfg.Tiers.Widest().MaxAge)
		r.Selected, r.OlderThanTiers, err = a.table.CountSelected(ctx, filter, inspect.Requeued, now, oldest)
		if err != nil {
			return err
		}
		isConfirmed, err := o.mayChange(ctx, a, r.Selected, fmt.Sprintf("put %d records back to new", r.Selected))
		if err == nil && isConfirmed {
			r.Reset, err = a.table.Requeue(ctx, filter, now, r.Add)
		}
		hasDoneNothing := r.Reset == 0 && r.Refused == 0
		if err != nil && hasDoneNothing {
			return err
		}
		err = errors.Join(err, r.Err())
		if o.JSON {
			return errors.Join(err, printJSON(g.out, r))
		}
		g.printRetry(a, o, r)
		return err
	})
}

// printRetry prints for people what a retry has done, or would do.
func (g *globalOptions) printRetry(a *setup, o RetryOptions, r retryJSON) {
	if o.DryRun {
		g.printf("%s would be put back to new\n", inspect.Plural(r.Selected, "record"))
	} else {
		g.printf("%s put back to new\n", inspect.Plural(r.Reset, "record"))
	}
	if r.OlderThanTiers == 0 {
		return
	}
	then := "not tried"
	if a.table.HasDead() {
		then = "not tried, and dead again when that tier ticks"
	}
	widest := a.cfg.Tiers.Widest().MaxAge
	g.printf("%d of them older than every tier reaches (%s): %s\n", r.OlderThanTiers, tiers.FormatDuration(widest), then)
}
