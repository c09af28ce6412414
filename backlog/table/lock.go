package table

import (
	"context"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

var _ backlog.Locker = (*Table)(nil)

// TryLock takes the named lock on the table, for a program whose work has no marks.
func (t *Table) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return t.Locker(backlog.Work{}).TryLock(ctx, name)
}

// Locker returns a locker for a work on the table. Its TryLock returns a [*backlog.Rival] if
// the lock is held by a work with other marks.
func (t *Table) Locker(w backlog.Work) backlog.Locker { return workLocker{t, w} }

// A workLocker takes locks on the table for a work.
type workLocker struct {
	table *Table
	work  backlog.Work
}

// TryLock implements backlog.Locker.
func (l workLocker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return l.table.db.Lock(ctx, l.table.catalog, db.LockName{Name: name, Work: l.work})
}

// Rival compares the work with the one that holds the named lock. It returns nil if both have
// the same marks, or the lock is free.
func (t *Table) Rival(ctx context.Context, name string, w backlog.Work) (*backlog.Rival, error) {
	return t.db.Rival(ctx, t.db.Read, t.catalog, db.LockName{Name: name, Work: w})
}
