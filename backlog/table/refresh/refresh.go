// Package refresh is the store of records that are processed again and again, with
// deadlines: a [backlog.Beginner] over a table. In Go:
//
//	m := mapping.Mapping{Name: "banners", Policy: settings.PolicyColumns()} // of retry.Refresh
//	t, err := table.Open(ctx, database, m, time.Now())
//	store, err := refresh.New(t)
//	engine := &backlog.Engine{Store: store, Policy: policy, Handler: handler}
//
// All but starting and settling is still done with the table: finding rows, saving them
// again by Requeue, checking, locks. The mapping's statuses only show what is so: those
// with Given are written when an attempt ends, new and error while the row goes on, success
// when no further start is planned, dead when it is disabled. A start and a skipped attempt
// write none.
package refresh

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/attempt"
	"backlog/backlog/table/db"
)

// A Store is a [backlog.Beginner] over a table, which does all but starting and settling. A
// group is written in one transaction that reads its rows first and keeps them from
// others. It is safe for concurrent use.
type Store struct {
	*table.Table
	d *db.DB
}

var (
	_ backlog.Beginner  = (*Store)(nil)
	_ backlog.Trier     = (*Store)(nil)
	_ backlog.Rehearser = (*Store)(nil)
)

// New returns the store of the table, whose mapping must have the columns of the policy.
func New(t *table.Table) (*Store, error) {
	if t.Refresh() == nil {
		return nil, db.Problemf("set Policy of the mapping to the columns of the refresh policy",
			"table %s is not mapped for the refresh policy", t.Mapping().Name)
	}
	return &Store{t, t.DB()}, nil
}

// Overdue implements [backlog.Beginner].
func (s *Store) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	if s.Refresh().Running == "" {
		return nil, nil
	}
	cond, tail, args := s.Table.Overdue(now, after, limit)
	list, err := s.records(ctx, cond, tail, args)
	return slices.DeleteFunc(list, func(r backlog.Record) bool { return r.Refresh.Deadline.After(now) }), err
}

// Running implements [backlog.Beginner].
func (s *Store) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	col := s.Refresh().Quoted(mapping.AttemptUID)
	if len(uids) == 0 || col == "" {
		return nil, ctx.Err()
	}
	cond := col + " IN (?" + strings.Repeat(", ?", len(uids)-1) + ")"
	if running := s.Refresh().Running; running != "" {
		cond = running + " AND " + cond // there is an index for it
	}
	return s.records(ctx, cond, "", db.Mapped(uids, func(uid string) any { return uid }))
}

func (s *Store) records(ctx context.Context, cond, tail string, args []any) ([]backlog.Record, error) {
	return db.Get(ctx, s.d, func(ctx context.Context) ([]backlog.Record, error) {
		return s.Records(ctx, s.d.Read, cond, tail, args, true)
	})
}

// Count counts the rows by the words of inspect.State.
func (s *Store) Count(ctx context.Context) (map[string]int, error) {
	return s.CountBy(ctx, s.Refresh().State())
}

// Begin implements [backlog.Beginner].
func (s *Store) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	lefts := make([]*backlog.Refresh, len(group))
	left, err := s.SettleGroup(ctx, group, s.writing(group, lefts, begun))
	for i := range group {
		if err == nil && lefts[i] != nil {
			group[i].Record.Refresh = lefts[i]
		}
	}
	return left, err
}

// begun reports whether a row may start.
func begun(g *backlog.Settlement, now *backlog.Refresh) bool {
	read := g.Record.Refresh
	return now.UID == read.UID && now.At.Equal(read.At) && now.Deadline.Equal(read.Deadline) && !now.Disabled
}

// Settle implements [backlog.Store].
func (s *Store) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	return s.SettleGroup(ctx, group, s.writing(group, make([]*backlog.Refresh, len(group)), s.ended))
}

// Rehearse implements [backlog.Rehearser].
func (s *Store) Rehearse(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	w := s.writing(group, make([]*backlog.Refresh, len(group)), s.ended)
	w.Undo = true
	return s.SettleGroup(ctx, group, w)
}

// ended reports whether an attempt may end. A row that was saved during it keeps what was saved:
// a start writes no next one before its deadline. A success ends its failures all the same.
func (s *Store) ended(g *backlog.Settlement, now *backlog.Refresh) bool {
	read := g.Record.Refresh
	if g.Refresh.Deadline.IsZero() && !now.At.IsZero() && now.At.Before(now.Deadline) {
		next := *read
		next.UID, next.Deadline, next.Reason = "", time.Time{}, now.Reason
		if g.Target == backlog.RowSuccess {
			next.FailingSince = time.Time{}
		}
		g.Refresh = &next
	}
	stopped := now.Deadline.IsZero() && !read.Deadline.IsZero() // by a save that has emptied it
	return !stopped && now.UID == read.UID && (read.UID != "" || now.At.Equal(read.At) && now.AttemptNo == read.AttemptNo)
}

