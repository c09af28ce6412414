package checkpoint

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// Where the daemon is that leads.
const (
	Here      = "here"
	Elsewhere = "elsewhere"
	Nobody    = "nobody"
)

// A LookBack is what the state folder tells. What is not known is null.
type LookBack struct {
	Last     []watch.Pass  `json:"last"` // of each tier
	Daemon   *Daemon       `json:"daemon"`
	Leader   string        `json:"leader"`
	LastWake inspect.Stamp `json:"last_wake"`
	Outage   *watch.Outage `json:"outage"`
	Pause    *watch.Pause  `json:"pause"`
}

// LookBack reads the folder, which may tell nothing, and asks who leads.
func (f *File) LookBack(now time.Time, log *slog.Logger, leader func(State) (string, error)) LookBack {
	kept, err := f.State()
	if err != nil {
		log.Warn("the state cannot be read", "error", err)
	}
	b := LookBack{Last: []watch.Pass{}, LastWake: inspect.Stamp(kept.LastWake), Outage: kept.Outage, Pause: kept.Current(now)}
	passes, err := f.Passes()
	if err != nil {
		log.Warn("the last passes cannot be read", "error", err)
	}
	for _, p := range slices.Backward(passes) {
		if !slices.ContainsFunc(b.Last, func(x watch.Pass) bool { return x.Tier == p.Tier }) {
			b.Last = append(b.Last, p)
		}
	}
	if b.Leader, err = leader(kept); err != nil {
		log.Warn("who leads cannot be asked", "error", err)
	}
	if b.Leader == Here {
		b.Daemon = kept.Daemon
	}
	if b.Outage != nil {
		b.Outage.Reminded = time.Time{}
	}
	return b
}

// topCauses is how many causes of a pass people are shown.
const topCauses = 5

// Lines tell it to people, with tabs between cells.
func (b *LookBack) Lines(now time.Time) (rows []string) {
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	if len(b.Last) > 0 {
		add("\nLAST PASS\tTIER")
	}
	for _, p := range b.Last {
		p.Report.Duration = p.Ended().Sub(time.Time(p.Started)).Round(time.Millisecond)
		add("%v\t%s", p.Started, inspect.ReportText(p.Tier, p.Report))
		for _, c := range p.Causes[:min(topCauses, len(p.Causes))] {
			add("\t  %s × %s (first: id %s)", inspect.Thousands(c.Records), inspect.Cut(inspect.Escaped(c.Error), 120), inspect.Cut(string(c.First), 120))
		}
	}
	add("")
	switch b.Leader {
	case Here:
		add("a daemon works: process %d, since %s", b.Daemon.PID, inspect.When(b.Daemon.Since))
	case Elsewhere:
		add("a daemon works on another machine, or with another state folder")
	case Nobody:
		add("no daemon works")
	}
	if t := time.Time(b.LastWake); !t.IsZero() {
		add("last wake: %s, %s", inspect.When(t), inspect.FromNow(t, now))
	}
	if b.Pause != nil {
		add("paused %s", inspect.Escaped(b.Pause.String()))
	}
	if o := b.Outage; o != nil {
		add("outage since %s, passes: %d, pending when it was last told: %d: %s", inspect.When(o.Since), o.Passes, o.Pending, inspect.Escaped(o.Cause))
	}
	return rows
}

// PausedBy returns what asks the file for a pause, and logs when one begins and ends.
func (f *File) PausedBy(now func() time.Time, log *slog.Logger) func() bool {
	var was atomic.Bool
	return func() bool {
		s, err := f.State()
		if err != nil {
			return was.Load()
		}
		p := s.Current(now())
		switch is := p != nil; {
		case was.Swap(is) == is:
		case is:
			log.Info("paused", "how_long", p.String(), "by", p.By)
		default:
			log.Info("resumed")
		}
		return p != nil
	}
}

// Ticks are the ticks that `once --due` is to run, as one pass.
type Ticks struct {
	Pass   backlog.Pass    // its Tier is empty if there are none
	Tiers  map[string]bool // that have ticked
	Missed int             // ticks beside one of each tier
	More   bool            // missed is not all
	Since  time.Time
}

// TicksOf returns what ticked and was not run on this machine, as far as the checkpoint
// tells, else what ticked in the last minute.
func TicksOf(kept backlog.Checkpoint, s *tiers.Schedule, now time.Time) (d Ticks) {
	d.Since = now.Add(-time.Minute)
	if at := kept.LastWake; !at.IsZero() {
		d.Since = at
	}
	owed := make(map[string]bool)
	for _, name := range kept.Unfinished {
		owed[name] = true
	}
	due := s.DueOrOwed(d.Since, now, owed)
	pick := tiers.Coalesce(due, func(tiers.Tier) bool { return true })
	if pick.Start == nil {
		return d
	}
	d.Pass = backlog.TierPass(s, pick.Start.Tier)
	d.Pass.Now, d.Pass.Tick, d.Tiers = now, pick.Start.Last, make(map[string]bool)
	d.Missed, d.More = pick.Missed()
	for _, x := range due {
		d.Tiers[x.Tier.Name] = true
	}
	return d
}
