package reader

import (
	"context"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/internal/lists"
)

// A List says which records are listed.
type List struct {
	Filter table.Filter
	Now    time.Time
	After  backlog.Cursor // the place after which the list begins; zero: it begins with the newest record
	Limit  int            // how many records are listed at most
}

// EachPage calls use with the entries of each page that has any, until use returns an error. It returns the
// place after the last record; zero: there are no more records.
func (v *View) EachPage(ctx context.Context, l List, use func([]inspect.Entry) error) (backlog.Cursor, error) {
	after := l.After
	remaining := l.Limit
	for remaining > 0 {
		page, err := v.Table.List(ctx, l.Filter, l.Now, after, remaining)
		if err != nil {
			return after, err
		}
		list := lists.Map(page.Rows, func(row inspect.Row) inspect.Entry { return v.Entry(row, l.Now) })
		if len(list) > 0 {
			if err := use(list); err != nil {
				return after, err
			}
		}
		remaining -= len(list)
		after = page.Next
		if after.IsZero() {
			break
		}
	}
	return after, nil
}

// An Attempt is what a table has about an attempt of the policy refresh, for JSON.
type Attempt struct {
	UID      string        `json:"uid"`
	Current  bool          `json:"current"` // it is the running one of a record
	ID       *backlog.Key  `json:"id"`
	No       *int          `json:"attempt_no"`
	Started  inspect.Stamp `json:"started_at"`
	Deadline inspect.Stamp `json:"deadline_at"`
}

// Attempt returns the attempt with the UID. It may only be called under the policy refresh.
func (v *View) Attempt(ctx context.Context, uid string) (*Attempt, error) {
	records, err := v.Table.Running(ctx, []string{uid})
	if err != nil || len(records) == 0 {
		return &Attempt{UID: uid}, err
	}
	r := records[0]
	return &Attempt{
		UID:      uid,
		Current:  true,
		ID:       &r.Key,
		No:       &r.Memory.AttemptNo,
		Started:  inspect.Stamp(r.Memory.Started),
		Deadline: inspect.Stamp(r.Memory.Deadline),
	}, nil
}

// String describes the attempt.
func (a *Attempt) String() string {
	if !a.Current {
		return "no longer the running attempt of any record"
	}
	return fmt.Sprintf("attempt %d of record %s, until %s", *a.No, inspect.Shown(a.ID.String()), a.Deadline)
}
