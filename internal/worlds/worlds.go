// Package worlds draws records whose recovery is known, and plays the passes that meet them in virtual time. What
// is learned from these passes, and advised by them, is compared with what the records were drawn from.
package worlds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"backlog/backlog/advise"
)

// Units in seconds.
const (
	Minute = 60.0
	Hour   = 60 * Minute
	Day    = 24 * Hour
)

// A Truth is how long broken records stay broken, in seconds.
type Truth struct {
	Name    string
	Draw    func(r *rand.Rand, inserted float64) float64
	Survive func(age float64) float64
}

// Weibull returns the truth of that distribution, which is exponential with the shape 1. scale is in seconds.
func Weibull(name string, shape, scale float64) Truth {
	return Truth{
		Name:    name,
		Draw:    func(r *rand.Rand, _ float64) float64 { return scale * math.Pow(r.ExpFloat64(), 1/shape) },
		Survive: func(age float64) float64 { return math.Exp(-math.Pow(age/scale, shape)) },
	}
}

// Truths are those that what is learned is judged by.
var Truths = []Truth{
	Weibull("exponential 2h", 1, 2*Hour),
	Weibull("exponential 10m", 1, 10*Minute),
	Weibull("Weibull 1h", 0.5, Hour),
	Weibull("Weibull 1d", 0.5, Day),
	{
		Name: "next morning",
		Draw: func(r *rand.Rand, inserted float64) float64 {
			if r.Float64() < 0.5 {
				return 5 * Minute * r.ExpFloat64()
			}
			eight := 8 * Hour
			return math.Mod(eight-math.Mod(inserted, Day)+Day, Day)
		},
		Survive: func(age float64) float64 { return math.Exp(-age/(5*Minute))/2 + max(0, 1-age/Day)/2 },
	},
}

// A World plays passes in virtual time. Its time is seconds since its start.
type World struct {
	Truth  Truth
	Poison float64 // the share of the first failures that never recover
	Broken float64 // the share of all records that are broken
	Days   int
	PerDay int
	Down   [][2]float64 // outages
	Tiers  []Tier
	Step   func(inserted, recovers float64) float64 // changes the age at which a record recovers; nil: nothing changes it
	Ticks  func(r *rand.Rand, at float64) bool      // whether there is a pass; nil: at each tick
	Delay  func(failures int) float64               // of a policy; nil: each tick tries what failed
	Aborts float64                                  // the share of the records that a pass in an outage, or one that is cut, does not reach
	Cut    func(i int) bool                         // whether the pass is cut; nil: none is
	Tries  float64                                  // the chance that an attempt at a broken record heals it; 0: time does
	Seed   uint64
}

// A Tier is one of a schedule, in seconds.
type Tier struct{ MaxAge, Every float64 }

// ExampleTiers are the tiers of schedule.example.yaml.
var ExampleTiers = []Tier{
	{Day, 5 * Minute}, {7 * Day, Hour}, {14 * Day, 12 * Hour}, {30 * Day, Day}, {180 * Day, 4 * Day}, {360 * Day, 8 * Day},
}

// New returns a world of 30 days and 2,000 records a day, of which a fifth is broken, under ExampleTiers. poison is
// the share of the first failures that never recover.
func New(t Truth, poison float64, seed uint64) *World {
	return &World{Truth: t, Poison: poison, Broken: 0.2, Days: 30, PerDay: 2000, Tiers: ExampleTiers, Seed: seed}
}

// Examples are the worlds of documentation and of the tests of commands.
var Examples = map[string]func() *World{
	// A shop tries its orders every five minutes for a month. Half of those that fail first recover within
	// an hour, some take days, and one in twenty never does.
	"shop": func() *World {
		w := New(Truths[2], 0.05, 7).WithOutages()
		w.Tiers = []Tier{{MaxAge: 30 * Day, Every: 5 * Minute}}
		w.PerDay = 1500
		w.Broken = 0.12
		return w
	},
	// The same of three days.
	"young shop": func() *World {
		w := New(Truths[2], 0.05, 7)
		w.Tiers = []Tier{{MaxAge: 30 * Day, Every: 5 * Minute}}
		w.Days = 3
		return w
	},
	// Half of what fails first is mended at eight in the morning.
	"morning": func() *World { return New(Truths[4], 0.05, 8) },
	// Each attempt has the same chance, whenever it is.
	"lottery": func() *World {
		w := New(Truths[0], 0, 1)
		w.Tries = 0.1
		w.Ticks = func(r *rand.Rand, _ float64) bool { return r.Float64() > 0.3 }
		return w
	},
}

