package advise_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/internal/worlds"
)

// exponentialOf2h is the truth of most tests.
var exponentialOf2h = worlds.Truths[0]

func dayOf(at time.Time) float64 { return at.Sub(worlds.Start).Hours() / 24 }

// A change of behaviour is found on its day, one more or less.
func TestChange(t *testing.T) {
	for name, step := range map[string]func(inserted, recovers float64) float64{
		"a fault is mended for all": func(inserted, recovers float64) float64 {
			mended := 15.4 * worlds.Day
			if recovers == 0 || inserted >= mended {
				return 0
			}
			return mended - inserted
		},
		"more fail": func(inserted, recovers float64) float64 {
			if inserted < 15*worlds.Day && math.Mod(inserted, 3) < 1 {
				return 0
			}
			return recovers
		},
		"they recover sooner": func(inserted, recovers float64) float64 {
			if recovers < worlds.Never && inserted > 15*worlds.Day {
				return recovers / 2
			}
			return recovers
		},
	} {
		w := worlds.New(exponentialOf2h, 0.05, 5)
		w.Step = step
		m := fit(w)
		if d := dayOf(m.Changed); math.Abs(d-15) > 1 {
			t.Errorf("%s: on day %v", name, d)
		}
		if !m.Changed.IsZero() && m.From.Before(m.Changed) {
			t.Errorf("%s: learned from %v on", name, m.From)
		}
	}
}

// With little traffic and much poison most passes have no success, which is no outage.
func TestFewRecords(t *testing.T) {
	for seed := range uint64(5) {
		w := worlds.New(exponentialOf2h, 0.8, seed)
		w.PerDay = 20
		w.Broken = 0.5
		m := fit(w)
		if len(m.Outages) > 0 || !m.Changed.IsZero() {
			t.Errorf("seed %d: %d outages, changed on %v", seed, len(m.Outages), m.Changed)
		}
		if v := judge(w, m); v.forGood > 0.1 {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
}

// What outages are said to last is what they lasted, but for a tick at each end.
func TestOutages(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 2).WithOutages()
	m := fit(w)
	if len(m.Outages) != len(w.Down) {
		t.Fatalf("%d of %d outages", len(m.Outages), len(w.Down))
	}
	for i, o := range m.Outages {
		from := worlds.Start.Add(time.Duration(w.Down[i][0] * float64(time.Second)))
		to := worlds.Start.Add(time.Duration(w.Down[i][1] * float64(time.Second)))
		if o.From.Sub(from).Abs() > 10*time.Minute || o.To.Sub(to).Abs() > 10*time.Minute {
			t.Errorf("%v to %v, not %v to %v", o.From, o.To, from, to)
		}
	}
}

// Passes that abort_after ends in an outage are part of it.
func TestAbortedPasses(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 2).WithOutages()
	w.Aborts = 0.9
	m := fit(w)
	v := judge(w, m)
	if v.worst > 0.03 || v.forGood > 0.02 || len(m.Outages) != len(w.Down) || m.LeftOut.Incomplete > 0 {
		t.Errorf("%v, %d of %d outages, %+v", v, len(m.Outages), len(w.Down), m.LeftOut)
	}
}

// Days that differ are no change, but widen the intervals.
func TestDaysDiffer(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 2)
	same := fit(w)
	w.Step = func(inserted, recovers float64) float64 {
		if int(inserted/worlds.Day)%3 == 0 {
			return 0
		}
		return recovers
	}
	m := fit(w)
	width := m.FirstFailures.High - m.FirstFailures.Low
	if !m.Changed.IsZero() || width < 5*(same.FirstFailures.High-same.FirstFailures.Low) {
		t.Errorf("changed on %v, an interval of %v", m.Changed, width)
	}
}

// What an old record is when it is first tried, or retried by hand, tells nothing of the age it recovers at.
func TestRetriedRecords(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 3)
	passes := w.Play()
	for i := range passes {
		for k := range passes[i].Bands {
			if b := &passes[i].Bands[k]; b.Band == 9 {
				b.Lanes[advise.Fresh] = advise.Tally{Tried: 10, Succeeded: 10}
			}
		}
	}
	m := advise.Fit(&advise.History{Passes: passes})
	if v := judge(w, m); v.worst > 0.03 || v.forGood > 0.02 || m.Retried == 0 {
		t.Errorf("%v, %d retried", v, m.Retried)
	}
}

