package inspect

import (
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// States are the results of [State].
var States = []string{"waiting", "running", "disabled", "finished"}

// State returns what a row of the policy refresh is doing: running, disabled, finished (no further start is
// planned) or waiting.
func State(s *backlog.Memory) string {
	switch {
	case !s.Deadline.IsZero():
		return "running"
	case s.Disabled:
		return "disabled"
	case s.Next.IsZero():
		return "finished"
	}
	return "waiting"
}

// A Recurrence returns the first time after the given one at which a row is planned, or false if no
// time follows.
type Recurrence func(time.Time) (time.Time, bool)

// Coming returns the next n occurrences after now.
func (r Recurrence) Coming(now time.Time, n int) (list []time.Time) {
	for t, ok := r(now); ok && len(list) < n; t, ok = r(t) {
		list = append(list, t)
	}
	return list
}

// ShortestGap returns the shortest time between two of the next hundred occurrences, or 0 if there are fewer
// than two.
func (r Recurrence) ShortestGap(now time.Time) (shortest time.Duration) {
	list := r.Coming(now, 100)
	for i := 1; i < len(list); i++ {
		if gap := list[i].Sub(list[i-1]); shortest == 0 || gap < shortest {
			shortest = gap
		}
	}
	return shortest
}

// FailureNow says what a failure at this moment would write, with dates in the zone; nil: UTC. If the row is
// waiting, that would be a failure of its next attempt.
func FailureNow(p backlog.Refresher, state *backlog.Memory, now time.Time, zone *time.Location) string {
	if State(state) == "waiting" && state.UID == "" {
		if started, err := p.Start(*state, now, ""); err == nil {
			state = &started
		}
	}
	failed, final := p.End(*state, backlog.Errored, now, "failed", nil)
	if final {
		return "disabled: " + failed.Reason
	}
	return fmt.Sprintf("refresh_at %s, attempt_no %d", Stamp(failed.Next).In(zone), failed.AttemptNo)
}

// A Refreshing is the policy refresh for one row.
type Refreshing struct {
	backlog.Refresher
	Rule        Recurrence
	Bad         error         // why the rule of the row is invalid; nil: it is valid
	GiveUpAfter time.Duration // 0: it never gives up by time
}

// NotStarted says why a row of the policy refresh is not started on demand; "": it is started. It may be
// started before its time, but not while it is disabled or running.
func (r *Row) NotStarted(p Refreshing, s *tiers.Schedule, now time.Time) string {
	if state := State(r.Memory); r.Filtered || state == "disabled" || state == "running" {
		return r.explainRefresh(p, s, now).Reason
	}
	return ""
}

// explainRefresh says whether a pass would start the row now, why, and at which tick it is started if nothing
// changes until then.
func (r *Row) explainRefresh(p Refreshing, s *tiers.Schedule, now time.Time) (x Explanation) {
	state := r.Memory
	at, waits := (&backlog.Policy{Refresher: p}).Rule().At(backlog.Failed, state)
	switch {
	case r.Filtered:
		x.Reason = "table.where leaves it out"
	case p.Bad != nil:
		x.Reason = "its rule cannot be read: " + p.Bad.Error()
	case waits && at.After(now):
		x.Reason = "its time has not come"
		x.Next = tickFrom(s, at, now)
	case waits:
		x.Due = true
		x.Reason = "its time has come"
		x.Next = tickFrom(s, at, now)
	case state.Disabled:
		x.Reason = "it is disabled until it is saved again; backlog retry does that"
	case !state.Deadline.IsZero():
		x.Reason = "an attempt runs, which fails at its deadline if nobody answers"
		if !state.Deadline.After(now) {
			x.Reason = "nobody answered its attempt by the deadline: the next pass fails it"
		}
		fails := tickFrom(s, state.Deadline, now)
		if failed, final := p.End(*state, backlog.Errored, fails, "timed out", nil); !final && !failed.Next.IsZero() {
			x.Next = tickFrom(s, failed.Next, now)
		}
	default:
		x.Reason = "no further start is planned"
	}
	if !x.Next.IsZero() {
		x.Tier = s.Widest().Name
	}
	return x
}

// tickFrom returns the first tick at or after t that is not in the past.
func tickFrom(s *tiers.Schedule, t, now time.Time) time.Time {
	if t.Before(now) {
		t = now
	}
	return s.Next(t.Add(-1))
}
