package memory_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/memory"
)

// A policyMutant has another policy than it is told.
type policyMutant struct {
	name, catch string
	change      func(*backlog.Policy)
}

var policyMutants = []policyMutant{
	{"retries-ignored", "CountedWalkskip", func(p *backlog.Policy) { p.Retries = -1 }},
	{"planned-retries-ignored", "PlannedWalkskip", func(p *backlog.Policy) { p.Retries = -1 }},
	{"one-retry-more", "CountedWalkskip", func(p *backlog.Policy) { p.Retries++ }},
	{"one-retry-less", "CountedErrorKeepWalk", func(p *backlog.Policy) { p.Retries-- }},
	{"wait-of-the-next-number", "CountedWalkskip", waits(func(n int) int { return n + 1 })},
	{"wait-of-the-number-before", "CountedEndlessWalk", waits(func(n int) int { return max(n-1, 1) })},
	{"endless-is-not", "CountedEndlessErrorKeepWalkskip", func(p *backlog.Policy) { p.Retries = 1000 }},
	{"planned-is-counted", "PlannedWalkskip", func(p *backlog.Policy) { p.Planned = false }},
	{"policy-ignored-in-walks", "CountedRandom", waits(func(int) int { return 1 })},
}

// waits gives a policy the waits of other numbers of failures.
func waits(of func(int) int) func(*backlog.Policy) {
	return func(p *backlog.Policy) {
		wait := p.Wait
		p.Wait = func(n int) (least, most time.Duration) { return wait(of(n)) }
	}
}

// onFailed changes the queries of the failed lane.
func onFailed(f func(*backlog.Query)) func(*memory.Store) backlog.Store {
	return onQuery(func(q *backlog.Query) {
		if q.Lane == backlog.Failed {
			f(q)
		}
	})
}

// onFailure changes the rows that have failed afterwards.
func onFailure(f func(before memory.Row, g backlog.Settlement, row *memory.Row)) func(*memory.Store) backlog.Store {
	return onSettledRow(func(before memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target != backlog.RowSuccess {
			f(before, g, row)
		}
	})
}

// timesOf writes the times of one settlement of the group to all of it.
func timesOf(which func(n int) int) func(*memory.Store) backlog.Store {
	return onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		group = slices.Clone(group)
		for i := range group {
			at := group[which(len(group))].At
			group[i].At = at
			if m := group[i].Memory; m != nil {
				group[i].Memory = owned(m)
				group[i].Memory.LastFailure = at
			}
		}
		return settle(group)
	})
}

// onEach changes what an expiry tells of.
func onEach(f func(each func(*backlog.Record) bool) func(*backlog.Record) bool) func(*memory.Store) backlog.Store {
	return func(s *memory.Store) backlog.Store { return teller{s, f} }
}

type teller struct {
	*memory.Store
	each func(func(*backlog.Record) bool) func(*backlog.Record) bool
}

func (s teller) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	if x.BeforeDeath != nil {
		x.BeforeDeath = s.each(x.BeforeDeath)
	}
	return s.Store.Expire(ctx, x)
}

// untelling does not say what has died.
type untelling struct{ *memory.Store }

func (s untelling) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	x.Died = func([]backlog.Record, int) {}
	return s.Store.Expire(ctx, x)
}