// Incomplete passes are not learned from, nor are bands with many of their attempts.
func TestIncompletePasses(t *testing.T) {
	for _, every := range []int{40, 2} {
		w := worlds.New(exponentialOf2h, 0.05, 3)
		w.Aborts = 0.6
		cut := 0
		w.Cut = func(i int) bool {
			if i%every == 1 {
				cut++
			}
			return i%every == 1
		}
		m := fit(w)
		v := judge(w, m)
		if v.worst > 0.03 || v.forGood > 0.02 && every > 2 || m.LeftOut.Incomplete != cut {
			t.Errorf("every %d: %v, %d of %d incomplete passes", every, v, m.LeftOut.Incomplete, cut)
		}
		if learned := every > 2; learned != (len(m.StillBroken) > 0) || learned != (len(m.Incomplete) == 0) {
			t.Errorf("every %d: %d bands are not learned from, S has %d ages", every, len(m.Incomplete), len(m.StillBroken))
		}
	}
}

// Neither other tiers nor missed ticks are taken for recoveries or their lack.
func TestOtherTicks(t *testing.T) {
	w := worlds.New(worlds.Truths[3], 0.05, 4)
	w.Ticks = func(r *rand.Rand, at float64) bool {
		if at > 20*worlds.Day && math.Mod(at, 15*worlds.Minute) > 0 {
			return false // the first tier's interval is 15m now
		}
		return math.Mod(at, 7*worlds.Day) > 3*worlds.Hour && r.Float64() > 0.1
	}
	m := fit(w)
	v := judge(w, m)
	if v.worst > 0.03 || v.forGood > 0.02 || !m.Changed.IsZero() || len(m.Outages) > 0 {
		t.Errorf("%v, changed on %v, %d outages", v, m.Changed, len(m.Outages))
	}
}

// Under a policy the rows tell how long they waited, and passes at which mean age.
func TestPolicy(t *testing.T) {
	for _, truth := range worlds.Truths[:2] {
		w := worlds.New(truth, 0.05, 6)
		w.Delay = func(failures int) float64 {
			return min(5*worlds.Minute*math.Pow(2, float64(failures-1)), 12*worlds.Hour)
		}
		if v := judge(w, fit(w)); v.worst > 0.03 || v.forGood > 0.02 {
			t.Errorf("%s: %v", truth.Name, v)
		}
	}
}

// The days and hours that passes are folded into tell nearly the same.
func TestFolded(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 6)
	w.Delay = func(failures int) float64 {
		return min(5*worlds.Minute*math.Pow(2, float64(failures-1)), 12*worlds.Hour)
	}
	lines := worlds.Lines("B", w.Play())
	for name, c := range map[string]struct {
		from   time.Time
		passes int
	}{
		"days":  {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), w.Days + 1},
		"hours": {time.Time{}, 24*w.Days + 1},
	} {
		folded, err := advise.Fold(bytes.NewReader(lines), c.from)
		if err != nil {
			t.Fatal(err)
		}
		h, err := advise.Read(bytes.NewReader(folded))
		if err != nil {
			t.Fatal(err)
		}
		m := advise.Fit(h)
		if v := judge(w, m); v.worst > 0.05 || v.forGood > 0.02 || m.Passes != c.passes {
			t.Errorf("%s: %v, %d passes", name, v, m.Passes)
		}
	}
}

// Where rows tell how long they waited, that is believed: here it is what passes would tell.
func TestWaited(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 6)
	passes := w.Play()
	for i := range passes {
		for k := range passes[i].Bands {
			b := &passes[i].Bands[k]
			if b.Band <= 14 {
				b.Waited = 300 * float64(b.Lanes[advise.Failed].Tried)
			}
		}
	}
	if v := judge(w, advise.Fit(&advise.History{Passes: passes})); v.worst > 0.03 || v.forGood > 0.02 {
		t.Error(v)
	}
}

