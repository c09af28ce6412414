package memory_test

import (
	"context"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A writer spoils the settling. settle does the right thing.
type writer struct {
	*memory.Store
	spoiled func(s *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error)
}

type settleFunc func([]backlog.Settlement) ([]backlog.Unsettled, error)

func (s writer) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	return s.spoiled(s.Store, group, func(g []backlog.Settlement) ([]backlog.Unsettled, error) { return s.Store.Settle(ctx, g) })
}

func onSettle(f func(*memory.Store, []backlog.Settlement, settleFunc) ([]backlog.Unsettled, error)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return writer{s, f} }
}

// onSettlement changes what is settled.
func onSettlement(f func(*memory.Store, *backlog.Settlement)) func(*memory.Store) backlog.Store {
	return onSettle(func(s *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		group = slices.Clone(group)
		for i := range group {
			f(s, &group[i])
		}
		return settle(group)
	})
}

// onUnsettled changes what is reported.
func onUnsettled(f func(group []backlog.Settlement, unsettled []backlog.Unsettled) []backlog.Unsettled) func(*memory.Store) backlog.Store {
	return onSettle(func(_ *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		unsettled, err := settle(group)
		return f(group, unsettled), err
	})
}

// onSettledRow changes the rows afterwards. before is the row that was there.
func onSettledRow(f func(before memory.Row, g backlog.Settlement, row *memory.Row)) func(*memory.Store) backlog.Store {
	return onSettle(func(s *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		before := make([]memory.Row, len(group))
		for i, g := range group {
			before[i], _ = s.Row(g.Record.Key)
		}
		unsettled, err := settle(group)
		for i, g := range group {
			if row, ok := s.Row(g.Record.Key); ok {
				f(before[i], g, &row)
				replace(s, row)
			}
		}
		return unsettled, err
	})
}

func replace(s *memory.Store, row memory.Row) {
	s.Delete(row.Key)
	if err := s.Insert(row); err != nil {
		panic(err)
	}
}

// unguarded takes the state that the row has for that which was read.
func unguarded(s *memory.Store, g *backlog.Settlement) {
	if row, ok := s.Row(g.Record.Key); ok {
		r := *g.Record
		r.Status = row.Status
		g.Record = &r
	}
}

// turn settles one outcome as another.
func turn(from, to backlog.Outcome) func(*memory.Store) backlog.Store {
	return onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		if g.Outcome == from {
			g.Outcome = to
		}
	})
}

var settleMutants = []mutant{
	{"unguarded", "Guard", onSettlement(unguarded)},
	{"unguarded-twice", "SettleTwice", onSettlement(unguarded)},
	{"unguarded-among-fresh", "GuardOfTwoFreshStatuses", onSettlement(unguarded)},
	{"unguarded-among-failed", "GuardOfUnchangedStatus", onSettlement(unguarded)},
	{"conflicts-not-told", "GuardWithNotes", onUnsettled(func([]backlog.Settlement, []backlog.Unsettled) []backlog.Unsettled { return nil })},
	{"conflicts-told-backwards", "Guard", onUnsettled(func(group []backlog.Settlement, list []backlog.Unsettled) []backlog.Unsettled {
		for i := range list {
			list[i].Index = len(group) - 1 - list[i].Index
		}
		return list
	})},
	{"conflicts-where-nothing-changes", "GuardOfUnchangedStatus", onUnsettled(func(group []backlog.Settlement, list []backlog.Unsettled) []backlog.Unsettled {
		for i, g := range group { // rows affected, not rows found
			if g.Record.Lane == backlog.Failed && g.Outcome == backlog.Errored && !slices.ContainsFunc(list, func(u backlog.Unsettled) bool { return u.Index == i }) {
				list = append(list, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
			}
		}
		return list
	})},
	{"all-or-nothing", "Guard", onSettle(func(s *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		var conflicts []backlog.Unsettled
		for i, g := range group {
			if row, ok := s.Row(g.Record.Key); !ok || row.Status != g.Record.Status {
				conflicts = append(conflicts, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
			}
		}
		if len(conflicts) > 0 {
			return conflicts, nil
		}
		return settle(group)
	})},
	{"group-of-499", "SettleGroupOf500", onSettle(func(_ *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		return settle(group[:min(len(group), 499)])
	})},
	{"in-order-of-the-table", "SettleGroupOf2", onSettle(func(_ *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		crossed := slices.Clone(group)
		for i := range crossed {
			crossed[i].Outcome = group[len(group)-1-i].Outcome
		}
		return settle(crossed)
	})},
	{"each-part-by-itself", "CompositeKeys", onSettle(func(s *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		for _, row := range s.Rows() {
			part := func(i int) bool {
				return slices.ContainsFunc(group, func(g backlog.Settlement) bool { return g.Record.Key.Part(i) == row.Key.Part(i) })
			}
			if row.Status == "NEW" && part(0) && part(1) {
				s.SetStatus(row.Key, "SUCCESS")
			}
		}
		return settle(group)
	})},
	{"lost-in-the-crowd", "Concurrency", onSettle(func(_ *memory.Store, group []backlog.Settlement, settle settleFunc) ([]backlog.Unsettled, error) {
		return settle(group[:min(len(group), 3)])
	})},
	{"error-is-success", "SettleWithoutDead", turn(backlog.Errored, backlog.Succeeded)},
	{"reject-is-error", "SettleWithDead", turn(backlog.Rejected, backlog.Errored)},
	{"error-is-reject", "SettleErrorKeepWithDead", turn(backlog.Errored, backlog.Rejected)},
	{"error-not-kept", "SettleErrorKeep", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Outcome != backlog.Succeeded {
			row.Status = "ERROR"
		}
	})},
	{"attempts-not-counted", "NotesOfAttempts", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) { row.Attempts = before.Attempts })},
	{"attempts-of-null", "NotesOfAttempts", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		if before.Attempts == 0 { // NULL + 1 is NULL
			row.Attempts = 0
		}
	})},
	{"success-clears-error", "NotesOfErrors", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Outcome == backlog.Succeeded {
			row.LastError = ""
		}
	})},
	{"error-not-noted", "NotesOfErrors", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) { row.LastError = before.LastError })},
	{"error-cut-by-bytes", "NotesOfLongErrors", onSettlement(func(_ *memory.Store, g *backlog.Settlement) { g.Error = g.Error[:min(len(g.Error), 1000)] })},
	{"broken-text-refused", "NotesOfBrokenText", onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		if slices.Contains([]byte(g.Error), 0) {
			g.Record = &backlog.Record{Key: key(-1)}
		}
	})},
	{"inserted-touched", "SettleTouchesNothingElse", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) { row.Inserted = g.At })},
	{"column-touched", "SettleTouchesNothingElse", onSettledRow(func(_ memory.Row, _ backlog.Settlement, row *memory.Row) { row.Columns["payload"] = nil })},
	{"writes-when-cancelled", "SettleCancelled", func(s *memory.Store) backlog.Store { return deaf{s} }},
}

// An expirer spoils the expiry.
type expirer struct {
	*memory.Store
	expire func(s *memory.Store, before time.Time, expire func(time.Time) int) int
}

func (s expirer) Expire(ctx context.Context, before time.Time) (int, error) {
	return s.expire(s.Store, before, func(b time.Time) int {
		n, _ := s.Store.Expire(ctx, b)
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
				s.SetStatus(row.Key, "DEAD")
			}
		}
		return n
	}
}
