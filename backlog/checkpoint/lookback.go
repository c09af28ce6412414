package checkpoint

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// LookBack returns what the state folder has about passes, outages and pauses, and which daemon leads. What cannot
// be read is logged and left out. work is the name of the work. seen are passes of this process, which the
// folder may lack.
func (f *File) LookBack(
	work string, now time.Time, seen []watch.Pass, log *slog.Logger, leader func(State) (string, error),
) watch.LookBack {
	saved, err := f.State()
	if err != nil {
		log.Warn("the state cannot be read", "error", err)
	}
	passes, err := f.Passes()
	if err != nil {
		log.Warn("the last passes cannot be read", "error", err)
	}
	b := watch.LookBack{
		Name:     work,
		Last:     watch.LastOfEach(append(passes, seen...)),
		LastWake: inspect.Stamp(saved.LastWake),
		Outage:   saved.Outage,
		Pause:    saved.Current(now),
	}
	b.Leader, err = leader(saved)
	if err != nil {
		log.Warn("the leader cannot be determined", "error", err)
	}
	if b.Leader == watch.Here {
		b.Daemon = saved.Daemon
	}
	b.Draining = watch.Draining(saved.Outage, saved.Outages, now)
	if b.Draining != nil {
		b.Draining.Since = b.Draining.Since.UTC()
		b.Draining.Ended = b.Draining.Ended.UTC()
		b.Draining.Drained = b.Draining.Drained.UTC()
		b.Draining.Reminded = time.Time{}
	}
	if b.Outage != nil {
		b.Outage = new(*b.Outage)
		b.Outage.Since = b.Outage.Since.UTC()
		b.Outage.Reminded = time.Time{}
	}
	return b
}

// PausedBy returns a function that reports whether the file has a pause now. It logs when a pause begins
// and ends. While the file cannot be read, it repeats its last answer.
func (f *File) PausedBy(now func() time.Time, log *slog.Logger) func() bool {
	var wasPaused atomic.Bool
	return func() bool {
		s, err := f.State()
		if err != nil {
			return wasPaused.Load()
		}
		p := s.Current(now())
		paused := p != nil
		changed := wasPaused.Swap(paused) != paused
		switch {
		case changed && paused:
			log.Info("paused", "how_long", p.String(), "by", p.By)
		case changed:
			log.Info("resumed")
		}
		return paused
	}
}

// A DuePass is the pass that `once --due` runs for the ticks since the last one.
type DuePass struct {
	Pass       backlog.Pass
	Tiers      map[string]bool // the tiers whose ticks it runs, by name
	Since      time.Time       // the ticks are later than this
	Missed     int             // how many ticks there are in excess of one per tier
	MissedMore bool            // Missed is a lower bound
}

// DuePass returns the pass of the widest tier that is due, which runs the ticks of all. due is false if no tier is.
// Ticks count from the last wake in the state saved, or without one for a minute, and up to upTo, which --now may
// set. A tier with an unfinished pass is due as well, unless a daemon leads here, at the time now of the clock: then
// that pass may be under way.
func (f *File) DuePass(saved State, s *tiers.Schedule, upTo, now time.Time) (d DuePass, due bool) {
	unfinished := make(map[string]bool)
	if !f.HasLeader(saved, now) {
		for _, name := range saved.Unfinished {
			unfinished[name] = true
		}
	}
	since := cmp.Or(saved.LastWake, upTo.Add(-time.Minute))
	ticked := s.DueOrOwed(since, upTo, unfinished)
	if len(ticked) == 0 {
		return DuePass{}, false
	}
	names := make(map[string]bool)
	for _, x := range ticked {
		names[x.Tier.Name] = true
	}
	isIdle := func(tiers.Tier) bool { return true } // this process runs no other pass
	pick := tiers.Coalesce(ticked, isIdle)
	d = DuePass{Pass: backlog.TierPass(s, pick.Start.Tier), Tiers: names, Since: since}
	d.Pass.Now = upTo
	d.Pass.Tick = pick.Start.Last
	d.Missed, d.MissedMore = pick.Missed()
	return d, true
}

// RunPass runs a pass from the resume point of its tier, and saves the next resume point. taken are the tiers whose
// ticks it runs; nil: it runs none. They are unfinished in the file until the pass has ended, so that a kill does
// not lose them. onFile is called with the result of each access to the file, which is nil for a success.
func (f *File) RunPass(
	ctx context.Context, e *backlog.Engine, p backlog.Pass, taken map[string]bool, onFile func(error),
) (backlog.Report, error) {
	before, err := f.Load()
	onFile(err)
	p.Resume = before.Resume[p.Tier]
	if taken != nil {
		owed := slices.Sorted(maps.Keys(taken))
		onFile(f.Update(func(s *backlog.Checkpoint) { s.Owe(owed...) }))
	}
	report, err := e.Pass(ctx, p)
	onFile(f.Update(func(s *backlog.Checkpoint) {
		if taken != nil {
			s.LastWake = p.Now
			if !report.CutShort() {
				s.Taken(taken)
			}
		}
		s.Note(report)
	}))
	return report, err
}
