package advise_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"backlog/backlog/advise"
)

const (
	minute = 60.0
	hour   = 60 * minute
	oneDay = 24 * hour
)

// A truth is how long broken records stay broken, in seconds.
type truth struct {
	name    string
	draw    func(r *rand.Rand, inserted float64) float64
	survive func(age float64) float64
}

// weibull is exponential with the shape 1.
func weibull(name string, shape, scale float64) truth {
	return truth{
		name:    name,
		draw:    func(r *rand.Rand, _ float64) float64 { return scale * math.Pow(r.ExpFloat64(), 1/shape) },
		survive: func(age float64) float64 { return math.Exp(-math.Pow(age/scale, shape)) },
	}
}

var truths = []truth{
	weibull("exponential 2h", 1, 2*hour),
	weibull("exponential 10m", 1, 10*minute),
	weibull("Weibull 1h", 0.5, hour),
	weibull("Weibull 1d", 0.5, oneDay),
	{
		name: "next morning",
		draw: func(r *rand.Rand, inserted float64) float64 {
			if r.Float64() < 0.5 {
				return 5 * minute * r.ExpFloat64()
			}
			eight := 8 * hour
			return math.Mod(eight-math.Mod(inserted, oneDay)+oneDay, oneDay)
		},
		survive: func(age float64) float64 { return math.Exp(-age/(5*minute))/2 + max(0, 1-age/oneDay)/2 },
	},
}

// A world plays passes in virtual time. Its time is seconds since its start.
type world struct {
	truth  truth
	poison float64 // the share of the first failures that never recover
	broken float64 // the share of all records that are broken
	days   int
	perDay int
	down   [][2]float64 // outages
	tiers  []tier
	step   func(inserted, recovers float64) float64 // changes the age at which a record recovers; nil: nothing changes it
	ticks  func(r *rand.Rand, at float64) bool      // whether there is a pass; nil: at each tick
	delay  func(failures int) float64               // of a policy; nil: each tick tries what failed
	aborts float64                                  // the share of the records that a pass in an outage, or one that is cut, does not reach
	cut    func(i int) bool                         // whether the pass is cut; nil: none is
	tries  float64                                  // the chance that an attempt at a broken record heals it; 0: time does
	seed   uint64
}

type tier struct{ maxAge, every float64 }

// exampleTiers are those of schedule.example.yaml.
var exampleTiers = []tier{
	{oneDay, 5 * minute}, {7 * oneDay, hour}, {14 * oneDay, 12 * hour}, {30 * oneDay, oneDay}, {180 * oneDay, 4 * oneDay}, {360 * oneDay, 8 * oneDay},
}

func newWorld(t truth, poison float64, seed uint64) *world {
	return &world{truth: t, poison: poison, broken: 0.2, days: 30, perDay: 2000, tiers: exampleTiers, seed: seed}
}

var worldStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// never is an age that no record reaches.
const never = 1e12

// withOutages adds outages of half an hour to six hours, one in about three days.
func (w *world) withOutages() *world {
	r := rand.New(rand.NewPCG(w.seed, 3))
	for d := 1; d < w.days-1; d += 3 {
		from := (float64(d) + 2*r.Float64()) * oneDay
		w.down = append(w.down, [2]float64{from, from + 0.5*hour + r.Float64()*5.5*hour})
	}
	return w
}

// firstShare returns the mean of S over the ages at which records are first tried.
func (w *world) firstShare() float64 {
	sum := 0.0
	for i := range 1000 {
		sum += w.truth.survive((float64(i) + 0.5) / 1000 * w.tiers[0].every)
	}
	return sum / 1000
}

// poisonShare returns the share of the broken records that never recover.
func (w *world) poisonShare() float64 {
	s := w.firstShare()
	return w.poison * s / (1 - w.poison + w.poison*s)
}

// shares returns the true share of first failures, and the share of records that are broken at an age.
func (w *world) shares(age float64) (failures, broken float64) {
	p := w.poisonShare()
	return w.broken * (p + (1-p)*w.firstShare()), w.broken * (p + (1-p)*w.truth.survive(age))
}

