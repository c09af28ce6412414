// Package inspect has what commands show of a table: one row and what becomes of
// it, or how many rows there are.
package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Row is any row of the table, also one that is not pending.
type Row struct {
	backlog.Record
	State    backlog.RowState
	Filtered bool   // the filter of the mapping leaves it out
	NoStatus bool   // its status is NULL
	NoDate   string // what a missing date means if Inserted is zero: skip, oldest or newest
	// Unreadable is why no pass takes the row: one of its dates is invalid or implausible, or is missing
	// while such rows are skipped.
	Unreadable error

	Eligible, Expires time.Time // zero: it has none
	Snoozed           time.Time // until when this process remembers not to try it; zero: it remembers nothing

	Attempts  *int    // nil: the table does not count them
	LastError *string // nil: none, or the table does not keep it

	Zone *time.Location // of the dates in texts; nil: UTC
}

// An Explanation says whether a pass would take a record now, and when one will.
type Explanation struct {
	Due    bool      // a pass of the widest tier would take it now
	Reason string    // a clause for people, such as "it is new"
	Next   time.Time // the tick at which it will be tried if nothing changes; zero: never
	Tier   string    // the tier of that tick
}

// Explain says what the schedule and the policy do with a row from now on. A tick at this moment still counts
// as one to come. The answer is exact, except for what only running passes decide: caps, aborts, pauses, and
// passes that overlap.
func Explain(r Row, s *tiers.Schedule, p *backlog.Policy, now time.Time) Explanation {
	from, why, ok := r.availableFrom(p, now)
	if !ok {
		return Explanation{Reason: why}
	}
	widest := s.Widest()
	reach := tiers.FormatDuration(widest.MaxAge)
	if !r.Reached(backlog.TierPass(s, widest), now) {
		return Explanation{Reason: fmt.Sprintf("it is %s old, older than every tier reaches (%s)",
			roundAge(now.Sub(r.Inserted)), reach)}
	}
	x := Explanation{Due: !from.After(now), Reason: why}
	if from.Before(now) {
		from = now
	}
	for _, t := range s.Tiers() {
		// Next is always after its argument, so this is the first tick at or after from. A tier that does
		// not reach the row's age then does not reach it later either.
		tick := t.Next(from.Add(-1))
		reachesRow := r.Reached(backlog.TierPass(s, t), tick)
		isLater := !x.Next.IsZero() && tick.After(x.Next)
		if !reachesRow || isLater {
			continue
		}
		// Of several tiers with this tick the widest starts, which is the last one here.
		x.Next = tick
		x.Tier = t.Name
	}
	// Due stays as it is where no tick will come in time: a pass that is started by hand now still takes
	// the row.
	switch {
	case x.Next.IsZero():
		x.Reason += fmt.Sprintf("; before a tick comes it is older than every tier reaches (%s)", reach)
	case !r.Expires.IsZero() && x.Next.After(r.Expires):
		x.Next = time.Time{}
		x.Tier = ""
		x.Reason += "; before a tick comes it expires, at " + FormatTime(r.Expires, r.Zone)
	}
	return x
}

// StatusText returns the status of the row, and its state if that is another word.
func (r *Row) StatusText() string {
	if state := r.State.String(); r.Status != state {
		return fmt.Sprintf("%s (%s)", Shown(r.Status), state)
	}
	return r.Status
}

// Reached reports whether a pass at that time would reach the row's age.
func (r *Row) Reached(p backlog.Pass, at time.Time) bool {
	if r.Inserted.IsZero() {
		return r.NoDate == "newest" || p.Widest
	}
	return !r.Inserted.Before(at.Add(-p.MaxAge))
}

// Never says why no pass will ever take the row, however old it is and however often it has failed. "" means
// that one may.
func (r *Row) Never(now time.Time) string {
	if _, why, ok := r.availableFrom(nil, now); !ok {
		return why
	}
	return ""
}

// availableFrom returns the first moment at which a pass may take the record, and why. A zero moment is at
// once. If ok is false no pass ever may.
func (r *Row) availableFrom(p *backlog.Policy, now time.Time) (at time.Time, why string, ok bool) {
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
		return at, "it expired at " + FormatTime(r.Expires, r.Zone), false
	}
	why = "it is new"
	if r.State == backlog.RowError {
		if at, why, ok = r.retryFrom(p, now); !ok {
			return at, why, false
		}
	}
	if r.Eligible.After(at) && r.Eligible.After(now) {
		at = r.Eligible
		why = "it is not eligible before " + FormatTime(r.Eligible, r.Zone)
	}
	if r.Snoozed.After(at) && r.Snoozed.After(now) {
		at = r.Snoozed
		why = "it is snoozed until " + FormatTime(r.Snoozed, r.Zone)
	}
	return at, why, true
}

