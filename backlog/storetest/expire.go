package storetest

import (
	"context"
	"fmt"
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

// expire expires what was inserted before a time. If it is to be told, each record must
// come once and be as it was meanwhile.
func (f *fixture) expire(before time.Time, tell bool) {
	f.Helper()
	var want, got []backlog.Record
	expire := func(e expirer, told *[]backlog.Record) int {
		each := func(r *backlog.Record) bool {
			*told = append(*told, *r)
			if row, ok := f.memory.Row(r.Key); ok && e != f.memory {
				f.wantRow("the moment just before it is expired", row)
			}
			return true
		}
		if !tell {
			each = nil
		}
		n, err := e.Expire(f.Context(), now, before, each)
		if err != nil {
			f.Fatalf("Expire before %v: want it done, got error: %v", before, err)
		}
		return n
	}
	g, w := expire(f.expirer(), &got), expire(f.memory, &want)
	if g != w {
		f.Errorf("Expire before %v: want %d records expired, got %d", before, w, g)
	}
	f.sameEach(fmt.Sprintf("what Expire before %v has told of", before), want, got)
	f.same(fmt.Sprintf("Expire before %v", before))
}

// testExpire expires rows of every kind, and more than a group of settlements has.
func testExpire(f *fixture) {
	f.specimens(120, 2)
	if f.table.Dead && f.table.Policy == nil {
		var rows []Row
		for i := range backlog.MaxGroup {
			rows = append(rows, f.row(1000+i, Fresh, 7*day+time.Duration(i)*time.Second))
		}
		f.insert(rows...)
	}
	f.expire(now.Add(-9*day), false)
	f.expire(now.Add(-edge), true)
	f.expire(now.Add(-edge), true)
}

// testExpireStopped ends the context in the midst: what was told of is written,
// nothing else is.
func testExpireStopped(f *fixture) {
	f.insert(f.rows(20, Fresh)...)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	told := make(map[string]backlog.Key)
	n, err := f.expirer().Expire(ctx, now, now.Add(day), func(r *backlog.Record) bool {
		told[r.Key.String()] = r.Key
		if len(told) == 3 {
			cancel()
		}
		return true
	})
	f.wantCancelled("Expire", err)
	if n != 3 || len(told) != 3 {
		f.Errorf("Expire stopped at the third record: want it told of 3 and 3 expired, got %d and %d", len(told), n)
	}
	for _, k := range told {
		f.memory.Update(k, func(r *Row) { r.Status = Dead })
	}
	f.same("an Expire that was stopped")
	f.expire(now.Add(day), false)
}

// wantCounts counts the rows at the suite's present.
func (f *fixture) wantCounts(edges ...time.Duration) {
	f.Helper()
	type counter interface {
		Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error)
	}
	c, ok := f.h.Store().(counter)
	if !ok {
		f.Skip("the store has no method Count")
	}
	text := func(c counter) string {
		counts, err := c.Count(f.Context(), now, edges)
		if err != nil {
			f.Fatalf("Count: want counts, got error: %v", err)
		}
		var oldest []time.Time // to the nanosecond
		for _, b := range append(counts.Bands, counts.Beyond) {
			oldest = append(oldest, time.Time(b.Oldest).UTC())
		}
		return fmt.Sprintf("%+v %v", counts, oldest)
	}
	if g, w := text(c), text(f.memory); g != w {
		f.Errorf("counts up to %v and beyond: want\n%s\ngot\n%s", edges, w, g)
	}
}

// testCount counts rows of every kind. Due or not is all the same to it, out of
// retries is not.
func testCount(f *fixture) {
	f.wantCounts(time.Hour, day)
	f.specimens(120, 3)
	f.wantCounts(time.Hour, edge, 7*day)
	f.wantCounts(time.Second, 2*time.Second) // the first is empty but for what is ahead of our clock
	if f.table.NoDate == "skip" {
		f.wantCounts()
	}
}
