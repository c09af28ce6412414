// Package refresh is the store of records that are processed again and again, with
// deadlines: a [backlog.Beginner] over a table. In Go:
//
//	m := mapping.Mapping{Name: "banners", Policy: settings.PolicyColumns()} // of retry.Refresh
//	t, err := table.OpenDB(ctx, pool, dialect, m, time.Now())
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
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
)

// A Store is a [backlog.Beginner] over a table. A group is written in one transaction
// that reads its rows first and keeps them from others. It is safe for concurrent use.
type Store struct {
	t      *table.Table
	d      *db.DB
	key    []string // quoted
	unsure sync.Map // UIDs of attempts whose end may be written: the call has failed
}

var (
	_ backlog.Beginner = (*Store)(nil)
	_ backlog.Locker   = (*Store)(nil)
)

// New returns the store of the table, whose mapping must have the columns of the policy.
func New(t *table.Table) (*Store, error) {
	if t.Refresh() == nil {
		return nil, db.Problemf("set Policy of the mapping to the columns of the refresh policy",
			"table %s is not mapped for the refresh policy", t.Mapping().Name)
	}
	s := &Store{t: t, d: t.DB()}
	for _, name := range t.Mapping().ID {
		s.key = append(s.key, s.d.Text().Quote(t.Catalog().Find(name, s.d.Text().FoldsNames).Name))
	}
	return s, nil
}

// Pending implements [backlog.Store].
func (s *Store) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	return s.t.Pending(ctx, q)
}

// Ping is the method that [backlog.Store] names.
func (s *Store) Ping(ctx context.Context) error { return s.t.Ping(ctx) }

// TryLock implements [backlog.Locker].
func (s *Store) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return s.t.TryLock(ctx, name)
}

// Overdue implements [backlog.Beginner].
func (s *Store) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	if s.t.Refresh().Running() == "" {
		return nil, nil
	}
	cond, tail, args := s.t.Overdue(now, after, limit)
	list, err := s.records(ctx, cond, tail, args)
	if err != nil {
		return nil, err
	}
	var emptied settlements
	list = slices.DeleteFunc(list, func(r backlog.Record) bool {
		if r.Refresh.UID != "" || s.t.Refresh().Quoted(mapping.AttemptUID) == "" || r.Refresh.Deadline.After(now) {
			return r.Refresh.Deadline.After(now)
		}
		next := *r.Refresh
		next.Deadline = time.Time{}
		emptied = append(emptied, backlog.Settlement{Record: &r, Target: backlog.RowOther, Refresh: &next, At: now})
		return true
	})
	if len(emptied) > 0 {
		_, err = s.write(ctx, emptied, make([]backlog.Refresh, len(emptied)), s.ended) // a conflict was saved again
	}
	return list, err
}

// Running implements [backlog.Beginner].
func (s *Store) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	col := s.t.Refresh().Quoted(mapping.AttemptUID)
	if len(uids) == 0 || col == "" {
		return nil, ctx.Err()
	}
	cond := col + " IN (?" + strings.Repeat(", ?", len(uids)-1) + ")"
	if running := s.t.Refresh().Running(); running != "" {
		cond = running + " AND " + cond // of which there is an index
	}
	args := make([]any, len(uids))
	for i, uid := range uids {
		args[i] = uid
	}
	return s.records(ctx, cond, "", args)
}

func (s *Store) records(ctx context.Context, cond, tail string, args []any) (list []backlog.Record, err error) {
	err = s.d.Within(ctx, func(ctx context.Context) (err error) {
		list, err = s.t.Records(ctx, s.d.Read, cond, tail, args, true)
		return err
	})
	return list, err
}

// Count counts the rows by the words of inspect.State.
func (s *Store) Count(ctx context.Context) (map[string]int, error) {
	return s.t.CountBy(ctx, s.t.Refresh().State())
}

// Begin implements [backlog.Beginner].
func (s *Store) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	lefts := make([]backlog.Refresh, len(group))
	left, err := s.write(ctx, group, lefts, begun)
	if err == nil {
		for i := range group {
			if !slices.ContainsFunc(left, func(u backlog.Unsettled) bool { return u.Index == i }) {
				group[i].Record.Refresh = &lefts[i]
			}
		}
	}
	return left, err
}

// begun returns what the start makes of the row that has the state now.
func begun(g *backlog.Settlement, now *backlog.Refresh) (next backlog.Refresh, ok bool) {
	read := g.Record.Refresh
	if now.UID != "" && now.UID == g.Refresh.UID {
		return *now, true // the commit before was not lost
	}
	same := now.UID == read.UID && now.At.Equal(read.At) && now.Deadline.Equal(read.Deadline)
	return merged(read, g.Refresh, now), same && !now.Disabled
}

// Settle implements [backlog.Store].
func (s *Store) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	left, err := s.write(ctx, group, make([]backlog.Refresh, len(group)), s.ended)
	for i := range group {
		if uid := group[i].Record.Refresh.UID; uid != "" && err != nil {
			s.unsure.Store(uid, true)
		} else {
			s.unsure.Delete(uid)
		}
	}
	return left, err
}

// ended returns what the end of an attempt makes of the row that has the state now.
func (s *Store) ended(g *backlog.Settlement, now *backlog.Refresh) (next backlog.Refresh, ok bool) {
	read := g.Record.Refresh
	if _, unsure := s.unsure.Load(read.UID); unsure && now.UID == "" && now.Deadline.IsZero() && now.AttemptNo == g.Refresh.AttemptNo {
		return *now, true // the commit before was not lost
	}
	ok = now.UID == read.UID && (read.UID != "" || now.At.Equal(read.At) && now.AttemptNo == read.AttemptNo)
	saved := !now.At.IsZero() && now.At.Before(now.Deadline) // a start writes no time before its deadline
	if saved && g.Refresh.Deadline.IsZero() {
		next = *now
		next.UID, next.Deadline = "", time.Time{}
		return next, ok
	}
	return merged(read, g.Refresh, now), ok
}

