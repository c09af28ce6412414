//go:build unix

package backlog_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// BenchmarkPass is what the engine itself takes of the processor for a record: the handler
// does nothing, and the store is memory.
func BenchmarkPass(b *testing.B) {
	n := 100_000
	if testing.Short() {
		n = 1000
	}
	for _, concurrency := range []int{1, 16} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			var spent time.Duration
			for range b.N {
				e := &backlog.Engine{Store: filled(b, n), Handler: backlog.HandlerFunc(succeed), Concurrency: concurrency}
				before := processorTime(b)
				rep, err := e.Pass(b.Context(), backlog.Pass{MaxAge: day})
				spent += processorTime(b) - before
				if err != nil || rep.Succeeded != n {
					b.Fatalf("%d records succeeded, %v", rep.Succeeded, err)
				}
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N*n), "cpu-ns/record")
		})
	}
}

// filled returns a store with fresh records.
func filled(b *testing.B, n int) *memory.Store {
	b.Helper()
	s := memory.New(memory.Options{})
	for i := range n {
		if err := s.Insert(memory.Row{Key: key(i), Status: "NEW", Inserted: time.Now()}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// processorTime returns what the process has had of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