func TestNothing(t *testing.T) {
	for name, passes := range map[string][]advise.Pass{
		"no pass":     nil,
		"no ages":     {{Started: worlds.Start, MaxAge: time.Hour, Complete: true}},
		"no attempts": {{Started: worlds.Start, MaxAge: time.Hour, Complete: true, HasAges: true}, {Started: worlds.Start.Add(time.Hour), MaxAge: time.Hour}},
		"one attempt": {{Started: worlds.Start, MaxAge: time.Hour, Complete: true}, {
			Started: worlds.Start.Add(time.Hour), MaxAge: time.Hour, Complete: true, HasAges: true,
			Bands: []advise.Counts{{Band: 6, Lanes: [2]advise.Tally{{Tried: 1}, {Tried: 1}}, Waited: -1, Aged: -1}},
		}},
	} {
		m := advise.Fit(&advise.History{Passes: passes})
		if m.Oldest != 0 || len(m.StillBroken) > 0 || len(m.Outages) > 0 {
			t.Errorf("%s: %+v", name, m)
		}
		for _, f := range []float64{m.Broken(time.Hour), m.Hazard(time.Hour), m.Unrecovered(time.Hour)} {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
}

// The same lines give the same model, and what lines tell is all that is learned from.
func TestSameModel(t *testing.T) {
	w := worlds.New(exponentialOf2h, 0.05, 7)
	w.PerDay = 500
	passes := w.Play()
	want := fmt.Sprintf("%+v", shown(advise.Fit(&advise.History{Passes: passes})))
	for range 2 {
		h, err := advise.Read(bytes.NewReader(worlds.Lines("B", passes)))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%+v", shown(advise.Fit(h))); got != want {
			t.Errorf("%s,\nwant %s", got, want)
		}
	}
}

// shown returns what a model shows.
func shown(m *advise.Model) []any {
	return []any{m.StillBroken, m.FirstFailures, m.BrokenForGood, m.Outages, m.Records, m.Attempts, m.Recoveries, m.LeftOut, m.Broken(time.Hour)}
}

// BenchmarkLearn reads 90 days of 300 passes and learns from them.
func BenchmarkLearn(b *testing.B) {
	w := worlds.New(worlds.Truths[3], 0.05, 8).WithOutages()
	w.Days = 90
	w.PerDay = 500
	file := worlds.Lines("B", w.Play())
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		h, err := advise.Read(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		advise.Fit(h)
	}
}

// drawn returns passes that no schedule and no records explain.
func drawn(r *rand.Rand) []advise.Pass {
	var list []advise.Pass
	at := worlds.Start
	for range r.IntN(300) {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(10*time.Minute)))
		p := advise.Pass{
			Started:  at,
			MaxAge:   time.Duration(math.Exp(20*r.Float64())) * time.Second,
			Complete: r.IntN(10) > 0,
			Folded:   r.IntN(50) == 0,
			HasAges:  true,
		}
		for band := range len(advise.Edges) + 1 {
			c := advise.Counts{Band: band, Waited: -1, Aged: -1}
			for lane := range c.Lanes {
				tried := r.IntN(1 << r.IntN(12))
				c.Lanes[lane] = advise.Tally{Tried: tried, Succeeded: r.IntN(r.IntN(tried+1) + 1)}
			}
			if r.IntN(5) == 0 {
				c.Waited = math.Exp(30 * r.Float64())
				c.Aged = math.Exp(30 * r.Float64())
			}
			if r.IntN(3) > 0 {
				p.Bands = append(p.Bands, c)
			}
		}
		list = append(list, p)
	}
	return list
}

// Whatever a file says, shares are shares, and S falls.
func TestDrawnPasses(t *testing.T) {
	for seed := range uint64(8) {
		m := advise.Fit(&advise.History{Passes: drawn(rand.New(rand.NewPCG(seed, 0)))})
		estimates := []advise.Estimate{m.FirstFailures, m.BrokenForGood}
		for i, p := range m.StillBroken {
			estimates = append(estimates, p.Share)
			if i > 0 && p.Share.Value > m.StillBroken[i-1].Share.Value {
				t.Errorf("seed %d: %v are still broken at %v", seed, p.Share.Value, p.Age)
			}
		}
		for _, e := range estimates {
			if !(0 <= e.Low && e.Low <= e.Value && e.Value <= e.High && e.High <= 1) {
				t.Errorf("seed %d: %+v", seed, e)
			}
		}
		if h := m.Hazard(time.Hour); !(h >= 0) || math.IsInf(h, 0) {
			t.Errorf("seed %d: a hazard of %v", seed, h)
		}
	}
}
