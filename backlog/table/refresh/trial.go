package refresh

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/attempt"
	"backlog/backlog/table/db"
)

// Try is the method that [backlog.Store] names. A start, whose state has a deadline, is
// written to its row; an end is written behind a start. Both are read again, since a
// trigger, or a column that holds less, may have made something else of them.
func (s *Store) Try(ctx context.Context, g backlog.Settlement) error {
	if s.t.Catalog().Engine != "" { // which has no transactions: nothing could be rolled back
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
	err := s.d.Within(ctx, func(ctx context.Context) error {
		return s.t.InTx(ctx, func(tx *sql.Tx) error { return cmp.Or(s.try(ctx, tx, steps), table.ErrUndo) })
	})
	if p := (*db.Problem)(nil); err != nil && s.d.Write != s.d.Read && errors.As(s.d.CheckRights(ctx), &p) {
		return p // it is a file, which cannot be opened to be written to
	}
	return err
}

// try writes the steps, one after the other, to a row that is as it was read.
func (s *Store) try(ctx context.Context, tx *sql.Tx, steps []backlog.Settlement) error {
	text := s.d.Text()
	for _, first := range text.Trial {
		if _, err := tx.ExecContext(ctx, first); err != nil {
			return err
		}
	}
	how := ""
	if text.LockRow != "" {
		how = " NOWAIT"
	}
	key := steps[0].Record.Key
	for i, g := range steps {
		rows, err := s.lock(ctx, tx, steps[:1], how)
		now := rows[key.Hash()]
		switch {
		case s.d.Class(err) == db.Busy && how != "":
			return fmt.Errorf("%w: row %v", backlog.ErrLocked, key)
		case err != nil:
			return err
		case now == nil || i == 0 && (now.UID != g.Record.Refresh.UID || !now.At.Equal(g.Record.Refresh.At)):
			return backlog.ErrConflict
		}
		if next := *g.Refresh; next.Disabled { // by the longest reason that there can be
			if c := s.t.Refresh().Column(mapping.DisabledReason); c != nil {
				next.Reason = strings.Repeat("x", min(cmp.Or(c.Length, c.Octets, len(next.Reason)), 64<<10))
			}
			g.Refresh = &next
		}
		w := s.t.RefreshWrite(&g, now)
		if _, err := s.exec(ctx, tx, make(map[string]*sql.Stmt), w, key); err != nil {
			return s.t.Untaken("policy.refresh", w.Shown, err)
		}
		if rows, err = s.lock(ctx, tx, steps[:1], how); err != nil {
			return err
		}
		if then := rows[key.Hash()]; then == nil || !equal(then, &w.Left) {
			return db.Problemf("look at the triggers of the table, and at the types of the policy's columns",
				"policy.refresh: with %s a row of table %s is not as it was written", w.Shown, s.t.Mapping().Name)
		}
	}
	return nil
}

// equal reports whether the states are the same.
func equal(a, b *backlog.Refresh) bool {
	times := a.At.Equal(b.At) && a.Deadline.Equal(b.Deadline) && a.Started.Equal(b.Started) && a.FailingSince.Equal(b.FailingSince)
	return times && a.AttemptNo == b.AttemptNo && a.UID == b.UID && a.Disabled == b.Disabled && a.Reason == b.Reason
}