// merged returns the state now, in which somebody else may have changed something since
// it was read, with what the next state has otherwise than the one that was read.
func merged(read, next, now *backlog.Refresh) backlog.Refresh {
	return backlog.Refresh{
		UID: next.UID, Deadline: next.Deadline, Rule: now.Rule,
		At:           unless(next.At.Equal(read.At), next.At, now.At),
		AttemptNo:    unless(next.AttemptNo == read.AttemptNo, next.AttemptNo, now.AttemptNo),
		Started:      unless(next.Started.Equal(read.Started), next.Started, now.Started),
		Disabled:     unless(next.Disabled == read.Disabled, next.Disabled, now.Disabled),
		Reason:       unless(next.Reason == read.Reason, next.Reason, now.Reason),
		FailingSince: unless(next.FailingSince.Equal(read.FailingSince), next.FailingSince, now.FailingSince),
	}
}

// unless returns the next value, or where nothing has changed the one that there is now.
func unless[T any](same bool, next, now T) T {
	if same {
		return now
	}
	return next
}

// A judge returns what a settlement makes of a row that has the state now, and whether
// it may.
type judge func(g *backlog.Settlement, now *backlog.Refresh) (next backlog.Refresh, ok bool)

type settlements = []backlog.Settlement

// errRefused says that the database refuses a row of a group.
var errRefused = errors.New("a row is refused")

// write writes a group, and sets lefts to what its rows have then. Where the database refuses
// a row, all is written row by row, to tell which.
func (s *Store) write(ctx context.Context, group settlements, lefts []backlog.Refresh, judge judge) (left []backlog.Unsettled, err error) {
	if len(group) == 0 {
		return nil, ctx.Err()
	}
	if len(group) > backlog.MaxGroup {
		return nil, fmt.Errorf("a group of %d outcomes, more than %d", len(group), backlog.MaxGroup)
	}
	err = s.d.Within(ctx, func(ctx context.Context) error {
		left = nil
		err := s.t.InTx(ctx, func(tx *sql.Tx) (err error) {
			left, err = s.writeRows(ctx, tx, group, lefts, judge)
			return err
		})
		if !errors.Is(err, errRefused) {
			return err
		}
		left = nil
		refused, err := s.t.RowByRow(ctx, len(group), func(tx *sql.Tx, i int) error {
			lost, err := s.writeRows(ctx, tx, group[i:i+1], lefts[i:i+1], judge)
			if err == nil && len(lost) > 0 {
				err = lost[0].Err
			}
			return err
		})
		for i, reason := range refused {
			left = append(left, backlog.Unsettled{Index: i, Err: reason})
		}
		return err
	})
	if err != nil {
		left = nil
	}
	return left, err
}

// writeRows writes a group in a transaction: its rows are read and locked, judged, and
// written. An error of the database about a row of several is errRefused.
func (s *Store) writeRows(ctx context.Context, tx *sql.Tx, group settlements, lefts []backlog.Refresh, judge judge) ([]backlog.Unsettled, error) {
	states, err := s.lock(ctx, tx, group, "")
	if err != nil {
		return nil, err
	}
	var left []backlog.Unsettled
	prepared := make(map[string]*sql.Stmt)
	for i, g := range group {
		now, ok := states[g.Record.Key.Hash()]
		var next backlog.Refresh
		if ok {
			next, ok = judge(&g, now)
		}
		if ok {
			g.Refresh = &next
			w := s.t.RefreshWrite(&g, now)
			lefts[i] = w.Left
			n, err := s.exec(ctx, tx, prepared, w, g.Record.Key)
			if len(group) > 1 && s.d.Class(err) == db.Refused {
				return nil, errRefused
			}
			if err != nil {
				return nil, err
			}
			ok = n > 0 || s.d.ChangedOnly // else somebody's trigger keeps it as it is
		}
		if !ok {
			left = append(left, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
		}
	}
	return left, nil
}

// lock reads the states of the group's rows, by the hashes of their keys, and keeps the
// rows from others until the end of the transaction.
func (s *Store) lock(ctx context.Context, tx *sql.Tx, group settlements, how string) (map[uint64]*backlog.Refresh, error) {
	var args []any
	for i := range group {
		args = append(args, parts(group[i].Record.Key)...)
	}
	text := s.d.Text()
	list, err := s.t.Records(ctx, tx, text.KeyIn(s.key, len(group)), text.LockRow+how, args, false)
	now := make(map[uint64]*backlog.Refresh, len(list))
	for i := range list {
		now[list[i].Key.Hash()] = list[i].Refresh
	}
	return now, err
}

func parts(k backlog.Key) []any {
	list := make([]any, k.Len())
	for i := range list {
		list[i] = k.Part(i)
	}
	return list
}

// exec runs what is to be written to the row of the key, and returns how many rows it
// has found. The statements of a group are few.
func (s *Store) exec(
	ctx context.Context, tx *sql.Tx, prepared map[string]*sql.Stmt, w table.RefreshWrite, key backlog.Key,
) (int64, error) {
	if w.Text == "" {
		return 1, nil
	}
	stmt := prepared[w.Text]
	if stmt == nil {
		var err error
		if stmt, err = tx.PrepareContext(ctx, s.d.Text().Place(w.Text)); err != nil {
			return 0, err
		}
		prepared[w.Text] = stmt
	}
	return db.Affected(stmt.ExecContext(ctx, append(w.Args, parts(key)...)...))
}
