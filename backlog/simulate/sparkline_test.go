package simulate_test

import (
	"testing"
	"time"

	"backlog/backlog/simulate"
)

// Neither of a last, shorter mark nor of a count that went wrong comes a fall
// or a panic.
func TestSparklines(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	r := &simulate.Report{Complete: true}
	for i, n := range []int{4, 4, 4, 1} {
		r.Series = append(r.Series, simulate.Bucket{At: from.Add(time.Duration(i) * time.Hour), Attempts: n, MaxPending: 8 * n, Pending: -1})
	}
	for _, c := range []struct {
		length time.Duration
		calls  string
	}{{4 * time.Hour, "███▂"}, {3*time.Hour + 15*time.Minute, "███"}} {
		result := simulate.Result{Report: r, To: from.Add(c.length)}
		want := "1h a mark, at most 4 calls, 32 records pending\n  calls    " + c.calls + "\n  pending  ███▂\n"
		if got := result.Sparklines(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := simulate.Sparkline(r.Series, func(b simulate.Bucket) int { return b.Pending }); got != "" {
		t.Errorf("less than nothing is drawn as %q", got)
	}
}
