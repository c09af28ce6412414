package propose_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"backlog/backlog/advise/propose"
	"backlog/internal/testkit"
	"backlog/internal/worlds"
	"backlog/tiers"
)

const day = 24 * time.Hour

var example = []tiers.Tier{
	{MaxAge: day, Every: 5 * time.Minute}, {MaxAge: 7 * day, Every: time.Hour}, {MaxAge: 14 * day, Every: 12 * time.Hour},
	{MaxAge: 30 * day, Every: day}, {MaxAge: 180 * day, Every: 4 * day}, {MaxAge: 360 * day, Every: 8 * day},
}

// The figures are those of records that are followed one by one.
func TestEvaluateIsPlayed(t *testing.T) {
	schedules := map[string][]tiers.Tier{
		"example": example[:4],
		"two":     {{MaxAge: 2 * time.Hour, Every: 10 * time.Minute}, {MaxAge: 2 * day, Every: 2 * time.Hour}},
		"daily":   {{MaxAge: 8 * time.Hour, Every: time.Hour}, {MaxAge: 14 * day, Every: day}},
		"edges":   {{MaxAge: time.Hour, Every: time.Hour}, {MaxAge: 8 * time.Hour, Every: 6 * time.Hour}, {MaxAge: 4 * day, Every: 2 * day}},
		"odd":     {{MaxAge: 3 * time.Hour, Every: 7 * time.Minute}, {MaxAge: day, Every: 50 * time.Minute, Offset: 3 * time.Minute}, {MaxAge: 5 * day, Every: 13 * time.Hour}},
		"cron":    {{MaxAge: 6 * time.Hour, Cron: "*/20 6-20 * * *"}, {MaxAge: 10 * day, Cron: "0 3 * * *"}},
	}
	records := 100_000
	if os.Getenv("BACKLOG_TRUTH") != "" {
		records = 1_000_000
	}
	for n, name := range []string{"example", "two", "daily", "edges", "odd", "cron"} {
		s := testkit.Schedule(t, schedules[name]...)
		for i, truth := range truths {
			if (n+i)%3 > 0 && os.Getenv("BACKLOG_TRUTH") == "" {
				continue
			}
			w := world{truth, []float64{0, 0.05, 0.5}[i%3]}
			t.Run(name+" "+truth.Name, func(t *testing.T) {
				t.Parallel()
				oldest := s.Widest().MaxAge
				f := propose.Evaluate(w.inputs(oldest), s)
				p := w.play(s, records, oldest)
				slices.Sort(p.waits)
				perDay := perHour * 24 / float64(records)
				near(t, "calls", f.CallsPerDay.Value, perDay*float64(p.calls), 0.02)
				near(t, "in vain", f.InVainPerDay.Value, perDay*float64(p.inVain), 0.02)
				if w.slots == nil {
					exact := 0.02
					if name == "odd" || name == "cron" {
						exact = 0.2 // ticks differ
					}
					near(t, "peak", f.Peak, w.playPeak(s), exact)
				}
				if p.recoverable < 500 {
					return
				}
				lost := 1000 * float64(p.lost) / float64(p.recoverable)
				if math.Abs(lost-f.LostPer1000.Value) > 4*math.Sqrt(1+lost*1000/float64(p.recoverable)) {
					t.Errorf("lost %v, played %v", f.LostPer1000.Value, lost)
				}
				w.checkWaits(t, p, 0.5, f.Wait.P50.Value)
				w.checkWaits(t, p, 0.95, f.Wait.P95.Value)
			})
		}
	}
}

// checkWaits compares a quantile with the waits that were played. What is known of times of a day is known for
// slots of five minutes.
func (w world) checkWaits(t *testing.T, p *play, share, value float64) {
	t.Helper()
	blur := 0.01 * value
	if w.slots != nil {
		blur += 300
	}
	value = min(value, worlds.Never/2) // longer wait those who are lost
	chance := 4 * math.Sqrt(share*(1-share)/float64(len(p.waits)))
	low := p.longer(value + blur)
	high := p.longer(value - blur)
	if low-chance > 1-share || high+chance < 1-share {
		t.Errorf("%v: %v to %v of %d wait longer than %v", share, low, high, len(p.waits), value)
	}
}