// retryFrom is availableFrom for a record that has failed, by its policy alone.
func (r *Row) retryFrom(p *backlog.Policy, now time.Time) (at time.Time, why string, ok bool) {
	at, ok = p.Rule().At(backlog.Failed, r.Memory)
	failed := "it has failed"
	if n := r.Memory.Failed(); n > 0 { // a row may have a planned time and no count
		failed += " " + times(n)
	}
	switch {
	case p == nil:
		return at, "it has failed, and is tried again at every tick of a tier that reaches its age", true
	case p.Never:
		return at, fmt.Sprintf("it has failed, and the policy %s never tries again; `backlog retry` makes it new", p.Name), false
	case !ok:
		return at, fmt.Sprintf("%s and is out of retries, of which %s allows %d; `backlog retry` makes it new", failed, p.Name, p.Retries), false
	case at.IsZero():
		return at, "it has failed, and nothing in its row lets it wait: it is due at once", true
	case at.After(now) && p.Planned: // by the policy, a snooze, or who owns the row
		return at, fmt.Sprintf("%s, and its next attempt is planned for %s", failed, FormatTime(at, r.Zone)), true
	case at.After(now):
		return at, fmt.Sprintf("%s, and %s lets it wait until %s", failed, p.Name, FormatTime(at, r.Zone)), true
	}
	return at, fmt.Sprintf("%s, and is due since %s (%s)", failed, FormatTime(at, r.Zone), p.Name), true
}

// causeOfDeath says why a dead record died, as far as its row tells: [backlog.ReasonRetries],
// [backlog.ReasonExpired] if no tick came after its last failure, else "unknown".
func (r *Row) causeOfDeath(s *tiers.Schedule, p *backlog.Policy, now time.Time) string {
	const unknown = "unknown"
	if !p.Keeps() || r.Inserted.IsZero() {
		return unknown // the row has no number of failures, or no age
	}
	if p.GivenUp(r.Memory.Failed()) {
		return backlog.ReasonRetries
	}
	old := r.Inserted.Before(now.Add(-s.Widest().MaxAge)) || !r.Expires.IsZero() && r.Expires.Before(now)
	before := *r // the row before it died
	before.State = backlog.RowNew
	from := r.Inserted
	if r.Memory.Failed() > 0 {
		before.State = backlog.RowError
		from = r.Memory.LastFailure
	}
	missedTicks := func() bool { return !from.IsZero() && Explain(before, s, p, from.Add(1)).Next.IsZero() }
	if old && (r.Memory.Failed() <= 0 || missedTicks()) {
		return backlog.ReasonExpired
	}
	return unknown
}

// A Sheet is everything that is known about one record. What the record does not have is null in JSON.
type Sheet struct {
	Entry
	Died *string `json:"died"` // why, as far as the row tells; null: it is not dead

	// The memory of the row, if the policy has columns for it.
	Failures    *int  `json:"failures"`
	LastFailure Stamp `json:"last_failure"`
	Planned     Stamp `json:"planned"`

	Eligible Stamp `json:"eligible"`
	Expires  Stamp `json:"expires"`

	*Attempts // only with the policy refresh

	Lines []string `json:"-"` // for people: a name, a tab and a text each
	now   time.Time
	zone  *time.Location // of the dates in Lines
}

// Attempts are the columns of the policy refresh in a row, and what the policy makes of them.
type Attempts struct {
	At             Stamp   `json:"refresh_at"`
	AttemptNo      int     `json:"attempt_no"`
	Started        Stamp   `json:"started_at"`
	Deadline       Stamp   `json:"deadline_at"`
	UID            *string `json:"attempt_uid"`
	FailingSince   Stamp   `json:"failing_since"`
	DisabledReason *string `json:"disabled_reason"`
	Occurrences    []Stamp `json:"occurrences"` // the next three
	Failure        string  `json:"failure_now"` // what a failure at this moment would write
	GivesUp        Stamp   `json:"gives_up"`    // the first failure at or after this time disables the row
}

// sheet returns the sheet of a row with the first of its lines.
func (r *Row) sheet(x Explanation, now time.Time) *Sheet {
	e := &Sheet{Entry: r.entry(x, now), Eligible: Stamp(r.Eligible), Expires: Stamp(r.Expires), now: now, zone: r.Zone}
	e.addLine("record", Shown(r.Key.String()))
	return e
}

