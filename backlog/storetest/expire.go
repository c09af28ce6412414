package storetest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// An expirer is a store with the method that [backlog.Store] names.
type expirer interface {
	Expire(ctx context.Context, now, before time.Time, each func(*backlog.Record) bool) (int, error)
}

func (f *fixture) expirer() expirer {
	f.Helper()
	e, ok := f.h.Store().(expirer)
	if !ok {
		f.Skip("the store has no method Expire")
	}
	return e
}

// wantExpired expires the rows inserted before a time, and makes the dying rows
// dead. If it is to be told, each record must come once and be as it was
// meanwhile.
func (f *fixture) wantExpired(rows []Row, before time.Time, tell bool) {
	f.Helper()
	told := make(map[string]int)
	each := func(r *backlog.Record) bool {
		told[r.Key.String()]++
		row := find(rows, r.Key)
		if row == nil || !f.table.dies(*row, before) {
			f.Errorf("Expire before %v: want it told of what dies, got record %v", before, r.Key)
			return true
		}
		f.wantRow("the moment just before it is expired", *row)
		f.wantRecord(r, *row)
		return true
	}
	if !tell {
		each = nil
	}
	n, err := f.expirer().Expire(f.Context(), now, before, each)
	if err != nil {
		f.Fatalf("Expire before %v: want it done, got error: %v", before, err)
	}
	dead := 0
	for i, r := range rows {
		if f.table.dies(r, before) {
			if dead++; tell && told[r.Key.String()] != 1 {
				f.Errorf("Expire before %v: want it told once of record %v, got %d times", before, r.Key, told[r.Key.String()])
			}
			rows[i].Status, rows[i].InRetry, rows[i].Failures.Next = Dead, false, time.Time{} // and no attempt was made
		}
		f.wantRow("Expire before "+before.Format(time.RFC3339Nano), rows[i])
	}
	if n != dead {
		f.Errorf("Expire before %v: want %d records expired, got %d", before, dead, n)
	}
}

// testExpire expires rows of every kind, and more than a group of settlements has.
func testExpire(f *fixture) {
	rows := f.specimens(120, 2)
	if f.table.Dead && f.table.Policy == nil {
		for i := range backlog.MaxGroup {
			rows = append(rows, f.row(1000+i, Fresh, 7*day+time.Duration(i)*time.Second))
		}
		f.insert(rows[120:]...)
	}
	f.wantExpired(rows, now.Add(-9*day), false)
	f.wantExpired(rows, now.Add(-edge), true)
	f.wantExpired(rows, now.Add(-edge), true)
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
	for i, r := range rows {
		if told[r.Key.String()] {
			rows[i].Status = Dead
		}
		f.wantRow("an Expire that was stopped", rows[i])
	}
	f.wantExpired(rows, now.Add(day), false)
}

// wantCounts counts the rows at the suite's present.
func (f *fixture) wantCounts(rows []Row, edges ...time.Duration) {
	f.Helper()
	c, ok := f.h.Store().(interface {
		Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error)
	})
	if !ok {
		f.Skip("the store has no method Count")
	}
	got, err := c.Count(f.Context(), now, edges)
	if err != nil {
		f.Fatalf("Count: want counts, got error: %v", err)
	}
	texts, total := make(map[string]int), 0
	for _, r := range rows {
		if r.Status != Null { // what NULL is called is the store's affair
			texts[f.h.Text(r.Status)]++
		}
	}
	for _, n := range got.ByStatus {
		total += n
	}
	maps.DeleteFunc(got.ByStatus, func(text string, n int) bool { return texts[text] == 0 })
	if total != len(rows) || !maps.Equal(got.ByStatus, texts) {
		f.Errorf("ByStatus: want %d rows, %v among them; got %d, %v", len(rows), texts, total, got.ByStatus)
	}
	text := func(c inspect.Counts) (s string) {
		for _, b := range append(c.Bands, c.Beyond) {
			s += fmt.Sprintf("%d fresh and %d failed, the oldest of %v; ", b.Fresh, b.Failed, b.Oldest.UTC())
		}
		return s + fmt.Sprintf("%d unreadable, %d out of retries, %d pending", c.Unreadable, c.Exhausted, c.Pending())
	}
	if g, w := text(got), text(f.table.counts(rows, edges)); g != w {
		f.Errorf("counts up to %v and beyond: want\n%s\ngot\n%s", edges, w, g)
	}
}

// testCount counts rows of every kind. Due or not is all the same to it, out of
// retries is not.
func testCount(f *fixture) {
	f.wantCounts(nil, time.Hour, day)
	rows := f.specimens(120, 3)
	f.wantCounts(rows, time.Hour, edge, 7*day)
	f.wantCounts(rows, time.Second, 2*time.Second) // the first is empty but for what is ahead of our clock
	if f.table.NoDate == Skip {
		f.wantCounts(rows)
	}
}
