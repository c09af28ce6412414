package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"backlog/backlog"
)

// workers each have their own records.
const workers = 8

// testConcurrency has workers walk one lane and settle, each its own records,
// while rows are inserted.
func testConcurrency(f *fixture) {
	rows := numbered(280, func(i int) Row { return f.row(i, Fresh, time.Duration(i)*time.Minute) })
	first, later := rows[:200], rows[200:]
	f.insert(first...)
	store := f.h.Store()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range later {
			later[i].Inserted = now
		}
		for batch := range slices.Chunk(later, 8) {
			if err := f.h.Insert(batch...); err != nil {
				f.Errorf("harness: insert while the store works: %v", err)
				return
			}
		}
	})
	taken := make([]int, len(rows)) // by row: how often its worker has settled it
	for w := range workers {
		wg.Go(func() {
			for done := 0; done < len(rows)/workers && !f.Failed(); {
				done += f.work(store, w, taken)
			}
		})
	}
	wg.Wait()
	f.harness(f.memory.Insert(later...), "insert in memory")
	for n, row := range rows {
		if taken[n] != 1 {
			f.Errorf("record %v: want it selected exactly once before it was settled, got it %d times", row.Key, taken[n])
		}
		s := f.settlement(&backlog.Record{Key: row.Key, Status: Fresh}, workOutcome(n), soon)
		_, err := f.memory.Settle(f.Context(), []backlog.Settlement{s})
		f.harness(err, "settle in memory")
	}
	f.same("one attempt by its worker")
}

func workOutcome(n int) backlog.Outcome { return outcomes[n/workers%len(outcomes)] }

// work walks the fresh lane once, page by page, and settles the records of
// worker w. It returns how many there were.
func (f *fixture) work(store backlog.Store, w int, taken []int) (done int) {
	q := query(backlog.Fresh)
	q.Limit = 30
	for range maxPages {
		page, err := retry(func() (backlog.Page, error) { return store.Pending(f.Context(), q) })
		if err != nil {
			f.Errorf("worker %d: Pending: want a page, got error: %v", w, err)
			break
		}
		var group []backlog.Settlement
		for i := range page.Records {
			r := &page.Records[i]
			key, _ := r.Key.Part(0).(int64)
			if n := int(key) - 1; n%workers == w {
				taken[n]++
				group = append(group, f.settlement(r, workOutcome(n), soon))
			}
		}
		done += len(group)
		unsettled, err := retry(func() ([]backlog.Unsettled, error) { return store.Settle(f.Context(), group) })
		if f.wantTexts("conflicts of workers", nil, f.conflicts(unsettled)); err != nil {
			f.Errorf("worker %d: Settle: want %d outcomes written, got error: %v", w, len(group), err)
		}
		if !page.More || err != nil {
			break
		}
		q.After = page.Next
	}
	return done
}

// retry calls again while the store is busy, as the contract allows.
func retry[T any](call func() (T, error)) (answer T, err error) {
	for range 200 {
		if answer, err = call(); !errors.Is(err, backlog.ErrUnavailable) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return answer, err
}

// testLock checks both locks between users of one store, and between two stores on one
// table.
func testLock(f *fixture) {
	ours, ok := f.h.Store().(backlog.Locker)
	if !ok {
		f.Skip("the store is no backlog.Locker")
	}
	for _, theirs := range []backlog.Locker{ours, f.another().(backlog.Locker)} {
		run := f.lock(ours, backlog.RunLock)
		f.wantLocked(theirs, backlog.RunLock)
		leader := f.lock(theirs, backlog.LeaderLock) // the two are independent
		f.wantLocked(ours, backlog.LeaderLock)
		f.unlock(run)
		f.wantLocked(ours, backlog.LeaderLock)
		run = f.lock(theirs, backlog.RunLock)
		f.wantLocked(ours, backlog.RunLock)
		f.unlock(run)
		f.unlock(leader)
		f.unlock(f.lock(ours, backlog.LeaderLock))
	}
}

// lock takes a lock that is free.
func (f *fixture) lock(l backlog.Locker, name string) backlog.Lock {
	f.Helper()
	lock, err := l.TryLock(f.Context(), name)
	if err != nil {
		f.Fatalf("TryLock of the free %s lock: want the lock, got error: %v", name, err)
	}
	return lock
}

func (f *fixture) wantLocked(l backlog.Locker, name string) {
	f.Helper()
	if lock, err := l.TryLock(f.Context(), name); !errors.Is(err, backlog.ErrLocked) {
		f.Fatalf("TryLock of the held %s lock: want ErrLocked, got %v and error %v", name, lock, err)
	}
}

// unlock gives back a lock, and checks that it was held until then, whatever others have tried.
func (f *fixture) unlock(l backlog.Lock) {
	f.Helper()
	if err := errors.Join(l.Check(f.Context()), l.Unlock()); err != nil {
		f.Fatalf("Check and Unlock of a held lock: want nil, got %v", err)
	}
}
