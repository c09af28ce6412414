package propose_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/advise/propose"
	"backlog/internal/testkit"
	"backlog/internal/worlds"
	"backlog/tiers"
)

// A brute tries all schedules of a space.
type brute struct {
	edges, every []time.Duration
	fresh        time.Duration
	most         int
	try          func(*tiers.Schedule)
}

func newBrute(today *tiers.Schedule, oldest time.Duration, most int) *brute {
	b := &brute{edges: slices.Clone(propose.Edges), every: slices.Clone(propose.Intervals), most: most, fresh: today.Tiers()[0].Every}
	for _, t := range today.Tiers() {
		b.edges = append(b.edges, t.MaxAge)
		b.every = append(b.every, t.Every)
	}
	slices.Sort(b.edges)
	slices.Sort(b.every)
	b.edges = slices.DeleteFunc(slices.Compact(b.edges), func(d time.Duration) bool { return d > oldest })
	b.every = slices.Compact(b.every)
	return b
}

// run tries what begins with some tiers.
func (b *brute) run(list []tiers.Tier) {
	last := tiers.Tier{}
	if len(list) > 0 {
		last = list[len(list)-1]
		s, err := tiers.New(list...)
		if err != nil {
			panic(err)
		}
		b.try(s)
	}
	if len(list) == b.most {
		return
	}
	for _, edge := range b.edges {
		for _, every := range b.every {
			first := len(list) == 0
			if first && every > b.fresh || edge-last.MaxAge < every || !first && (every <= last.Every || every%last.Every != 0) {
				continue
			}
			b.run(append(list[:len(list):len(list)], tiers.Tier{MaxAge: edge, Every: every}))
		}
	}
}

// best returns the fewest calls per day of all schedules that keep the wishes, the shortest p95 if only calls
// are limited, and the schedule.
func (b *brute) best(in *propose.Inputs, w propose.Wishes) (float64, *tiers.Schedule) {
	evaluate := propose.Evaluator(in)
	best := math.Inf(1)
	var found *tiers.Schedule
	b.try = func(s *tiers.Schedule) {
		f := evaluate(s)
		value := f.CallsPerDay.Value
		if w.CallsPerHour > 0 {
			value = f.Wait.P95.Value
		}
		kept := f.LostPer1000.Value <= 1000*w.Lost+1e-6 &&
			(w.Wait == 0 || f.Wait.P95.Value <= w.Wait.Seconds()) &&
			(w.CallsPerHour == 0 || f.CallsPerDay.Value <= 24*w.CallsPerHour)
		if kept && value < best {
			best = value
			found = s
		}
	}
	b.run(nil)
	return best, found
}

// The schedule that is found is the best of its space, and it keeps what was asked for when it is played.
func TestMoney(t *testing.T) {
	poisons := []float64{0.05}
	records := 50_000
	oldest := day
	today := testkit.Schedule(t, tiers.Tier{MaxAge: 8 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: day, Every: time.Hour})
	if os.Getenv("BACKLOG_TRUTH") != "" {
		poisons = []float64{0, 0.05, 0.5}
		records = 200_000
		oldest = 14 * day
		today = testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 14 * day, Every: time.Hour})
	}
	for _, truth := range truths {
		for _, poison := range poisons {
			w := world{truth, poison}
			t.Run(fmt.Sprintf("%s, poison %v", w.Name, poison), func(t *testing.T) {
				t.Parallel()
				w.spend(t, today, oldest, records)
			})
		}
	}
}