var retryMutants = []mutant{
	{"due-a-step-late", "CountedWalkskip", onFailed(func(q *backlog.Query) { q.Now = q.Now.Add(-1) })},
	{"due-a-step-early", "PlannedWalkskip", onFailed(func(q *backlog.Query) { q.Now = q.Now.Add(time.Microsecond) })},
	{"newest-failure-first", "CountedWalkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		if q.Lane == backlog.Failed {
			slices.Reverse(p.Records)
		}
	})},
	{"in-order-of-insertion", "PlannedWalkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		slices.SortStableFunc(p.Records, func(a, b backlog.Record) int { return b.Inserted.Compare(a.Inserted) })
	})},
	{"numbers-not-merged", "CountedWalkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		slices.SortStableFunc(p.Records, func(a, b backlog.Record) int { return cmp.Compare(a.Memory.Failed(), b.Memory.Failed()) })
	})},
	{"never-tried-last", "CountedWalkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		slices.SortStableFunc(p.Records, func(a, b backlog.Record) int {
			return cmp.Compare(min(-owned(a.Memory).LastFailure.Unix(), 0), min(-owned(b.Memory).LastFailure.Unix(), 0))
		})
	})},
	{"null-never-due", "PlannedWalkskip", onPage(func(q backlog.Query, p *backlog.Page) {
		p.Records = slices.DeleteFunc(p.Records, func(r backlog.Record) bool { return q.Lane == backlog.Failed && owned(r.Memory).Next.IsZero() })
	})},
	{"pages-cut-short", "CountedNotDue", onPage(func(q backlog.Query, p *backlog.Page) { // as by rows that are not due
		if n := len(p.Records); n > 1 {
			p.Records, p.More, p.Next = p.Records[:n/2], true, p.Records[n/2-1].Cursor
		}
	})},
	{"any-age", "CountedWalkskip", onFailed(func(q *backlog.Query) { q.Since = q.Since.Add(-100 * 24 * time.Hour) })},
	{"widest-always-when-failed", "PlannedWalkoldest", onFailed(func(q *backlog.Query) { q.Widest = true })},
	{"failures-not-read", "CountedWalkskip", onRecord(func(r *backlog.Record) {
		r.Memory = owned(r.Memory)
		r.Memory.Failures = 0
	})},

	{"failures-not-counted", "CountedSettle", onFailure(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		row.Memory.Failures = before.Memory.Failures
	})},
	{"failures-counted-twice", "PlannedSettle", onFailure(func(_ memory.Row, _ backlog.Settlement, row *memory.Row) { row.Memory.Failures++ })},
	{"failures-below-zero", "CountedSettle", onFailure(func(before memory.Row, _ backlog.Settlement, row *memory.Row) {
		row.Memory.Failures = before.Memory.Failures + 1
	})},
	{"rejected-is-no-failure", "CountedSettleWithDead", onFailure(func(before memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target == backlog.RowDead {
			row.Memory = before.Memory
		}
	})},
	{"success-clears-the-count", "CountedSettle", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target == backlog.RowSuccess {
			row.Memory.Failures = 0
		}
	})},
	{"success-is-a-failure", "PlannedSettle", onSettledRow(func(_ memory.Row, g backlog.Settlement, row *memory.Row) {
		if g.Target == backlog.RowSuccess {
			row.Memory.LastFailure = g.At
		}
	})},
	{"success-still-in-retry", "PlannedSettle", onSettledRow(func(before memory.Row, g backlog.Settlement, row *memory.Row) {
		row.InRetry = row.InRetry || g.Target == backlog.RowSuccess && before.InRetry
	})},
	{"never-in-retry", "PlannedSettleGroupOf1", onFailure(func(_ memory.Row, _ backlog.Settlement, row *memory.Row) { row.InRetry = false })},
	{"given-up-in-retry", "PlannedSettle", onFailure(func(_ memory.Row, _ backlog.Settlement, row *memory.Row) { row.InRetry = true })},
	{"given-up-still-planned", "PlannedSettle", onFailure(func(_ memory.Row, g backlog.Settlement, row *memory.Row) { row.Memory.Next = g.At })},
	{"given-up-not-dead", "CountedSettleWithDead", onSettlement(func(_ *memory.Store, g *backlog.Settlement) { g.Target = backlog.RowError })},
	{"times-of-the-last", "CountedSettleGroupOf2", timesOf(func(n int) int { return n - 1 })},
	{"times-of-the-first", "PlannedSettleCompositeKeys", timesOf(func(int) int { return 0 })},
	{"next-of-the-first", "PlannedSettleGroupOf500", onSettle(func(_ *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		group = slices.Clone(group)
		for i := range group {
			group[i].Memory = owned(group[i].Memory)
			group[i].Memory.Next = owned(group[0].Memory).Next
		}
		return settle(group)
	})},
	{"conflict-counted", "CountedGuard", onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		unsettled, err := settle(group)
		for _, u := range unsettled {
			if row, ok := s.Row(group[u.Index].Record.Key); ok {
				row.Memory.Failures++
				replace(s, row)
			}
		}
		return unsettled, err
	})},
	{"counted-twice", "CountedErrorKeepGuard", onSettle(func(s *memory.Store, group settlements, settle settleFunc) (conflicts, error) {
		group = slices.Clone(group)
		for i := range group { // only the status is compared
			r := *group[i].Record
			if row, ok := s.Row(r.Key); ok && row.Status == r.Status && row.Memory.Failures > 0 {
				r.Lane, r.Memory = backlog.Failed, owned(r.Memory)
				r.Memory.Failures = row.Memory.Failures
			}
			group[i].Record = &r
		}
		return settle(group)
	})},

	{"exhausted-live-on", "CountedExpire", onExpire(func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		var kept []memory.Row
		for _, r := range s.Rows() {
			if r.Memory.Failures > 3 && r.Status == "ERROR" {
				kept = append(kept, r)
			}
		}
		n := expire(before)
		for _, r := range kept {
			replace(s, r)
			n--
		}
		return n
	})},
	{"dead-in-retry", "PlannedExpire", onExpire(func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		n := expire(before)
		for _, r := range s.Rows() {
			r.InRetry = true
			replace(s, r)
		}
		return n
	})},
	{"dead-counters-cleared", "CountedExpire", onExpire(func(s *memory.Store, before time.Time, expire func(time.Time) int) int {
		n := expire(before)
		for _, r := range s.Rows() {
			if r.Status == "DEAD" {
				r.Memory = backlog.Memory{}
				replace(s, r)
			}
		}
		return n
	})},
	{"told-twice", "Expire", onEach(func(each func(*backlog.Record) bool) func(*backlog.Record) bool {
		return func(r *backlog.Record) bool { each(r); return each(r) }
	})},
	{"not-told", "CountedExpire", onEach(func(func(*backlog.Record) bool) func(*backlog.Record) bool {
		return func(*backlog.Record) bool { return true }
	})},
	{"told-of-none", "Expire", func(s *memory.Store) backlog.Store { return untelling{s} }},
	{"told-without-columns", "Expire", onEach(func(each func(*backlog.Record) bool) func(*backlog.Record) bool {
		return func(r *backlog.Record) bool {
			return each(&backlog.Record{Key: r.Key, Status: r.Status, Inserted: r.Inserted, Lane: r.Lane})
		}
	})},
	{"told-when-dead", "Expire", func(s *memory.Store) backlog.Store {
		return teller{s, func(each func(*backlog.Record) bool) func(*backlog.Record) bool {
			return func(r *backlog.Record) bool {
				s.Update(r.Key, func(row *memory.Row) { row.Status = "DEAD" })
				defer s.Update(r.Key, func(row *memory.Row) { row.Status = r.Status })
				return each(r)
			}
		}}
	}},
	{"told-to-the-end", "ExpireStopped", func(s *memory.Store) backlog.Store { return deaf{s} }},
	{"exhausted-not-counted", "CountedCount", onCounts(func(c *inspect.Counts) { c.Exhausted = 0 })},
	{"exhausted-pending", "PlannedCount", onCounts(func(c *inspect.Counts) { c.Beyond.Failed, c.Exhausted = c.Beyond.Failed+c.Exhausted, 0 })},
}
