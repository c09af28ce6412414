package propose_test

import (
	"fmt"
	"testing"
	"time"

	"backlog/backlog/advise/propose"
	"backlog/internal/testkit"
)

func TestSearchShow(t *testing.T) {
	today := testkit.Schedule(t, example...)
	for i, truth := range truths {
		w := world{truth, []float64{0, 0.05, 0.5}[i%3]}
		in := w.inputs(30 * day)
		for range 200 {
			in.Drawn = append(in.Drawn, in.Broken)
		}
		for _, wish := range []propose.Wishes{{Lost: -1}, {Lost: -1, CallsPerHour: 200}, {Lost: -1, Wait: time.Hour}, {Lost: -1, Wait: time.Hour, CallsPerHour: 90}, {Lost: 0.01}} {
			start := time.Now()
			r := propose.Search(in, today, wish)
			fmt.Println(w.name, w.poison, wish, r.Kind, r.Reasons, time.Since(start))
			for _, p := range r.Proposals {
				f := p.Figures
				fmt.Printf("   %-15s %8.1f calls %8.0f peak p50 %7.0f p95 %7.0f lost %5.1f  %s\n", p.Name, f.CallsPerDay.Value, f.Peak, f.Wait.P50.Value, f.Wait.P95.Value, f.LostPer1000.Value, show(p.Tiers))
			}
		}
		start := time.Now()
		fr := propose.Frontier(in, today, propose.Wishes{Lost: -1})
		fmt.Println(time.Since(start), fr)
	}
}