// longer returns the share of the waits that are longer.
func (p *play) longer(than float64) float64 {
	i, _ := slices.BinarySearch(p.waits, math.Nextafter(than, worlds.Never*2))
	return float64(len(p.waits)-i) / float64(len(p.waits))
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	t.Logf("%s: %+.2f%%", what, 100*(got/want-1))
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %v, played %v (%+.2f%%)", what, got, want, 100*(got/want-1))
	}
}

func show(list []tiers.Tier) (text string) {
	for _, t := range list {
		text += fmt.Sprintf("%s/%s ", tiers.FormatDuration(t.MaxAge), tiers.FormatDuration(t.Every))
	}
	return text
}

// A tier has a reason with numbers.
func TestReasons(t *testing.T) {
	in := world{truths[0], 0.05}.inputs(14 * day)
	list := []tiers.Tier{
		{MaxAge: 5 * time.Hour, Every: 5 * time.Minute}, {MaxAge: 7 * day, Every: time.Hour},
		{MaxAge: 14 * day, Every: 12 * time.Hour}, {MaxAge: 30 * day, Every: day},
	}
	testkit.Equal(t, "reasons", propose.Reasons(in, list), []string{
		"new records, and 92 % of the recoverable recover at these ages; 17 % of the calls succeed",
		"8.4 % of the recoverable recover at these ages; 1 call in 105 succeeds",
		"almost none of the recoverable recover at these ages",
		"nothing is known of records older than 14d",
	})
}

// A backlog is tried at the next tick of the narrowest tier that still takes its oldest record then.
func TestRecovery(t *testing.T) {
	s := testkit.Schedule(t, example[:3]...)
	for outage, want := range map[time.Duration]float64{
		0: 0, 6 * time.Hour: 300, day - 5*time.Minute: 300, day - time.Minute: 3600, 7 * day: 12 * 3600, 20 * day: 12 * 3600,
	} {
		in := world{truths[1], 0}.inputs(14 * day)
		in.LongestOutage = outage
		testkit.Equal(t, outage.String(), propose.Evaluate(in, s).Recovery, want)
	}
	in := world{truths[1], 0}.inputs(14 * day)
	in.LongestOutage = 6 * time.Hour
	in.CallsPerSecond = 2
	testkit.Equal(t, "with calls", math.Round(propose.Evaluate(in, s).Recovery), 300+perHour*6/2)
}

// The longest a new record waits is the longest time without a tick.
func TestNewWait(t *testing.T) {
	in := world{truths[0], 0}.inputs(14 * day)
	for cron, want := range map[string]float64{"*/20 * * * *": 1200, "*/20 6-20 * * *": 33600, "0 3 * * 0": 7 * oneDay} {
		f := propose.Evaluate(in, testkit.Schedule(t, tiers.Tier{MaxAge: 14 * day, Cron: cron}))
		testkit.Equal(t, cron, f.NewWait, want)
	}
}

// The intervals are those of the curves that were drawn.
func TestIntervals(t *testing.T) {
	schedules := [][]tiers.Tier{example[:3], {{MaxAge: 14 * day, Cron: "*/20 6-20 * * *"}}}
	for _, list := range schedules {
		s := testkit.Schedule(t, list...)
		in := world{truths[0], 0.05}.inputs(14 * day)
		for i := range 101 {
			w := world{truth{Truth: worlds.Weibull("", 1, (1.5+float64(i)/100)*hour)}, 0.05}
			in.Drawn = append(in.Drawn, w.inputs(14*day).Broken)
		}
		f := propose.Evaluate(in, s)
		low := propose.Evaluate(&propose.Inputs{PerHour: perHour, Broken: in.Drawn[5], Oldest: in.Oldest}, s)
		high := propose.Evaluate(&propose.Inputs{PerHour: perHour, Broken: in.Drawn[95], Oldest: in.Oldest}, s)
		near(t, "low calls", f.CallsPerDay.Low, low.CallsPerDay.Value, 0.02)
		near(t, "high calls", f.CallsPerDay.High, high.CallsPerDay.Value, 0.02)
		near(t, "low in vain", f.InVainPerDay.Low, low.InVainPerDay.Value, 0.02)
		near(t, "high in vain", f.InVainPerDay.High, high.InVainPerDay.Value, 0.02)
	}
}
