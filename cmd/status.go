package cmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/table"
	"backlog/backlog/watch"
)

func newStatus(g *globalOptions) *cobra.Command {
	var o StatusOptions
	c := &cobra.Command{
		Use:         "status",
		Short:       "Count records; show the last passes, the daemon and the next ticks",
		Annotations: map[string]string{"3": "a flag says that this is a failure"},
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Watch && (o.JSON || o.Limits != (watch.Limits{})) {
				return usagef("--watch is for people: leave out --json and the --fail-if flags, or call status again and again")
			}
			out, isTerminal := terminalOf(g.out)
			in, isFile := c.InOrStdin().(*os.File)
			if o.Watch && isTerminal && isFile && os.Getenv("TERM") != "dumb" {
				return watchScreen(c.Context(), in, out, func(ctx context.Context) reading { return readStatus(ctx, o, *g) })
			}
			return showStatus(c.Context(), o, g)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.Watch, "watch", false, "on a terminal, show it again every 2s until q is pressed")
	f.Var(&parsedFlag[time.Duration]{target: &o.Idle, parse: parseAge}, "fail-if-idle", "fail if no pass has ended for `DURATION`, such as 15m")
	f.Var(&parsedFlag[time.Duration]{target: &o.Oldest, parse: parseAge}, "fail-if-oldest", "fail if a record that was never tried is older than `DURATION` (and not older than every tier)")
	f.Var(&parsedFlag[int]{target: &o.Pending, parse: parsePositive}, "fail-if-pending", "fail if `N` or more records are pending")
	f.Var(&parsedFlag[int]{target: &o.Failed, parse: parsePositive}, "fail-if-failed", "fail if `N` or more pending records have failed")
	o.AddFlags(f)
	return c
}

// showStatus prints the status of the table or of the source.
func showStatus(ctx context.Context, o StatusOptions, g *globalOptions) error {
	if cfg, err := g.loadAny(); err == nil && sourceOf(cfg) != nil {
		if o.Limits != (watch.Limits{}) {
			return usagef("a source has no records to fail by: the broker's own monitoring watches its queues")
		}
		return statusSource(ctx, g, cfg, o.JSON)
	}
	return runStatus(ctx, o, g)
}

// readStatus returns what showStatus prints, and below it what it logs.
func readStatus(ctx context.Context, o StatusOptions, g globalOptions) reading {
	var text, log bytes.Buffer
	g.out = &text
	g.err = &log
	g.LogFormat = "text"
	err := showStatus(ctx, o, &g)
	return reading{text: text.String() + log.String(), err: err}
}

func parsePositive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		err = fmt.Errorf("%q is no number from 1 on", text)
	}
	return n, err
}

// StatusOptions are the flags of status.
type StatusOptions struct {
	dataFlags
	watch.Limits
	Watch bool
}

func runStatus(ctx context.Context, o StatusOptions, g *globalOptions) error {
	return g.onTable(ctx, o.dataFlags, table.Options{ReadOnly: true}, func(a *setup, now time.Time) error {
		counted, err := a.view.Status(ctx, now)
		if err != nil {
			return err
		}
		state := stateOf(a.cfg, a.log)
		leader := func(saved checkpoint.State) (string, error) {
			return a.view.Leader(ctx, state, saved, time.Now())
		}
		zone := cmp.Or(a.cfg.Timezone, time.UTC)
		history := state.Timeline(now, zone)
		history.Count(counted.Pending, counted.Failed())
		s := &watch.Overview{Status: counted, History: history, LookBack: state.LookBack(a.cfg.Name, now, nil, a.log, leader)}
		if o.JSON {
			err = printJSON(g.out, s)
		} else {
			err = printTable(g.out, slices.Concat(s.Status.Lines(), history.Lines(zone, levels()), s.LookBack.Lines(now)))
		}
		return cmp.Or(err, o.checkLimits(s, now))
	})
}

// checkLimits returns an error if a limit of the --fail-if flags is exceeded.
func (o *StatusOptions) checkLimits(s *watch.Overview, now time.Time) error {
	exceeded := o.Limits.Exceeded(s, now)
	if len(exceeded) == 0 {
		return nil
	}
	return backlog.Worded(strings.Join(exceeded, "; "), errStrict)
}
