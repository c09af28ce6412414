package propose_test

import (
	"testing"

	"backlog/backlog/advise/propose"
	"backlog/internal/testkit"
)

// BenchmarkSearch is a search of all kinds of schedules with 200 drawn curves.
func BenchmarkSearch(b *testing.B) {
	today := testkit.Schedule(b, example...)
	for _, i := range []int{2, 4} {
		w := world{truths[i], 0.05}
		in := w.inputs(30 * day)
		for range 200 {
			in.Drawn = append(in.Drawn, in.Broken)
		}
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				propose.Search(in, today, propose.Wishes{Lost: -1})
				propose.Frontier(in, today, propose.Wishes{Lost: -1})
			}
		})
	}
}
