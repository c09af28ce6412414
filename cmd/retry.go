package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/tiers"
)

// RetryOptions are the arguments and the flags of retry.
type RetryOptions struct {
	dataFlags
	FilterOptions
	IDs    []string
	Status string
	All    bool
	Yes    bool
	DryRun bool
	Errors bool
	Match  string
}

func newRetry(g *globals) *cobra.Command {
	var o RetryOptions
	c := &cobra.Command{
		Use:   "retry {ID... | FILTER | --all}",
		Short: "Put dead or failed records back to new, as if they had never been tried",
		Long: `Retry gives dead and failed records the status of new ones, and lets a policy
forget their failures: they are due at once. It says how many they are, and for
more than one it does nothing without --yes.

    backlog retry 4 7 --yes
    backlog retry --state dead --older-than 7d --dry-run
    backlog retry --cause "connection refused" --limit 10 --yes
    backlog retry --all --yes

If one of the IDs has no record, or one that is neither dead nor failed, nothing
is changed. The age of a record stays what it is: one that is older than every
tier is not tried. So do the columns of table.attempts and table.last_error. A
composite key is a JSON array, in quotes.

With the policy refresh, an ID may be of any record: it is saved again, starts at
the next tick, and an attempt that runs is superseded.` + idHelp,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			o.IDs = ids
			if cfg, err := g.loadAny(); err == nil && sourceOf(cfg) != nil {
				return retrySource(c.Context(), g, cfg, o)
			} else if o.Errors {
				return usagef("--errors is of a source, whose failures are in an error queue: in a table, say --all or which records")
			}
			return runRetry(c.Context(), o, g)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Status, "status", "", "take the records whose status is `STATUS`, which dead or failed ones have")
	o.FilterOptions.AddFlags(f, "failed, dead, exhausted, unreadable", 0, limitHelp)
	f.BoolVar(&o.All, "all", false, "take all dead and failed records")
	f.BoolVar(&o.Yes, "yes", false, "do it, though it is more than one record")
	f.BoolVar(&o.DryRun, "dry-run", false, "say how many records it would be, and do nothing")
	f.BoolVar(&o.Errors, "errors", false, "with a source: take the messages of the error queue")
	f.StringVar(&o.Match, "match", "", "with --errors: only those whose error has `TEXT`")
	o.dataFlags.AddFlags(f)
	return c
}

type retryJSON struct {
	Selected int `json:"selected"`
	Reset    int `json:"reset"`
	Beyond   int `json:"beyond"` // of the selected: older than every tier
}

func runRetry(ctx context.Context, o RetryOptions, g *globals) error {
	byID, byFlag := len(o.IDs) > 0, o.Status != "" || o.given()
	if byID && byFlag || (byID || byFlag) == o.All { // several, or nothing
		return usagef("say which records: their IDs, or one or more of --state, --status, --tier, --cause and --older-than, or --all")
	}
	a, now, err := g.open(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun})
	if err != nil {
		return err
	}
	defer a.close()
	filter, err := o.requeued(ctx, a, now)
	if err != nil {
		return err
	}
	var r retryJSON
	edge := now.Add(-a.cfg.Tiers.Widest().MaxAge)
	if r.Selected, r.Beyond, err = a.table.CountChosen(ctx, filter, inspect.Requeued, now, edge); err != nil {
		return err
	}
	if r.Selected > 1 && !o.Yes && !o.DryRun {
		return usagef("that would put %d records back to new; add --yes to do so", r.Selected)
	}
	if r.Selected > 0 && !o.DryRun {
		if err := a.db.CheckRights(ctx); err != nil {
			return err
		}
		if r.Reset, err = a.table.Requeue(ctx, filter, now); err != nil && r.Reset == 0 {
			return err
		}
	}
	if o.JSON {
		return errors.Join(err, printJSON(g.out, r))
	}
	if o.DryRun {
		g.printf("%s would be put back to new\n", plural(r.Selected, "record"))
	} else {
		g.printf("%s put back to new\n", plural(r.Reset, "record"))
	}
	if r.Beyond > 0 {
		then := "not tried"
		if a.table.HasDead() {
			then = "not tried, and dead again when that tier ticks"
		}
		g.printf("%d of them older than every tier reaches (%s): %s\n", r.Beyond, tiers.FormatDuration(a.cfg.Tiers.Widest().MaxAge), then)
	}
	return err
}

// requeued returns what the options mean in the table.
func (o *RetryOptions) requeued(ctx context.Context, a *app, now time.Time) (filter table.Filter, err error) {
	if filter, err = o.filter(a, inspect.Requeued, now); err != nil {
		return filter, err
	}
	known := requeueable(a.cfg, a.table.OneLane())
	if a.again != nil {
		known = append(known, "disabled")
	}
	if filter.Status = o.Status; o.Status != "" && !slices.Contains(known, o.Status) {
		return filter, usagef("--status: %q is not that of dead or failed records; those are: %s", o.Status, cmp.Or(strings.Join(known, ", "), "none"))
	}
	filter.Keys, err = a.keys(ctx, o.IDs, now, "put back to new", func(row inspect.Row) string {
		if a.again != nil || row.State == backlog.RowDead || row.State == backlog.RowError {
			return "" // under the policy refresh any can
		}
		return "its status is " + row.StatusText()
	})
	return filter, err
}

// keys returns the keys of the IDs, each once. It is an error if why returns a reason for which
// one of the records cannot be what is to be done.
func (a *app) keys(
	ctx context.Context, ids []string, now time.Time, done string, why func(inspect.Row) string,
) (keys []backlog.Key, err error) {
	seen := make(map[uint64]bool)
	var wrong []error
	for _, id := range ids {
		k, err := a.table.ParseKey(id)
		if err != nil {
			return nil, usageError{err}
		}
		if seen[k.Hash()] {
			continue
		}
		seen[k.Hash()] = true
		keys = append(keys, k)
		row, ok, err := a.table.Find(ctx, k, now)
		if err != nil {
			return nil, err
		}
		reason := "there is no such record"
		if ok && row.Filtered {
			reason = "table.where leaves it out"
		} else if ok {
			reason = why(row)
		}
		if reason != "" {
			wrong = append(wrong, fmt.Errorf("%s: %s", shown(k.String()), reason))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("nothing is changed, since some of these records cannot be %s\n%w", done, errors.Join(wrong...))
	}
	return keys, nil
}

// requeueable returns the statuses of dead and failed records as --status takes
// them: the values of the status column or, in a table without one, words.
func requeueable(cfg *config.Config, oneLane bool) (list []string) {
	s := cfg.Table
	add := func(x mapping.State, word string) {
		values, _ := ofStatus(cfg, x)
		if len(values) == 0 {
			list = append(list, word)
		}
		list = append(list, each(values, func(v mapping.Value) string { return v.Text })...)
	}
	if s.Dead.Given {
		add(s.Dead, "dead")
	}
	switch {
	case oneLane: // none are told from new ones
	case s.Error.Keep:
		add(s.New, "error")
	default:
		add(s.Error, "error")
	}
	return list
}