// spend asks for the fewest calls and for the shortest wait.
func (w world) spend(t *testing.T, today *tiers.Schedule, oldest time.Duration, records int) {
	in := w.inputs(oldest)
	lost := propose.Evaluate(in, today).LostPer1000.Value/1000 + 0.02
	b := newBrute(today, oldest, 3)
	asked := propose.Wishes{Wait: time.Hour, Lost: lost}
	for range 2 {
		want, schedule := b.best(in, asked)
		if schedule == nil {
			t.Fatalf("%+v: no schedule keeps it", asked)
		}
		r := propose.SearchUpTo(3, in, today, asked)
		if r.Kind == propose.Keep {
			f := r.Proposals[0].Figures
			if f.CallsPerDay.Value > want*1.06 && f.Wait.P95.Value > want*1.06 {
				t.Errorf("%+v: %q; best is %v with %s", asked, r.Reasons, want, show(schedule.Tiers()))
			}
			return
		}
		if r.Kind != propose.Propose {
			t.Fatalf("%+v: %s, %q; best is %v with %s", asked, r.Kind, r.Reasons, want, show(schedule.Tiers()))
		}
		f := r.Proposals[1].Figures
		got := f.CallsPerDay.Value
		if asked.CallsPerHour > 0 {
			got = f.Wait.P95.Value
		}
		t.Logf("asked %v calls/h, wait %v, lost %.4f: got %v, best %v with %s", asked.CallsPerHour, asked.Wait, asked.Lost, got, want, show(r.Proposals[1].Tiers))
		if got > want*1.005 || got < want*0.995 {
			t.Errorf("%+v: got %v with %s, best is %v with %s", asked, got, show(r.Proposals[1].Tiers), want, show(schedule.Tiers()))
		}
		w.keeps(t, r.Proposals[1], asked, records, oldest)
		best := propose.SearchUpTo(propose.MostTiers, in, today, asked).Proposals[1]
		w.keeps(t, best, asked, records, oldest)
		asked = propose.Wishes{CallsPerHour: math.Round(1.3 * f.CallsPerDay.Value / 24), Lost: lost}
	}
}

// keeps checks what was asked for when a proposal is played.
func (w world) keeps(t *testing.T, proposal propose.Proposal, asked propose.Wishes, records int, oldest time.Duration) {
	t.Helper()
	p := w.play(testkit.Schedule(t, proposal.Tiers...), records, oldest)
	slices.Sort(p.waits)
	calls := perHour * float64(p.calls) / float64(records)
	late := 0.0
	if asked.Wait > 0 {
		late = p.longer(asked.Wait.Seconds())
	}
	lost := float64(p.lost) / float64(max(1, p.recoverable))
	t.Logf("played: %.1f calls/h, %.2f%% late, lost %.4f with %s", calls, 100*late, lost, show(proposal.Tiers))
	if asked.CallsPerHour > 0 && calls > 1.1*asked.CallsPerHour || late > 0.065 || lost > asked.Lost+0.005 {
		t.Errorf("%+v: played %.1f calls/h, %.2f%% late, lost %.4f with %s", asked, calls, 100*late, lost, show(proposal.Tiers))
	}
}

// Wishes that no schedule keeps are named.
func TestImpossible(t *testing.T) {
	today := testkit.Schedule(t, example[:3]...)
	in := world{truths[3], 0.05}.inputs(14 * day)
	for _, c := range []struct {
		wishes propose.Wishes
		named  []string
	}{
		{propose.Wishes{Lost: -1, CallsPerHour: 90, Wait: time.Hour}, []string{"--calls 90/h", "--wait 1h", "contradict"}},
		{propose.Wishes{Lost: -1, CallsPerHour: 10}, []string{"--calls 10/h", "the fewest are"}},
		{propose.Wishes{Lost: -1, Wait: 20 * time.Second}, []string{"--wait 20s", "the shortest"}},
		{propose.Wishes{Lost: -1, Fresh: 10 * time.Second}, []string{"--fresh 10s", "1m"}},
		{propose.Wishes{Lost: -1, Wait: time.Hour, Fresh: 10 * time.Second}, []string{"--fresh 10s"}},
		{propose.Wishes{Lost: 0}, []string{"--lost 0", "at least"}},
	} {
		r := propose.Search(in, today, c.wishes)
		text := strings.Join(r.Reasons, "\n")
		if r.Kind != propose.Impossible || len(r.Proposals) == 0 || r.Proposals[0].Name != "today" {
			t.Errorf("%+v: %s, %q", c.wishes, r.Kind, text)
		}
		for _, named := range c.named {
			testkit.Contains(t, fmt.Sprintf("%+v", c.wishes), text, named)
		}
	}
}

