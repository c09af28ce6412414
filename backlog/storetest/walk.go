package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"backlog/backlog"
)

// testWalk walks both lanes of rows of every kind: whatever the order in which
// they came, with clocks finer than the column and in other zones. A record
// carries what its row has, and reading writes nothing.
func testWalk(f *fixture) {
	rows := f.specimens(120, 1)
	step, since := f.precision(), now.Add(-edge)
	west, east := time.FixedZone("", -8*3600-1800), time.FixedZone("", 5*3600+1800)
	for _, lane := range bothLanes {
		q := query(lane)
		for _, q.Since = range []time.Time{since.In(west), since.In(east), since.Add(step / 2), since.Add(step - 1), since.Add(1), now.Add(-1000 * day)} {
			f.wantLane(q, rows, 25)
		}
		q.Since, q.Widest = since, true
		f.wantWalks(q, rows)
		for _, q.Now = range []time.Time{now.Add(-step), now.Add(step), now.Add(-1), now.Add(step / 2), now.Add(1000 * day).In(west)} {
			f.wantLane(q, rows, 25)
		}
		q = query(lane)
		q.Limit, q.Widest = 1, true // a record must outlive the page it came with
		all := f.walk(q)
		wantRecords(f.T, fmt.Sprintf("%v lane in pages of 1", lane), expected(f.table, rows, q), all)
		for _, r := range all {
			if row := find(rows, r.Key); row != nil {
				f.wantRecord(&r, *row)
			}
		}
	}
	for _, r := range rows {
		f.wantRow("walks through both lanes", r)
	}
	if f.table.NoDate == Skip {
		for _, lane := range bothLanes {
			f.wantElsewhere(query(lane), rows)
		}
	}
}

func (f *fixture) wantRecord(got *backlog.Record, want Row) {
	f.Helper()
	lane, _ := f.table.lane(want)
	if f.table.Refresh {
		lane = got.Lane // the walk shows it
	}
	if text := f.h.Text(want.Status); got.Status != text || got.Lane != lane || keyText(got.Key) != keyText(want.Key) {
		f.Errorf("record %v: want key %s and status %q in the %v lane, got %s and %q in the %v lane",
			want.Key, keyText(want.Key), text, lane, keyText(got.Key), got.Status, got.Lane)
	}
	row := want // with what the record has
	row.Inserted = got.Inserted
	for name, value := range map[string]*any{"amount": &row.Amount, "note": &row.Note, "payload": &row.Payload} {
		var ok bool
		if *value, ok = got.Column(name); !ok {
			f.Errorf("record %v: want a column %q, got only %q", want.Key, name, got.Names)
		}
	}
	if p := f.table.Policy; p != nil {
		row.Failures = got.Failures
		if !p.Planned {
			row.Failures.Next = want.Failures.Next
		}
	}
	if f.table.Refresh {
		row.Refresh = *got.Refresh
	}
	if g, w := row.text(), want.text(); g != w {
		f.Errorf("record %v: want\n%s\ngot\n%s", want.Key, w, g)
	}
}

// wantElsewhere checks that places mean the same to another process.
func (f *fixture) wantElsewhere(q backlog.Query, rows []Row) {
	f.Helper()
	want, all, other := expected(f.table, rows, q), f.walk(q), f.another()
	for i := 0; i < min(len(all), len(want)); i += 1 + len(all)/8 {
		q.Limit, q.After = 7, f.throughJSON(all[i].Cursor)
		got := f.walkIn(other, q)
		wantRecords(f.T, fmt.Sprintf("another store on the table, after record %d", i+1), want[i+1:], got)
	}
}

// testRandom walks few random rows, and random parts of a lane, in random pages.
func testRandom(f *fixture) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 1))
		rows := f.specimens(30, seed)
		q := query(pick(random, bothLanes...))
		q.Since, q.Limit, q.Widest = now.Add(-edge), 1+random.IntN(6), pick(random, false, true)
		between := pick(random, func(c backlog.Cursor) backlog.Cursor { return c }, f.throughJSON)
		want, from := expected(f.table, rows, q), 0
		all := f.walk(q, between)
		wantRecords(f.T, fmt.Sprintf("rows of seed %d, %v lane in pages of %d", seed, q.Lane, q.Limit), want, all)
		if len(want) > 0 && len(all) == len(want) {
			to := len(want)
			if pick(random, false, true) {
				from = 1 + random.IntN(len(all))
				q.After = between(all[from-1].Cursor)
			}
			if pick(random, false, true) {
				to = 1 + random.IntN(len(all))
				q.Until = between(all[to-1].Cursor)
			}
			got := f.walk(q, between)
			what := fmt.Sprintf("rows of seed %d, %v lane from record %d to record %d in pages of %d", seed, q.Lane, from+1, to, q.Limit)
			wantRecords(f.T, what, want[min(from, to):to], got)
		}
		if f.Failed() {
			return
		}
		var keys []backlog.Key
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
		f.delete(keys...)
	}
}

