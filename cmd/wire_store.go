package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
)

// A provenStore is the table for passes. It proves that the table takes what
// settlements write when the first record comes up, so that a pass without work
// costs nothing for it, and again, with the table found anew, after whatever
// only a person can mend: until then no record comes up.
type provenStore struct {
	app   *app
	table atomic.Pointer[table.Table] // as it was found last

	mu      sync.Mutex
	now     time.Time // of the last pass
	proven  bool
	doubted bool            // something went wrong since it was found
	undone  error           // why nothing is handed out any more: what is written is undone
	said    map[string]bool // notes that have been logged
}

var (
	_ backlog.Store   = (*provenStore)(nil)
	_ backlog.Pinger  = (*provenStore)(nil)
	_ backlog.Expirer = (*provenStore)(nil)
	_ backlog.Prover  = (*provenStore)(nil)
)

func newProvenStore(a *app, now time.Time) *provenStore {
	s := &provenStore{app: a, now: now, said: make(map[string]bool)}
	s.table.Store(a.table)
	return s
}

// sayNotes logs the table's notes, each once.
func (s *provenStore) sayNotes() {
	for _, n := range s.table.Load().Notes() {
		if !s.said[n] {
			s.app.log.Warn(n)
			s.said[n] = true
		}
	}
}

// prove may be called again after an error: a database that is away proves
// nothing, and what was wrong may have been mended.
func (s *provenStore) prove(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proven || s.undone != nil {
		return s.undone
	}
	if s.doubted {
		t, err := s.find(ctx)
		if err != nil {
			return err
		}
		s.table.Store(t)
		s.doubted = false
	}
	err := s.table.Load().ProveWrites(ctx, s.now)
	s.proven = err == nil
	s.doubted = !s.proven && !errors.Is(err, backlog.ErrAway)
	if !errors.Is(err, backlog.ErrAway) {
		s.sayNotes()
	}
	return err
}

// find returns the table as it is now, if records of it suit the handlers.
func (s *provenStore) find(ctx context.Context) (*table.Table, error) {
	t, err := table.New(ctx, s.app.db, mapping(s.app.cfg))
	if err != nil {
		return nil, err
	}
	if err := t.ProveTimes(ctx, s.now); err != nil {
		return nil, fmt.Errorf("table %s: %w", s.app.cfg.Table.Name, err)
	}
	return t, s.app.suits(t)
}

// doubts reports whether the error of a call says that the table may not be as
// it was proved to be. Then nothing is proved any more.
func (s *provenStore) doubts(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || errors.Is(err, backlog.ErrAway) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven, s.doubted = false, true
	return true
}

// trusted calls f with the table. Where that fails for something that may have
// been mended, or is another table by now, it is called again after a proof.
func (s *provenStore) trusted(ctx context.Context, f func(*table.Table) error) error {
	err := f(s.table.Load())
	if !s.doubts(ctx, err) {
		return err
	}
	if perr := s.prove(ctx); perr != nil {
		return perr
	}
	err = f(s.table.Load())
	s.doubts(ctx, err)
	return err
}

// begin proves what is in doubt before a pass goes on at a time.
func (s *provenStore) begin(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	s.now = now
	doubted := s.doubted
	s.mu.Unlock()
	if doubted {
		return s.prove(ctx)
	}
	return nil
}

// Pending implements backlog.Store.
func (s *provenStore) Pending(ctx context.Context, q backlog.Query) (p backlog.Page, err error) {
	if err := s.begin(ctx, q.Now); err != nil {
		return p, err
	}
	err = s.trusted(ctx, func(t *table.Table) (err error) {
		p, err = t.Pending(ctx, q)
		return err
	})
	if err == nil && len(p.Records) > 0 {
		err = s.prove(ctx)
	}
	return p, err
}

// Settle implements backlog.Store.
func (s *provenStore) Settle(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
	err = s.trusted(ctx, func(t *table.Table) (err error) {
		left, err = t.Settle(ctx, group)
		return err
	})
	for _, u := range left {
		if table.IsUndone(u.Err) {
			s.mu.Lock()
			s.undone, s.doubted = u.Err, true
			s.mu.Unlock()
		}
	}
	return left, err
}

// Expire implements backlog.Expirer.
func (s *provenStore) Expire(ctx context.Context, now, before time.Time, each func(*backlog.Record) bool) (n int, err error) {
	if err := s.begin(ctx, now); err != nil {
		return 0, err
	}
	t := s.table.Load()
	if t.HasDead() {
		if err := s.prove(ctx); err != nil {
			return 0, err
		}
	}
	n, err = t.Expire(ctx, now, before, each) // not twice: each may have been told
	s.doubts(ctx, err)
	return n, err
}

// Ping implements backlog.Pinger.
func (s *provenStore) Ping(ctx context.Context) error { return s.table.Load().Ping(ctx) }

// Prove implements backlog.Prover.
func (s *provenStore) Prove(ctx context.Context) error {
	s.mu.Lock()
	s.proven, s.doubted = false, true
	s.mu.Unlock()
	return s.prove(ctx)
}

// suits returns an error unless the handlers can work on records of the table,
// which has been found anew.
func (a *app) suits(t *table.Table) error {
	if err := hasColumns(t, "handler", a.handler); err != nil {
		return err
	}
	if err := hasColumns(t, "on_dead", a.onDead); err != nil {
		return err
	}
	if _, ok := a.handler.(*table.Work); ok && !slices.Equal(t.Given(), a.table.Given()) {
		return fmt.Errorf("the columns of table %s are not those that handler.sql was made for; reload the configuration, or restart", a.cfg.Table.Name)
	}
	return nil
}
