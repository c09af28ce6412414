package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
)

// DiscardOptions are the arguments and the flags of discard.
type DiscardOptions struct {
	dataFlags
	FilterOptions
	IDs    []string
	Yes    bool
	DryRun bool
}

func newDiscard(g *globals) *cobra.Command {
	var o DiscardOptions
	c := &cobra.Command{
		Use:   "discard {ID... | FILTER}",
		Short: "Give up pending records: they get the dead status",
		Long: `Discard gives pending records, and those out of retries, the dead status. Before each
one on_dead is called, if there is one, with the reason "discarded" and at most as often as
rate allows; a record for which that fails stays as it is. It says first how many
records and calls there are, and for more than one record it does nothing without --yes.

    backlog discard 4 7 --yes
    backlog discard --state failed --cause "no such user" --dry-run
    backlog discard --tier beyond --limit 1000 --yes

If one of the IDs has no record, or one that is not pending, nothing is changed. A
record that a handler works on meanwhile is discarded, and the outcome dropped. The
command "backlog retry" takes records back. A composite key is a JSON array, in
quotes.` + idHelp,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			o.IDs = ids
			return runDiscard(c.Context(), o, g)
		},
	}
	f := c.Flags()
	o.FilterOptions.AddFlags(f, "fresh, failed, exhausted, unreadable", 0, limitHelp)
	f.BoolVar(&o.Yes, "yes", false, "do it, though it is more than one record")
	f.BoolVar(&o.DryRun, "dry-run", false, "say how many records it would be, and do nothing")
	o.dataFlags.AddFlags(f)
	return c
}

const limitHelp = "take at most `N` records, in the order of their keys; 0: all"

type discardJSON struct {
	Selected  int `json:"selected"`
	Discarded int `json:"discarded"`
	OnDead    int `json:"on_dead"` // calls; with --dry-run those that there would be
	Failed    int `json:"failed"`  // calls that failed: their records stay as they were
}

func runDiscard(ctx context.Context, o DiscardOptions, g *globals) error {
	if (len(o.IDs) > 0) == o.given() {
		return usagef("say which records: their IDs, or one or more of --state, --tier, --cause and --older-than")
	}
	a, now, err := g.open(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun})
	if err != nil {
		return err
	}
	defer a.close()
	if a.again != nil {
		return usagef("under the policy refresh a record is disabled, not dead; write to the policy's column disabled")
	}
	if !a.table.HasDead() {
		return usagef("no dead status is configured; statuses.dead says which discarded records get")
	}
	filter, err := o.filter(a, inspect.Discarded, now)
	if err == nil {
		filter.Keys, err = a.keys(ctx, o.IDs, now, "discarded", whyNotDiscarded)
	}
	if err != nil {
		return err
	}
	if a.onDead, err = newOnDead(ctx, a.cfg, a.log); err == nil {
		err = hasColumns(a.table.Given(), "on_dead."+a.cfg.OnDead.Kind, a.onDead)
	}
	if err != nil {
		return err
	}
	var r discardJSON
	if r.Selected, _, err = a.table.CountChosen(ctx, filter, inspect.Discarded, now, time.Time{}); err != nil {
		return err
	}
	calls := ""
	if a.onDead != nil {
		r.OnDead = r.Selected
		calls = ", with " + inspect.Plural(r.OnDead, "call") + " of on_dead"
	}
	switch {
	case o.DryRun && o.JSON:
		return printJSON(g.out, r)
	case o.DryRun:
		g.printf("%s would be discarded%s\n", inspect.Plural(r.Selected, "record"), calls)
		return nil
	case r.Selected > 1 && !o.Yes:
		return usagef("that would discard %d records%s; add --yes to do so", r.Selected, calls)
	}
	r.OnDead = 0
	if r.Selected > 0 {
		err = a.discard(ctx, filter, now, &r)
	}
	if o.JSON {
		return errors.Join(err, printJSON(g.out, r))
	}
	g.printf("%s discarded\n", inspect.Plural(r.Discarded, "record"))
	return err
}

// discard gives the records the dead status and counts them.
func (a *app) discard(ctx context.Context, f table.Filter, now time.Time, r *discardJSON) error {
	if err := a.db.CheckRights(ctx); err != nil {
		return err
	}
	ctx, stop := stopOnSignal(ctx)
	defer stop()
	var tally causes.Tally
	var wrong error // with what a row would have
	var each func(*inspect.Row) error
	if a.onDead != nil {
		e, taken := a.engine(time.Now, nil), make(map[int]bool) // states whose rows are known to take the dead status
		each = func(row *inspect.Row) error {
			if wrong != nil {
				return wrong
			}
			if !taken[row.Origin] {
				err := a.table.Try(ctx, backlog.Settlement{Record: &row.Record, Target: backlog.RowDead, At: now})
				if err != nil && !errors.Is(err, backlog.ErrConflict) && !errors.Is(err, backlog.ErrLocked) { // by others, just this row
					wrong = err
				}
				if err != nil {
					return err
				}
			}
			taken[row.Origin] = true
			if row.LastError != nil {
				row.Error = *row.LastError
			}
			r.OnDead++
			err := e.TellDiscarded(ctx, &row.Record)
			if err != nil {
				r.Failed++
				tally.Add(causes.Fold(err.Error()), err.Error(), row.Key)
			}
			return err
		}
	}
	n, err := a.table.Discard(ctx, f, now, each)
	r.Discarded, err = n, cmp.Or(err, wrong)
	if list := tally.Causes(); len(list) > 0 {
		err = errors.Join(err, fmt.Errorf("calls of on_dead that failed: %d; their records stay as they were; %s (first: id %s)", r.Failed, list[0].String(), inspect.Shown(list[0].First.String())))
	}
	return err
}

// whyNotDiscarded returns why the row cannot be given up, "" if it can.
func whyNotDiscarded(row inspect.Row) string {
	if row.State == backlog.RowNew || row.State == backlog.RowError {
		return ""
	}
	return "its status is " + row.StatusText()
}
