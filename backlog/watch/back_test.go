package watch_test

import (
	"fmt"
	"testing"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// The last pass of each tier is the one that started last, whichever source tells of it.
func TestLastOfEach(t *testing.T) {
	pass := func(tier string, minute int) watch.Pass {
		return watch.Pass{Tier: tier, Started: inspect.Stamp(time.Date(2026, 3, 5, 12, minute, 0, 0, time.UTC))}
	}
	got := ""
	for _, p := range watch.LastOfEach([]watch.Pass{pass("7d", 0), pass("1d", 5), pass("1d", 10), pass("1d", 10), pass("7d", 1), pass("1d", 2)}) {
		got += fmt.Sprintf("%s %d, ", p.Tier, time.Time(p.Started).Minute())
	}
	if want := "1d 10, 7d 1, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
