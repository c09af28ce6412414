package cmd

import (
	"fmt"
	"log/slog"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/tiers"
)

// dueTicks are the ticks that `once --due` is to run, as one pass.
type dueTicks struct {
	pass   backlog.Pass    // its Tier is empty if there are none
	tiers  map[string]bool // that have ticked
	missed int             // ticks beside one of each tier
	more   bool            // missed is not all
	since  time.Time
}

// ticksOf returns what ticked and was not run on this machine, as far as the checkpoint
// tells, else what ticked in the last minute.
func ticksOf(kept backlog.Checkpoint, s *tiers.Schedule, now time.Time) (d dueTicks) {
	d.since = now.Add(-time.Minute)
	if at := kept.LastWake; !at.IsZero() {
		d.since = at
	}
	owed := make(map[string]bool)
	for _, name := range kept.Unfinished {
		owed[name] = true
	}
	due := s.DueOrOwed(d.since, now, owed)
	pick := tiers.Coalesce(due, func(tiers.Tier) bool { return true })
	if pick.Start == nil {
		return d
	}
	d.pass = backlog.TierPass(s, pick.Start.Tier)
	d.pass.Now, d.tiers = now, make(map[string]bool)
	d.missed, d.more = pick.Missed()
	for _, x := range due {
		d.tiers[x.Tier.Name] = true
	}
	return d
}

// due returns the ticks to run. Where there are none, or in a pause, it prints that.
func (o *OnceOptions) due(g *globals, log *slog.Logger, state *checkpoint.File, cfg *config.Config, now time.Time) (d dueTicks, err error) {
	kept, _ := state.State()
	if p := kept.Current(now); p != nil && !o.DryRun && refreshOf(cfg) == nil { // whose pass also collects answers
		return d, o.nothing(g, now, "paused "+escaped(p.String())+": nothing is started")
	}
	if d = ticksOf(kept.Checkpoint, cfg.Tiers, now); d.pass.Tier != "" {
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
