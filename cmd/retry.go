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
	IDs       []string
	Status    string
	OlderThan time.Duration
	All       bool
	Yes       bool
	DryRun    bool
	Errors    bool
	Match     string
}

func newRetry(g *globals) *cobra.Command {
	var o RetryOptions
	c := &cobra.Command{
		Use:   "retry {ID... | [--status STATUS] [--older-than AGE] | --all}",
		Short: "Put dead or failed records back to new, as if they had never been tried",
		Long: `Retry gives dead and failed records the status of new ones, and lets a policy
forget their failures: they are due at once. It says how many they are, and for
more than one it does nothing without --yes.

    backlog retry 4 7 --yes
    backlog retry --status DEAD --older-than 7d --dry-run
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
	f.Var(&flagOf[time.Duration]{to: &o.OlderThan, read: parseAge}, "older-than", "take the dead and failed records that are older than `AGE`, such as 7d")
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
	byID, byFlag := len(o.IDs) > 0, o.Status != "" || o.OlderThan > 0
	if byID && byFlag || (byID || byFlag) == o.All { // several, or nothing
		return usagef("say which records: their IDs, or --status STATUS and --older-than AGE, or --all")
	}
	a, now, err := g.open(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun})
	if err != nil {
		return err
	}
	defer a.close()
	filter, err := o.filter(ctx, a, now)
	if err != nil {
		return err
	}
	var r retryJSON
	if r.Selected, err = a.table.CountRequeue(ctx, filter); err != nil {
		return err
	}
	if r.Beyond, err = a.countBeyond(ctx, filter, now); err != nil {
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

// filter returns what the options mean in the table.
func (o *RetryOptions) filter(ctx context.Context, a *app, now time.Time) (filter table.Filter, err error) {
	known := requeueable(a.cfg, a.table.OneLane())
	if a.again != nil {
		known = append(known, "disabled")
	}
	if filter.Status = o.Status; o.Status != "" && !slices.Contains(known, o.Status) {
		return filter, usagef("--status: %q is not that of dead or failed records; those are: %s", o.Status, cmp.Or(strings.Join(known, ", "), "none"))
	}
	if o.OlderThan > 0 {
		filter.Before = now.Add(-o.OlderThan)
	}
	filter.Keys, err = o.keys(ctx, a, now)
	return filter, err
}

// keys returns the keys of the IDs, each once. It is an error if one of the records
// cannot be put back to new.
func (o *RetryOptions) keys(ctx context.Context, a *app, now time.Time) (keys []backlog.Key, err error) {
	seen := make(map[uint64]bool)
	var wrong []error
	for _, id := range o.IDs {
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
		if why := whyNotReset(row, ok, a.again != nil); why != "" {
			wrong = append(wrong, fmt.Errorf("%s: %s", shown(k.String()), why))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("nothing is changed, since some of these records cannot be put back to new\n%w", errors.Join(wrong...))
	}
	return keys, nil
}

// whyNotReset returns why the row cannot be put back to new, "" if it can: under the
// policy refresh any can.
func whyNotReset(row inspect.Row, found, any bool) string {
	switch {
	case !found:
		return "there is no such record"
	case row.Filtered:
		return "table.where leaves it out"
	case any || row.State == backlog.RowDead || row.State == backlog.RowError:
		return ""
	}
	return "its status is " + row.StatusText()
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

// countBeyond returns how many records of the filter no tier reaches.
func (a *app) countBeyond(ctx context.Context, filter table.Filter, now time.Time) (int, error) {
	edge := now.Add(-a.cfg.Tiers.Widest().MaxAge)
	if filter.Before.IsZero() || edge.Before(filter.Before) {
		filter.Before = edge
	}
	return a.table.CountRequeue(ctx, filter)
}
