package backlog

import (
	"context"
	"sync"
	"testing"
	"time"

	"backlog/backlog/plan"
)

// An endless table has n records in each lane, in order.
type endlessTable struct{ n int }

func (e endlessTable) Pending(_ context.Context, q Query) (page Page, err error) {
	from := 0
	if !q.After.IsZero() {
		from = int(q.After.Key.Part(0).(int64))%e.n + 1
	}
	for i := from; i < min(from+q.Limit, e.n); i++ {
		k := NewKey(int64(int(q.Lane)*e.n + i))
		page.Records = append(page.Records, Record{Key: k, Lane: q.Lane, Cursor: Cursor{Key: k}})
		page.Next = Cursor{Key: k}
	}
	page.More = from+q.Limit < e.n
	return page, nil
}

func (e endlessTable) Settle(context.Context, []Settlement) ([]Unsettled, error) { return nil, nil }

// A pass remembers of records that succeeded only those of the pages that are
// in use: it may come by millions.
func TestFlightsOfALongPass(t *testing.T) {
	const n = 10_000
	e := &Engine{Store: endlessTable{n}, Concurrency: 4}
	var mu sync.Mutex
	most, calls := 0, 0
	e.Handler = HandlerFunc(func(context.Context, *Record) error {
		held, _ := e.flights.Len()
		mu.Lock()
		defer mu.Unlock()
		most = max(most, held)
		calls++
		return nil
	})
	rep, err := e.Pass(context.Background(), Pass{MaxAge: time.Hour})
	if err != nil || calls != 2*n || rep.Succeeded != 2*n {
		t.Fatalf("want %d records done, got %d calls, %+v, error %v", 2*n, calls, rep, err)
	}
	if limit := 4*plan.MaxPage + 2*MaxGroup; most > limit {
		t.Errorf("want at most %d records remembered at a time, got %d", limit, most)
	}
	if _, open := e.flights.Len(); open != 0 {
		t.Errorf("want every page closed, got %d open", open)
	}
}
