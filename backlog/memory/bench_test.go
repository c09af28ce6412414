package memory_test

import (
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// BenchmarkPending reads a page in the middle of tables of several sizes.
func BenchmarkPending(b *testing.B) {
	for _, n := range []int64{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := memory.New(memory.Options{})
			for i := range n {
				insert(b, s, memory.Row{Key: key(i), Status: "NEW", Inserted: now.Add(time.Duration(i-n) * time.Microsecond)})
			}
			q := query(backlog.Fresh)
			q.After = backlog.Cursor{Order: now.Add(-time.Duration(n/2) * time.Microsecond).UnixNano(), Key: key(n / 2)}
			for b.Loop() {
				if got := len(pending(b, s, q).Records); got != q.Limit {
					b.Fatalf("want a page of %d, got %d", q.Limit, got)
				}
			}
		})
	}
}

// BenchmarkPass fails a whole table of fresh records, newest first, which is
// the worst order for the index of the failed ones.
func BenchmarkPass(b *testing.B) {
	const n = 200_000
	for b.Loop() {
		s := memory.New(memory.Options{})
		for i := range int64(n) {
			insert(b, s, memory.Row{Key: key(i), Status: "NEW", Inserted: now.Add(-time.Duration(i) * time.Microsecond)})
		}
		q := query(backlog.Fresh)
		q.Limit = backlog.MaxGroup
		for more := true; more; {
			page := pending(b, s, q)
			group := make([]backlog.Settlement, len(page.Records))
			for i := range page.Records {
				group[i] = backlog.Settlement{Record: &page.Records[i], Target: backlog.RowError}
			}
			if _, err := s.Settle(b.Context(), group); err != nil {
				b.Fatal(err)
			}
			q.After, more = page.Next, page.More
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
}
