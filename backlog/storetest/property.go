package storetest

import (
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
// both sides of a cutoff five minutes old.
func (f *fixture) drawRows(t *rapid.T) []Row {
	states := []State{Fresh, Failed, Success, Other}
	if f.table.TwoFresh {
		states = append(states, AlsoFresh)
	}
	if f.table.Dead {
		states = append(states, Dead)
	}
	numbers := rapid.SliceOfNDistinct(rapid.IntRange(0, 99), 0, 20, rapid.ID[int]).Draw(t, "keys")
	var rows []Row
	for _, n := range numbers {
		s := rapid.SampledFrom(states).Draw(t, "state")
		r := f.row(n, s, time.Duration(rapid.IntRange(1, 8).Draw(t, "minutes"))*time.Minute)
		if rapid.IntRange(0, 5).Draw(t, "no date") == 5 {
			r.Inserted = time.Time{}
		}
		rows = append(rows, r)
	}
	return rows
}

// expected returns the rows that the query selects, in order.
func expected(table Table, rows []Row, q backlog.Query) []Row {
	var want []Row
	for _, r := range rows {
		if lane, ok := laneOf(r.State); !ok || lane != q.Lane {
			continue
		}
		if r.Inserted.IsZero() {
			switch {
			case table.NoDate == Newest:
				r.Inserted = q.Now
			case table.NoDate == Oldest && q.Widest:
				r.Inserted = q.Now.Add(-q.MaxAge - time.Nanosecond) // behind all others
			default:
				continue
			}
		} else if r.Inserted.Before(q.Now.Add(-q.MaxAge)) {
			continue
		}
		want = append(want, r)
	}
	return slices.Clip(inOrder(want))
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