// addAttempts adds the columns of the mapping that are about attempts.
func (e *Sheet) addAttempts() {
	if e.Tried != nil {
		e.addLine("attempts", strconv.Itoa(*e.Tried))
	}
	if e.LastError != nil {
		e.addLine("last error", Escaped(*e.LastError))
	}
}

// addLine adds a line, unless the text is empty.
func (e *Sheet) addLine(what, text string) {
	if text != "" {
		e.Lines = append(e.Lines, what+"\t"+text)
	}
}

// addTime adds a line with a time, unless it is zero.
func (e *Sheet) addTime(what string, t time.Time) {
	if !t.IsZero() {
		e.addLine(what, FormatTime(t, e.zone)+", "+FromNow(t, e.now))
	}
}

// addDue adds whether the record is due and when it is tried next. unless is a qualification of the latter.
func (e *Sheet) addDue(x Explanation, unless string) *Sheet {
	due := "no: "
	next := "none"
	if x.Due {
		due = "yes: "
	}
	e.addLine("due", due+Escaped(x.Reason))
	if !x.Next.IsZero() {
		next = fmt.Sprintf("%s, %s, by the tier %s%s", FormatTime(x.Next, e.zone), FromNow(x.Next, e.now), Shown(x.Tier), unless)
	}
	e.addLine("next attempt", next)
	return e
}

// Sheet returns the sheet of a row, under any policy but refresh. most is the cap of a pass; 0: it has none.
func (r Row) Sheet(s *tiers.Schedule, p *backlog.Policy, most int, now time.Time) *Sheet {
	if r.NoStatus {
		r.Status = "NULL" // the command status names it so
	}
	x := Explain(r, s, p, now)
	e := r.sheet(x, now)
	e.addLine("status", r.StatusText())
	e.addTime("inserted", r.Inserted)
	if r.Inserted.IsZero() {
		e.addLine("inserted", "-")
	}
	if m := r.Memory; m != nil && p.Keeps() {
		e.Failures = &m.Failures
		e.LastFailure = Stamp(m.LastFailure)
		e.Planned = Stamp(m.Next)
		e.addLine("failures", strconv.Itoa(m.Failures))
		e.addTime("last failure", m.LastFailure)
		e.addTime("planned for", m.Next)
	}
	e.addTime("eligible", r.Eligible)
	e.addTime("snoozed until", r.Snoozed)
	e.addTime("expires", r.Expires)
	e.addAttempts()
	if r.State == backlog.RowDead {
		e.Died = new(r.causeOfDeath(s, p, now))
		e.addLine("died", *e.Died)
	}
	unless := ""
	if most > 0 {
		unless = fmt.Sprintf(", or a later one if others fill its %d (max_records)", most)
	}
	return e.addDue(x, unless)
}

// AttemptSheet returns the sheet of a row of the policy refresh.
func (r Row) AttemptSheet(s *tiers.Schedule, p Refreshing, now time.Time) *Sheet {
	x := r.explainRefresh(p, s, now)
	state := r.Memory
	a := &Attempts{
		At:             Stamp(state.Next),
		AttemptNo:      state.AttemptNo,
		Started:        Stamp(state.Started),
		Deadline:       Stamp(state.Deadline),
		UID:            textOrNull(state.UID),
		FailingSince:   Stamp(state.FailingSince),
		DisabledReason: textOrNull(state.Reason),
		Failure:        FailureNow(p, state, now, r.Zone),
		Occurrences:    []Stamp{},
	}
	var planned []string
	for _, t := range p.Rule.Coming(now, 3) {
		a.Occurrences = append(a.Occurrences, Stamp(t))
		planned = append(planned, Stamp(t).In(r.Zone))
	}
	var givesUp time.Time
	if p.GiveUpAfter > 0 && !state.FailingSince.IsZero() {
		givesUp = state.FailingSince.Add(p.GiveUpAfter)
		a.GivesUp = Stamp(givesUp)
	}
	e := r.sheet(x, now)
	e.State = State(state)
	e.Attempts = a
	e.addLine("state", e.State)
	e.addTime("refresh_at", state.Next)
	e.addLine("attempt_no", strconv.Itoa(state.AttemptNo))
	e.addTime("started", state.Started)
	e.addTime("deadline", state.Deadline)
	e.addLine("attempt_uid", Shown(state.UID))
	e.addTime("failing since", state.FailingSince)
	e.addLine("reason", Shown(state.Reason))
	e.addAttempts()
	e.addLine("planned", strings.Join(planned, ", "))
	e.addLine("a failure now", Shown(a.Failure))
	e.addTime("gives up", givesUp)
	return e.addDue(x, "")
}
