package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// lookBack is what the state folder tells. What is not known is null.
type lookBack struct {
	Last     []watch.Pass       `json:"last"` // of each tier
	Daemon   *checkpoint.Daemon `json:"daemon"`
	Leader   string             `json:"leader"`
	LastWake stamp              `json:"last_wake"`
	Outage   *watch.Outage      `json:"outage"`
	Pause    *watch.Pause       `json:"pause"`
}

// lookBack reads the state folder, which may tell nothing, and asks who leads.
func (a *app) lookBack(ctx context.Context, now time.Time) lookBack {
	state := stateOf(a.cfg, a.log)
	kept, err := state.State()
	if err != nil {
		a.log.Warn("the state cannot be read", "error", err)
	}
	b := lookBack{Last: []watch.Pass{}, LastWake: stamp(kept.LastWake), Outage: kept.Outage, Pause: kept.Current(now)}
	passes, err := state.Passes()
	if err != nil {
		a.log.Warn("the last passes cannot be read", "error", err)
	}
	for _, p := range slices.Backward(passes) {
		if !slices.ContainsFunc(b.Last, func(x watch.Pass) bool { return x.Tier == p.Tier }) {
			b.Last = append(b.Last, p)
		}
	}
	if b.Leader, err = a.leader(ctx, state, kept); err != nil {
		a.log.Warn("who leads cannot be asked", "error", err)
	}
	if b.Leader == here {
		b.Daemon = kept.Daemon
	}
	if b.Outage != nil {
		b.Outage.Reminded = time.Time{}
	}
	return b
}

// topCauses is how many causes of a pass people are shown.
const topCauses = 5

// lines tell it to people.
func (b *lookBack) lines(now time.Time) (rows []string) {
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	if len(b.Last) > 0 {
		add("\nLAST PASS\tTIER")
	}
	for _, p := range b.Last {
		p.Report.Duration = p.Ended().Sub(time.Time(p.Started)).Round(time.Millisecond)
		add("%v\t%s", p.Started, inspect.ReportText(p.Tier, p.Report))
		for _, c := range p.Causes[:min(topCauses, len(p.Causes))] {
			add("\t  %s × %s (first: id %s)", inspect.Thousands(c.Records), inspect.Cut(escaped(c.Error), 120), inspect.Cut(string(c.First), 120))
		}
	}
	add("")
	switch b.Leader {
	case here:
		add("a daemon works: process %d, since %s", b.Daemon.PID, when(b.Daemon.Since))
	case elsewhere:
		add("a daemon works on another machine, or with another state folder")
	case nobody:
		add("no daemon works")
	}
	if t := time.Time(b.LastWake); !t.IsZero() {
		add("last wake: %s, %s", when(t), inspect.FromNow(t, now))
	}
	if b.Pause != nil {
		add("paused %s", escaped(b.Pause.String()))
	}
	if o := b.Outage; o != nil {
		add("outage since %s, passes: %d, pending when it was last told: %d: %s", when(o.Since), o.Passes, o.Pending, escaped(o.Cause))
	}
	return rows
}

// fail returns the error that the fail-if flags ask for.
func (o *StatusOptions) fail(s statusJSON, now time.Time) error {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	var last, oldest time.Time
	failed := s.Beyond.Failed + s.Counts["disabled"] // the latter under the policy refresh
	for i := range s.Last {
		if t := s.Last[i].Ended(); t.After(last) {
			last = t
		}
	}
	for _, b := range s.Bands {
		failed += b.Failed
		if t := time.Time(b.OldestFresh); !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	switch {
	case o.Idle > 0 && last.IsZero():
		add("no pass is known to have ended")
	case o.Idle > 0 && now.Sub(last) > o.Idle:
		add("no pass has ended since %s, %s", when(last), inspect.FromNow(last, now))
	}
	if o.Oldest > 0 && !oldest.IsZero() && now.Sub(oldest) > o.Oldest {
		add("the oldest record that was never tried is %s old", inspect.Shortly(now.Sub(oldest)))
	}
	if o.Pending > 0 && s.Pending >= o.Pending {
		add("%s pending", plural(s.Pending, "record"))
	}
	if o.Failed > 0 && failed >= o.Failed {
		add("%s failed", plural(failed, "record"))
	}
	if len(why) == 0 {
		return nil
	}
	return failedError(strings.Join(why, "; "))
}
