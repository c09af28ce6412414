package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
)

// testProperty walks random rows in random pages and compares with a plain
// filter and sort.
func testProperty(f *fixture) {
	rapid.Check(f.T, func(t *rapid.T) {
		rows := f.drawRows(t)
		if err := f.h.Insert(rows...); err != nil {
			t.Fatalf("harness: insert: %v", err)
		}
		defer f.delete(keysOf(rows)...) // the next rows find an empty table

		q := query(rapid.SampledFrom(bothLanes).Draw(t, "lane"))
		q.MaxAge = 5 * time.Minute
		q.Widest = rapid.Bool().Draw(t, "widest")
		f.checkWalk(t, q, expected(f.table, rows, q))
	})
}

// checkWalk walks the query, then a random part of it, in random pages.
func (f *fixture) checkWalk(t *rapid.T, q backlog.Query, want []Row) {
	between := func(c backlog.Cursor) backlog.Cursor { return c }
	if rapid.Bool().Draw(t, "cursors through JSON") {
		between = func(c backlog.Cursor) backlog.Cursor { return throughJSON(t, c) }
	}
	q.Limit = rapid.IntRange(1, 6).Draw(t, "page size")
	all := walk(f.Context(), t, f.h.Store(), q, between)
	wantRecords(t, fmt.Sprintf("%v lane in pages of %d", q.Lane, q.Limit), want, all)
	if len(all) != len(want) || len(all) == 0 {
		return
	}
	from, to := 0, len(want)
	if rapid.Bool().Draw(t, "after") {
		i := rapid.IntRange(0, len(all)-1).Draw(t, "after which")
		q.After = between(all[i].Cursor)
		from = i + 1
	}
	if rapid.Bool().Draw(t, "until") {
		i := rapid.IntRange(0, len(all)-1).Draw(t, "until which")
		q.Until = between(all[i].Cursor)
		to = i + 1
	}
	want = want[min(from, to):to]
	got := walk(f.Context(), t, f.h.Store(), q, between)
	wantRecords(t, fmt.Sprintf("%v lane from record %d to record %d in pages of %d", q.Lane, from+1, to, q.Limit), want, got)
}

// drawRows draws up to 20 rows, many of one time and some without any, on
// both sides of a cutoff five minutes old and of the moment they are due.
func (f *fixture) drawRows(t *rapid.T) []Row {
	states := []State{Fresh, Success, Other}
	if !f.table.ErrorKeep {
		states = append(states, Failed)
	}
	least := 0
	if f.table.Policy != nil { // of few hardly any would be at the edge of being due
		least = 10
	}
	if f.table.TwoFresh {
		states = append(states, AlsoFresh)
	}
	if f.table.Dead {
		states = append(states, Dead)
	}
	numbers := rapid.SliceOfNDistinct(rapid.IntRange(0, 99), least, 20, rapid.ID[int]).Draw(t, "keys")
	var rows []Row
	for _, n := range numbers {
		s := rapid.SampledFrom(states).Draw(t, "state")
		r := f.row(n, s, time.Duration(rapid.IntRange(1, 8).Draw(t, "minutes"))*time.Minute)
		if rapid.IntRange(0, 5).Draw(t, "no date") == 5 {
			r.Inserted = time.Time{}
		}
		if f.table.Policy != nil {
			r.Retry = f.drawRetry(t)
		}
		rows = append(rows, r)
	}
	return rows
}

// expected returns the rows that the query selects, in order.
func expected(table Table, rows []Row, q backlog.Query) []Row {
	var want []Row
	place := make(map[string]time.Time) // by which a row stands in the lane
	for _, r := range rows {
		if lane, ok := table.lane(r); !ok || lane != q.Lane || !table.due(r, q) {
			continue
		}
		at := r.Inserted
		if at.IsZero() {
			switch {
			case table.NoDate == Newest:
				at = q.Now
			case table.NoDate == Oldest && q.Widest:
				at = q.Now.Add(-q.MaxAge - time.Nanosecond) // behind all others
			default:
				continue
			}
		} else if at.Before(q.Now.Add(-q.MaxAge)) {
			continue
		}
		place[r.Key.String()] = at
		want = append(want, r)
	}
	if table.Policy != nil && q.Lane == backlog.Failed {
		return slices.Clip(table.byWait(want))
	}
	slices.SortFunc(want, func(a, b Row) int {
		return cmp.Or(place[b.Key.String()].Compare(place[a.Key.String()]), compareKeys(b.Key, a.Key))
	})
	return slices.Clip(want)
}

// lane returns the lane that the row is in, and whether it is in one.
func (t Table) lane(r Row) (lane backlog.Lane, pending bool) {
	lane, pending = laneOf(r.State)
	if t.Policy == nil || !pending {
		return lane, pending
	}
	if t.ErrorKeep && r.Retry.Count > 0 {
		lane = backlog.Failed
	}
	return lane, lane == backlog.Fresh || !t.Policy.GivenUp(r.Retry.Count)
}

// due reports whether the row's failures and its own times let the query have
// it.
func (t Table) due(r Row, q backlog.Query) bool {
	if !r.Eligible.IsZero() && r.Eligible.After(q.Now) || !r.Expires.IsZero() && r.Expires.Before(q.Now) {
		return false
	}
	if q.Lane == backlog.Fresh {
		return true
	}
	at, ok := t.Policy.Due(r.Retry)
	return ok && !at.After(q.Now)
}

func laneOf(s State) (lane backlog.Lane, pending bool) {
	switch s {
	case Fresh, AlsoFresh:
		return backlog.Fresh, true
	case Failed:
		return backlog.Failed, true
	}
	return 0, false
}
