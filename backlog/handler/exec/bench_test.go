//go:build unix

package exec_test

import (
	osexec "os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
)

// BenchmarkExec compares the handler with a bare os/exec loop, both running
// /bin/true four at a time. On a machine that is busy with other things the
// two differ from minute to minute: "ratio" takes turns in small batches, and
// reports the handler's speed as a fraction of the bare loop's; "cpu-ratio" compares
// the time of the processor, which other programs do not change.
func BenchmarkExec(b *testing.B) {
	r := &backlog.Record{
		Key: backlog.NewKey(int64(4711)), Status: "NEW", Inserted: time.Unix(1_700_000_000, 0),
		Names:  []string{"id", "status", "payload"},
		Values: []any{int64(4711), "NEW", `{"to": "somebody@example.org", "amount": 12.5}`},
		Tier:   "1d", AttemptID: "01890a5d-ac96-774b-bcce-b302099a8057",
	}
	e := &exec.Handler{Settings: exec.Settings{Command: []string{"/bin/true"}}}
	bare := func() error { return osexec.Command("/bin/true").Run() }
	handle := func() error { return e.Handle(b.Context(), r) }

	b.Run("bare", func(b *testing.B) {
		b.ReportMetric(float64(b.N)/fourAtATime(b, b.N, bare).Seconds(), "records/s")
	})
	b.Run("handler", func(b *testing.B) {
		b.ReportMetric(float64(b.N)/fourAtATime(b, b.N, handle).Seconds(), "records/s")
	})
	b.Run("ratio", func(b *testing.B) {
		const batch = 50
		var bareTook, handlerTook, bareCPU, handlerCPU time.Duration
		for done := 0; done < b.N; done += batch {
			n := min(batch, b.N-done)
			began := cpuTime(b)
			bareTook += fourAtATime(b, n, bare)
			between := cpuTime(b)
			handlerTook += fourAtATime(b, n, handle)
			bareCPU, handlerCPU = bareCPU+between-began, handlerCPU+cpuTime(b)-between
		}
		b.ReportMetric(bareTook.Seconds()/handlerTook.Seconds(), "ratio")
		b.ReportMetric(bareCPU.Seconds()/handlerCPU.Seconds(), "cpu-ratio")
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

// cpuTime returns the time of the processor that this process and its children have
// used.
func cpuTime(b *testing.B) (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
