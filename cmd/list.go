package cmd

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/reader"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// FilterOptions are the flags that select records.
type FilterOptions struct{ reader.Selection }

// AddFlags adds the flags. states lists the values of --state, limitUsage describes --limit.
func (o *FilterOptions) AddFlags(f *pflag.FlagSet, states string, limit int, limitUsage string) {
	f.StringVar(&o.State, "state", "", "take the records in `STATE`: "+states)
	f.StringVar(&o.Tier, "tier", "", "take the records that status counts under the tier `NAME`; beyond: older than every tier")
	f.StringVar(&o.Cause, "cause", "", "take the records whose last error, or its summary in the report of a pass, contains `TEXT`")
	f.Var(&parsedFlag[time.Duration]{target: &o.OlderThan, parse: parseAge}, "older-than", "take the records that are older than `DURATION`, such as 7d")
	f.IntVar(&o.Limit, "limit", limit, limitUsage)
}

// ListOptions are the flags of list.
type ListOptions struct {
	dataFlags
	FilterOptions
	After backlog.Cursor
}

func newList(g *globalOptions) *cobra.Command {
	var o ListOptions
	c := &cobra.Command{
		Use:   "list",
		Short: "List records: the pending ones, or all failed, dead, exhausted or unreadable ones",
		RunE:  func(c *cobra.Command, _ []string) error { return runList(c.Context(), o, g) },
	}
	f := c.Flags()
	o.FilterOptions.AddFlags(f, "fresh, failed, dead, exhausted, unreadable", 100, "print at most `N` records")
	f.Var(&parsedFlag[backlog.Cursor]{target: &o.After, parse: reader.ParsePlace}, "after", "continue after `PLACE`, which --json prints as next")
	o.dataFlags.AddFlags(f)
	return c
}

func runList(ctx context.Context, o ListOptions, g *globalOptions) error {
	if o.Limit == 0 {
		return usagef("--limit: must be more than 0")
	}
	return g.onTable(ctx, o.dataFlags, table.Options{ReadOnly: true}, func(a *setup, now time.Time) error {
		filter, err := a.view.Filter(o.Selection, inspect.Listed, now)
		if err != nil {
			return err
		}
		a.warnOfSorting(ctx, filter, now)
		list := reader.List{Filter: filter, Now: now, After: o.After, Limit: o.Limit}
		if o.JSON {
			return g.listJSON(ctx, a.view, list)
		}
		if err := g.listText(ctx, a.view, list); err != nil {
			return err
		}
		g.printPause(a, now)
		return nil
	})
}

// listJSON prints the list as JSON, page by page.
func (g *globalOptions) listJSON(ctx context.Context, v *reader.View, l reader.List) error {
	prefix := `{"records":[`
	after, err := v.EachPage(ctx, l, func(list []inspect.Entry) error {
		b, err := json.Marshal(list)
		if err != nil {
			return err
		}
		g.printf("%s%s", prefix, b[1:len(b)-1]) // without the brackets
		prefix = ","
		return g.writeErr
	})
	if err != nil {
		return err
	}
	next, err := json.Marshal(reader.PlaceOf(after))
	g.printf("%s],\"next\":%s}\n", strings.TrimPrefix(prefix, ","), next)
	return err
}

// listText prints the list for people, page by page.
func (g *globalOptions) listText(ctx context.Context, v *reader.View, l reader.List) error {
	attempts := v.Mapping.Attempts != ""
	lastError := v.Table.HasLastError()
	head := "ID\tSTATUS\tAGE\tTIER\tNEXT TRY"
	if attempts {
		head += "\tATTEMPTS"
	}
	if lastError {
		head += "\tLAST ERROR"
	}
	lines := []string{head}
	after, err := v.EachPage(ctx, l, func(list []inspect.Entry) error {
		for _, e := range list {
			lines = append(lines, e.Line(attempts, lastError, l.Now))
		}
		g.printf("%s", inspect.Columns(lines))
		lines = nil
		return g.writeErr
	})
	switch {
	case err != nil:
		return err
	case lines != nil:
		g.printf("no records\n")
	case !after.IsZero():
		g.printf("there are more: raise --limit, or go on with --after %s\n", *reader.PlaceOf(after))
	}
	return nil
}

// sortedQuickly is how many rows a database reads and sorts without anyone noticing.
const sortedQuickly = 10_000

// warnOfSorting logs a warning if no index has the order of the list, so that the database reads and sorts
// all records for each page, and there are many.
func (a *setup) warnOfSorting(ctx context.Context, f table.Filter, now time.Time) {
	if large, err := a.table.HasMoreThan(ctx, sortedQuickly); err != nil || !large {
		return // listing the records returns the same error
	}
	queries, err := a.table.ListQueries(f, now)
	if err != nil {
		return // listing the records returns the same error
	}
	plans, _ := doctor.QueryPlans(ctx, a.table, queries) // without plans there is nothing to warn of
	for i, p := range plans {
		if p.Problem != "" {
			a.log.Warn("no index serves this order: each page of the list reads and sorts all of these records", "where", queries[i].IndexWhere, "hint", p.Hint)
		}
	}
}
