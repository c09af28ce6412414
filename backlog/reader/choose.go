package reader

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/web"
)

// A Selection says which records are meant, in the words of flags and URLs. What is given holds together;
// the zero Selection means all that its purpose is about.
type Selection struct {
	IDs       []string // as people write keys
	Status    string   // of dead or failed records, one of RequeuedStatuses
	State     string
	Tier      string // the band of ages that this tier adds, or [inspect.Beyond]
	Cause     string // part of the last error, or what a cause is called
	OlderThan time.Duration
	Limit     int // 0: none
}

// Narrows reports whether anything but the IDs and the limit is given.
func (s *Selection) Narrows() bool {
	return s.Status != "" || s.State != "" || s.Tier != "" || s.Cause != "" || s.OlderThan > 0
}

// An Invalid says that the caller asks for something that does not exist or go together.
type Invalid struct {
	Field string // of a Selection, as flags and URLs name it; "": the error needs no name
	Err   error
}

func (e *Invalid) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *Invalid) Unwrap() error { return e.Err }

func invalid(field, format string, args ...any) error {
	return &Invalid{Field: field, Err: fmt.Errorf(format, args...)}
}

// Filter returns what the selection means in the table, but for its IDs. The error is an [*Invalid] with its
// Field.
func (v *View) Filter(s Selection, p inspect.Purpose, now time.Time) (table.Filter, error) {
	tierNames := v.Schedule.Names()
	bands := append(tierNames, inspect.Beyond)
	f := table.Filter{Status: s.Status, State: s.State, Limit: s.Limit, Ages: v.Schedule.MaxAges(), Band: slices.Index(bands, s.Tier) + 1}
	states := v.Table.Words().Named[p]
	statuses := v.RequeuedStatuses()
	switch {
	case s.Status != "" && !slices.Contains(statuses, s.Status):
		return f, invalid("status", "%q is not that of dead or failed records; those are: %s",
			s.Status, cmp.Or(strings.Join(statuses, ", "), "none"))
	case s.Limit < 0:
		return f, invalid("limit", "must not be negative")
	case s.State != "" && !slices.Contains(states, s.State):
		return f, invalid("state", "%q is none of %s", s.State, strings.Join(states, ", "))
	case v.Table.OneLane() && (s.State == "failed" || s.State == "exhausted"):
		return f, invalid("state", "in this table failed records are not told from fresh ones, which statuses.error does")
	case s.State == "dead" && !v.Table.HasDead():
		return f, invalid("state", "no dead status is configured; statuses.dead says which it is")
	case s.Tier != "" && v.Refreshes():
		return f, invalid("tier", "under the policy refresh the age of a record does not matter")
	case s.Tier != "" && f.Band == 0:
		return f, invalid("tier", "there is no tier %q; the tiers are: %s, and %s for what is older",
			s.Tier, strings.Join(tierNames, ", "), inspect.Beyond)
	case s.Cause != "" && !v.Table.HasLastError():
		return f, invalid("cause", "no column has the last error of a record; name one in table.last_error")
	}
	if v.Refreshes() && s.Status == "disabled" { // whatever the column of statuses says
		f.Status = ""
		f.State = "dead"
	}
	if s.Cause != "" {
		f.Cause = func(text string) bool { return causes.Has(text, s.Cause) }
	}
	if s.OlderThan > 0 {
		f.Before = now.Add(-s.OlderThan)
	}
	return f, nil
}

