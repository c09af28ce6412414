package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/tiers"
)

func newStatus(g *globals) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Count records by status and by age, and show the next ticks",
		Long: `Status counts the records of the table by status, the pending ones by the tier
that their age puts them in, and shows when the next passes start. Records that
are out of retries are no longer pending and counted apart. It only reads the
table.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if cfg, err := g.loadAny(); err == nil && sourceOf(cfg) != nil {
				return statusSource(c.Context(), g, cfg, o.JSON)
			}
			return runStatus(c.Context(), o, g)
		},
	}
	o.AddFlags(c.Flags())
	return c
}

type statusJSON struct {
	Counts     map[string]int `json:"counts"`
	Pending    int            `json:"pending"`
	Bands      []bandJSON     `json:"bands"`
	Beyond     inspect.Band   `json:"beyond"`
	Unreadable int            `json:"unreadable"`
	Exhausted  int            `json:"exhausted"`
	Next       []nextJSON     `json:"next"`
}

type bandJSON struct {
	Tier   string  `json:"tier"`
	MinAge float64 `json:"min_age_seconds"`
	MaxAge float64 `json:"max_age_seconds"`
	inspect.Band
}

type nextJSON struct {
	At   stamp  `json:"at"`
	Tier string `json:"tier"`
}

func runStatus(ctx context.Context, o dataFlags, g *globals) error {
	a, now, err := g.open(ctx, o, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	if a.again != nil {
		return a.statusRefresh(ctx, g, o.JSON, now)
	}
	counts, err := countOf(ctx, a.table, a.cfg, now)
	if err != nil {
		return err
	}
	s := &statusJSON{
		Counts: counts.ByStatus, Pending: counts.Pending(), Beyond: counts.Beyond,
		Unreadable: counts.Unreadable, Exhausted: counts.Exhausted, Next: nextStarts(a.cfg.Tiers, now),
	}
	from := 0.0
	for i, t := range a.cfg.Tiers.Tiers() {
		to := t.MaxAge.Seconds()
		s.Bands = append(s.Bands, bandJSON{Tier: t.Name, MinAge: from, MaxAge: to, Band: counts.Bands[i]})
		from = to
	}
	if o.JSON {
		return printJSON(g.out, s)
	}
	return g.printStatus(s, now)
}

// countOf counts the records in the tiers' bands. With a policy that never tries
// again, failed ones are out of retries, not pending.
func countOf(ctx context.Context, t *table.Table, cfg *config.Config, now time.Time) (inspect.Counts, error) {
	edges := each(cfg.Tiers.Tiers(), func(t tiers.Tier) time.Duration { return t.MaxAge })
	c, err := t.Count(ctx, now, edges)
	if p := policyOf(cfg); p != nil && p.Never {
		for i := range c.Bands {
			c.Exhausted += c.Bands[i].Failed
			c.Bands[i].Failed = 0
		}
		c.Exhausted += c.Beyond.Failed
		c.Beyond.Failed = 0
	}
	return c, err
}

// nextStarts returns when each tier's next pass starts. A tier whose ticks are all
// covered by wider ones for long has none.
func nextStarts(s *tiers.Schedule, now time.Time) []nextJSON {
	const ticks = 10_000 // how far ahead to look
	var next []nextJSON
	for t := range comingTicks(s, now, time.Time{}, ticks) {
		if !slices.ContainsFunc(next, func(n nextJSON) bool { return n.Tier == t.Tier }) {
			next = append(next, nextJSON{t.At, t.Tier})
		}
		if len(next) == len(s.Tiers()) {
			break
		}
	}
	return next
}

func (g *globals) printStatus(s *statusJSON, now time.Time) error {
	rows := []string{"STATUS\tRECORDS"}
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		add("%s\t%d", shown(name), s.Counts[name])
	}
	add("\nPENDING\tFRESH\tFAILED\tOLDEST")
	row := func(what string, b inspect.Band) {
		oldest := "-"
		if t := time.Time(b.Oldest); !t.IsZero() {
			oldest = shortly(now.Sub(t)) + " old"
		}
		add("%s\t%d\t%d\t%s", what, b.Fresh, b.Failed, oldest)
	}
	for _, b := range s.Bands {
		row(ages(time.Duration(b.MinAge*float64(time.Second)), time.Duration(b.MaxAge*float64(time.Second))), b.Band)
	}
	row("older: never tried", s.Beyond)
	if s.Unreadable > 0 {
		add("without a date that can be read: never tried\t%d\t\t", s.Unreadable)
	}
	if s.Exhausted > 0 {
		add("out of retries: never tried again\t-\t%d\t-", s.Exhausted)
	}
	return s.printWithNext(g.out, rows)
}

// printWithNext prints the rows and, below them, when the next passes start.
func (s *statusJSON) printWithNext(w io.Writer, rows []string) error {
	rows = append(rows, "", "NEXT PASS\tTIER")
	next := func(n nextJSON) string { return fmt.Sprintf("%v\t%s", n.At, shown(n.Tier)) }
	return printTable(w, append(rows, each(s.Next, next)...))
}
