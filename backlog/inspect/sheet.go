package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Sheet is what is known of one record. A value that the record does not have is
// null in JSON.
type Sheet struct {
	ID       backlog.Key `json:"id"`
	Status   string      `json:"status"`
	Inserted Stamp       `json:"inserted"`
	Age      *float64    `json:"age_seconds"`
	Due      bool        `json:"due"`
	Reason   string      `json:"reason"`
	Next     Stamp       `json:"next"`
	Tier     *string     `json:"tier"`

	State string `json:"state"` // new, error, success, dead or other; with the policy refresh as [State] has it
	// What the row remembers, where a policy keeps something there.
	Failures    *int  `json:"failures"`
	LastFailure Stamp `json:"last_failure"`
	Planned     Stamp `json:"planned"`

	Eligible Stamp `json:"eligible"`
	Expires  Stamp `json:"expires"`

	*Attempts // with the policy refresh alone

	Lines []string `json:"-"` // for people: a name and its text, divided by a tab
	now   time.Time
}

// Attempts are what the policy refresh keeps of a row, and makes of it.
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
	GivesUp        Stamp   `json:"gives_up"`    // by time, at the first failure from then on
}

// sheet returns one of any row, without lines but for the first.
func (r *Row) sheet(x Explanation, now time.Time) *Sheet {
	e := &Sheet{
		ID: r.Key, Status: r.Status, Inserted: Stamp(r.Inserted),
		Due: x.Due, Reason: x.Reason, Next: Stamp(x.Next), Tier: textOrNull(x.Tier),
		State: r.State.String(), Eligible: Stamp(r.Eligible), Expires: Stamp(r.Expires), now: now,
	}
	// An infinite date has no age: it is further away than a duration can be long.
	if age := now.Sub(r.Inserted); !r.Inserted.IsZero() && r.Inserted.Add(age).Equal(now) {
		seconds := age.Seconds()
		e.Age = &seconds
	}
	e.line("record", Shown(r.Key.String()))
	return e
}

// line adds what is known; there may be nothing.
func (e *Sheet) line(what, text string) {
	if text != "" {
		e.Lines = append(e.Lines, what+"\t"+text)
	}
}

func (e *Sheet) moment(what string, t time.Time) {
	if !t.IsZero() {
		e.line(what, Exactly(t)+", "+fromNow(t, e.now))
	}
}

// explain adds whether the record is due and when it is tried next.
func (e *Sheet) explain(x Explanation, unless string) *Sheet {
	due, next := "no: ", "none"
	if x.Due {
		due = "yes: "
	}
	e.line("due", due+Escaped(x.Reason))
	if !x.Next.IsZero() {
		next = fmt.Sprintf("%s, %s, by the tier %s%s", Exactly(x.Next), fromNow(x.Next, e.now), Shown(x.Tier), unless)
	}
	e.line("next attempt", next)
	return e
}

// Sheet returns what is known of a row that is handled until it succeeds; most is the
// cap of a pass, 0: none.
func (r Row) Sheet(s *tiers.Schedule, p *backlog.Policy, most int, now time.Time) *Sheet {
	if r.NoStatus {
		r.Status = "NULL" // as status has it
	}
	x := Explain(r, s, p, now)
	e := r.sheet(x, now)
	e.line("status", r.StatusText())
	if e.moment("inserted", r.Inserted); r.Inserted.IsZero() {
		e.line("inserted", "-")
	}
	if p != nil && !p.Never {
		e.Failures, e.LastFailure, e.Planned = &r.Failures.Count, Stamp(r.Failures.Last), Stamp(r.Failures.Next)
		e.line("failures", strconv.Itoa(r.Failures.Count))
	}
	e.moment("last failure", r.Failures.Last)
	e.moment("planned for", r.Failures.Next)
	e.moment("eligible", r.Eligible)
	e.moment("expires", r.Expires)
	unless := ""
	if most > 0 {
		unless = fmt.Sprintf(", or a later one if others fill its %d (max_records)", most)
	}
	return e.explain(x, unless)
}

// AttemptSheet returns what is known of a row of the policy refresh.
func (r Row) AttemptSheet(s *tiers.Schedule, p Refreshing, now time.Time) *Sheet {
	x, state := r.explainRefresh(p, s, now), r.Refresh
	a := &Attempts{
		At: Stamp(state.At), AttemptNo: state.AttemptNo, Started: Stamp(state.Started), Deadline: Stamp(state.Deadline),
		UID:          textOrNull(state.UID),
		FailingSince: Stamp(state.FailingSince), DisabledReason: textOrNull(state.Reason), Failure: FailureNow(p, state, now),
		Occurrences: []Stamp{},
	}
	var planned []string
	for _, t := range p.Rule.Coming(now, 3) {
		a.Occurrences, planned = append(a.Occurrences, Stamp(t)), append(planned, When(t))
	}
	var givesUp time.Time
	if p.GiveUpAfter > 0 && !state.FailingSince.IsZero() {
		givesUp = state.FailingSince.Add(p.GiveUpAfter)
		a.GivesUp = Stamp(givesUp)
	}
	e := r.sheet(x, now)
	e.State, e.Attempts = State(state), a
	e.line("state", e.State)
	e.moment("refresh_at", state.At)
	e.line("attempt_no", strconv.Itoa(state.AttemptNo))
	e.moment("started", state.Started)
	e.moment("deadline", state.Deadline)
	e.line("attempt_uid", Shown(state.UID))
	e.moment("failing since", state.FailingSince)
	e.line("reason", Shown(state.Reason))
	e.line("planned", strings.Join(planned, ", "))
	e.line("a failure now", Shown(a.Failure))
	e.moment("gives up", givesUp)
	return e.explain(x, "")
}