// Choose is Filter with the IDs. It is an error if one of their records is in no state from which the purpose
// can take it: nothing is to be changed then.
func (v *View) Choose(ctx context.Context, s Selection, p inspect.Purpose, now time.Time) (table.Filter, error) {
	f, err := v.Filter(s, p, now)
	if err != nil {
		return f, err
	}
	var wrong []error
	for _, id := range s.IDs {
		key, err := v.Table.ParseKey(id)
		if err != nil {
			return f, &Invalid{Err: err}
		}
		reason, err := v.whyNot(ctx, key, p, now)
		if err != nil {
			return f, err
		}
		f.Keys = append(f.Keys, key)
		if reason != "" {
			wrong = append(wrong, fmt.Errorf("%s: %s", inspect.Shown(key.String()), reason))
		}
	}
	if len(wrong) > 0 {
		done := "put back to new"
		if p == inspect.Discarded {
			done = "discarded"
		}
		err = notFound{fmt.Errorf("nothing is changed, since some of these records cannot be %s\n%w", done, errors.Join(wrong...))}
	}
	return f, err
}

// whyNot returns why the record with the key cannot be requeued or discarded; "": it can.
func (v *View) whyNot(ctx context.Context, key backlog.Key, p inspect.Purpose, now time.Time) (string, error) {
	from := []backlog.RowState{backlog.RowDead, backlog.RowError}
	if p == inspect.Discarded {
		from = []backlog.RowState{backlog.RowNew, backlog.RowError}
	}
	row, ok, err := v.Table.Find(ctx, key, now)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "there is no such record", nil
	case row.Filtered:
		return "table.where leaves it out", nil
	case !v.Refreshes() && !slices.Contains(from, row.State): // under the policy refresh any can
		return "its status is " + row.StatusText(), nil
	}
	return "", nil
}

// RequeuedStatuses returns the statuses of dead and failed records, as [table.Filter] takes them: the values
// of the status column or, in a table without one, words.
func (v *View) RequeuedStatuses() (list []string) {
	m := v.Mapping
	add := func(x mapping.State, word string) {
		values, _ := m.OfStatus(x)
		if len(values) == 0 {
			list = append(list, word)
		}
		for _, value := range values {
			list = append(list, value.Text)
		}
	}
	if m.Dead.Explicit {
		add(m.Dead, "dead")
	}
	switch {
	case v.Table.OneLane(): // failed records look like new ones
	case m.Error.Keep:
		add(m.New, "error")
	default:
		add(m.Error, "error")
	}
	if v.Refreshes() {
		list = append(list, "disabled")
	}
	return list
}

// mostRefusals is how many records that the database refuses are named.
const mostRefusals = 20

// Refusals are the records that the database has refused to change: how many, and the first of them.
type Refusals struct {
	Refused  int           `json:"refused,omitempty"`
	Refusals []web.Refusal `json:"refusals,omitempty"`
}

// Add counts a record.
func (r *Refusals) Add(key backlog.Key, why error) {
	r.Refused++
	if len(r.Refusals) < mostRefusals {
		r.Refusals = append(r.Refusals, web.Refusal{ID: key, Error: why.Error()})
	}
}

// Err returns an error that names the records; nil: there are none.
func (r *Refusals) Err() error {
	if r.Refused == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "the database refuses %s, left as before; change the row, or what refuses it, and try again", inspect.Plural(r.Refused, "record"))
	for _, x := range r.Refusals {
		fmt.Fprintf(&text, "\n%s: %s", inspect.Shown(x.ID.String()), strings.ReplaceAll(x.Error, "\n", " "))
	}
	if more := r.Refused - len(r.Refusals); more > 0 {
		fmt.Fprintf(&text, "\nand %d more", more)
	}
	return errors.New(text.String())
}

// PlaceOf returns a place in a list as one word, nil for the zero Cursor.
func PlaceOf(c backlog.Cursor) *string {
	if c.IsZero() {
		return nil
	}
	b, _ := json.Marshal(c)
	return new(base64.RawURLEncoding.EncodeToString(b))
}

// ParsePlace returns the place of a word, the zero Cursor for an empty one.
func ParsePlace(text string) (backlog.Cursor, error) {
	var c backlog.Cursor
	if text == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return c, errors.New("that is no place in a list; take it from next of list --json")
	}
	return c, nil
}
