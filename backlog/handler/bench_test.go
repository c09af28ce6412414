//go:build unix

package handler_test

import (
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler"
)

// BenchmarkExec compares the handler with a bare os/exec loop, both running
// /bin/true four at a time. On a machine that is busy with other things the
// two differ from minute to minute: "ratio" takes turns in small batches, and
// reports the handler's speed as a fraction of the bare loop's.
func BenchmarkExec(b *testing.B) {
	r := &backlog.Record{
		Key: backlog.NewKey(int64(4711)), Status: "NEW", Inserted: time.Unix(1_700_000_000, 0),
		Names:  []string{"id", "status", "payload"},
		Values: []any{int64(4711), "NEW", `{"to": "somebody@example.org", "amount": 12.5}`},
		Tier:   "1d", AttemptID: "01890a5d-ac96-774b-bcce-b302099a8057",
	}
	e := &handler.Exec{Command: []string{"/bin/true"}}
	bare := func() error { return exec.Command("/bin/true").Run() }
	handle := func() error { return e.Handle(b.Context(), r) }

	b.Run("bare", func(b *testing.B) {
		b.ReportMetric(float64(b.N)/fourAtATime(b, b.N, bare).Seconds(), "records/s")
	})
	b.Run("handler", func(b *testing.B) {
		b.ReportMetric(float64(b.N)/fourAtATime(b, b.N, handle).Seconds(), "records/s")
	})
	b.Run("ratio", func(b *testing.B) {
		const batch = 50
		var bareTook, handlerTook time.Duration
		for done := 0; done < b.N; done += batch {
			n := min(batch, b.N-done)
			bareTook += fourAtATime(b, n, bare)
			handlerTook += fourAtATime(b, n, handle)
		}
		b.ReportMetric(bareTook.Seconds()/handlerTook.Seconds(), "ratio")
	})
}

func fourAtATime(b *testing.B, n int, run func() error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
	for range 4 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := run(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
