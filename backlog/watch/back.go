package watch

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog/inspect"
)

// Where the leading daemon is.
const (
	Here      = "here"
	Elsewhere = "elsewhere"
	Nobody    = "nobody"
)

// A Daemon is the leading process.
type Daemon struct {
	PID   int           `json:"pid"`
	Since inspect.Stamp `json:"since"`
}

// A LookBack is what the state folder knows: the last passes, the daemon, the outage and the pause.
// What is not known is null in JSON. Leader is "" if it could not be found out.
type LookBack struct {
	Name     string        `json:"name,omitempty"` // from the configuration; "": it has none
	Last     []Pass        `json:"last"`           // of each tier
	Daemon   *Daemon       `json:"daemon"`
	Leader   string        `json:"leader"`
	LastWake inspect.Stamp `json:"last_wake"`
	Outage   *Outage       `json:"outage"`
	Draining *PastOutage   `json:"draining"` // the last outage, while its backlog is not done
	Pause    *Pause        `json:"pause"`
}

// Draining returns the last of the past outages, the newest first, if its backlog is not done yet; nil: it is, that is not
// known, or there is another outage.
func Draining(present *Outage, past []PastOutage, now time.Time) *PastOutage {
	if present != nil || len(past) == 0 || !now.Before(past[0].Drained) {
		return nil
	}
	return new(past[0])
}

// An Overview is the status of a table and of its daemon, for `status --json` and the API.
type Overview struct {
	*inspect.Status
	History *Timeline `json:"history"` // nil: nothing is known
	LookBack
}

// Limits say when an overview counts as a failure. 0: no limit.
type Limits struct {
	Idle    time.Duration // more than this since the last pass has ended
	Oldest  time.Duration // more than this as the age of a record never tried, unless it is older than every tier
	Pending int           // so many pending records or more
	Failed  int           // so many failed records or more
}

// Exceeded returns a clause for each limit that the overview exceeds.
func (l *Limits) Exceeded(o *Overview, now time.Time) []string {
	var why []string
	last := o.lastEnd()
	switch {
	case l.Idle > 0 && last.IsZero():
		why = append(why, "no pass is known to have ended")
	case l.Idle > 0 && now.Sub(last) > l.Idle:
		why = append(why, fmt.Sprintf("no pass has ended since %s, %s", inspect.When(last), inspect.FromNow(last, now)))
	}
	oldest := o.oldestFresh()
	if l.Oldest > 0 && !oldest.IsZero() && now.Sub(oldest) > l.Oldest {
		why = append(why, fmt.Sprintf("the oldest record that was never tried is %s old", inspect.Shortly(now.Sub(oldest))))
	}
	if l.Pending > 0 && o.Pending >= l.Pending {
		why = append(why, inspect.Plural(o.Pending, "record")+" pending")
	}
	if failed := o.Status.Failed(); l.Failed > 0 && failed >= l.Failed {
		why = append(why, inspect.Plural(failed, "record")+" failed")
	}
	return why
}

// lastEnd returns when the last known pass has ended, zero if no pass is known.
func (o *Overview) lastEnd() time.Time {
	var last time.Time
	for i := range o.Last {
		if t := o.Last[i].Ended(); t.After(last) {
			last = t
		}
	}
	return last
}

// oldestFresh returns the date of the oldest record never tried that a tier is wide enough for, zero
// without one.
func (o *Overview) oldestFresh() time.Time {
	var oldest time.Time
	for _, b := range o.Bands {
		t := time.Time(b.OldestFresh)
		if !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	return oldest
}

// LastOfEach returns the last pass of each tier, the newest first.
func LastOfEach(passes []Pass) []Pass {
	list := []Pass{}
	newest := reversed(passes)
	slices.SortStableFunc(newest, func(a, b Pass) int { return time.Time(b.Started).Compare(time.Time(a.Started)) })
	for _, p := range newest {
		if !slices.ContainsFunc(list, func(x Pass) bool { return x.Tier == p.Tier }) {
			list = append(list, p)
		}
	}
	return list
}

// topCauses is how many causes of a pass Lines shows.
const topCauses = 5

// Lines returns rows for people, with tabs between cells.
func (b *LookBack) Lines(now time.Time) (rows []string) {
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	if len(b.Last) > 0 {
		add("\nLAST PASS\tTIER")
	}
	for _, p := range b.Last {
		p.Report.Duration = p.Ended().Sub(time.Time(p.Started)).Round(time.Millisecond)
		add("%v\t%s", p.Started, inspect.ReportText(p.Tier, p.Report))
		if p.Error != "" {
			add("\t  %s", inspect.Elide(inspect.Escaped(p.Error), 300))
		}
		for _, c := range p.Causes[:min(topCauses, len(p.Causes))] {
			add("\t  %s × %s (first: id %s)", inspect.Thousands(c.Records), inspect.Elide(inspect.Escaped(c.Error), 120), inspect.Elide(string(c.First), 120))
		}
	}
	add("")
	switch b.Leader {
	case Here:
		add("a daemon is running: process %d, since %v", b.Daemon.PID, b.Daemon.Since)
	case Elsewhere:
		add("a daemon is running on another machine, or with another state folder")
	case Nobody:
		add("no daemon is running")
	}
	if t := time.Time(b.LastWake); !t.IsZero() {
		add("ticks handled up to: %s, %s", inspect.When(t), inspect.FromNow(t, now))
	}
	if b.Pause != nil {
		add("paused %s", inspect.Escaped(b.Pause.String()))
	}
	if o := b.Outage; o != nil {
		add("outage since %s, passes: %d, pending at the last report: %d: %s", inspect.When(o.Since), o.Passes, o.Pending, inspect.Escaped(o.Cause))
	}
	if o := b.Draining; o != nil {
		add("recovered from an outage at %s; its backlog is done by about %s, %s", inspect.When(o.Ended), inspect.When(o.Drained), inspect.FromNow(o.Drained, now))
	}
	if b.Name != "" {
		add("name: %s", b.Name)
	}
	return rows
}
