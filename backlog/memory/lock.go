package memory

import (
	"cmp"
	"context"
	"fmt"

	"backlog/backlog"
)

// TryLock implements [backlog.Locker] between the users of one Store.
func (s *Store) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[name] != nil {
		return nil, backlog.ErrLocked
	}
	l := &lock{store: s, name: name}
	s.locks[name] = l
	return l, nil
}

type lock struct {
	store *Store
	name  string
}

// Check implements [backlog.Lock].
func (l *lock) Check(ctx context.Context) error {
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	return cmp.Or(ctx.Err(), l.held())
}

// Unlock implements [backlog.Lock]. Unlocking twice is an error and leaves
// the next holder's lock alone.
func (l *lock) Unlock() error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if err := l.held(); err != nil {
		return err
	}
	delete(l.store.locks, l.name)
	return nil
}

func (l *lock) held() error {
	if l.store.locks[l.name] != l {
		return fmt.Errorf("memory: the %s lock is no longer held", l.name)
	}
	return nil
}
