package storetest

import (
	"context"
	"time"

	"backlog/backlog"
)

func (f *fixture) expirer() backlog.Expirer {
	f.Helper()
	e, ok := f.h.Store().(backlog.Expirer)
	if !ok {
		f.Skip("the store is no backlog.Expirer")
	}
	return e
}

// wantExpired expires the rows inserted before a time and checks their
// number.
func (f *fixture) wantExpired(before time.Time, want int) {
	f.Helper()
	got, err := f.expirer().Expire(f.Context(), now, before, nil)
	if err != nil {
		f.Fatalf("Expire before %v: want it done, got error: %v", before, err)
	}
	if got != want {
		f.Errorf("Expire before %v: want %d records expired, got %d", before, want, got)
	}
}

func testExpire(f *fixture) {
	const age = 5 * day
	step := f.precision()
	var rows []Row
	for _, s := range []State{Fresh, AlsoFresh, Failed, Success, Dead, Other, Null} {
		for _, a := range []time.Duration{age - step, age, age + step, 2 * age} {
			r := f.row(len(rows), s, a)
			r.Attempts, r.LastError = 2, "of last time"
			rows = append(rows, r)
		}
	}
	f.insert(rows...)
	before := now.Add(-age)
	f.wantExpired(before, 6) // two of each pending status
	for _, want := range rows {
		if want.State <= Failed && want.Inserted.Before(before) {
			want.State = Dead // and no attempt was made
		}
		f.wantRow("Expire of what is inserted before "+before.Format(time.RFC3339Nano), want)
	}
	f.wantExpired(before, 0)
}

// testExpireMany expires more rows than a group of settlements has.
func testExpireMany(f *fixture) {
	const old = 2*backlog.MaxGroup + 1
	var rows []Row
	for i := range old {
		rows = append(rows, f.row(i, State(i%2*int(Failed)), 5*day+time.Duration(i)*time.Second))
	}
	young := f.row(old, Fresh, day)
	f.insert(append(rows, young)...)
	f.wantExpired(now.Add(-5*day), old-1)
	f.wantLane(backlog.Fresh, young, rows[0])
	f.wantLane(backlog.Failed)
}

func testExpireWithoutDead(f *fixture) {
	rows := []Row{f.row(1, Fresh, 5*day), f.row(2, Failed, 6*day), f.row(3, Success, 7*day)}
	f.insert(rows...)
	f.wantExpired(now.Add(-day), 0)
	for _, r := range rows {
		f.wantRow("Expire without a dead status", r)
	}
}

// testExpireNoDate: whatever a missing date counts as, nobody dies of it.
func testExpireNoDate(f *fixture) {
	rows := []Row{{Key: f.key(1), State: Fresh}, {Key: f.key(2), State: Failed}}
	dated := f.row(3, Fresh, day)
	f.insert(append(rows, dated)...)
	f.wantExpired(now.Add(day), 1)
	for _, r := range rows {
		f.wantRow("Expire of what is inserted before tomorrow", r)
	}
	dated.State = Dead
	f.wantRow("Expire of what is inserted before tomorrow", dated)
}

func testExpireCancelled(f *fixture) {
	rows := f.rows(3, Fresh)
	f.insert(rows...)
	e := f.expirer()
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	start := time.Now()
	n, err := e.Expire(ctx, now, now.Add(day), nil)
	wantCancelled(f.T, "Expire", err, time.Since(start))
	if n != 0 {
		f.Errorf("Expire on a cancelled context: want 0 records expired, got %d", n)
	}
	for _, r := range rows {
		f.wantRow("an Expire on a cancelled context", r)
	}
}

// testExpireByOwnTime expires rows that are young but past their own time.
func testExpireByOwnTime(f *fixture) {
	step := f.precision()
	var rows []Row
	for i, at := range []time.Time{{}, now.Add(day), now, now.Add(-step), now.Add(-day)} {
		r := f.row(i, Fresh, time.Hour)
		r.Expires = at
		rows = append(rows, r)
	}
	done := f.row(len(rows), Success, time.Hour)
	done.Expires = now.Add(-day)
	f.insert(append(rows, done)...)
	f.wantExpired(now.Add(-5*day), 2)
	for i, want := range rows {
		if i >= 3 {
			want.State = Dead
		}
		f.wantRow("Expire of what is past its own time", want)
	}
	f.wantRow("Expire of what is past its own time", done)
}
