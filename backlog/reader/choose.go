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

// A Selection selects records, in the words of flags and URLs. A record must match all fields that are given.
// The zero Selection selects every record that its purpose allows.
type Selection struct {
	IDs       []string // keys, as people write them
	Status    string   // of dead or failed records: one of RequeuedStatuses
	State     string
	Tier      string // records too old for the next narrower tier but not for this one, or [inspect.Beyond]
	Cause     string // part of the last error or of its summary
	OlderThan time.Duration
	Limit     int // 0: no limit
}

// Narrows reports whether any field but IDs and Limit is given.
func (s *Selection) Narrows() bool {
	return s.Status != "" || s.State != "" || s.Tier != "" || s.Cause != "" || s.OlderThan > 0
}

// An Invalid is the error of a request for something that does not exist, or for things that exclude each other.
type Invalid struct {
	Field string // of a Selection, as flags and URLs name it; "": it is about no single field
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

// Filter returns the table's filter for the selection without its IDs. The error is an [*Invalid] with a Field.
func (v *View) Filter(s Selection, p inspect.Purpose, now time.Time) (table.Filter, error) {
	if err := v.checkSelection(s, p); err != nil {
		return table.Filter{}, err
	}
	f := table.Filter{
		Status: s.Status,
		State:  s.State,
		Limit:  s.Limit,
		Ages:   v.Schedule.MaxAges(),
		Band:   v.bandNumber(s.Tier),
	}
	if v.Refreshes() && s.Status == disabledStatus {
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

// bands returns the names of the bands of ages: each tier's, and the one beyond all tiers.
func (v *View) bands() []string { return append(v.Schedule.Names(), inspect.Beyond) }

// bandNumber returns the number that a [table.Filter] has for the band of a tier, or for any
// band if tier is "".
func (v *View) bandNumber(tier string) int {
	const anyBand = 0
	if tier == "" {
		return anyBand
	}
	return slices.Index(v.bands(), tier) + 1
}

// checkSelection returns what is wrong with the selection, but for its IDs.
func (v *View) checkSelection(s Selection, p inspect.Purpose) error {
	states := v.Table.Words().Named[p]
	statuses := v.RequeuedStatuses()
	switch {
	case s.Status != "" && !slices.Contains(statuses, s.Status):
		return invalid("status", "%q is not that of dead or failed records; those are: %s",
			s.Status, cmp.Or(strings.Join(statuses, ", "), "none"))
	case s.Limit < 0:
		return invalid("limit", "must not be negative")
	case s.State != "" && !slices.Contains(states, s.State):
		return invalid("state", "%q is none of %s, which are not the statuses of the table", s.State, strings.Join(states, ", "))
	case v.Table.OneLane() && (s.State == "failed" || s.State == "exhausted"):
		return invalid("state", "in this table failed records are not told from fresh ones, which statuses.error does")
	case s.State == "dead" && !v.Table.HasDead():
		return invalid("state", "no dead status is configured; statuses.dead says which it is")
	case s.Tier != "" && v.Refreshes():
		return invalid("tier", "under the policy refresh the age of a record does not matter")
	case s.Tier != "" && !slices.Contains(v.bands(), s.Tier):
		return invalid("tier", "there is no tier %q; the tiers are: %s, and %s for what is older",
			s.Tier, strings.Join(v.Schedule.Names(), ", "), inspect.Beyond)
	case s.Cause != "" && !v.Table.HasLastError():
		return invalid("cause", "no column has the last error of a record; name one in table.last_error")
	}
	return nil
}

// Choose is Filter with the IDs. It returns an error if one of them has no record, or a record in a state that the
// purpose does not allow: the caller must then change nothing.
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
		which := "some of these records"
		if len(s.IDs) == 1 {
			which = "this record"
		}
		err = notFound{fmt.Errorf("nothing is changed, since %s cannot be %s\n%w", which, done, errors.Join(wrong...))}
	}
	return f, err
}

// whyNot returns why the record with the key cannot be requeued or discarded; "": it can be.
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

// disabledStatus selects the disabled records under the policy refresh, whatever words the status
// column has: the table knows these records by their state, dead.
const disabledStatus = "disabled"

// RequeuedStatuses returns the statuses of dead and failed records, as [table.Filter] has them: values of the
// status column or, in a table without one, the words dead and error.
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
		list = append(list, disabledStatus)
	}
	return list
}

// maxRefusals bounds how many of the records that the database refuses are named.
const maxRefusals = 20

// Refusals counts the records that the database has refused to change, and names the first of them.
type Refusals struct {
	Refused  int           `json:"refused,omitempty"`
	Refusals []web.Refusal `json:"refusals,omitempty"`
}

// Add counts a record.
func (r *Refusals) Add(key backlog.Key, why error) {
	r.Refused++
	if len(r.Refusals) < maxRefusals {
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

// PlaceOf encodes a place in a list as one word. For the zero Cursor it returns nil.
func PlaceOf(c backlog.Cursor) *string {
	if c.IsZero() {
		return nil
	}
	b, _ := json.Marshal(c)
	return new(base64.RawURLEncoding.EncodeToString(b))
}

// ParsePlace decodes what PlaceOf has encoded. For an empty text it returns the zero Cursor.
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
