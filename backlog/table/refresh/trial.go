package refresh

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/attempt"
	"backlog/backlog/table/db"
)

// Try is the method that [backlog.Store] names. A start, whose state has a deadline, is
// written to its row; an end is written behind a start. Both are read again, since a
// trigger, or a column that holds less, may have made something else of them.
func (s *Store) Try(ctx context.Context, g backlog.Settlement) error {
	if s.Catalog().Engine != "" { // which has no transactions: nothing could be rolled back
		return nil
	}
	from, _ := attempt.All()
	steps := []backlog.Settlement{g}
	if began := *g.Refresh; !began.Deadline.IsZero() {
		began.UID = from.UID // as long as one
		steps[0].Refresh = &began
	} else {
		began = *g.Record.Refresh
		began.UID, began.Deadline, began.AttemptNo, began.Started = from.UID, g.At.Add(time.Hour), began.AttemptNo+1, g.At
		began.At = began.Deadline
		steps = []backlog.Settlement{{Record: g.Record, At: g.At, Refresh: &began}, g}
	}
	return s.Undone(ctx, func(ctx context.Context, tx *sql.Tx) error { return s.try(ctx, tx, steps) })
}

// try writes the steps, one after the other, to a row that is as it was read.
func (s *Store) try(ctx context.Context, tx *sql.Tx, steps settlements) error {
	key, read := steps[0].Record.Key, steps[0].Record.Refresh
	rows, err := s.LockStates(ctx, tx, steps[:1], s.d.Text().NoWait)
	now := rows[key.Hash()]
	switch {
	case s.d.Class(err) == db.Busy && s.d.Text().NoWait != "":
		return fmt.Errorf("%w: row %v", backlog.ErrLocked, key)
	case err != nil:
		return err
	case now == nil || now.UID != read.UID || !now.At.Equal(read.At):
		return backlog.ErrConflict
	}
	for _, g := range steps {
		if next := *g.Refresh; next.Disabled { // by the longest reason that there can be
			if c := s.Refresh().Column(mapping.DisabledReason); c != nil {
				next.Reason = strings.Repeat("x", min(cmp.Or(c.Length, c.Octets, len(next.Reason)), 64<<10))
			}
			g.Refresh = &next
		}
		w, left := s.RefreshWrite(&g, now, now)
		if w.Text != "" {
			if _, err := tx.ExecContext(ctx, s.d.Text().Place(w.Text), w.Args...); err != nil {
				return s.Untaken("policy.refresh", w, err)
			}
		}
		if rows, err = s.LockStates(ctx, tx, steps[:1], ""); err != nil {
			return err
		}
		now = rows[key.Hash()]
		if now == nil || !s.Refresh().Same(now, &left) {
			return db.Problemf("look at the triggers of the table, and at the types of the policy's columns",
				"policy.refresh: with %s a row of table %s is not as it was written", w.Shown(s.d.Text()), s.Mapping().Name)
		}
	}
	return nil
}
