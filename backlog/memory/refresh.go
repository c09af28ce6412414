package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"backlog/backlog"
)

// runs reports whether the row has an attempt: a save may empty either column.
func (e *entry) runs() bool { return !e.Refresh.Deadline.IsZero() && e.Refresh.UID != "" }

// refreshes reports whether the refresh policy starts the rows.
func (s *Store) refreshes() bool { return s.o.Policy != nil && s.o.Policy.Refresher != nil }

// Begin implements [backlog.Beginner].
func (s *Store) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.write(group, func(e *entry, g *backlog.Settlement) bool {
		read, now := g.Record.Refresh, &e.Refresh
		if now.UID != read.UID || !now.At.Equal(read.At) || now.Disabled {
			return false
		}
		written := *g.Refresh
		e.Refresh, g.Record.Refresh = written, &written
		return true
	})
}

// ended is the end of an attempt. A row that was saved meanwhile, before its deadline,
// keeps what was saved, and one that was disabled stays so.
func (s *Store) ended(e *entry, g *backlog.Settlement) bool {
	read, next, now := g.Record.Refresh, *g.Refresh, &e.Refresh
	switch {
	case now.UID != read.UID || read.UID == "" && (!now.At.Equal(read.At) || now.AttemptNo != read.AttemptNo):
		return false
	case next.Deadline.IsZero() && !now.At.IsZero() && now.At.Before(now.Deadline):
		now.UID, now.Deadline = "", time.Time{}
	default:
		if next.Disabled == read.Disabled {
			next.Disabled = now.Disabled
		}
		says := g.Target == backlog.RowSuccess || g.Target == backlog.RowDead // whatever a worker has said meanwhile
		if now.Disabled || next.Reason == read.Reason && !says {
			next.Reason = now.Reason
		}
		*now = next
	}
	s.show(e, g)
	return true
}

// show gives the row the status that shows what the end of an attempt made of it.
func (s *Store) show(e *entry, g *backlog.Settlement) {
	if g.Target == backlog.RowNew || g.Target == backlog.RowOther {
		return
	}
	e.Attempts++
	goesOn := !e.Refresh.At.IsZero()
	switch {
	case g.Target == backlog.RowSuccess && goesOn:
		e.Status = s.o.New[0]
	case g.Target == backlog.RowSuccess:
		e.Status = s.o.Success
	case g.Target == backlog.RowDead && !goesOn:
		e.Status = cmp.Or(s.o.Dead, s.o.Error)
	default:
		e.Status = s.o.Error
	}
	if g.Target != backlog.RowSuccess {
		e.LastError = g.Error
	}
}

// Overdue implements [backlog.Beginner]. It looks at every row.
func (s *Store) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	list := s.records(func(e *entry) bool { return e.runs() && !e.Refresh.Deadline.After(now) })
	slices.SortFunc(list, func(a, b backlog.Record) int {
		return cmp.Or(a.Refresh.Deadline.Compare(b.Refresh.Deadline), a.Key.Compare(b.Key))
	})
	list = slices.DeleteFunc(list, func(r backlog.Record) bool {
		at, _ := after.Order.(int64)
		return !after.IsZero() && cmp.Or(cmp.Compare(nanos(r.Refresh.Deadline), at), r.Key.Compare(after.Key)) <= 0
	})
	return list[:min(len(list), limit)], ctx.Err()
}

// Running implements [backlog.Beginner]. It looks at every row.
func (s *Store) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	return s.records(func(e *entry) bool { return e.Refresh.UID != "" && slices.Contains(uids, e.Refresh.UID) }), ctx.Err()
}

// records returns the records of running attempts. Their cursors are for Overdue.
func (s *Store) records(which func(*entry) bool) (list []backlog.Record) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.rows {
		if which(e) {
			r := s.record(e, backlog.Lane(min(max(e.Refresh.AttemptNo-1, 0), 1)))
			r.Cursor = backlog.Cursor{Order: nanos(e.Refresh.Deadline), Key: e.Key}
			list = append(list, r)
		}
	}
	return list
}
