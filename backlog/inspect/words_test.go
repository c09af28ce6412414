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

func TestLevels(t *testing.T) {
	at := func(list ...int) (values []*int) {
		for _, v := range list {
			value := &v
			if v < 0 {
				value = nil
			}
			values = append(values, value)
		}
		return values
	}
	for _, c := range []struct {
		levels inspect.Levels
		values []*int
		want   string
	}{
		{inspect.Blocks, nil, ""},
		{inspect.Blocks, at(-1, 0, 1, 400, 800), "· ▁▄█"},
		{inspect.Digits, at(-1, 0, 1, 400, 900), "-.149"},
		{inspect.Digits, at(1<<40, 1), "91"},
		{inspect.Digits, at(0, 0), ".."},
	} {
		if got := c.levels.Line(c.values); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
