package table

import (
	"context"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

var _ backlog.Locker = (*Table)(nil)

// TryLock takes the named lock of the table's only work. It leaves no marks.
func (t *Table) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return t.Locker(backlog.Work{}).TryLock(ctx, name)
}

// Locker returns what takes the locks of a work on the table. Its TryLock returns a
// *backlog.Rival where who has the lock has other marks.
func (t *Table) Locker(w backlog.Work) backlog.Locker { return workLocker{t, w} }

type workLocker struct {
	table *Table
	work  backlog.Work
}

// TryLock implements backlog.Locker.
func (l workLocker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return l.table.db.Lock(ctx, l.table.catalog, db.LockName{Name: name, Work: l.work})
}

// Rival compares the work with that of who has the named lock. It is nil where that is
// the same one, or the lock is free.
func (t *Table) Rival(ctx context.Context, name string, w backlog.Work) (*backlog.Rival, error) {
	return t.db.Rival(ctx, t.db.Read, t.catalog, db.LockName{Name: name, Work: w})
}
