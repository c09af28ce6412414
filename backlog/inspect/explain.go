// Package inspect has what commands show of a table: one row and what becomes of
// it, or how many rows there are.
package inspect

import (
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Row is one row of the table, whether its record is pending or not.
type Row struct {
	backlog.Record
	State    backlog.RowState
	Filtered bool   // the configured filter leaves it out
	NoStatus bool   // its status is NULL
	NoDate   string // where Inserted is zero, what that means: skip, oldest or newest
	// Unreadable is why no pass takes the row: one of its dates cannot be read or
	// right, or is missing and such rows are skipped.
	Unreadable error

	Eligible, Expires time.Time // zero: none
}

// An Explanation says whether a record would be tried in a pass now and when
// it will be.
type Explanation struct {
	Due    bool      // a pass of the widest tier would take it now
	Reason string    // a clause for people: "it is new"
	Next   time.Time // the tick at which it will be tried if nothing changes; zero: never
	Tier   string    // whose pass that is
}

// Explain tells for a row what the schedule and the policy do with it from now
// on; a tick that is now is one to come. It is exact but for what is decided
// only when a pass runs: by caps, aborts, pauses and passes that overlap.
func Explain(r Row, s *tiers.Schedule, p *backlog.Policy, now time.Time) Explanation {
	from, why, ok := r.from(p, now)
	if !ok {
		return Explanation{Reason: why}
	}
	widest := s.Widest()
	if !r.Reached(backlog.TierPass(s, widest), now) {
		return Explanation{Reason: fmt.Sprintf("it is %s old, older than every tier reaches (%s)",
			roundAge(now.Sub(r.Inserted)), tiers.FormatDuration(widest.MaxAge))}
	}
	x := Explanation{Due: !from.After(now), Reason: why}
	if from.Before(now) {
		from = now
	}
	for _, t := range s.Tiers() {
		// The first tick at or after from. What a tier does not reach then
		// it does not reach later.
		at := t.Next(from.Add(-1))
		if !x.Next.IsZero() && at.After(x.Next) || !r.Reached(backlog.TierPass(s, t), at) {
			continue
		}
		// Of the tiers that tick together the widest starts: it comes last.
		x.Next, x.Tier = at, t.Name
	}
	switch {
	case x.Next.IsZero():
		x.Reason += fmt.Sprintf("; before a tick comes it is older than every tier reaches (%s)", tiers.FormatDuration(widest.MaxAge))
	case !r.Expires.IsZero() && x.Next.After(r.Expires):
		x.Next, x.Tier = time.Time{}, ""
		x.Reason += "; before a tick comes it expires, at " + Exactly(r.Expires)
	}
	return x
}

// StatusText returns the row's status and, where that is another word, its state.
func (r *Row) StatusText() string {
	if state := r.State.String(); r.Status != state {
		return fmt.Sprintf("%s (%s)", Shown(r.Status), state)
	}
	return r.Status
}

// Reached reports whether the pass at that time is wide enough.
func (r *Row) Reached(p backlog.Pass, at time.Time) bool {
	if r.Inserted.IsZero() {
		return r.NoDate == "newest" || p.Widest
	}
	return !r.Inserted.Before(at.Add(-p.MaxAge))
}

// Never says why no pass takes the row, however old it is and however often it has
// failed; "": one may.
func (r *Row) Never(now time.Time) string {
	if _, why, ok := r.from(nil, now); !ok {
		return why
	}
	return ""
}

// from returns the first moment at which a pass may take the record, zero for
// at once, and why; ok is false if none ever will.
func (r *Row) from(p *backlog.Policy, now time.Time) (at time.Time, why string, ok bool) {
	switch {
	case r.State == backlog.RowSuccess:
		return at, "it has succeeded", false
	case r.State == backlog.RowDead:
		return at, "it is dead; `backlog retry` makes it new", false
	case r.State == backlog.RowOther:
		return at, "it is in none of the states that are tried", false
	case r.Filtered:
		return at, "table.where leaves it out", false
	case r.Unreadable != nil:
		return at, "no pass takes it: " + r.Unreadable.Error(), false
	case r.Inserted.IsZero() && r.NoDate == "skip":
		return at, "it has no date of insertion; table.inserted can say what that means", false
	case !r.Expires.IsZero() && r.Expires.Before(now):
		return at, "it expired at " + Exactly(r.Expires), false
	}
	why = "it is new"
	if r.State == backlog.RowError {
		if at, why, ok = r.fromPolicy(p, now); !ok {
			return at, why, false
		}
	}
	if r.Eligible.After(at) && r.Eligible.After(now) {
		at, why = r.Eligible, "it is not eligible before "+Exactly(r.Eligible)
	}
	return at, why, true
}

// fromPolicy is from for a record that has failed.
func (r *Row) fromPolicy(p *backlog.Policy, now time.Time) (at time.Time, why string, ok bool) {
	at, ok = p.Due(r.Failures)
	switch {
	case p == nil:
		return at, "it has failed, and is tried again at every tick of a tier that reaches its age", true
	case p.Never:
		return at, fmt.Sprintf("it has failed, and the policy %s never tries again; `backlog retry` makes it new", p.Name), false
	case !ok:
		return at, fmt.Sprintf("it has failed %s and is out of retries (%s: %d); `backlog retry` makes it new", times(r.Failures.Count), p.Name, p.Retries), false
	case at.IsZero():
		return at, "it has failed, but the row does not say when: it is due at once", true
	case at.After(now):
		return at, fmt.Sprintf("it has failed %s, and %s lets it wait until %s", times(r.Failures.Count), p.Name, Exactly(at)), true
	}
	return at, fmt.Sprintf("it has failed %s, and is due since %s (%s)", times(r.Failures.Count), Exactly(at), p.Name), true
}
