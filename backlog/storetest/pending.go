package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
)

// pageSizes are walked wherever pages must not matter.
var pageSizes = []int{1, 2, 7, 1000}

var bothLanes = []backlog.Lane{backlog.Fresh, backlog.Failed}

// wantLane checks that the lane has these rows and no others, in the order of
// a lane, whatever the pages.
func (f *fixture) wantLane(lane backlog.Lane, rows ...Row) {
	f.Helper()
	for _, size := range pageSizes {
		got := f.walk(pages(lane, size))
		wantRecords(f, fmt.Sprintf("%v lane in pages of %d", lane, size), inOrder(rows), got)
	}
}

func testEmpty(f *fixture) {
	for _, lane := range bothLanes {
		for _, widest := range []bool{false, true} {
			q := pages(lane, 1)
			q.Widest = widest
			wantRecords(f, fmt.Sprintf("%v lane of an empty table", lane), nil, f.walk(q))
		}
	}
}

func testOrder(f *fixture) {
	var rows []Row
	for i := range 30 {
		// Neither the order of insertion nor that of the keys is that of age,
		// and every age comes three times.
		rows = append(rows, f.row(i, Fresh, time.Duration(i*7%10)*time.Minute))
	}
	f.insert(rows...)
	f.wantLane(backlog.Fresh, rows...)
}

func testOrderOfOneTime(f *fixture) {
	var rows []Row
	for i := range 30 {
		rows = append(rows, f.row(i*11%30, Failed, time.Hour))
	}
	f.insert(rows...)
	f.wantLane(backlog.Failed, rows...)
}

func testOrderOfTwoFresh(f *fixture) {
	var rows []Row
	for i := range 30 {
		s := Fresh
		if i%3 == 1 || i > 24 {
			s = AlsoFresh
		}
		rows = append(rows, f.row(i, s, time.Duration(i*7%10)*time.Minute))
	}
	f.insert(rows...)
	f.wantLane(backlog.Fresh, rows...)
}

func testLanes(f *fixture) {
	var fresh, failed []Row
	for i := range 21 {
		s := State(i % 7)
		r := f.row(i, s, time.Duration(i)*time.Minute)
		f.insert(r)
		switch s {
		case Fresh, AlsoFresh:
			fresh = append(fresh, r)
		case Failed:
			failed = append(failed, r)
		}
	}
	f.wantLane(backlog.Fresh, fresh...)
	f.wantLane(backlog.Failed, failed...)
}

func testLimit(f *fixture) {
	rows := f.rows(6, Fresh)
	f.insert(rows...)
	for _, size := range []int{1, 2, 3, 4, 5, 6, 7} {
		got := f.walk(pages(backlog.Fresh, size))
		wantRecords(f, fmt.Sprintf("6 records in pages of %d", size), rows, got)
		if len(got) == 0 {
			continue
		}
		q := pages(backlog.Fresh, size)
		q.After = got[len(got)-1].Cursor
		wantRecords(f, "after the last record", nil, f.walk(q))
	}
}

func testCutoff(f *fixture) {
	const maxAge = 36 * time.Hour
	step := f.precision()
	var want [2][]Row
	for lane, state := range []State{Fresh, Failed} {
		in := []Row{
			f.row(10*lane, state, maxAge-step),
			f.row(10*lane+1, state, maxAge), // inclusive
		}
		f.insert(in...)
		f.insert(f.row(10*lane+2, state, maxAge+step))
		want[lane] = in
	}
	for _, lane := range bothLanes {
		for _, size := range pageSizes {
			q := pages(lane, size)
			q.MaxAge = maxAge
			wantRecords(f, fmt.Sprintf("%v lane, one step younger than max age, exactly max age and one step (%v) older, in pages of %d",
				lane, step, size), want[lane], f.walk(q))
		}
	}
}

// testCutoffBetweenSteps has a clock that is finer than the column: a cutoff
// rounded down to the column's precision takes a row that is too old.
func testCutoffBetweenSteps(f *fixture) {
	step := f.precision()
	if step < 2 {
		f.Skip("no clock is finer than a nanosecond")
	}
	tooOld, in := f.row(1, Fresh, time.Hour), f.row(2, Fresh, time.Hour-step)
	f.insert(tooOld, in)
	q := query(backlog.Fresh)
	q.Now = now.Add(step / 2)
	q.MaxAge = time.Hour
	wantRecords(f, fmt.Sprintf("the cutoff %v after record %v and as much before record %v", step/2, tooOld.Key, in.Key), []Row{in}, f.walk(q))
}

func testClockInAnotherZone(f *fixture) {
	in, out := f.row(1, Fresh, time.Hour), f.row(2, Fresh, time.Hour+f.precision())
	f.insert(in, out)
	for _, hours := range []int{-8, 5} {
		q := query(backlog.Fresh)
		q.Now = now.In(time.FixedZone("", hours*3600+1800))
		q.MaxAge = time.Hour
		wantRecords(f, "the same cutoff on a clock in zone "+q.Now.Format("-07:00"), []Row{in}, f.walk(q))
	}
}

func testFuture(f *fixture) {
	rows := []Row{
		f.row(1, Fresh, -30*time.Minute), // a clock that is ahead of ours
		f.row(2, Fresh, -f.precision()),
		f.row(3, Fresh, 0),
	}
	f.insert(rows...)
	f.wantLane(backlog.Fresh, rows...)
}

