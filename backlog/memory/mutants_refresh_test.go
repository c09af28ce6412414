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
		g.Record.Memory = &row.Memory
	}
}

var refreshMutants = []mutant{
	{"begin-unguarded", "RefreshAttempts", onBegin(asItIs)},
	{"begin-twice", "RefreshBeginTwice", onBegin(asItIs)},
	{"begin-rounds-down", "RefreshAttempts", onBegin(func(_ *memory.Store, g *backlog.Settlement) {
		g.Memory.Deadline = g.Memory.Deadline.Truncate(time.Microsecond)
	})},
	{"end-by-any-token", "RefreshPromises", onSettlement(asItIs)},
	{"end-of-a-saved-row", "RefreshAttempts", onSettlement(func(s *memory.Store, g *backlog.Settlement) {
		if row, ok := s.Row(g.Record.Key); ok {
			row.Memory.Next = row.Memory.Deadline // whatever was saved
			s.Update(row.Key, func(r *memory.Row) { r.Memory = row.Memory })
		}
	})},
	{"end-writes-all", "RefreshPromises", onSettlement(func(s *memory.Store, g *backlog.Settlement) {
		if row, ok := s.Row(g.Record.Key); ok {
			row.Memory.Disabled, row.Memory.Reason = false, ""
			s.Update(row.Key, func(r *memory.Row) { r.Memory = row.Memory })
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
		if r.Memory != nil {
			r.Memory.FailingSince = time.Time{}
		}
	})},
	{"begin-of-a-disabled-row", "RefreshPromises", onBegin(func(s *memory.Store, g *backlog.Settlement) {
		s.Update(g.Record.Key, func(r *memory.Row) { r.Memory.Disabled = false })
	})},
	{"begin-of-a-started-row", "RefreshPromises", onBegin(func(s *memory.Store, g *backlog.Settlement) {
		s.Update(g.Record.Key, func(r *memory.Row) { r.Memory.UID = g.Record.Memory.UID })
	})},
	{"end-without-a-deadline", "RefreshPromises", onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		r := *g.Record
		r.Memory = new(*r.Memory)
		r.Memory.Deadline = time.Time{}
		g.Record = &r
	})},
	{"end-over-a-save", "RefreshPromises", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Memory.Deadline.IsZero() && row.Memory.UID == "" && !g.Memory.Next.IsZero() {
			row.Memory.Next = g.Memory.Next
		}
	})},
	{"end-clears-the-text", "RefreshPromises", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		row.Memory.Reason = g.Memory.Reason
	})},
	{"end-counts-anew", "RefreshPromises", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		row.Memory.AttemptNo = g.Memory.AttemptNo
	})},
	{"saved-row-is-dead", "RefreshPromises", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Error != "" && row.Memory.AttemptNo > 3 {
			row.Status = "DEAD"
		}
	})},
	{"conflicts-of-ends-not-said", "RefreshPromises", onUnsettled(func(settlements, conflicts) conflicts { return nil })},
	{"running-for-ever", "RefreshPromises", func(s *memory.Store) backlog.Store { return tireless{s} }},
}

// A tireless store says that every attempt is a running one, whatever was saved.
type tireless struct{ *memory.Store }

// Running returns the record of any row in place of one whose UID is gone.
func (s tireless) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	list, err := s.Store.Running(ctx, uids)
	if len(list) == 0 && len(uids) > 0 {
		row := s.Rows()[0]
		list = append(list, backlog.Record{Key: row.Key, Memory: &backlog.Memory{UID: uids[0]}})
	}
	return list, err
}
