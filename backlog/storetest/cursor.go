package storetest

import (
	"fmt"
	"time"

	"backlog/backlog"
)

// tenRows inserts ten fresh rows, pairs of which have the same time, and
// returns them in the order of the lane.
func (f *fixture) tenRows() []Row {
	f.Helper()
	var rows []Row
	for i := range 10 {
		rows = append(rows, f.row(i, Fresh, time.Duration(i/2)*time.Minute))
	}
	f.insert(rows...)
	return inOrder(rows)
}

func testAfter(f *fixture) {
	rows := f.tenRows()
	wantEveryAfter(f, query(backlog.Fresh), rows)
}

// wantEveryAfter checks that after each record of the query come the rows
// behind it.
func wantEveryAfter(f *fixture, q backlog.Query, rows []Row) {
	f.Helper()
	all := f.walk(q)
	wantRecords(f, "the whole lane", rows, all)
	for i := range min(len(all), len(rows)) {
		q := q
		q.Limit = 3
		q.After = all[i].Cursor
		wantRecords(f, fmt.Sprintf("After record %d of %d", i+1, len(rows)), rows[i+1:], f.walk(q))
	}
}

func testUntil(f *fixture) {
	rows := f.tenRows()
	wantEveryUntil(f, query(backlog.Fresh), rows)
}

// wantEveryUntil checks that until each record of the query come the rows
// before it and itself, on the same page or a later one.
func wantEveryUntil(f *fixture, q backlog.Query, rows []Row) {
	f.Helper()
	all := f.walk(q)
	wantRecords(f, "the whole lane", rows, all)
	for i := range min(len(all), len(rows)) {
		for _, size := range []int{1, 3, 1000} {
			q := q
			q.Limit = size
			q.Until = all[i].Cursor
			wantRecords(f, fmt.Sprintf("Until record %d of %d in pages of %d", i+1, len(rows), size), rows[:i+1], f.walk(q))
		}
	}
}

func testAfterAndUntil(f *fixture) {
	rows := f.tenRows()
	all := f.pending(rows...)
	for i := range all {
		for j := range all {
			q := pages(backlog.Fresh, 3)
			q.After, q.Until = all[i].Cursor, all[j].Cursor
			var want []Row
			if i < j {
				want = rows[i+1 : j+1]
			}
			wantRecords(f, fmt.Sprintf("After record %d and Until record %d of %d", i+1, j+1, len(rows)), want, f.walk(q))

			q.After.Before, q.Until.Before = true, true
			want = nil
			if i < j {
				want = rows[i:j]
			}
			wantRecords(f, fmt.Sprintf("from record %d until before record %d of %d", i+1, j+1, len(rows)), want, f.walk(q))
		}
	}
}

func testCursorThroughJSON(f *fixture) {
	step := f.precision()
	var rows []Row
	for i := range 12 {
		// Times with all the digits that the column has.
		age := time.Duration(i/3) * (time.Minute + step)
		rows = append(rows, f.row(i, State(i%2), age))
	}
	f.insert(rows...)
	rows = inOrder(rows)
	for _, size := range pageSizes {
		what := fmt.Sprintf("cursors through JSON between pages of %d", size)
		wantRecords(f, what, rows, f.walkJSON(pages(backlog.Fresh, size)))
	}
	for i, r := range f.pending(rows...) {
		q := query(backlog.Fresh)
		q.After = throughJSON(f, r.Cursor)
		wantRecords(f, fmt.Sprintf("After the cursor of record %d through JSON", i+1), rows[i+1:], f.walk(q))
		q.After, q.Until = backlog.Cursor{}, q.After
		wantRecords(f, fmt.Sprintf("Until the cursor of record %d through JSON", i+1), rows[:i+1], f.walk(q))
	}
}

func testCursorOfAnotherProcess(f *fixture) {
	opener, ok := f.h.(Opener)
	if !ok {
		f.Skip("the harness cannot open its table twice")
	}
	rows := f.tenRows()
	all := f.pending(rows...)
	other, err := opener.Open()
	if err != nil {
		f.Fatalf("harness: open the table again: %v", err)
	}
	for i, r := range all {
		q := pages(backlog.Fresh, 3)
		q.After = throughJSON(f, r.Cursor)
		got := walk(f.Context(), f, other, q, func(c backlog.Cursor) backlog.Cursor { return c })
		wantRecords(f, fmt.Sprintf("another store on the table, After the cursor of record %d", i+1), rows[i+1:], got)
	}
}

func testCursorOfGoneRecord(f *fixture) {
	rows := f.tenRows()
	all := f.pending(rows...)
	const settled, failed, deleted = 2, 3, 6
	f.settle(settlement(&all[settled], backlog.Succeeded), settlement(&all[failed], backlog.Errored))
	f.delete(all[deleted].Key)
	remain := func(from, to int) (left []Row) {
		for i := from; i < to; i++ {
			if i != settled && i != failed && i != deleted {
				left = append(left, rows[i])
			}
		}
		return left
	}
	for _, i := range []int{settled, failed, deleted} {
		q := pages(backlog.Fresh, 2)
		q.After = all[i].Cursor
		wantRecords(f, fmt.Sprintf("After record %d of 10, which is no longer in the lane", i+1), remain(i+1, 10), f.walk(q))
		q.After, q.Until = backlog.Cursor{}, all[i].Cursor
		wantRecords(f, fmt.Sprintf("Until record %d of 10, which is no longer in the lane", i+1), remain(0, i), f.walk(q))
	}
}

func testNewRowsDuringWalk(f *fixture) {
	rows := f.tenRows()
	n := len(rows)
	got := walk(f.Context(), f, f.h.Store(), pages(backlog.Fresh, 3), func(c backlog.Cursor) backlog.Cursor {
		f.insert(f.row(n, Fresh, -time.Minute))
		n++
		return c
	})
	wantRecords(f, "a walk with newer rows inserted between its pages", rows, got)
}
