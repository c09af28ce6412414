package memory_test

import (
	"cmp"
	"context"
	"slices"

	"backlog/backlog"
	"backlog/backlog/memory"
)

type (
	settlements = []backlog.Settlement
	conflicts   = []backlog.Unsettled
)

// A writer spoils the settling. settle does the right thing.
type writer struct {
	*memory.Store
	spoiled func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error)
}

type settleFunc func(settlements) (conflicts, error)

func (s writer) Settle(ctx context.Context, group settlements) (conflicts, error) {
	return s.spoiled(s.Store, group, func(g settlements) (conflicts, error) { return s.Store.Settle(ctx, g) })
}

func onSettle(f func(*memory.Store, settlements, settleFunc) (conflicts, error)) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return writer{s, f} }
}

// onSettlement changes what is settled.
func onSettlement(f func(*memory.Store, *backlog.Settlement)) func(*memory.Store) backlog.Store {
	return onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		group = slices.Clone(group)
		for i := range group {
			f(s, &group[i])
		}
		return settle(group)
	})
}

// onUnsettled changes what is reported.
func onUnsettled(f func(group settlements, unsettled conflicts) conflicts) func(*memory.Store) backlog.Store {
	return onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		unsettled, err := settle(group)
		return f(group, unsettled), err
	})
}

