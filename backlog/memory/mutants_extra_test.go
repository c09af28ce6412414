package memory_test

import (
	"context"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/memory"
	"backlog/backlog/storetest"
)

// An expirer spoils the expiry.
type expirer struct {
	*memory.Store
	expire func(s *memory.Store, before time.Time, expire func(time.Time) int) int
}

func (s expirer) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	return s.expire(s.Store, x.Before, func(b time.Time) int {
		x.Before = b
		n, _ := s.Store.Expire(ctx, x)
		return n
	}), nil
}

func onExpire(f func(*memory.Store, time.Time, func(time.Time) int) int) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return expirer{s, f} }
}

// kill makes dead whatever row it is asked to.
func kill(which func(memory.Row) bool) func(*memory.Store, time.Time, func(time.Time) int) int {
	return func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		n := expire(before)
		for _, row := range s.Rows() {
			if which(row) {
				s.Update(row.Key, func(row *memory.Row) { row.Status = "DEAD" })
			}
		}
		return n
	}
}

// A counter spoils the counting.
type counter struct {
	*memory.Store
	edges  func([]time.Duration) []time.Duration
	counts func(*inspect.Counts)
}

func (s counter) Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error) {
	if s.edges != nil {
		edges = s.edges(edges)
	}
	counts, err := s.Store.Count(ctx, now, edges)
	if s.counts != nil {
		s.counts(&counts)
	}
	return counts, err
}

func onCounts(f func(*inspect.Counts)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return counter{Store: s, counts: f} }
}

// A locker spoils the locks.
type locker struct {
	*memory.Store
	try func(s *memory.Store, ctx context.Context, name string) (backlog.Lock, error)
}

func (s locker) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return s.try(s.Store, ctx, name)
}

// An openLock locks nothing.
type openLock struct{ err error }

func (l openLock) Check(context.Context) error { return l.err }
func (l openLock) Unlock() error               { return nil }

// A rehearser spoils the rehearsal of a group.
type rehearser struct{ *memory.Store }

// Rehearse writes the group.
func (s rehearser) Rehearse(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	return s.Settle(ctx, group)
}

// A rash store announces each death, whether the row takes it or not.
type rash struct{ *memory.Store }

func (s rash) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	refused := x.Refused
	x.Refused = func(r *backlog.Record, why error) {
		if x.BeforeDeath != nil {
			x.BeforeDeath(r)
		}
		refused(r, why)
	}
	return s.Store.Expire(ctx, x)
}

var extraMutants = []mutant{
	{"rehearsal-is-written", "Refused", func(s *memory.Store) backlog.Store { return rehearser{s} }},
	{"refused-are-announced", "Refused", func(s *memory.Store) backlog.Store { return rash{s} }},
	{"refused-stop-the-expiry", "Refused", onExpire(func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		for _, row := range s.Rows() {
			if row.Columns["note"] == storetest.Stuck {
				return 0
			}
		}
		return expire(before)
	})},
	{"expires-at-the-edge", "Expire", onExpire(func(_ *memory.Store, before time.Time, expire func(time.Time) int) int {
		return expire(before.Add(1))
	})},
	{"expires-nothing", "Expire", onExpire(func(*memory.Store, time.Time, func(time.Time) int) int { return 0 })},
	{"expires-a-group", "Expire", onExpire(func(_ *memory.Store, before time.Time, expire func(time.Time) int) int {
		return min(expire(before), backlog.MaxGroup)
	})},
	{"expires-success", "Expire", onExpire(kill(func(r memory.Row) bool { return r.Status == "SUCCESS" }))},
	{"expires-without-dead", "ExpireWithoutDead", onExpire(kill(func(r memory.Row) bool { return r.Status == "ERROR" }))},
	{"expires-without-date", "Expire", onExpire(kill(func(r memory.Row) bool { return r.Inserted.IsZero() }))},
	{"expires-as-an-attempt", "Expire", onExpire(func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		n := expire(before)
		for _, row := range s.Rows() {
			if row.Status == "DEAD" {
				row.Attempts++
				replace(s, row)
			}
		}
		return n
	})},
	{"expires-when-cancelled", "Cancelled", func(s *memory.Store) backlog.Store { return deaf{s} }},
	{"band-edge-exclusive", "Countskip", func(s *memory.Store) backlog.Store {
		return counter{Store: s, edges: func(edges []time.Duration) []time.Duration {
			var less []time.Duration
			for _, e := range edges {
				less = append(less, e-1)
			}
			return less
		}}
	}},
	{"beyond-left-out", "Countskip", onCounts(func(c *inspect.Counts) { c.Beyond = inspect.Band{} })},
	{"oldest-left-out", "Countskip", onCounts(func(c *inspect.Counts) { c.Beyond.Oldest = inspect.Stamp{} })},
	{"failed-as-fresh", "Countskip", onCounts(func(c *inspect.Counts) {
		c.Beyond.Fresh, c.Beyond.Failed = c.Beyond.Fresh+c.Beyond.Failed, 0
	})},
	{"no-date-left-out", "Countskip", onCounts(func(c *inspect.Counts) { c.Unreadable = 0 })},
	{"others-left-out", "Countskip", onCounts(func(c *inspect.Counts) { delete(c.ByStatus, "ON HOLD") })},
	{"null-left-out", "Countskip", onCounts(func(c *inspect.Counts) { delete(c.ByStatus, "NULL") })},
	{"lock-for-all", "Lock", func(s *memory.Store) backlog.Store {
		return locker{s, func(*memory.Store, context.Context, string) (backlog.Lock, error) { return openLock{}, nil }}
	}},
	{"lock-of-one-name", "Lock", func(s *memory.Store) backlog.Store {
		return locker{s, func(s *memory.Store, ctx context.Context, _ string) (backlog.Lock, error) {
			return s.TryLock(ctx, backlog.RunLock)
		}}
	}},
	{"lock-lost-at-once", "Lock", func(s *memory.Store) backlog.Store {
		return locker{s, func(s *memory.Store, ctx context.Context, name string) (backlog.Lock, error) {
			_, err := s.TryLock(ctx, name)
			return openLock{context.Canceled}, err
		}}
	}},
	{"lock-never-given-up", "Lock", func(s *memory.Store) backlog.Store {
		return locker{s, func(s *memory.Store, ctx context.Context, name string) (backlog.Lock, error) {
			_, err := s.TryLock(ctx, name)
			return openLock{}, err
		}}
	}},
}
