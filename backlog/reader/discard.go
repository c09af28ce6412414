package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
)

// Discarded counts what [View.Discard] has done, for JSON.
type Discarded struct {
	Selected  int `json:"selected"`
	Discarded int `json:"discarded"`
	Refusals
	OnDead int `json:"on_dead"` // calls of on_dead; in a dry run, how many there would be
	Failed int `json:"failed"`  // failed calls: their records stay as they were
}

// A Discarding has the functions that are called while records are discarded.
type Discarding struct {
	Call    func(context.Context, *backlog.Record) error // is called before a record gets the dead status; may be nil
	Observe func(backlog.Event)                          // is called after it
}

// Discard gives the dead status to the records of the filter, and counts them in r. Records whose call fails, and
// those that the database refuses, stay as they were: the error names the first of them.
func (v *View) Discard(ctx context.Context, f table.Filter, now time.Time, r *Discarded, do Discarding) (err error) {
	d := table.Discarding{Refused: r.Add}
	d.Died = func(row *inspect.Row) {
		row.Reason = backlog.ReasonDiscarded
		do.Observe(backlog.Event{Kind: backlog.Died, Record: &row.Record})
	}
	var first error // of the calls
	if do.Call != nil {
		d.BeforeDeath = func(row *inspect.Row) (dies bool, err error) {
			if row.LastError != nil {
				row.Error = *row.LastError
			}
			r.OnDead++
			if err := do.Call(ctx, &row.Record); err != nil {
				r.Failed++
				first = cmp.Or(first, fmt.Errorf("%w (first: id %s)", err, inspect.Shown(row.Key.String())))
				return false, nil
			}
			return true, nil
		}
	}
	r.Discarded, err = v.Table.Discard(ctx, f, now, d)
	if first != nil {
		err = errors.Join(err, fmt.Errorf("calls of on_dead that failed: %d; their records stay as they were; %w", r.Failed, first))
	}
	return errors.Join(err, r.Err())
}