// Without wishes no more are lost and no new record waits longer than today.
func TestNoWishes(t *testing.T) {
	for _, list := range [][]tiers.Tier{example, example[:3], {{MaxAge: 30 * day, Every: 10 * time.Minute}}} {
		today := testkit.Schedule(t, list...)
		for i, truth := range truths {
			w := world{truth, []float64{0, 0.05, 0.5}[i%3]}
			in := w.inputs(14 * day)
			r := propose.Search(in, today, propose.Wishes{Lost: -1})
			before := r.Proposals[0].Figures
			for _, p := range r.Proposals[1:] {
				f := p.Figures
				if f.LostPer1000.Value > before.LostPer1000.Value+1e-4 || f.NewWait > before.NewWait {
					t.Errorf("%s: %s loses %v instead of %v of 1000, new records wait %v instead of %v",
						w.Name, p.Name, f.LostPer1000.Value, before.LostPer1000.Value, f.NewWait, before.NewWait)
				}
				limits := map[string]bool{
					"today's calls":  f.CallsPerDay.Value <= before.CallsPerDay.Value*1.000001,
					"half the calls": f.CallsPerDay.Value <= before.CallsPerDay.Value*0.500001,
					"today's wait":   f.Wait.P95.Value <= before.Wait.P95.Value*1.05, // the least gain that counts
				}
				if !limits[p.Name] {
					t.Errorf("%s: %s has %v calls a day and waits %v, today %v and %v",
						w.Name, p.Name, f.CallsPerDay.Value, f.Wait.P95.Value, before.CallsPerDay.Value, before.Wait.P95.Value)
				}
				if widest := p.Tiers[len(p.Tiers)-1].MaxAge; today.Widest().MaxAge > in.Oldest && widest != today.Widest().MaxAge {
					t.Errorf("%s: %s ends at %v", w.Name, p.Name, widest)
				}
			}
		}
	}
}

// What is as good as the best is kept.
func TestKeep(t *testing.T) {
	in := world{truths[2], 0.05}.inputs(14 * day)
	in.Drawn = []propose.Curve{in.Broken}
	for _, w := range []propose.Wishes{{Lost: -1, Wait: time.Hour}, {Lost: -1, CallsPerHour: 300}} {
		today := testkit.Schedule(t, example...)
		first := propose.Search(in, today, w)
		if first.Kind != propose.Propose {
			t.Fatalf("%+v: %s, %q", w, first.Kind, first.Reasons)
		}
		today = testkit.Schedule(t, first.Proposals[1].Tiers...)
		r := propose.Search(in, today, w)
		if r.Kind != propose.Keep || len(r.Proposals) != 1 {
			t.Errorf("%+v: %s, %q", w, r.Kind, r.Reasons)
		}
	}
	r := propose.Search(&propose.Inputs{Broken: in.Broken, Oldest: in.Oldest}, testkit.Schedule(t, example...), propose.Wishes{Lost: -1})
	testkit.Equal(t, "without records", r.Kind, propose.Keep)
}

