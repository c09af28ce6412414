package inspect_test

import (
	"testing"

	"backlog/backlog/inspect"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		values []int
		want   string
	}{
		{nil, ""},
		{[]int{0, 4, 8, 1}, " ▄█▁"},
		{[]int{1}, "█"},
		{[]int{-1, -2}, ""}, // a count that went wrong
	} {
		if got := inspect.Sparkline(c.values); got != c.want {
			t.Errorf("%v: %q, not %q", c.values, got, c.want)
		}
	}
}
