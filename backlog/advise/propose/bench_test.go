package propose_test

import (
	"testing"
	"time"

	"backlog/backlog/advise/propose"
	"backlog/backlog/retry"
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
		b.Run(w.Name, func(b *testing.B) {
			for b.Loop() {
				propose.Search(in, today, propose.Wishes{Lost: -1})
				propose.Frontier(in, today, propose.Wishes{Lost: -1})
			}
		})
	}
}

// BenchmarkSearchPolicy is a search of settings with 200 drawn curves.
func BenchmarkSearchPolicy(b *testing.B) {
	s := testkit.Schedule(b, example[:2]...)
	for _, today := range []retry.Settings{linear(10*time.Minute, 100), exponential(time.Minute, 2, 10), list(time.Hour, day)} {
		for _, i := range []int{0, 4} {
			w := world{truths[i], 0.05}
			in := w.inputs(7 * day)
			for range 200 {
				in.Drawn = append(in.Drawn, in.Broken)
			}
			b.Run(today.Keeps().Name+" "+w.Name, func(b *testing.B) {
				for b.Loop() {
					if _, err := propose.SearchPolicy(in, s, today, propose.Wishes{Lost: -1}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