// Whatever is known, there is an answer, with figures that are numbers.
func TestExtremes(t *testing.T) {
	schedules := map[string]*tiers.Schedule{
		"six":     testkit.Schedule(t, example...),
		"one":     testkit.Schedule(t, tiers.Tier{MaxAge: 30 * day, Every: time.Minute}),
		"seconds": testkit.Schedule(t, tiers.Tier{MaxAge: time.Minute, Every: 7 * time.Second}),
		"cron":    testkit.Schedule(t, tiers.Tier{MaxAge: 10 * day, Cron: "*/7 3-9 * * 1-5"}, tiers.Tier{MaxAge: 700 * day, Cron: "0 0 1 * *"}),
		"offset":  testkit.Schedule(t, tiers.Tier{MaxAge: 10 * day, Every: time.Hour}, tiers.Tier{MaxAge: 700 * day, Every: 5 * day, Offset: 3 * time.Hour}),
	}
	curves := map[string]propose.Curve{
		"nothing fails":    func(float64) float64 { return 0 },
		"nothing recovers": func(float64) float64 { return 1 },
		"a step":           func(age float64) float64 { return min(1, max(0, 1e6-age)) },
		"usual":            world{truths[3], 0.05}.inputs(day).Broken,
	}
	slots := new(advise.Slots)
	slots[0] = 1
	for name, s := range schedules {
		for what, curve := range curves {
			for _, oldest := range []time.Duration{0, day, 480 * day} {
				in := &propose.Inputs{PerHour: 10, Broken: curve, Drawn: []propose.Curve{curve}, Oldest: oldest, LongestOutage: time.Hour, CallsPerSecond: 1}
				if oldest == day {
					in.Slots = func(float64) *advise.Slots { return slots }
				}
				for _, w := range []propose.Wishes{{Lost: -1}, {Lost: 0, Wait: time.Hour, CallsPerHour: 20}} {
					r := propose.Search(in, s, w)
					if text := fmt.Sprintf("%+v", r); strings.Contains(text, "NaN") || len(r.Reasons) == 0 {
						t.Errorf("%s, %s, %v: %s", name, what, oldest, text)
					}
					for _, p := range r.Proposals {
						propose.Reasons(in, p.Tiers)
					}
				}
			}
		}
	}
}

// What is proposed by what passes have taught keeps what was asked for under the truth, and costs about as much as
// what would be proposed if the truth were known.
func TestMoneyOfLearned(t *testing.T) {
	seeds := uint64(1)
	poisons := []float64{0.05}
	if os.Getenv("BACKLOG_TRUTH") != "" {
		seeds = 5
		poisons = []float64{0, 0.05, 0.5}
	}
	for i, truth := range truths {
		for _, poison := range poisons {
			t.Run(fmt.Sprintf("%s, poison %v", truth.Name, poison), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					played := worlds.New(worlds.Truths[i], poison, seed+1).WithOutages()
					_, forGood := played.Shares(worlds.Never)
					world{truth, forGood / played.Broken}.learnAndSpend(t, played)
				}
			})
		}
	}
}

// learnAndSpend learns from the passes of a played world, and asks for what can be had.
func (w world) learnAndSpend(t *testing.T, played *worlds.World) {
	m := learn(played)
	today := tiersOf(t, played)
	known := w.inputs(m.Oldest)
	for _, asked := range []propose.Wishes{{Wait: time.Hour, Lost: 0.02}, {Wait: 4 * time.Hour, Lost: 0.02}} {
		r := propose.Search(propose.InputsOf(m), today, asked)
		best := propose.Search(known, today, asked)
		if r.Kind != propose.Propose || best.Kind != propose.Propose {
			t.Errorf("seed %d, %+v: %s, with the truth known %s", played.Seed, asked, r.Kind, best.Kind)
			continue
		}
		w.keeps(t, r.Proposals[1], asked, 50_000, m.Oldest)
		ours := propose.Evaluate(known, testkit.Schedule(t, r.Proposals[1].Tiers...)).CallsPerDay.Value
		least := best.Proposals[1].Figures.CallsPerDay.Value
		t.Logf("seed %d, %+v: %.0f calls a day, the best has %.0f: %.3f times", played.Seed, asked, ours, least, ours/least)
		if ours > 1.1*least {
			t.Errorf("seed %d, %+v: %.0f calls a day with %s, the best has %.0f with %s",
				played.Seed, asked, ours, show(r.Proposals[1].Tiers), least, show(best.Proposals[1].Tiers))
		}
	}
}
