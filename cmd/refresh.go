package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/backlog/retry"
	"backlog/backlog/table"
)

// refreshOf returns the policy refresh; nil: another one is configured.
func refreshOf(cfg *config.Config) *retry.Refresher {
	return retry.RefresherOf(policyOf(cfg.Policy))
}

// ResolveOptions are the arguments and the flags of resolve.
type ResolveOptions struct {
	dataFlags
	UID, Outcome, Reason, For string
}

// outcomes are the words of resolve. With status the attempt goes on, and the text is for the customer.
var outcomes = map[string]backlog.Outcome{
	"success": backlog.Succeeded, "failure": backlog.Errored, "reject": backlog.Rejected, "status": backlog.Skipped,
	"snooze": backlog.Snoozed,
}

func newResolve(g *globalOptions) *cobra.Command {
	var o ResolveOptions
	c := &cobra.Command{
		Use:   "resolve UID success|failure|reject|status|snooze [--reason TEXT] [--for TIME]",
		Short: "Report the outcome of an attempt that was handed over (policy refresh)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("say which attempt and what became of it, as in: backlog resolve UID success")
			}
			if _, ok := outcomes[args[1]]; !ok {
				return fmt.Errorf("%q is no outcome; write success, failure, reject, status or snooze", args[1])
			}
			return nil
		},
		ValidArgsFunction: completeOneOf("success", "failure", "reject", "status", "snooze"),
		RunE: func(c *cobra.Command, args []string) error {
			o.UID = args[0]
			o.Outcome = args[1]
			return runResolve(c.Context(), o, g)
		},
	}
	c.Flags().StringVar(&o.Reason, "reason", "", "the `TEXT` of the error or, with status, for the customer")
	c.Flags().StringVar(&o.For, "for", "", "with snooze, how long the record is not started: `TIME` is seconds, a duration such as 2h, or a time by RFC 3339")
	o.AddFlags(c.Flags())
	return c
}

func runResolve(ctx context.Context, o ResolveOptions, g *globalOptions) error {
	if o.Outcome == "status" && o.Reason == "" {
		return usagef("status is a text for the customer; give it with --reason")
	}
	if o.Outcome != "snooze" && o.For != "" {
		return usagef("--for goes with snooze")
	}
	return g.onAttempts(ctx, o.dataFlags, false, func(a *setup, now time.Time) (err error) {
		answer := backlog.Answer{UID: o.UID, Outcome: outcomes[o.Outcome], Text: o.Reason}
		if answer.Outcome == backlog.Snoozed {
			answer.Snooze, err = backlog.ParseSnooze(o.For)
		}
		if err != nil {
			return usagef("--for is to say how long: %v", err)
		}
		if a.onDead, err = g.newOnDead(ctx, a.cfg, a.log); err != nil {
			return err
		}
		e := a.engine(func() time.Time { return now }, logging.New(a.log).Observe)
		reasons, err := e.Resolve(ctx, []backlog.Answer{answer})
		if err != nil {
			return err
		}
		switch {
		case errors.Is(reasons[0], backlog.ErrConflict):
			return fmt.Errorf("no running attempt has the UID %s: it has ended, or was superseded; nothing is changed", inspect.Shown(o.UID))
		case reasons[0] != nil && !errors.Is(reasons[0], backlog.ErrUnavailable):
			return fmt.Errorf("the database refuses this outcome, and the row stays as it was: %w", reasons[0])
		case reasons[0] != nil:
			return reasons[0]
		case o.JSON:
			return printJSON(g.out, map[string]any{"uid": o.UID, "outcome": o.Outcome, "applied": true})
		}
		g.printf("%s: %s\n", inspect.Shown(o.UID), o.Outcome)
		return nil
	})
}

func newAttempt(g *globalOptions) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "attempt UID",
		Short: "Check whether an attempt is still the running one of its row (policy refresh)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("say which attempt, as in: backlog attempt UID")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runAttempt(c.Context(), args[0], o, g) },
	}
	o.AddFlags(c.Flags())
	return c
}

func runAttempt(ctx context.Context, uid string, o dataFlags, g *globalOptions) error {
	return g.onAttempts(ctx, o, true, func(a *setup, _ time.Time) error {
		found, err := a.view.Attempt(ctx, uid)
		if err != nil {
			return err
		}
		if o.JSON {
			err = printJSON(g.out, found)
		} else {
			g.printf("%s: %s\n", inspect.Shown(uid), found)
		}
		if err == nil && !found.Current {
			err = quietError{errors.New(found.String())}
		}
		return err
	})
}

// onAttempts is onTable for a command about attempts, which only the policy refresh has.
func (g *globalOptions) onAttempts(
	ctx context.Context, d dataFlags, readOnly bool, do func(a *setup, now time.Time) error,
) error {
	return g.onTable(ctx, d, table.Options{ReadOnly: readOnly}, func(a *setup, now time.Time) error {
		if !a.view.Refreshes() {
			return usagef("attempts have UIDs only with the policy refresh, and %s is configured", a.cfg.Policy.Name)
		}
		return do(a, now)
	})
}