// isWritten reports whether a commit that seemed to be lost has started the attempt, or
// ended it. What somebody has saved since then stays.
func isWritten(g *backlog.Settlement, now *backlog.Refresh) bool {
	if now.UID != "" && now.UID == g.Refresh.UID && now.UID != g.Record.Refresh.UID {
		return true
	}
	return g.Record.Unsure && g.Record.Refresh.UID != "" && now.UID == "" && now.Deadline.IsZero() && now.AttemptNo == g.Refresh.AttemptNo
}

// writing is how a group is written, by what the rows have now. lefts becomes what the rows
// have then, nil where nothing is written.
func (s *Store) writing(
	group []backlog.Settlement, lefts []*backlog.Refresh, may func(*backlog.Settlement, *backlog.Refresh) bool,
) table.GroupWrite {
	rows := func(ctx context.Context, tx *sql.Tx, from, to int) error {
		states, err := s.LockStates(ctx, tx, group[from:to], "")
		if err != nil {
			return err
		}
		prepared := make(map[string]*sql.Stmt) // which are few
		for i := from; i < to; i++ {
			g := group[i]
			now := states[g.Record.Key.Hash()]
			if lefts[i] = now; now != nil && isWritten(&g, now) {
				continue
			}
			if lefts[i] = nil; now == nil || !may(&g, now) {
				return backlog.ErrConflict
			}
			if lefts[i], err = s.writeRow(ctx, tx, prepared, &g, now); err != nil {
				return err
			}
		}
		return nil
	}
	return table.GroupWrite{
		Whole: func(ctx context.Context, tx *sql.Tx) error { return rows(ctx, tx, 0, len(group)) },
		One:   func(ctx context.Context, tx *sql.Tx, i int) error { return rows(ctx, tx, i, i+1) },
		Text: func(i int) (string, int) {
			w, _ := s.RefreshWrite(&group[i], group[i].Record.Refresh, group[i].Record.Refresh)
			return w.Text, len(w.Args)
		},
	}
}

// writeRow writes to a row, and returns what it has then.
func (s *Store) writeRow(
	ctx context.Context, tx *sql.Tx, prepared map[string]*sql.Stmt, g *backlog.Settlement, now *backlog.Refresh,
) (*backlog.Refresh, error) {
	w, left := s.RefreshWrite(g, g.Record.Refresh, now)
	if w.Text == "" {
		return &left, nil
	}
	stmt := prepared[w.Text]
	if stmt == nil {
		var err error
		if stmt, err = tx.PrepareContext(ctx, s.d.Text().Place(w.Text)); err != nil {
			return nil, err
		}
		prepared[w.Text] = stmt
	}
	n, err := db.Affected(stmt.ExecContext(ctx, w.Args...))
	if err == nil && n == 0 && !s.d.ChangedOnly { // though the row is locked
		err = s.Unchanged("policy.refresh")
	}
	if err == nil && len(s.Catalog().Triggers) > 0 {
		err = s.kept(ctx, tx, g, &left)
	}
	if err != nil {
		return nil, err
	}
	return &left, nil
}

// kept returns an error if a trigger has left the row, which has just been written, another
// state than that.
func (s *Store) kept(ctx context.Context, tx *sql.Tx, g *backlog.Settlement, state *backlog.Refresh) error {
	rows, err := s.LockStates(ctx, tx, []backlog.Settlement{*g}, "")
	if err != nil {
		return err
	}
	now := rows[g.Record.Key.Hash()]
	if now == nil || !s.Refresh().Same(now, state) {
		return s.Unchanged("policy.refresh")
	}
	return nil
}

// Try implements [backlog.Trier]. A start, whose state has a deadline, is
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
func (s *Store) try(ctx context.Context, tx *sql.Tx, steps []backlog.Settlement) error {
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
			err := db.Problemf("look at the triggers of the table, and at the types of the policy's columns",
				"policy.refresh: with %s a row of table %s is not as it was written", w.Shown(s.d.Text()), s.Mapping().Name)
			if len(s.Catalog().Triggers) > 0 {
				err = s.Revoked("policy.refresh", w, err)
			}
			return err
		}
	}
	return nil
}
