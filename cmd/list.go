package cmd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// FilterOptions are the flags that say which records are meant.
type FilterOptions struct {
	State, Tier, Cause string
	OlderThan          time.Duration
	Limit              int
}

func (o *FilterOptions) AddFlags(f *pflag.FlagSet, states string, limit int, most string) {
	f.StringVar(&o.State, "state", "", "take the records in `STATE`: "+states)
	f.StringVar(&o.Tier, "tier", "", "take the records whose age is in the band of the tier called `NAME`, as status has it, or beyond")
	f.StringVar(&o.Cause, "cause", "", "take the records whose last error, or what once prints of it, has `TEXT`")
	f.Var(&flagOf[time.Duration]{to: &o.OlderThan, read: parseAge}, "older-than", "take the records that are older than `DURATION`, such as 7d")
	f.IntVar(&o.Limit, "limit", limit, most)
}

// given reports whether one of the flags that choose records is.
func (o *FilterOptions) given() bool {
	return o.State != "" || o.Tier != "" || o.Cause != "" || o.OlderThan > 0
}

// filter returns what the options mean in the table.
func (o *FilterOptions) filter(a *app, p inspect.Purpose, now time.Time) (f table.Filter, err error) {
	f = table.Filter{State: o.State, Limit: o.Limit, Ages: maxAges(a.cfg.Tiers)}
	names, states := append(tierNames(a.cfg.Tiers), inspect.Beyond), inspect.StatesFor(p, a.again != nil)
	f.Band = slices.Index(names, o.Tier) + 1
	switch {
	case o.Limit < 0:
		return f, usagef("--limit: must not be negative")
	case o.State != "" && !slices.Contains(states, o.State):
		return f, usagef("--state: %q is none of %s", o.State, strings.Join(states, ", "))
	case a.table.OneLane() && (o.State == "failed" || o.State == "exhausted"):
		return f, usagef("--state: in this table failed records are not told from fresh ones, which statuses.error does")
	case o.State == "dead" && !a.table.HasDead():
		return f, usagef("--state: no dead status is configured; statuses.dead says which it is")
	case o.Tier != "" && a.again != nil:
		return f, usagef("--tier: under the policy refresh the age of a record does not matter")
	case o.Tier != "" && f.Band == 0:
		return f, usagef("--tier: there is no tier %q; the tiers are: %s, and %s for what is older", o.Tier, strings.Join(names[:len(names)-1], ", "), inspect.Beyond)
	case o.Cause != "" && !a.table.HasLastError():
		return f, usagef("--cause: no column has the last error of a record; name one in table.last_error")
	}
	if o.Cause != "" {
		f.Cause = func(text string) bool { return causes.Has(text, o.Cause) }
	}
	if o.OlderThan > 0 {
		f.Before = now.Add(-o.OlderThan)
	}
	return f, nil
}

// ListOptions are the flags of list.
type ListOptions struct {
	dataFlags
	FilterOptions
	After backlog.Cursor
}

func newList(g *globals) *cobra.Command {
	var o ListOptions
	c := &cobra.Command{
		Use:   "list",
		Short: "List records: what is pending, or the failed, dead, exhausted or unreadable ones",
		RunE:  func(c *cobra.Command, _ []string) error { return runList(c.Context(), o, g) },
	}
	f := c.Flags()
	o.FilterOptions.AddFlags(f, "fresh, failed, dead, exhausted, unreadable", 100, "print at most `N` records")
	f.Var(&flagOf[backlog.Cursor]{to: &o.After, read: parsePlace}, "after", "go on behind the `PLACE` that --json has called next")
	o.dataFlags.AddFlags(f)
	return c
}

func runList(ctx context.Context, o ListOptions, g *globals) error {
	if o.Limit == 0 {
		return usagef("--limit: must be more than 0")
	}
	return g.onTable(ctx, o.dataFlags, table.Options{ReadOnly: true}, func(a *app, now time.Time) error {
		filter, err := o.filter(a, inspect.Listed, now)
		if err != nil {
			return err
		}
		a.warnOfOrder(ctx, filter, now)
		attempts, lastError := a.cfg.Table.Attempts != "", a.table.HasLastError()
		lines := []string{"ID\tSTATUS\tAGE\tTIER\tNEXT TRY" + map[bool]string{true: "\tATTEMPTS"}[attempts] + map[bool]string{true: "\tLAST ERROR"}[lastError]}
		before, after := `{"records":[`, o.After
		for left := o.Limit; left > 0 && g.unsaid == nil; {
			page, err := a.table.List(ctx, filter, now, after, left)
			if err != nil {
				return err
			}
			list := each(page.Rows, func(row inspect.Row) inspect.Entry { return a.listed(row, now) })
			switch {
			case len(list) == 0:
			case o.JSON:
				b, err := json.Marshal(list)
				if err != nil {
					return err
				}
				g.printf("%s%s", before, b[1:len(b)-1])
				before = ","
			default:
				lines = append(lines, each(list, func(e inspect.Entry) string { return e.Line(attempts, lastError, now) })...)
				g.printf("%s", inspect.Columns(lines))
				lines = nil
			}
			left -= len(list)
			if after = page.Next; after.IsZero() {
				break
			}
		}
		next, err := json.Marshal(placeOf(after))
		switch {
		case o.JSON:
			g.printf("%s],\"next\":%s}\n", strings.TrimPrefix(before, ","), next)
		case lines != nil:
			g.printf("no records\n")
		case !after.IsZero():
			g.printf("there are more: raise --limit, or go on with --after %s\n", *placeOf(after))
		}
		return err
	})
}

// warnOfOrder says for which records no index serves, so that a page of the list sorts all
// of them.
func (a *app) warnOfOrder(ctx context.Context, f table.Filter, now time.Time) {
	readings, err := a.table.ListReadings(f, now)
	if err != nil {
		return // which List returns, too
	}
	plans, err := doctor.Plans(ctx, a.table, readings)
	for i, p := range plans {
		if err == nil && p.Bad != "" {
			a.log.Warn("no index serves this order: each page of the list reads and sorts all of these records", "where", readings[i].Where, "hint", p.Hint)
		}
	}
}

// listed returns what list prints of a row.
func (a *app) listed(row inspect.Row, now time.Time) inspect.Entry {
	if p := refreshOf(a.cfg); p != nil && row.Refresh != nil {
		return row.AttemptEntry(a.cfg.Tiers, refreshing(p, row), now)
	}
	return row.Entry(a.cfg.Tiers, policyOf(a.cfg), now)
}

// placeOf returns the cursor as one word, nil for none.
func placeOf(c backlog.Cursor) *string {
	if c.IsZero() {
		return nil
	}
	b, _ := json.Marshal(c)
	return new(base64.RawURLEncoding.EncodeToString(b))
}

// parsePlace returns the cursor of a word, zero for an empty one.
func parsePlace(text string) (c backlog.Cursor, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if text != "" && (err != nil || json.Unmarshal(b, &c) != nil) {
		return c, errors.New("that is no place in a list; take it from next of list --json")
	}
	return c, nil
}
