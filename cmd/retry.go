package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	OlderThan string
	All       bool
	Yes       bool
	DryRun    bool
}

func (o *RetryOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Status, "status", "", "take the records whose status is `STATUS`, which dead or failed ones have")
	f.StringVar(&o.OlderThan, "older-than", "", "take the dead and failed records that are older than `AGE`, such as 7d")
	f.BoolVar(&o.All, "all", false, "take all dead and failed records")
	f.BoolVar(&o.Yes, "yes", false, "do it, though it is more than one record")
	f.BoolVar(&o.DryRun, "dry-run", false, "say how many records it would be, and do nothing")
	o.dataFlags.AddFlags(f)
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
the next tick, and an attempt that runs is superseded.` + idHelp + exitStatusHelp,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			o.IDs = ids
			return runRetry(c.Context(), o, g)
		},
	}
	o.AddFlags(c.Flags())
	c.SetFlagErrorFunc(idFlagError)
	return c
}

type retryJSON struct {
	Selected int `json:"selected"`
	Reset    int `json:"reset"`
	Beyond   int `json:"beyond"` // of the selected: older than every tier
}

func runRetry(ctx context.Context, o RetryOptions, g *globals) error {
	age, err := o.check()
	if err != nil {
		return err
	}
	a, now, err := g.open(ctx, o.dataFlags, table.Options{ReadOnly: o.DryRun})
	if err != nil {
		return err
	}
	defer a.close()
	filter, err := o.filter(ctx, a, age, now)
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

// check returns the age of --older-than, 0 for none, or what is wrong with the
// options.
func (o *RetryOptions) check() (age time.Duration, err error) {
	some := o.Status != "" || o.OlderThan != ""
	switch {
	case len(o.IDs) > 0 && (some || o.All):
		return 0, usagef("say which records either by their IDs or by --status, --older-than or --all")
	case o.All && some:
		return 0, usagef("--all is every dead or failed record: leave it out, or --status and --older-than")
	case len(o.IDs) == 0 && !some && !o.All:
		return 0, usagef("say which records: their IDs, --status STATUS, --older-than AGE, or --all")
	case o.OlderThan == "":
		return 0, nil
	}
	return parseAge("--older-than", o.OlderThan)
}

// filter returns what the options mean in the table.
func (o *RetryOptions) filter(ctx context.Context, a *app, age time.Duration, now time.Time) (filter table.Filter, err error) {
	known := requeueable(a.cfg, a.table.OneLane())
	switch filter.Status = o.Status; {
	case o.Status == "", slices.Contains(known, o.Status):
	case len(known) == 0:
		return filter, usagef("--status: no status of the configuration is that of dead or failed records")
	default:
		return filter, usagef("--status: %q is not that of dead or failed records; those are: %s", o.Status, strings.Join(known, ", "))
	}
	if age > 0 {
		filter.Before = now.Add(-age)
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
		which := "are dead or failed"
		if a.again != nil {
			which = "can be taken"
		}
		return nil, fmt.Errorf("nothing is changed, since not all of these records %s\n%w", which, errors.Join(wrong...))
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
	case row.State == backlog.RowNew:
		return "it is new already"
	case row.State == backlog.RowSuccess:
		return "it has succeeded"
	}
	return fmt.Sprintf("it is neither, with the status %q", row.Status)
}

// requeueable returns the statuses of dead and failed records as --status takes
// them: the values of the status column or, in a table without one, words.
func requeueable(cfg *config.Config, oneLane bool) (list []string) {
	s := cfg.Table
	column := slices.ContainsFunc([]mapping.State{s.New, s.Error, s.Success, s.Dead}, func(x mapping.State) bool { return len(x.Values) > 0 })
	add := func(x mapping.State, word string) {
		if !column {
			list = append(list, word)
			return
		}
		values, _ := ofStatus(cfg, x)
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
