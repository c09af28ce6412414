package memory_test

import (
	"context"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A beginner spoils what the refresh policy needs of a store.
type beginner struct {
	*memory.Store
	begin   func(*memory.Store, *backlog.Settlement)
	overdue time.Duration // too early
	running func([]string) []string
}

func (s beginner) Begin(ctx context.Context, group settlements) (conflicts, error) {
	for i := range group {
		if s.begin != nil {
			s.begin(s.Store, &group[i])
		}
	}
	return s.Store.Begin(ctx, group)
}

func (s beginner) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	return s.Store.Overdue(ctx, now.Add(s.overdue), after, limit)
}

func (s beginner) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	if s.running != nil {
		uids = s.running(uids)
	}
	return s.Store.Running(ctx, uids)
}

func onBegin(f func(*memory.Store, *backlog.Settlement)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return beginner{Store: s, begin: f} }
}

// asItIs has the settlement's record read only now, unless its row is gone.
func asItIs(s *memory.Store, g *backlog.Settlement) {
	if row, ok := s.Row(g.Record.Key); ok {
		g.Record.Refresh = &row.Refresh
	}
}

var refreshMutants = []mutant{
	{"begin-unguarded", "RefreshAttempts", onBegin(asItIs)},
	{"begin-twice", "RefreshBeginTwice", onBegin(asItIs)},
	{"begin-rounds-down", "RefreshAttempts", onBegin(func(_ *memory.Store, g *backlog.Settlement) {
		g.Refresh.Deadline = g.Refresh.Deadline.Truncate(time.Microsecond)
	})},
	{"end-by-any-token", "RefreshAttempts", onSettlement(asItIs)},
	{"end-of-a-saved-row", "RefreshAttempts", onSettlement(func(s *memory.Store, g *backlog.Settlement) {
		if row, ok := s.Row(g.Record.Key); ok {
			row.Refresh.At = row.Refresh.Deadline // whatever was saved
			s.Update(row.Key, func(r *memory.Row) { r.Refresh = row.Refresh })
		}
	})},
	{"end-writes-all", "RefreshAttempts", onSettlement(func(s *memory.Store, g *backlog.Settlement) {
		if row, ok := s.Row(g.Record.Key); ok {
			row.Refresh.Disabled, row.Refresh.Reason = false, ""
			s.Update(row.Key, func(r *memory.Row) { r.Refresh = row.Refresh })
		}
	})},
	{"release-is-an-error", "RefreshAttempts", turn(backlog.RowOther, backlog.RowError)},
	{"overdue-too-early", "RefreshOverdue", func(s *memory.Store) backlog.Store { return beginner{Store: s, overdue: time.Microsecond} }},
	{"overdue-too-late", "RefreshOverdue", func(s *memory.Store) backlog.Store { return beginner{Store: s, overdue: -time.Microsecond} }},
	{"running-first-token", "RefreshAttempts", func(s *memory.Store) backlog.Store {
		return beginner{Store: s, running: func(uids []string) []string { return uids[:min(len(uids), 1)] }}
	}},
	{"due-by-status", "RefreshPending", onPage(func(_ backlog.Query, p *backlog.Page) {
		for i := range p.Records {
			if p.Records[i].Status == "SUCCESS" {
				p.Records = append(p.Records[:i:i], p.Records[i+1:]...)
				return
			}
		}
	})},
	{"start-a-step-late", "RefreshPending", onQuery(func(q *backlog.Query) { q.Now = q.Now.Add(-time.Microsecond) })},
	{"state-not-told", "RefreshPending", onRecord(func(r *backlog.Record) {
		if r.Refresh != nil {
			r.Refresh.FailingSince = time.Time{}
		}
	})},
}
