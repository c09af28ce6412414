package storetest

import (
	"context"
	"reflect"
	"slices"
	"time"

	"backlog/backlog"
)

// expireEach expires the rows inserted before a time and returns the records
// that it was told of. Each of them must be as it was meanwhile.
func (f *fixture) expireEach(before time.Time, rows []Row, want int) []backlog.Record {
	f.Helper()
	var told []backlog.Record
	n, err := f.expirer().Expire(f.Context(), now, before, func(r *backlog.Record) bool {
		told = append(told, *r)
		i := slices.IndexFunc(rows, func(row Row) bool { return compareKeys(row.Key, r.Key) == 0 })
		if i < 0 {
			f.Errorf("Expire: told of record %v, which is none", r.Key)
			return true
		}
		f.wantRow("the moment just before it is expired", rows[i])
		return true
	})
	if err != nil {
		f.Fatalf("Expire before %v: want it done, got error: %v", before, err)
	}
	if n != want {
		f.Errorf("Expire before %v: want %d records expired, got %d", before, want, n)
	}
	return told
}

// wantTold checks that the records are those of the rows, once each, in any
// order.
func (f *fixture) wantTold(rows []Row, told []backlog.Record) {
	f.Helper()
	rows, told = slices.Clone(rows), slices.Clone(told)
	slices.SortFunc(rows, func(a, b Row) int { return compareKeys(a.Key, b.Key) })
	slices.SortFunc(told, func(a, b backlog.Record) int { return compareKeys(a.Key, b.Key) })
	wantRecords(f, "what Expire told of, by key", rows, told)
	if len(rows) != len(told) {
		return
	}
	for i, r := range rows {
		lane, _ := laneOf(r.State)
		if f.table.ErrorKeep && r.Retry.Count > 0 {
			lane = backlog.Failed
		}
		got := told[i]
		if text := f.h.Status(r.State); got.Status != text || got.Lane != lane || !got.Inserted.Equal(r.Inserted) {
			f.Errorf("record %v: want %q in the %v lane, inserted %v; got %q in the %v lane, %v",
				r.Key, text, lane, r.Inserted, got.Status, got.Lane, got.Inserted)
		}
		if v, ok := got.Column("note"); !ok || !reflect.DeepEqual(v, r.Note) {
			f.Errorf("record %v: want column note to be %#v, got %#v", r.Key, r.Note, v)
		}
		if f.table.Policy != nil && got.Retry.Count != r.Retry.Count {
			f.Errorf("record %v: want %d failures, got %d", r.Key, r.Retry.Count, got.Retry.Count)
		}
	}
}

// testExpireEach tells of every record once, before it is dead.
func testExpireEach(f *fixture) {
	var rows, old []Row
	for i := range 2*backlog.MaxGroup + 3 {
		r := f.row(i, []State{Fresh, AlsoFresh, Failed, Success}[i%4], time.Duration(i)*time.Minute)
		r.Note = "note " + r.Key.String()
		if i%3 == 1 {
			r.Expires = now.Add(-time.Hour)
		}
		rows = append(rows, r)
		if r.State != Success && (i%3 == 1 || i > 100) {
			old = append(old, r)
		}
	}
	f.insert(rows...)
	before := now.Add(-100 * time.Minute)
	f.wantTold(old, f.expireEach(before, rows, len(old)))
	for _, r := range old {
		r.State = Dead
		f.wantRow("Expire", r)
	}
	f.wantTold(nil, f.expireEach(before, rows, 0))
}

// testExpireStopped ends the context in the midst: what was told of is written,
// nothing else is.
func testExpireStopped(f *fixture) {
	rows := f.rows(20, Fresh)
	f.insert(rows...)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	told := make(map[string]bool)
	n, err := f.expirer().Expire(ctx, now, now.Add(day), func(r *backlog.Record) bool {
		told[r.Key.String()] = true
		if len(told) == 3 {
			cancel()
		}
		return true
	})
	wantCancelled(f.T, "Expire", err, 0)
	if n != 3 || len(told) != 3 {
		f.Errorf("Expire stopped at the third record: want it told of 3 and 3 expired, got %d and %d", len(told), n)
	}
	for _, r := range rows {
		if told[r.Key.String()] {
			r.State = Dead
		}
		f.wantRow("an Expire that was stopped", r)
	}
	f.wantExpired(now.Add(day), len(rows)-len(told))
}

