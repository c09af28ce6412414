package inspect

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// An Entry is what a list shows of a record, and a [Sheet] too. What the record does not have is null in JSON.
type Entry struct {
	ID       backlog.Key `json:"id"`
	Status   string      `json:"status"`
	Inserted Stamp       `json:"inserted"`
	Age      *float64    `json:"age_seconds"`
	Due      bool        `json:"due"`
	Reason   string      `json:"reason"`
	Next     Stamp       `json:"next"`
	Tier     *string     `json:"tier"` // in a list: the band that the age is in; in a sheet: the tier that ticks next

	State     string  `json:"state"` // new, error, success, dead or other; with the policy refresh a word of [State]
	Tried     *int    `json:"attempts"`
	LastError *string `json:"last_error"`

	Snoozed Stamp `json:"snoozed_until,omitzero"` // as the process remembers it; zero: no snooze that no row keeps
}

// A Purpose is what a command does with the records that it selects.
type Purpose int

// The purposes, with the records that they concern by default.
const (
	Listed    Purpose = iota // pending records
	Requeued                 // dead and failed records
	Discarded                // pending records, and those out of retries
)

// Words are the states by which records can be selected, for each [Purpose].
type Words struct {
	Named [3][]string // the states that a user may name
	Meant [3][]string // the states if the user names none
	Keyed []string    // the states for [Requeued] if the user names keys
}

var (
	// StatusWords are for tables whose status says what the rows are.
	StatusWords = Words{
		Named: [3][]string{
			Listed:    {"fresh", "failed", "dead", "exhausted", "unreadable"},
			Requeued:  failures,
			Discarded: {"fresh", "failed", "exhausted", "unreadable"},
		},
		Meant: [3][]string{
			Listed:    {"fresh", "failed"},
			Requeued:  failures,
			Discarded: {"fresh", "failed", "exhausted", "unreadable"},
		},
		Keyed: failures,
	}
	// AttemptWords are for tables of the policy refresh, see [State].
	AttemptWords = Words{
		Named: [3][]string{States, States, States},
		Meant: [3][]string{Listed: {"waiting", "running"}, Requeued: {"failed", "dead"}, Discarded: {"failed", "dead"}},
		Keyed: []string{"any"},
	}

	failures = []string{"failed", "dead", "exhausted", "unreadable"}
)

// Beyond is the name of the band of records that are older than every tier.
const Beyond = "beyond"

// entry returns what a list and a sheet have in common.
func (r *Row) entry(x Explanation, now time.Time) Entry {
	e := Entry{
		ID: r.Key, Status: r.Status, Inserted: Stamp(r.Inserted),
		Due: x.Due, Reason: x.Reason, Next: Stamp(x.Next), Tier: textOrNull(x.Tier),
		State: r.State.String(), Tried: r.Attempts, LastError: r.LastError, Snoozed: Stamp(r.Snoozed),
	}
	// An infinite date has no age, because the difference is longer than a duration can be.
	if age := now.Sub(r.Inserted); !r.Inserted.IsZero() && r.Inserted.Add(age).Equal(now) {
		e.Age = new(age.Seconds())
	}
	return e
}

// Entry returns the entry of a row for a list, under any policy but refresh.
func (r Row) Entry(s *tiers.Schedule, p *backlog.Policy, now time.Time) Entry {
	e := r.entry(Explain(r, s, p, now), now)
	e.Tier = textOrNull(r.band(s, now))
	return e
}

// AttemptEntry returns the entry of a row of the policy refresh for a list. Its age does not matter.
func (r Row) AttemptEntry(s *tiers.Schedule, p Refreshing, now time.Time) Entry {
	e := r.entry(r.explainRefresh(p, s, now), now)
	e.State = State(r.Memory)
	e.Tier = nil
	return e
}

// band returns the name of the tier whose band contains the row's age, [Beyond] if none does, and "" if the
// row is in no band.
func (r *Row) band(s *tiers.Schedule, now time.Time) string {
	expired := !r.Expires.IsZero() && r.Expires.Before(now)
	if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" || expired || r.Eligible.After(now) {
		return ""
	}
	return cmp.Or(r.Narrowest(s, now).Name, Beyond)
}

// Narrowest returns the narrowest tier that reaches the row's age, or the zero Tier.
func (r *Row) Narrowest(s *tiers.Schedule, now time.Time) (none tiers.Tier) {
	for _, t := range s.Tiers() {
		if r.Reached(backlog.TierPass(s, t), now) {
			return t
		}
	}
	return none
}

// Line returns the entry for people, with tabs between cells. attempts and lastError say whether the table
// has these columns.
func (e *Entry) Line(attempts, lastError bool, now time.Time) string {
	age := "-"
	if e.Age != nil {
		age = Shortly(now.Sub(time.Time(e.Inserted)))
	}
	next := "-"
	if t := time.Time(e.Next); !t.IsZero() {
		next = FromNow(t, now)
	}
	cells := []string{Shown(e.ID.String()), Shown(e.Status), age, Shown(*cmp.Or(e.Tier, new("-"))), next}
	if attempts {
		tried := "-"
		if e.Tried != nil {
			tried = strconv.Itoa(*e.Tried)
		}
		cells = append(cells, tried)
	}
	if lastError {
		text := strings.Join(strings.Fields(*cmp.Or(e.LastError, new("-"))), " ")
		cells = append(cells, Elide(Escaped(text), 100))
	}
	return strings.Join(cells, "\t")
}