// Start is when worlds begin: on a Monday.
var Start = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// Never is an age that no record reaches.
const Never = 1e12

// WithOutages adds outages of half an hour to six hours, one in about three days.
func (w *World) WithOutages() *World {
	r := rand.New(rand.NewPCG(w.Seed, 3))
	for d := 1; d < w.Days-1; d += 3 {
		from := (float64(d) + 2*r.Float64()) * Day
		w.Down = append(w.Down, [2]float64{from, from + 0.5*Hour + r.Float64()*5.5*Hour})
	}
	return w
}

// firstShare returns the mean of S over the ages at which records are first tried.
func (w *World) firstShare() float64 {
	sum := 0.0
	for i := range 1000 {
		sum += w.Truth.Survive((float64(i) + 0.5) / 1000 * w.Tiers[0].Every)
	}
	return sum / 1000
}

// poisonShare returns the share of the broken records that never recover.
func (w *World) poisonShare() float64 {
	s := w.firstShare()
	return w.Poison * s / (1 - w.Poison + w.Poison*s)
}

// Shares returns the true share of first failures, and the share of records that are broken at an age.
func (w *World) Shares(age float64) (failures, broken float64) {
	p := w.poisonShare()
	return w.Broken * (p + (1-p)*w.firstShare()), w.Broken * (p + (1-p)*w.Truth.Survive(age))
}

// Unrecovered returns the true S at an age, if A is known.
func (w *World) Unrecovered(age, oldest float64) float64 {
	failures, broken := w.Shares(age)
	_, end := w.Shares(oldest)
	return min(1, (broken-end)/(failures-end))
}

// IsDown reports whether no attempt succeeds at a time.
func (w *World) IsDown(at float64) bool {
	return slices.ContainsFunc(w.Down, func(o [2]float64) bool { return o[0] <= at && at < o[1] })
}

// A Record is inserted at a time, and recovers at an age; 0: it is not broken.
type Record struct{ Inserted, Recovers float64 }

// Records draws the records of the world.
func (w *World) Records() []Record {
	r := rand.New(rand.NewPCG(w.Seed, 1))
	p := w.poisonShare()
	list := make([]Record, w.Days*w.PerDay)
	for i := range list {
		inserted := r.Float64() * float64(w.Days) * Day
		recovers := 0.0
		switch {
		case r.Float64() >= w.Broken:
		case r.Float64() < p:
			recovers = Never
		default:
			recovers = w.Truth.Draw(r, inserted)
		}
		if w.Step != nil {
			recovers = w.Step(inserted, recovers)
		}
		list[i] = Record{inserted, recovers}
	}
	return list
}

// Play returns the passes of the world.
func (w *World) Play() []advise.Pass {
	p := w.newPlay()
	for _, r := range w.Records() {
		p.tryRecord(r)
	}
	return p.countedPasses()
}

// A play is a world under way. Its slices have an element for each tick of the narrowest tier.
type play struct {
	*World
	random *rand.Rand
	passes []advise.Pass // MaxAge 0: there is none
	counts [][]advise.Counts
	down   []bool
}

// newPlay returns the play of the world before its records are tried.
func (w *World) newPlay() *play {
	every := w.Tiers[0].Every
	ticks := int(float64(w.Days)*Day/every) + 1
	p := &play{
		World:  w,
		random: rand.New(rand.NewPCG(w.Seed, 2)),
		passes: make([]advise.Pass, ticks),
		counts: make([][]advise.Counts, ticks),
		down:   make([]bool, ticks),
	}
	for i := range p.passes {
		at := float64(i) * every
		maxAge := 0.0
		if w.Ticks == nil || w.Ticks(p.random, at) {
			maxAge = w.maxAgeAt(at)
		}
		p.down[i] = w.IsDown(at)
		p.counts[i] = make([]advise.Counts, len(advise.Edges)+1)
		p.passes[i] = advise.Pass{
			Started:  Start.Add(time.Duration(at) * time.Second),
			MaxAge:   time.Duration(maxAge) * time.Second,
			Complete: (!p.down[i] || w.Aborts == 0) && (w.Cut == nil || !w.Cut(i)),
			HasAges:  true,
		}
	}
	return p
}

