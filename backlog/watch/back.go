package watch

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog/inspect"
)

// Where the daemon is that leads.
const (
	Here      = "here"
	Elsewhere = "elsewhere"
	Nobody    = "nobody"
)

// A Daemon is the process that leads.
type Daemon struct {
	PID   int           `json:"pid"`
	Since inspect.Stamp `json:"since"`
}

// A LookBack is what has been, and who works. What is not known is null; no
// Leader: it could not be asked.
type LookBack struct {
	Name     string        `json:"name,omitempty"` // of the work, where it has one
	Last     []Pass        `json:"last"`           // of each tier
	Daemon   *Daemon       `json:"daemon"`
	Leader   string        `json:"leader"`
	LastWake inspect.Stamp `json:"last_wake"`
	Outage   *Outage       `json:"outage"`
	Pause    *Pause        `json:"pause"`
}

// An Overview is the status of a table and of those who work it off, for `status --json` and
// the API alike.
type Overview struct {
	*inspect.Status
	LookBack
}

// Limits say which overview shows a failure. 0: no limit.
type Limits struct {
	Idle    time.Duration // since the last pass has ended
	Oldest  time.Duration // the age of a record that was never tried; older than every tier does not count
	Pending int           // records from which on it is a failure
	Failed  int           // the same, of those that have failed
}

// Exceeded returns which limits the overview exceeds, a clause for each.
func (l *Limits) Exceeded(o *Overview, now time.Time) (why []string) {
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
	if failed := o.failed(); l.Failed > 0 && failed >= l.Failed {
		why = append(why, inspect.Plural(failed, "record")+" failed")
	}
	return why
}

// lastEnd returns when the last pass has ended, zero if none is known to have.
func (o *Overview) lastEnd() (last time.Time) {
	for i := range o.Last {
		if t := o.Last[i].Ended(); t.After(last) {
			last = t
		}
	}
	return last
}

// oldestFresh returns the date of the oldest record in a band that was never tried, zero without one.
func (o *Overview) oldestFresh() (oldest time.Time) {
	for _, b := range o.Bands {
		t := time.Time(b.OldestFresh)
		if !t.IsZero() && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	return oldest
}

// failed counts the failed records, those that the policy refresh has disabled among them.
func (o *Overview) failed() int {
	n := o.Beyond.Failed + o.Counts["disabled"]
	for _, b := range o.Bands {
		n += b.Failed
	}
	return n
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
		add("a daemon works: process %d, since %v", b.Daemon.PID, b.Daemon.Since)
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
	if b.Name != "" {
		add("name: %s", b.Name)
	}
	return rows
}
