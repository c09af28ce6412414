package cmd

import (
	"fmt"
	"log/slog"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
)

// due returns the ticks to run. Where there are none, or in a pause, it prints that.
func (o *OnceOptions) due(g *globals, log *slog.Logger, state *checkpoint.File, cfg *config.Config, now time.Time) (d checkpoint.Ticks, err error) {
	kept, _ := state.State()
	if p := kept.Current(now); p != nil && !o.DryRun && refreshOf(cfg) == nil { // whose pass also collects answers
		return d, o.nothing(g, now, "paused "+escaped(p.String())+": nothing is started")
	}
	if d = checkpoint.TicksOf(kept.Checkpoint, cfg.Tiers, now); d.Pass.Tier != "" {
		return d, nil
	}
	if back := kept.LastWake.Sub(now); back > time.Second {
		log.Warn("the clock was set back", "error", fmt.Errorf("by %v: ticks may be run again", back.Round(time.Second)))
	}
	if !o.DryRun { // for what will be missed
		if err := state.Update(func(s *backlog.Checkpoint) { s.LastWake = now }); err != nil {
			log.Warn(badState, "error", err)
		}
	}
	return d, o.nothing(g, now, "nothing is due")
}

// nothing prints the report of no pass.
func (o *OnceOptions) nothing(g *globals, now time.Time, why string) error {
	switch {
	case o.DryRun && o.JSON:
		return printJSON(g.out, recordsJSON{"", []recordJSON{}})
	case o.JSON:
		return printReport(g.out, "", backlog.Report{Started: now, Complete: true}, true, nil)
	}
	g.printf("%s\n", why)
	return nil
}