// maxAgeAt returns the age up to which the widest tier that ticks at a time tries records; 0: none ticks.
func (w *World) maxAgeAt(at float64) float64 {
	maxAge := 0.0
	for _, t := range w.Tiers {
		if math.Mod(float64(Start.Unix())+at, t.Every) == 0 {
			maxAge = t.MaxAge
		}
	}
	return maxAge
}

// tryRecord counts the attempts at a record.
func (p *play) tryRecord(r Record) {
	every := p.Tiers[0].Every
	lane := advise.Fresh
	failures := 0
	last := 0.0 // the age at the last attempt
	band := 0
	for i := int(r.Inserted/every) + 1; i < len(p.passes); i++ {
		age := float64(i)*every - r.Inserted
		switch {
		case age > p.passes[i].MaxAge.Seconds(): // or there is no pass
			continue
		case !p.passes[i].Complete && p.random.Float64() < p.Aborts:
			continue
		case p.Delay != nil && failures > 0 && age < last+p.Delay(failures):
			continue
		}
		for band < len(advise.Edges) && age > advise.Edges[band].Seconds() {
			band++
		}
		c := &p.counts[i][band]
		c.Lanes[lane].Tried++
		if lane == advise.Failed {
			c.Waited += age - last
			c.Aged += age
		}
		if p.succeeds(r, age) && !p.down[i] {
			c.Lanes[lane].Succeeded++
			return
		}
		lane = advise.Failed
		failures++
		last = age
	}
}

// succeeds reports whether an attempt at a record of an age succeeds.
func (p *play) succeeds(r Record, age float64) bool {
	if p.Tries > 0 && r.Recovers > 0 {
		return p.random.Float64() < p.Tries
	}
	return age >= r.Recovers
}

// countedPasses returns the passes with their counts.
func (p *play) countedPasses() []advise.Pass {
	for i := range p.passes {
		for band, c := range p.counts[i] {
			if c.Lanes[advise.Fresh].Tried+c.Lanes[advise.Failed].Tried == 0 {
				continue
			}
			c.Band = band
			if p.Delay == nil { // the rows do not tell
				c.Waited = -1
				c.Aged = -1
			}
			p.passes[i].Bands = append(p.passes[i].Bands, c)
		}
	}
	return slices.DeleteFunc(p.passes, func(p advise.Pass) bool { return p.MaxAge == 0 })
}

// AgesOf returns what passes write of some counts.
func AgesOf(bands []advise.Counts) []advise.AgeBand {
	list := []advise.AgeBand{}
	for _, n := range bands {
		var line advise.AgeBand
		if n.Band < len(advise.Edges) {
			line.UpTo = new(advise.Edges[n.Band].Seconds())
		}
		if t := n.Lanes[advise.Fresh]; t.Tried > 0 {
			line.Fresh = []int{t.Tried, t.Succeeded}
		}
		if t := n.Lanes[advise.Failed]; t.Tried > 0 {
			line.Failed = []int{t.Tried, t.Succeeded}
			if n.Waited >= 0 {
				line.Waited = &n.Waited
				line.Aged = &n.Aged
			}
		}
		list = append(list, line)
	}
	return list
}

// Lines returns passes of a table as a file has them.
func Lines(table string, passes []advise.Pass) []byte {
	var b bytes.Buffer
	for _, p := range passes {
		ages, _ := json.Marshal(AgesOf(p.Bands))
		fmt.Fprintf(&b, `{"n":%d,"tier":"","max_age_seconds":%v,"started":%q,"duration_seconds":0.2,"selected":0,"complete":true,"stopped":"","table":%q,"ages":%s,"causes":[]}`+"\n",
			p.Started.UnixMilli(), p.MaxAge.Seconds(), p.Started.Format(time.RFC3339Nano), table, ages)
	}
	return b.Bytes()
}
