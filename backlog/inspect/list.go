package inspect

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// An Entry is what a list and a [Sheet] have of a record. A value that it does not have is null
// in JSON.
type Entry struct {
	ID       backlog.Key `json:"id"`
	Status   string      `json:"status"`
	Inserted Stamp       `json:"inserted"`
	Age      *float64    `json:"age_seconds"`
	Due      bool        `json:"due"`
	Reason   string      `json:"reason"`
	Next     Stamp       `json:"next"`
	Tier     *string     `json:"tier"` // of a list: the band that the age is in; of a sheet: the tier that ticks next

	State     string  `json:"state"` // new, error, success, dead or other; with the policy refresh as [State] has it
	Tried     *int    `json:"attempts"`
	LastError *string `json:"last_error"`
}

// A Purpose is what records are meant for.
type Purpose int

const (
	Listed    Purpose = iota // what is pending, unless a state is given
	Requeued                 // what is dead or failed
	Discarded                // what is pending or out of retries
)

// Words are the states of a table's rows.
type Words struct {
	Named [3][]string // by the purpose: those by which its records may be named
	Meant [3][]string // and those that it is about where none is named
	Keyed []string    // those that [Requeued] is about where keys are named
}

var (
	// StatusWords are those of rows whose status says what they are.
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
	// AttemptWords are those of rows whose attempts have deadlines, see [State].
	AttemptWords = Words{
		Named: [3][]string{States, States, States},
		Meant: [3][]string{Listed: {"waiting", "running"}, Requeued: {"failed", "dead"}, Discarded: {"failed", "dead"}},
		Keyed: []string{"any"},
	}

	failures = []string{"failed", "dead", "exhausted", "unreadable"}
)

// Beyond is the band of records that are older than every tier.
const Beyond = "beyond"

func (r *Row) entry(x Explanation, now time.Time) Entry {
	e := Entry{
		ID: r.Key, Status: r.Status, Inserted: Stamp(r.Inserted),
		Due: x.Due, Reason: x.Reason, Next: Stamp(x.Next), Tier: textOrNull(x.Tier),
		State: r.State.String(), Tried: r.Attempts, LastError: r.LastError,
	}
	// An infinite date has no age: it is further away than a duration can be long.
	if age := now.Sub(r.Inserted); !r.Inserted.IsZero() && r.Inserted.Add(age).Equal(now) {
		e.Age = new(age.Seconds())
	}
	return e
}

// Entry returns what a list has of a row that is handled until it succeeds.
func (r Row) Entry(s *tiers.Schedule, p *backlog.Policy, now time.Time) Entry {
	e := r.entry(Explain(r, s, p, now), now)
	e.Tier = textOrNull(r.band(s, now))
	return e
}

// AttemptEntry returns what a list has of a row of the policy refresh, whose age does not matter.
func (r Row) AttemptEntry(s *tiers.Schedule, p Refreshing, now time.Time) Entry {
	e := r.entry(r.explainRefresh(p, s, now), now)
	e.State, e.Tier = State(r.Memory), nil
	return e
}

// band returns the name of the tier whose band the row's age is in, [Beyond] if it is in
// none; empty where it has none.
func (r *Row) band(s *tiers.Schedule, now time.Time) string {
	expired := !r.Expires.IsZero() && r.Expires.Before(now)
	if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" || expired || r.Eligible.After(now) {
		return ""
	}
	return cmp.Or(r.Narrowest(s, now).Name, Beyond)
}

// Narrowest returns the narrowest tier that reaches the row's age, the zero Tier if none does.
func (r *Row) Narrowest(s *tiers.Schedule, now time.Time) (none tiers.Tier) {
	for _, t := range s.Tiers() {
		if r.Reached(backlog.TierPass(s, t), now) {
			return t
		}
	}
	return none
}

// Line is the record for people, with tabs between cells. Not every table has the last two.
func (e *Entry) Line(attempts, lastError bool, now time.Time) string {
	cells, tried := []string{Shown(e.ID.String()), Shown(e.Status), "-", Shown(*cmp.Or(e.Tier, new("-"))), "-"}, "-"
	if e.Age != nil {
		cells[2] = Shortly(now.Sub(time.Time(e.Inserted)))
	}
	if t := time.Time(e.Next); !t.IsZero() {
		cells[4] = FromNow(t, now)
	}
	if e.Tried != nil {
		tried = strconv.Itoa(*e.Tried)
	}
	if attempts {
		cells = append(cells, tried)
	}
	if lastError {
		text := strings.Join(strings.Fields(*cmp.Or(e.LastError, new("-"))), " ")
		cells = append(cells, Elide(Escaped(text), 100))
	}
	return strings.Join(cells, "\t")
}