// onSettledRow changes the rows afterwards. before is the row that was there.
func onSettledRow(f func(before memory.Row, g backlog.Settlement, row *memory.Row)) func(*memory.Store) backlog.Store {
	return onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
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

// onSnoozedRow changes the rows of records that are snoozed.
func onSnoozedRow(f func(before memory.Row, row *memory.Row)) func(*memory.Store) backlog.Store {
	return onSettledRow(func(before memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target == backlog.RowOther {
			f(before, row)
		}
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

// owned returns a copy of what a row remembers, which may be nil.
func owned(m *backlog.Memory) *backlog.Memory { return new(*cmp.Or(m, new(backlog.Memory))) }

// uncounted takes the number of failures that the row has for that which was read.
func uncounted(s *memory.Store, g *backlog.Settlement) {
	if row, ok := s.Row(g.Record.Key); ok {
		r := *g.Record
		r.Memory = owned(r.Memory)
		r.Memory.Failures = row.Memory.Failures
		g.Record = &r
	}
}

// inexact takes the number of attempts for that which was read.
func inexact(_ *memory.Store, g *backlog.Settlement) {
	r := *g.Record
	r.Exact = false
	g.Record = &r
}

// turn settles one outcome as another.
func turn(from, to backlog.RowState) func(*memory.Store) backlog.Store {
	return onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		if g.Target == from {
			g.Target = to
		}
	})
}

var settleMutants = []mutant{
	{"unguarded", "Guard", onSettlement(unguarded)},
	{"unguarded-among-fresh", "GuardWithNotes", onSettlement(unguarded)},
	{"unguarded-among-failed", "GuardWithNotes", onSettlement(unguarded)},
	{"unguarded-while-it-runs", "Promises", onSettlement(unguarded)},
	{"conflicts-not-said", "Promises", onUnsettled(func(settlements, conflicts) conflicts { return nil })},
	{"snooze-unguarded", "Snooze", onSettlement(unguarded)},
	{"snooze-not-kept", "Snooze", onSnoozedRow(func(before memory.Row, row *memory.Row) { row.Eligible = before.Eligible })},
	{"snooze-counts-an-attempt", "Snooze", onSnoozedRow(func(before memory.Row, row *memory.Row) { row.Attempts++ })},
	{"snooze-not-kept-where-planned", "PlannedSnooze", onSnoozedRow(func(before memory.Row, row *memory.Row) { row.Memory.Next = before.Memory.Next })},
	{"snooze-is-a-failure-where-planned", "PlannedSnooze", onSnoozedRow(func(before memory.Row, row *memory.Row) { row.Memory.LastFailure = before.Inserted })},
	{"count-unguarded", "CountedPromises", onSettlement(uncounted)},
	{"count-unguarded-where-planned", "PlannedPromises", onSettlement(uncounted)},
	{"count-unguarded-where-it-tells", "CountedPromisesErrorKeep", onSettlement(uncounted)},
	{"count-guards-a-success", "CountedPromises", onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		r := *g.Record
		r.Exact, r.Attempts = true, -1
		g.Record = &r
	})},
	{"written-twice", "Twice", onSettlement(inexact)},
	{"written-twice-without-a-status", "TwiceErrorKeep", onSettlement(inexact)},
	{"conflicts-not-told", "GuardWithNotes", onUnsettled(func(settlements, conflicts) conflicts { return nil })},
	{"conflicts-told-backwards", "Guard", onUnsettled(func(group settlements, list conflicts) conflicts {
		for i := range list {
			list[i].Index = len(group) - 1 - list[i].Index
		}
		return list
	})},
	{"conflicts-where-nothing-changes", "GuardWithNotes", onUnsettled(func(group settlements, list conflicts) conflicts {
		for i, g := range group { // rows affected, not rows found
			told := slices.ContainsFunc(list, func(u backlog.Unsettled) bool { return u.Index == i })
			if g.Record.Lane == backlog.Failed && g.Target == backlog.RowError && !told {
				list = append(list, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
			}
		}
		return list
	})},
	{"all-or-nothing", "Guard", onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		var told conflicts
		for i, g := range group {
			if row, ok := s.Row(g.Record.Key); !ok || row.Status != g.Record.Status {
				told = append(told, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
			}
		}
		if len(told) > 0 {
			return told, nil
		}
		return settle(group)
	})},
	{"group-of-499", "SettleGroupOf500", onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		return settle(group[:min(len(group), 499)])
	})},
	{"in-order-of-the-table", "SettleGroupOf2", onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		crossed := slices.Clone(group)
		for i := range crossed {
			crossed[i].Target = group[len(group)-1-i].Target
		}
		return settle(crossed)
	})},
	{"each-part-by-itself", "CompositeKeys", onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		for _, row := range s.Rows() {
			part := func(i int) bool {
				return slices.ContainsFunc(group, func(g backlog.Settlement) bool { return g.Record.Key.Part(i) == row.Key.Part(i) })
			}
			if row.Status == "NEW" && part(0) && part(1) {
				s.Update(row.Key, func(row *memory.Row) { row.Status = "SUCCESS" })
			}
		}
		return settle(group)
	})},
	{"lost-in-the-crowd", "Concurrency", onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		return settle(group[:min(len(group), 3)])
	})},
	{"error-is-success", "SettleWithoutDead", turn(backlog.RowError, backlog.RowSuccess)},
	{"reject-is-error", "SettleWithDead", turn(backlog.RowDead, backlog.RowError)},
	{"error-is-reject", "SettleErrorKeepWithDead", turn(backlog.RowError, backlog.RowDead)},
	{"error-not-kept", "SettleErrorKeep", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target != backlog.RowSuccess {
			row.Status = "ERROR"
		}
	})},
	{"attempts-not-counted", "SettleWithDead", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		row.Attempts = before.Attempts
	})},
	{"attempts-of-null", "SettleWithDead", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		if before.Attempts == 0 { // NULL + 1 is NULL
			row.Attempts = 0
		}
	})},
	{"success-clears-error", "SettleWithDead", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target == backlog.RowSuccess {
			row.LastError = ""
		}
	})},
	{"error-not-noted", "SettleWithDead", onSettledRow(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		row.LastError = before.LastError
	})},
	{"error-cut-by-bytes", "Errors", onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		g.Error = g.Error[:min(len(g.Error), 1000)]
	})},
	{"broken-text-refused", "Errors", onSettlement(func(_ *memory.Store, g *backlog.Settlement) {
		if slices.Contains([]byte(g.Error), 0) {
			g.Record = &backlog.Record{Key: key(-1)}
		}
	})},
	{"inserted-touched", "SettleWithDead", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		row.Inserted = g.At
	})},
	{"column-touched", "SettleWithDead", onSettledRow(func(_ memory.Row, _ backlog.Settlement, row *memory.Row) {
		row.Columns["payload"] = nil
	})},
	{"writes-when-cancelled", "Cancelled", func(s *memory.Store) backlog.Store { return deaf{s} }},
}