// testRecord checks what a record carries.
func testRecord(f *fixture) {
	step := f.precision()
	rows := []Row{
		{State: Fresh, Amount: int64(42), Note: "plain", Payload: []byte("plain")},
		{State: AlsoFresh, Amount: int64(1<<53 + 1), Note: "Grüße,\n\"100%\" 'π'", Payload: []byte{0, 1, 0xff, '\''}},
		{State: Failed, Amount: int64(math.MinInt64), Note: ""},
		{State: Failed, Amount: int64(0), Payload: []byte("0")},
		{State: Fresh},
	}
	for i := range rows {
		rows[i].Key = f.key(i)
		rows[i].Inserted = now.Add(-time.Duration(i+1) * (time.Hour + step))
	}
	f.insert(rows...)
	// Pages of one: a record must outlive the page it came with.
	records := slices.Concat(f.walk(pages(backlog.Fresh, 1)), f.walk(pages(backlog.Failed, 1)))
	if len(records) != len(rows) {
		f.Fatalf("want %d records in both lanes, got %d", len(rows), len(records))
	}
	for _, row := range rows {
		i := slices.IndexFunc(records, func(r backlog.Record) bool { return reflect.DeepEqual(r.Key, row.Key) })
		if i < 0 {
			f.Errorf("want a record with key %v of type %T, got only %s", row.Key, row.Key.Part(0), keyList(keysOfRecords(records)))
			continue
		}
		wantRecord(f, &records[i], row)
	}
}

func wantRecord(f *fixture, got *backlog.Record, want Row) {
	f.Helper()
	if text := f.h.Status(want.State); got.Status != text {
		f.Errorf("record %v: want status %q, got %q", want.Key, text, got.Status)
	}
	lane, _ := laneOf(want.State)
	if got.Lane != lane {
		f.Errorf("record %v: want lane %v, got %v", want.Key, lane, got.Lane)
	}
	if !got.Inserted.Equal(want.Inserted) {
		f.Errorf("record %v: want inserted %v, got %v", want.Key, want.Inserted, got.Inserted)
	}
	for name, value := range map[string]any{"amount": want.Amount, "note": want.Note, "payload": want.Payload} {
		v, ok := got.Column(name)
		if !ok {
			f.Errorf("record %v: want a column %q, got only %q", want.Key, name, got.Names)
		} else if !reflect.DeepEqual(v, value) {
			f.Errorf("record %v: want column %q to be %T(%#v), got %T(%#v)", want.Key, name, value, value, v, v)
		}
	}
}

func testReadingWritesNothing(f *fixture) {
	var rows []Row
	for i, s := range []State{Fresh, Failed, Success, Dead, Other, Null} {
		r := f.row(i, s, time.Duration(i)*time.Hour)
		r.Amount, r.Attempts, r.LastError = int64(i), i, "old"
		rows = append(rows, r)
	}
	f.insert(rows...)
	for _, lane := range bothLanes {
		q := pages(lane, 1)
		q.Widest = true
		f.walk(q)
	}
	for _, r := range rows {
		f.wantRow("a walk through both lanes", r)
	}
}

// wantRow checks that the row is as it is expected to be, in every field that
// the table has.
func (f *fixture) wantRow(after string, want Row) {
	f.Helper()
	got := f.read(want.Key)
	if !f.table.Notes {
		got.Attempts, got.LastError = want.Attempts, want.LastError
	}
	if p := f.table.Policy; p == nil {
		got.Retry = want.Retry
	} else if !p.Planned {
		got.Retry.Next = want.Retry.Next
	}
	if f.table.Policy == nil || !f.table.Policy.Planned {
		got.InRetry = want.InRetry
	}
	if got.State != want.State {
		f.Errorf("record %v after %s: want state %v, got %v", want.Key, after, want.State, got.State)
	}
	for _, t := range []struct {
		what      string
		want, got time.Time
	}{
		{"time of insertion", want.Inserted, got.Inserted},
		{"time of eligibility", want.Eligible, got.Eligible},
		{"time of expiry", want.Expires, got.Expires},
		{"time of the last failure", want.Retry.Last, got.Retry.Last},
		{"time of the next attempt", want.Retry.Next, got.Retry.Next},
	} {
		if !t.got.Equal(t.want) {
			f.Errorf("record %v after %s: want %s %v, got %v", want.Key, after, t.what, t.want, t.got)
		}
	}
	for _, v := range []struct {
		what      string
		want, got any
	}{
		{"amount", want.Amount, got.Amount},
		{"note", want.Note, got.Note},
		{"payload", want.Payload, got.Payload},
		{"attempts", want.Attempts, got.Attempts},
		{"last error", want.LastError, got.LastError},
		{"number of failures", want.Retry.Count, got.Retry.Count},
		{"in retry", want.InRetry, got.InRetry},
	} {
		if !reflect.DeepEqual(v.got, v.want) {
			f.Errorf("record %v after %s: want %s %#v, got %#v", want.Key, after, v.what, v.want, v.got)
		}
	}
}

func testPendingCancelled(f *fixture) {
	f.insert(f.rows(3, Fresh)...)
	store := f.h.Store()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	start := time.Now()
	page, err := store.Pending(ctx, query(backlog.Fresh))
	wantCancelled(f.T, "Pending", err, time.Since(start))
	if len(page.Records) > 0 {
		f.Errorf("Pending on a cancelled context: want no records, got %d", len(page.Records))
	}
}

// wantCancelled checks what a call on a cancelled context came back with.
func wantCancelled(t *testing.T, call string, err error, took time.Duration) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s on a cancelled context: want an error that wraps context.Canceled, got %v", call, err)
	}
	if errors.Is(err, backlog.ErrAway) {
		t.Errorf("%s on a cancelled context: want an error that is final, got one that wraps ErrAway: %v", call, err)
	}
	if took > 5*time.Second {
		t.Errorf("%s on a cancelled context: want it back at once, got it after %v", call, took)
	}
}