// testRetryExpire: what is out of retries dies, however young.
func testRetryExpire(f *fixture) {
	var rows, dead []Row
	add := func(dies bool, r Row) {
		r.Note = "a note"
		if r.State == Fresh || r.State == Failed {
			r.InRetry = f.table.Policy.Planned // also where a crash has left it
		}
		r.Attempts, r.LastError = 2, "of last time"
		rows = append(rows, r)
		if dies {
			dead = append(dead, r)
		}
	}
	old := now.Add(-day)
	finite := f.table.Policy.Retries >= 0
	most := max(f.table.Policy.Retries, 5)
	for i, count := range []int{1, f.numbers()[2], most + 1, most + 2} {
		over := finite && count > most
		add(over, f.failed(10*i, count, old))
		add(over, f.failed(10*i+1, count, time.Time{}))
		aged := f.failed(10*i+2, count, old)
		aged.Inserted = now.Add(-6 * day)
		add(true, aged)
		dateless := f.failed(10*i+3, count, old)
		dateless.Inserted = time.Time{}
		add(over, dateless)
	}
	add(false, f.row(90, Fresh, time.Hour))
	add(true, f.row(91, Fresh, 6*day))
	success := f.row(92, Success, 6*day)
	success.Retry.Count = most + 1
	add(false, success)
	other := f.row(93, Other, 6*day)
	other.Retry.Count = most + 1
	add(false, other)
	f.insert(rows...)
	before := now.Add(-5 * day)
	f.wantTold(dead, f.expireEach(before, rows, len(dead)))
	for _, r := range rows {
		if slices.ContainsFunc(dead, func(d Row) bool { return compareKeys(d.Key, r.Key) == 0 }) {
			r.State, r.InRetry, r.Retry.Next = Dead, false, time.Time{} // and no attempt was made
		}
		f.wantRow("Expire", r)
	}
	f.wantExpired(before, 0)
}

func testRetryExpireWithoutDead(f *fixture) {
	rows := []Row{f.failed(1, 100, now.Add(-day)), f.failed(2, 1, now.Add(-day)), f.row(3, Fresh, 6*day)}
	f.insert(rows...)
	f.wantTold(nil, f.expireEach(now.Add(-5*day), rows, 0))
	for _, r := range rows {
		f.wantRow("Expire without a dead status", r)
	}
}

// testRetryCount: due or not is all the same to it, out of retries is not.
func testRetryCount(f *fixture) {
	over := f.table.Policy.Retries + 1
	rows := []Row{
		f.row(1, Fresh, time.Minute),
		f.row(2, Fresh, 2*day),
		f.failed(3, 1, now),
		f.failed(4, f.numbers()[2], now.Add(-day)),
		f.failed(5, 2, time.Time{}),
		f.row(6, Success, time.Hour),
		f.row(7, Dead, time.Hour),
	}
	rows[5].Retry.Count, rows[6].Retry.Count = max(over, 1), max(over, 1)
	rows[4].Inserted = now.Add(-9 * day)
	want := backlog.Counts{
		Bands:  []backlog.Band{{Fresh: 1, Failed: 2, Oldest: now.Add(-time.Hour)}, {}},
		Beyond: backlog.Band{Fresh: 1, Failed: 1, Oldest: now.Add(-9 * day)},
	}
	pending := 5
	if over > 0 {
		for i, age := range []time.Duration{0, time.Hour, 9 * day, 1000 * day} {
			r := f.failed(10+i, over+i, now.Add(-day))
			if r.Inserted = now.Add(-age); age == 0 {
				r.Inserted = time.Time{}
			}
			rows = append(rows, r)
			want.Exhausted++
		}
	}
	f.insert(rows...)
	got := f.count(time.Hour, day)
	for i, b := range want.Bands {
		wantBand(f, "a band", b, got.Bands[i])
	}
	wantBand(f, "beyond", want.Beyond, got.Beyond)
	f.wantPending(got, pending)
	if got.Exhausted != want.Exhausted || got.Unreadable != 0 {
		f.Errorf("want %d records out of retries and none unreadable, got %d and %d", want.Exhausted, got.Exhausted, got.Unreadable)
	}
}
