package work

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// transact runs the statements for the record in the transaction that in makes. Its
// own errors are those that handlers give: what keeps the work from beginning is
// none of the record's.
func (w *SQLHandler) transact(ctx context.Context, in func(context.Context, func(*sql.Tx) error) error, r *backlog.Record) error {
	if w.d.Write == nil {
		return backlog.Unstarted(db.Problemf("open it to be written to", "the database is open to be read only"))
	}
	begun := false
	err := w.d.Patiently(ctx, func(ctx context.Context) error {
		prepared, err := w.prepare(ctx)
		if err != nil {
			return err
		}
		return in(ctx, func(tx *sql.Tx) error {
			begun = true
			return w.run(ctx, tx, r, prepared)
		})
	})
	s, isStep := errors.AsType[*stepError](err)
	switch {
	case err == nil || errors.Is(err, backlog.ErrConflict) || errors.Is(err, backlog.Skip):
		return err
	case ctx.Err() != nil && !begun:
		return fmt.Errorf("%w: another transaction was not over in time: %w", backlog.ErrUnavailable, context.Cause(ctx))
	case ctx.Err() != nil && isStep: // the driver's error says no more than that
		return &stepError{s.n, context.Cause(ctx)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isStep && w.d.Class(s.err) == db.Denied:
		return backlog.Unstarted(w.denied(s.n-1, s.err))
	}
	return w.d.Wrap(ctx, err)
}

// prepare returns the statements, prepared when they are first needed.
func (w *SQLHandler) prepare(ctx context.Context) ([]*db.Statement, error) {
	list := make([]*db.Statement, len(w.steps))
	for i := range w.steps {
		s, err := w.prepared.Prepare(ctx, w.d.Write, w.steps[i].text)
		if err != nil {
			err = w.misunderstood(i, err)
			if p := (*db.Problem)(nil); errors.As(err, &p) {
				err = backlog.Unstarted(err)
			}
			return nil, err
		}
		list[i] = s
	}
	return list, nil
}
