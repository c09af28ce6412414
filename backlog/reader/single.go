package reader

import (
	"context"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/refresh"
)

// Single returns a store of the table in which one pending record is due, and no other record is looked at.
func (v *View) Single(r backlog.Record) backlog.Store {
	one := &single{Table: v.Table, record: r}
	if v.Attempts != nil {
		return &singleAttempt{v.Attempts, one}
	}
	return one
}

// A single has one pending record, which is due.
type single struct {
	*table.Table
	record backlog.Record
	read   atomic.Bool
}

// Pending implements backlog.Store.
func (s *single) Pending(_ context.Context, q backlog.Query) (p backlog.Page, err error) {
	if q.Lane == backlog.Fresh && s.read.CompareAndSwap(false, true) {
		p.Records = []backlog.Record{s.record}
	}
	return p, nil
}

// Strays implements backlog.StrayFinder: there are none.
func (*single) Strays(context.Context, backlog.Query) ([]backlog.Unreadable, error) { return nil, nil }

// A singleAttempt is a single of the policy refresh.
type singleAttempt struct {
	*refresh.Store
	one *single
}

// Pending implements backlog.Store.
func (s *singleAttempt) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	return s.one.Pending(ctx, q)
}

// Strays implements backlog.StrayFinder: there are none.
func (*singleAttempt) Strays(context.Context, backlog.Query) ([]backlog.Unreadable, error) {
	return nil, nil
}

// Overdue implements backlog.Beginner: there are none.
func (*singleAttempt) Overdue(context.Context, time.Time, backlog.Cursor, int) ([]backlog.Record, error) {
	return nil, nil
}
