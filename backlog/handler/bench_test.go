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
// /bin/true four at a time. The ratio of the two records/s is what matters.
func BenchmarkExec(b *testing.B) {
	r := &backlog.Record{
		Key: backlog.NewKey(int64(4711)), Status: "NEW", Inserted: time.Unix(1_700_000_000, 0),
		Names:  []string{"id", "status", "payload"},
		Values: []any{int64(4711), "NEW", `{"to": "somebody@example.org", "amount": 12.5}`},
		Tier:   "1d", AttemptID: "01890a5d-ac96-774b-bcce-b302099a8057",
	}
	e := &handler.Exec{Command: []string{"/bin/true"}}
	for _, bb := range []struct {
		name string
		run  func() error
	}{
		{"bare", func() error { return exec.Command("/bin/true").Run() }},
		{"handler", func() error { return e.Handle(b.Context(), r) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := bb.run(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
