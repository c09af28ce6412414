package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/watch"
)

// PauseOptions are the flags of pause.
type PauseOptions struct {
	dataFlags
	For    time.Duration
	Until  time.Time
	Reason string
}

func newPause(g *globalOptions) *cobra.Command {
	var o PauseOptions
	c := &cobra.Command{
		Use:   "pause [--for DURATION | --until TIME] [--reason TEXT]",
		Short: "Start nothing more until backlog resume",
		RunE:  func(c *cobra.Command, _ []string) error { return runPause(c.Context(), o, g) },
	}
	f := c.Flags()
	f.Var(&parsedFlag[time.Duration]{target: &o.For, parse: parseAge}, "for", "end the pause after `DURATION`, such as 2h")
	f.Var(&parsedFlag[time.Time]{target: &o.Until, parse: parseTime}, "until", "end the pause at `TIME`, such as 2026-11-23T08:00:00Z")
	f.StringVar(&o.Reason, "reason", "", "the `TEXT` that status shows")
	o.AddFlags(f)
	return c
}

func runPause(ctx context.Context, o PauseOptions, g *globalOptions) error {
	if o.For > 0 && !o.Until.IsZero() {
		return usagef("--for or --until, not both")
	}
	_, now := o.clock()
	p := watch.Pause{Reason: o.Reason, By: currentUser()}
	if o.For > 0 {
		o.Until = now.Add(o.For)
	}
	if !o.Until.IsZero() {
		if !o.Until.After(now) {
			return usagef("--until: %s is past", inspect.When(o.Until))
		}
		p.Until = &o.Until
	}
	return g.changePause(ctx, o.dataFlags, &p)
}

func newResume(g *globalOptions) *cobra.Command {
	var o dataFlags
	c := &cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		RunE:  func(c *cobra.Command, _ []string) error { return g.changePause(c.Context(), o, nil) },
	}
	o.AddFlags(c.Flags())
	return c
}

// changePause saves the pause in the state file of the leader; nil ends a pause.
func (g *globalOptions) changePause(ctx context.Context, o dataFlags, p *watch.Pause) error {
	_, now := o.clock()
	cfg, err := g.loadAny()
	if err != nil {
		return err
	}
	state, err := stateFile(cfg)
	if err != nil {
		return err
	}
	if state.Path == "" {
		return errors.New("state: none keeps nothing: there is no file for a pause")
	}
	saved, _ := state.State() // a file that cannot be read is replaced
	was := saved.Current(now)
	endsPause := p == nil && was != nil
	leader := ""
	if !endsPause && sourceOf(cfg) == nil {
		leader, err = g.findLeader(ctx, o, state, saved)
		if err != nil {
			return err
		}
	}
	if err := state.Change(func(s *checkpoint.State) { s.Pause = p }); err != nil {
		return fmt.Errorf("nothing is changed: %w; run the command as the user that keeps the file", err)
	}
	switch {
	case o.JSON:
		return printJSON(g.out, map[string]any{"pause": p})
	case p != nil:
		g.printf("paused %s\n", inspect.Escaped(p.String()))
		if leader == watch.Nobody {
			g.printf("no daemon runs here now: the pause holds for each process that uses the file %s\n", inspect.Shown(state.Path))
		}
	case was != nil:
		g.printf("resumed\n")
	default:
		g.printf("there was no pause\n")
	}
	return nil
}

// findLeader returns where the daemon is that leads: here or nowhere. If it is elsewhere, that is an
// error, because that daemon uses another state file.
func (g *globalOptions) findLeader(
	ctx context.Context, o dataFlags, state *checkpoint.File, saved checkpoint.State,
) (leader string, err error) {
	if state.HasLeader(saved, time.Now()) {
		return watch.Here, nil // even if the database cannot be reached
	}
	err = g.onTable(ctx, o, table.Options{ReadOnly: true}, func(a *setup, _ time.Time) (err error) {
		leader, err = a.view.Leader(ctx, state, saved, time.Now())
		return err
	})
	if leader == watch.Elsewhere {
		err = fmt.Errorf("nothing is changed: the daemon that leads does not keep %s: it runs on another machine, with another state folder, or cannot write this one; run the command there", state.Path)
	}
	return leader, err
}

// currentUser returns the name of the account that runs the command, or sudo; "": it is not known.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return cmp.Or(os.Getenv("SUDO_USER"), u.Username)
	}
	return ""
}
