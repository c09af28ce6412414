package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
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
	f.insert(f.rows(firstRows, Fresh)...)
	store := f.h.Store()
	var inserted atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer inserted.Store(true)
		for n := firstRows; n < firstRows+laterRows; n += laterBatch {
			var batch []Row
			for i := range laterBatch {
				batch = append(batch, f.row(n+i, Fresh, 0))
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
			for !f.Failed() {
				last := inserted.Load()
				n := len(taken[w])
				f.work(store, w, taken[w])
				if last && len(taken[w]) == n {
					return
				}
			}
		})
	}
	wg.Wait()

	for n := range firstRows + laterRows {
		if times := taken[n%workers][n]; times != 1 {
			f.Errorf("record %v: want it selected exactly once before it was settled, got it %d times", f.key(n), times)
		}
		row := f.read(f.key(n))
		if want := f.settled(Fresh, workOutcome(n)); row.State != want || row.Attempts != 1 {
			f.Errorf("record %v: want state %v after 1 attempt, got %v after %d", f.key(n), want, row.State, row.Attempts)
		}
	}
}

func workOutcome(n int) backlog.Outcome { return outcomes[n/workers%len(outcomes)] }

// work walks the fresh lane once, page by page, and settles the records of
// worker w.
func (f *fixture) work(store backlog.Store, w int, taken map[int]int) {
	q := pages(backlog.Fresh, 30)
	for range maxPages {
		var page backlog.Page
		err := retry(func() (err error) {
			page, err = store.Pending(f.Context(), q)
			return err
		})
		if err != nil {
			f.Errorf("worker %d: Pending: want a page, got error: %v", w, err)
			return
		}
		var group []backlog.Settlement
		for i := range page.Records {
			r := &page.Records[i]
			if n := f.number(r.Key); n%workers == w {
				taken[n]++
				group = append(group, settlement(r, workOutcome(n)))
			}
		}
		var unsettled []backlog.Unsettled
		err = retry(func() (err error) {
			unsettled, err = store.Settle(f.Context(), group)
			return err
		})
		if err != nil {
			f.Errorf("worker %d: Settle: want %d outcomes written, got error: %v", w, len(group), err)
			return
		}
		wantConflicts(f, group, unsettled)
		if !page.More {
			return
		}
		q.After = page.Next
	}
}

// retry calls again, as the contract lets it, while the store is busy.
func retry(call func() error) error {
	var err error
	for range 200 {
		if err = call(); !errors.Is(err, backlog.ErrAway) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
