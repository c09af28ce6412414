package advise_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/internal/worlds"
)

// missTicks makes a world miss a third of its ticks, so that records of one age are tried after different waits.
func missTicks(w *worlds.World) {
	w.Ticks = func(r *rand.Rand, _ float64) bool { return r.Float64() > 0.3 }
}

func TestHealing(t *testing.T) {
	for _, c := range []struct {
		name   string
		misses bool
		tries  float64
		want   advise.Healing
	}{
		{name: "time heals", misses: true, want: advise.HealingByTime},
		{name: "tries heal", misses: true, tries: 0.1, want: advise.HealingByTries},
		{name: "no tick is missed", tries: 0.1, want: advise.HealingUnknown},
	} {
		w := worlds.New(exponentialOf2h, 0, 1)
		w.Tries = c.tries
		if c.misses {
			missTicks(w)
		}
		if got := fit(w).Healing; got != c.want {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}

// A partner who mends at eight in the morning is seen at the ages of half a day, and with half the
// recoveries of the day.
func TestTimeOfDay(t *testing.T) {
	m := fit(worlds.New(worlds.Truths[4], 0.05, 1))
	s := m.Slots(12 * time.Hour)
	if s == nil {
		t.Fatal("recoveries are even")
	}
	if atEight := s[8*12] + s[8*12-1]; atEight < 0.95 {
		t.Errorf("%v of the recoveries are at eight", atEight)
	}
	hour, share := m.BusiestHours()
	if hour < 6 || hour > 8 || share < 0.5 || share > 0.65 {
		t.Errorf("%v of the recoveries from %d on", share, hour)
	}
	if m := fit(worlds.New(exponentialOf2h, 0.05, 1)); m.Slots(time.Hour) != nil {
		t.Error("recoveries are not even")
	}
}

// The rates are those of the world.
func TestRates(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 1).WithOutages()
	m := fit(w)
	if math.Abs(m.PerHour*24/2000-1) > 0.02 {
		t.Errorf("%v records an hour", m.PerHour)
	}
	calls := 0
	for _, p := range w.Play() {
		for _, c := range p.Bands {
			calls += c.Lanes[advise.Fresh].Tried + c.Lanes[advise.Failed].Tried
		}
	}
	if got := m.CallsPerDay * m.Days; math.Abs(got-float64(calls)) > 0.5 {
		t.Errorf("%v calls, not %d", got, calls)
	}
}