// unrecovered returns the true S at an age, if A is known.
func (w *world) unrecovered(age, oldest float64) float64 {
	failures, broken := w.shares(age)
	_, end := w.shares(oldest)
	return min(1, (broken-end)/(failures-end))
}

// isDown reports whether no attempt succeeds at a time.
func (w *world) isDown(at float64) bool {
	return slices.ContainsFunc(w.down, func(o [2]float64) bool { return o[0] <= at && at < o[1] })
}

// A record is inserted at a time, and recovers at an age; 0: it is not broken.
type record struct{ inserted, recovers float64 }

// records draws the records of the world.
func (w *world) records() []record {
	r := rand.New(rand.NewPCG(w.seed, 1))
	p := w.poisonShare()
	list := make([]record, w.days*w.perDay)
	for i := range list {
		inserted := r.Float64() * float64(w.days) * oneDay
		recovers := 0.0
		switch {
		case r.Float64() >= w.broken:
		case r.Float64() < p:
			recovers = never
		default:
			recovers = w.truth.draw(r, inserted)
		}
		if w.step != nil {
			recovers = w.step(inserted, recovers)
		}
		list[i] = record{inserted, recovers}
	}
	return list
}

// play returns the passes of the world.
func (w *world) play() []advise.Pass {
	r := rand.New(rand.NewPCG(w.seed, 2))
	edges := make([]float64, len(advise.Edges))
	for i, e := range advise.Edges {
		edges[i] = e.Seconds()
	}
	every := w.tiers[0].every
	ticks := int(float64(w.days)*oneDay/every) + 1
	passes := make([]advise.Pass, ticks)
	counts := make([][]advise.Counts, ticks)
	maxAges := make([]float64, ticks)
	down := make([]bool, ticks)
	runs := make([]bool, ticks)
	for i := range runs {
		runs[i] = w.ticks == nil || w.ticks(r, float64(i)*every)
	}
	for i := range passes {
		at := float64(i) * every
		for _, t := range w.tiers {
			if runs[i] && math.Mod(float64(worldStart.Unix())+at, t.every) == 0 {
				maxAges[i] = t.maxAge
			}
		}
		down[i] = w.isDown(at)
		counts[i] = make([]advise.Counts, len(edges)+1)
		passes[i] = advise.Pass{
			Started:  worldStart.Add(time.Duration(at) * time.Second),
			MaxAge:   time.Duration(maxAges[i]) * time.Second,
			Complete: (!down[i] || w.aborts == 0) && (w.cut == nil || !w.cut(i)),
			HasAges:  true,
		}
	}
	for _, record := range w.records() {
		inserted := record.inserted
		lane := advise.Fresh
		band := 0
		failures := 0
		last := 0.0 // the age at the last attempt
		for i := int(inserted/every) + 1; i < ticks; i++ {
			age := float64(i)*every - inserted
			if age > maxAges[i] { // or there is no pass
				continue
			}
			if !passes[i].Complete && r.Float64() < w.aborts {
				continue
			}
			if w.delay != nil && failures > 0 && age < last+w.delay(failures) {
				continue
			}
			for band < len(edges) && age > edges[band] {
				band++
			}
			t := &counts[i][band].Lanes[lane]
			t.Tried++
			if lane == advise.Failed {
				counts[i][band].Waited += age - last
				counts[i][band].Aged += age
			}
			healed := age >= record.recovers
			if w.tries > 0 && record.recovers > 0 {
				healed = r.Float64() < w.tries
			}
			if healed && !down[i] {
				t.Succeeded++
				break
			}
			lane = advise.Failed
			failures++
			last = age
		}
	}
	for i := range passes {
		for b, c := range counts[i] {
			if c.Lanes[0].Tried+c.Lanes[1].Tried > 0 {
				c.Band = b
				if w.delay == nil {
					c.Waited = -1
					c.Aged = -1
				}
				passes[i].Bands = append(passes[i].Bands, c)
			}
		}
	}
	return slices.DeleteFunc(passes, func(p advise.Pass) bool { return p.MaxAge == 0 })
}
