package propose_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/advise/propose"
	"backlog/internal/worlds"
	"backlog/tiers"
)

const (
	minute = 60.0
	hour   = 60 * minute
	oneDay = 24 * hour

	broken  = 0.2 // the share of all records that are broken
	perHour = 2000 / 24.0
)

// A truth is one of [worlds.Truths], with when in a day its recoveries come.
type truth struct {
	worlds.Truth
	slots func(age float64) *advise.Slots
}

var truths = []truth{
	{Truth: worlds.Truths[0]},
	{Truth: worlds.Truths[1]},
	{Truth: worlds.Truths[2]},
	{Truth: worlds.Truths[3]},
	{Truth: worlds.Truths[4], slots: morningSlots},
}

// morningMinutes and morning are the two halves of "next morning".
func morningMinutes(age float64) float64 { return math.Exp(-age/(5*minute)) / 2 }

func morning(age float64) float64 { return max(0, 1-age/oneDay) / 2 }

// morningSlots has the second half of the recoveries in the five minutes until 8:00.
func morningSlots(age float64) *advise.Slots {
	low := 0.0
	high := 0.0
	for _, edge := range advise.Edges {
		low = high
		high = edge.Seconds()
		if age <= high {
			break
		}
	}
	atEight := morning(low) - morning(high)
	share := atEight / (atEight + morningMinutes(low) - morningMinutes(high))
	if math.IsNaN(share) {
		return nil
	}
	s := new(advise.Slots)
	for i := range s {
		s[i] = (1 - share) / advise.SlotsPerDay
	}
	s[8*12-1] += share
	return s
}

// A world is a truth with a share of broken records that never recover.
type world struct {
	truth
	poison float64
}

func (w world) inputs(oldest time.Duration) *propose.Inputs {
	in := &propose.Inputs{
		PerHour: perHour,
		Broken:  func(age float64) float64 { return broken * (w.poison + (1-w.poison)*w.Survive(age)) },
		Oldest:  oldest,
	}
	if w.slots != nil {
		in.Slots = w.slots
	}
	return in
}

var origin = float64(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Unix())

// recovers draws the age at which a record recovers; 0: it is not broken.
func (w world) recovers(r *rand.Rand, inserted float64) float64 {
	switch {
	case r.Float64() >= broken:
		return 0
	case r.Float64() < w.poison:
		return worlds.Never
	}
	return w.Draw(r, inserted)
}

// A play has what happened to records.
type play struct {
	records, calls, inVain int
	recoverable            int
	lost                   int
	waits                  []float64
}

// play follows n records, one by one, tick by tick. Those that recover after the oldest age count as broken for good.
func (w world) play(s *tiers.Schedule, n int, oldest time.Duration) *play {
	return w.playPolicy(s, nil, n, oldest)
}

// playPolicy is play with a policy.
func (w world) playPolicy(s *tiers.Schedule, policy *backlog.Policy, n int, oldest time.Duration) *play {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	p := &play{records: n}
	list := s.Tiers()
	rule := policy.Rule()
	for range n {
		memory := new(backlog.Memory)
		givenUp := false
		inserted := origin + r.Float64()*32*oneDay
		recovers := w.recovers(r, inserted)
		birth := time.Unix(0, int64(inserted*1e9))
		at := birth
		for failed := false; ; {
			if due, ok := rule.At(backlog.Failed, memory); failed && ok && due.After(at) {
				at = due.Add(-1)
			}
			at = nextTick(list, birth, at)
			if givenUp {
				at = time.Time{}
			}
			recoverable := failed && recovers <= oldest.Seconds()
			if at.IsZero() {
				if recoverable {
					p.recoverable++
					p.lost++
					p.waits = append(p.waits, worlds.Never)
				}
				break
			}
			p.calls++
			if age := at.Sub(birth).Seconds(); age+1e-6 >= recovers {
				if recoverable {
					p.recoverable++
					p.waits = append(p.waits, age-recovers)
				}
				break
			}
			p.inVain++
			failed = true
			if next, last := policy.End(memory, backlog.End{Outcome: backlog.Errored, At: at, Random: r.Float64}); next != nil || last {
				memory = cmp.Or(next, memory)
				givenUp = last
			}
		}
	}
	return p
}

func nextTick(list []tiers.Tier, inserted, after time.Time) (first time.Time) {
	for _, t := range list {
		if after.Sub(inserted) > t.MaxAge {
			continue
		}
		if tick := t.Next(after); tick.Sub(inserted) <= t.MaxAge && (first.IsZero() || tick.Before(first)) {
			first = tick
		}
	}
	return first
}

// playPeak returns the calls of the tick of all tiers: of records that are inserted evenly before it.
func (w world) playPeak(s *tiers.Schedule) float64 {
	r := rand.New(rand.NewPCG(8, 1))
	list := s.Tiers()
	widest := s.Widest()
	tick := widest.Next(time.Unix(int64(origin+400*oneDay), 0))
	calls := 0.0
	const n = 3000
	width := widest.MaxAge.Seconds()
	for i := range n {
		// As many records of each power of the age.
		u := (float64(i) + r.Float64()) / float64(n)
		age := math.Expm1(12*u) / math.Expm1(12) * width
		weight := 12 * math.Exp(12*u) / math.Expm1(12) * width / float64(n)
		birth := tick.Add(-time.Duration(age * 1e9))
		before := -1.0
		for at := nextTick(list, birth, birth); !at.IsZero() && at.Before(tick); at = nextTick(list, birth, at) {
			before = at.Sub(birth).Seconds()
		}
		share := 1.0
		if before > 0 {
			share = broken * (w.poison + (1-w.poison)*w.Survive(before))
		}
		calls += share * weight
	}
	return perHour / 3600 * calls
}