// pairs inserts fresh rows, two of each time, with all the digits that the column
// has. It returns them and their records in the lane's order.
func (f *fixture) pairs(n int) ([]Row, []backlog.Record) {
	f.Helper()
	var rows []Row
	for i := range n {
		rows = append(rows, f.row(i, Fresh, time.Duration(i/2)*(time.Minute+f.precision())))
	}
	f.insert(rows...)
	return f.pending(rows)
}

// testCursor walks from and to every place, before and behind its record.
func testCursor(f *fixture) {
	for _, lane := range bothLanes {
		f.wantLane(query(lane), nil)
	}
	rows, all := f.pairs(8)
	for i := range all {
		for j := range all {
			q := query(backlog.Fresh)
			q.Limit, q.After, q.Until = 3, all[i].Cursor, all[j].Cursor
			var behind, before []Row
			if i < j {
				behind, before = rows[i+1:j+1], rows[i:j]
			}
			wantRecords(f.T, fmt.Sprintf("after record %d until record %d of %d", i+1, j+1, len(rows)), behind, f.walk(q))
			q.After.Before, q.Until.Before = true, true
			q.After, q.Until = f.throughJSON(q.After), f.throughJSON(q.Until)
			wantRecords(f.T, fmt.Sprintf("from record %d until before record %d of %d", i+1, j+1, len(rows)), before, f.walk(q))
		}
	}
}

func testCursorOfGoneRecord(f *fixture) {
	rows, all := f.pairs(10)
	const settled, failed, deleted = 2, 3, 6
	f.settle(nil, f.settlement(&all[settled], backlog.Succeeded), f.settlement(&all[failed], backlog.Errored))
	f.delete(all[deleted].Key)
	rows[settled].Status, rows[failed].Status, rows[deleted].Status = Success, Failed, gone
	for _, i := range []int{settled, failed, deleted} {
		q := query(backlog.Fresh)
		behind, before := expected(f.table, rows[i+1:], q), expected(f.table, rows[:i], q)
		q.Limit, q.After = 2, all[i].Cursor
		wantRecords(f.T, fmt.Sprintf("after record %d of 10, which is no longer in the lane", i+1), behind, f.walk(q))
		q.After, q.Until = backlog.Cursor{}, all[i].Cursor
		wantRecords(f.T, fmt.Sprintf("until record %d of 10, which is no longer in the lane", i+1), before, f.walk(q))
	}
}

func testNewRowsDuringWalk(f *fixture) {
	rows, _ := f.pairs(10)
	n := len(rows)
	q := query(backlog.Fresh)
	q.Limit = 3
	got := f.walk(q, func(c backlog.Cursor) backlog.Cursor {
		f.insert(f.row(n, Fresh, -time.Minute))
		n++
		return c
	})
	wantRecords(f.T, "a walk with newer rows inserted between its pages", rows, got)
}

// testNotDue has ten records that are due among many that are not: they are one
// page.
func testNotDue(f *fixture) {
	const many, few = 1000, 10
	var rows []Row
	numbers := f.numbers()
	for i := range many {
		r := f.dueAt(i, numbers[i%len(numbers)], now.Add(time.Duration(1+i%50)*time.Second))
		if i%(many/few) == few/2 {
			r = f.dueAt(i, numbers[i%len(numbers)], now.Add(-time.Duration(i%7)*time.Second))
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	q := query(backlog.Failed)
	q.Limit = few
	page, err := f.h.Store().Pending(f.Context(), q)
	if err != nil {
		f.Fatalf("Pending: want a page, got error: %v", err)
	}
	due := expected(f.table, rows, q)
	wantRecords(f.T, fmt.Sprintf("the first page of %d records of which %d are due", many, few), due, page.Records)
	wantRecords(f.T, "the whole lane", due, f.walk(q))
}

// testCancelled: a call on a cancelled context comes back at once, with an error
// that is final, and has done nothing.
func testCancelled(f *fixture) {
	rows, records := f.pairs(3)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, f.settlement(&records[i], outcomes[i]))
	}
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	start := time.Now()
	page, err := f.h.Store().Pending(ctx, query(backlog.Fresh))
	wantCancelled(f.T, "Pending", err, time.Since(start))
	start = time.Now()
	_, err = f.h.Store().Settle(ctx, group)
	wantCancelled(f.T, "Settle", err, time.Since(start))
	expired := 0
	if e, ok := f.h.Store().(expirer); ok {
		start = time.Now()
		expired, err = e.Expire(ctx, now, now.Add(day), nil)
		wantCancelled(f.T, "Expire", err, time.Since(start))
	}
	if len(page.Records) > 0 || expired > 0 {
		f.Errorf("on a cancelled context: want no records, none expired, got %d and %d", len(page.Records), expired)
	}
	for _, r := range rows {
		f.wantRow("calls on a cancelled context", r)
	}
}

// wantCancelled checks what a call on a cancelled context came back with.
func wantCancelled(t *testing.T, call string, err error, took time.Duration) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s on a cancelled context: want an error that wraps context.Canceled, got %v", call, err)
	}
	if errors.Is(err, backlog.ErrUnavailable) {
		t.Errorf("%s on a cancelled context: want an error that is final, got one that wraps ErrUnavailable: %v", call, err)
	}
	if took > 5*time.Second {
		t.Errorf("%s on a cancelled context: want it back at once, got it after %v", call, took)
	}
}
