package advise

import (
	"math"
	"slices"
	"time"
)

// SlotsPerDay is into how many slots of equal length a day in UTC is divided.
const SlotsPerDay = 288

// Slots have the share of the recoveries that come in each slot of a day. Their sum is 1.
type Slots [SlotsPerDay]float64

const (
	slotSeconds = 86400.0 / SlotsPerDay
	slotsOfHour = SlotsPerDay / 24

	// leastRecoveries is how many recoveries a segment has if their time of day is learned.
	leastRecoveries = 100
	// unevenness is the quantile 0.999 of chi squared with 23 degrees of freedom: recoveries at any hour
	// rarely differ more.
	unevenness = 49.7
)

// Slots returns when in a day the records of an age recover. nil: at any time, as far as is known.
func (m *Model) Slots(age time.Duration) *Slots {
	if m.curve == nil {
		return nil
	}
	return m.slots[m.curve.segment(age.Seconds())]
}

// BusiestHours returns the first of the three hours of the day, in UTC, in which most records recover, and the
// share that does.
func (m *Model) BusiestHours() (hour int, share float64) {
	all := 0.0
	for _, n := range m.recovery {
		all += n
	}
	if all == 0 {
		return 0, 0
	}
	for first := range 24 {
		sum := 0.0
		for i := range 3 * slotsOfHour {
			sum += m.recovery[(first*slotsOfHour+i)%SlotsPerDay]
		}
		if sum/all > share {
			hour = first
			share = sum / all
		}
	}
	return hour, share
}

// clock sets when in a day records recover. Each recovery counts evenly from the attempt before it to
// the attempt that succeeded.
func (l *learner) clock(m *Model) {
	counts := make([]Slots, len(l.curve.ends))
	l.walk(l.inOutage, func(i int, lane Lane, c Counts, list []piece) {
		recovered := float64(c.Lanes[lane].Succeeded)
		if lane != Failed || recovered == 0 || l.inOutage[i] || l.passes[i].Folded {
			return
		}
		width := 0.0
		for _, p := range list {
			width += p.high - p.low
		}
		to := float64(l.passes[i].Started.Unix())
		for _, p := range list {
			if p.first {
				continue
			}
			age := max(0, (p.low+p.high)/2-p.waited/2)
			counts[l.curve.segment(age)].spread(to-p.waited, to, recovered*(p.high-p.low)/width)
		}
	})
	m.slots = make([]*Slots, len(counts))
	for k := range counts {
		for i, n := range counts[k] {
			m.recovery[i] += n
		}
		if counts[k].isUneven() {
			m.slots[k] = &counts[k]
			m.slots[k].normalize()
		}
	}
}

// spread adds an amount evenly to the slots between two times in seconds since 1970.
func (s *Slots) spread(from, to, amount float64) {
	if to-from >= day.Seconds() {
		for i := range s {
			s[i] += amount / SlotsPerDay
		}
		return
	}
	for at := from; at < to; {
		slot := math.Floor(at / slotSeconds)
		end := min(to, (slot+1)*slotSeconds)
		s[int(slot)%SlotsPerDay] += amount * (end - at) / (to - from)
		at = end
	}
}

// sum returns the sum of all slots.
func (s *Slots) sum() float64 {
	sum := 0.0
	for _, n := range s {
		sum += n
	}
	return sum
}

// isUneven reports whether the hours of the day differ by more than chance.
func (s *Slots) isUneven() bool {
	all := s.sum()
	if all < leastRecoveries {
		return false
	}
	mean := all / 24
	square := 0.0
	for hour := range slices.Chunk(s[:], slotsOfHour) {
		n := 0.0
		for _, x := range hour {
			n += x
		}
		square += (n - mean) * (n - mean) / mean
	}
	return square > unevenness
}

// normalize makes the sum 1.
func (s *Slots) normalize() {
	all := s.sum()
	for i := range s {
		s[i] /= all
	}
}
