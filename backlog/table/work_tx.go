package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"backlog/backlog"
)

// transact calls f in a transaction that writes, with the statements of the
// steps and, behind them, the settlements by state. It undoes what f has done
// when that returns an error or panics. Its own errors are those that handlers
// give: what keeps the work from beginning is none of the record's.
func (w *Work) transact(ctx context.Context, f func(tx *sql.Tx, prepared []*statement) error) error {
	t := w.t
	if t.db.write == nil {
		return backlog.Unstarted(problem("open it to be written to", "the database is open to be read only"))
	}
	begun := false
	err := t.db.patiently(ctx, func(ctx context.Context) error {
		prepared, err := w.prepare(ctx)
		if err != nil {
			return err
		}
		return t.inTx(ctx, func(tx *sql.Tx) error {
			begun = true
			ended := false
			// inTx would wait for ever for the end of a transaction
			// that a panic has left.
			defer func() {
				if !ended {
					tx.Rollback()
				}
			}()
			err := f(tx, prepared)
			ended = true
			return err
		})
	})
	switch {
	case err == nil || errors.Is(err, backlog.ErrConflict) || errors.Is(err, backlog.Skip):
		return err
	case ctx.Err() != nil && !begun:
		return fmt.Errorf("%w: another transaction was not over in time: %w", backlog.ErrAway, context.Cause(ctx))
	case ctx.Err() != nil: // the driver's error says no more than that
		if s := (*stepError)(nil); errors.As(err, &s) {
			return &stepError{s.n, context.Cause(ctx)}
		}
		return context.Cause(ctx)
	}
	if s := (*stepError)(nil); errors.As(err, &s) {
		if p := w.ungranted(ctx, s.n-1, s.err); p != nil {
			return backlog.Unstarted(p)
		}
	}
	return t.db.wrap(ctx, err)
}

// prepare returns the statements, prepared when they are first needed.
func (w *Work) prepare(ctx context.Context) ([]*statement, error) {
	if have := w.prepared.Load(); have != nil {
		return *have, nil
	}
	list := make([]*statement, 0, len(w.steps)+len(w.settlements))
	for i := range w.steps {
		s, err := w.t.prepare(ctx, w.t.db.write, w.steps[i].text)
		if err != nil {
			err = w.misunderstood(ctx, i, err)
			if p := (*Problem)(nil); errors.As(err, &p) {
				err = backlog.Unstarted(err)
			}
			return nil, err
		}
		list = append(list, s)
	}
	for _, text := range slices.Concat(w.locks, w.settlements) {
		var s *statement
		if text != "" {
			var err error
			if s, err = w.t.prepare(ctx, w.t.db.write, w.t.d.place(text)); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	w.prepared.Store(&list)
	return list, nil
}
