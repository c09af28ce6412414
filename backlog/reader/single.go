package reader

import (
	"context"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

// Single returns a store over the table that has only one pending record, which is due.
func (v *View) Single(r backlog.Record) backlog.Store {
	return &single{Table: v.Table, record: r}
}

// A single is a store with one pending record, which is due.
type single struct {
	*table.Table
	record backlog.Record
	read   atomic.Bool // Pending has returned the record
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

// Overdue implements backlog.Beginner: there are none.
func (*single) Overdue(context.Context, time.Time, backlog.Cursor, int) ([]backlog.Record, error) {
	return nil, nil
}
