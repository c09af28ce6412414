package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"backlog/backlog"
)

const (
	workers    = 8
	firstRows  = 200 // there at the start
	laterRows  = 80  // inserted meanwhile
	laterBatch = 8
)

// testConcurrency lets workers page through one lane and settle, each of them
// its own records, while rows are inserted.
func testConcurrency(f *fixture) {
	rows := f.rows(firstRows+laterRows, Fresh)
	f.insert(rows[:firstRows]...)
	store := f.h.Store()
	var wg sync.WaitGroup
	wg.Go(func() {
		for batch := range slices.Chunk(rows[firstRows:], laterBatch) {
			for i := range batch {
				batch[i].Inserted = now
			}
			if err := f.h.Insert(batch...); err != nil {
				f.Errorf("harness: insert while the store works: %v", err)
				return
			}
		}
	})
	taken := make([]map[int]int, workers)
	for w := range workers {
		taken[w] = make(map[int]int)
		wg.Go(func() {
			for len(taken[w]) < len(rows)/workers && !f.Failed() {
				f.work(store, w, taken[w])
			}
		})
	}
	wg.Wait()
	f.harness(f.memory.Insert(rows[firstRows:]...), "insert in memory")
	for n, row := range rows {
		if times := taken[n%workers][n]; times != 1 {
			f.Errorf("record %v: want it selected exactly once before it was settled, got it %d times", row.Key, times)
		}
		s := f.settlement(&backlog.Record{Key: row.Key, Status: Fresh}, workOutcome(n))
		_, err := f.memory.Settle(f.Context(), []backlog.Settlement{s})
		f.harness(err, "settle in memory")
	}
	f.same("one attempt by its worker")
}

func workOutcome(n int) backlog.Outcome { return outcomes[n/workers%len(outcomes)] }

// work walks the fresh lane once, page by page, and settles the records of
// worker w.
func (f *fixture) work(store backlog.Store, w int, taken map[int]int) {
	q := query(backlog.Fresh)
	q.Limit = 30
	for range maxPages {
		page, err := retry(func() (backlog.Page, error) { return store.Pending(f.Context(), q) })
		if err != nil {
			f.Errorf("worker %d: Pending: want a page, got error: %v", w, err)
			return
		}
		var group []backlog.Settlement
		for i := range page.Records {
			r := &page.Records[i]
			key, _ := r.Key.Part(0).(int64)
			if n := int(key) - 1; n%workers == w {
				taken[n]++
				group = append(group, f.settlement(r, workOutcome(n)))
			}
		}
		unsettled, err := retry(func() ([]backlog.Unsettled, error) { return store.Settle(f.Context(), group) })
		if err != nil {
			f.Errorf("worker %d: Settle: want %d outcomes written, got error: %v", w, len(group), err)
			return
		}
		f.wantConflicts(group, nil, unsettled)
		if !page.More {
			return
		}
		q.After = page.Next
	}
}

// retry calls again, as the contract lets it, while the store is busy.
func retry[T any](call func() (T, error)) (answer T, err error) {
	for range 200 {
		if answer, err = call(); !errors.Is(err, backlog.ErrUnavailable) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return answer, err
}
