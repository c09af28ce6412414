package simulate_test

import (
	"strings"
	"testing"
	"time"

	"backlog/backlog/simulate"
)

// A last, shorter mark does not look like a fall.
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
}

// A line has as many marks as fit, and the greatest value is a full block however small.
func TestSparklinesFit(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for buckets, want := range map[int]int{1: 0, 2: 2, 68: 68, 69: 35} {
		r := &simulate.Report{Complete: true}
		for i := range buckets {
			r.Series = append(r.Series, simulate.Bucket{At: from.Add(time.Duration(i) * time.Minute), MaxPending: 1})
		}
		result := simulate.Result{Report: r, To: from.Add(time.Duration(buckets) * time.Minute)}
		if got := strings.Count(result.Sparklines(), "█"); got != want {
			t.Errorf("%d buckets: %d full marks, want %d", buckets, got, want)
		}
	}
}

// 150 buckets are not too many.
func TestBucketWidth(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		150 * time.Minute: time.Minute, 151 * time.Minute: 5 * time.Minute, 150 * 7 * day: 7 * day, 151 * 7 * day: 30 * day,
	} {
		if got := simulate.BucketWidth(length); got != want {
			t.Errorf("%v: buckets of %v, want %v", length, got, want)
		}
	}
}
