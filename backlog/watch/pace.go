package watch

import (
	"cmp"
	"slices"
	"time"
)

// A Pace is how fast calls are, and what comes in, while all is well.
type Pace struct {
	CallTime time.Duration // of one call; 0: not known
	PerHour  float64       // new records
	// Failures is the share of the new records whose first attempt fails, and Recovering the share of these that
	// recovers in an hour.
	Failures   float64
	Recovering float64
}

const (
	// leastAttempts is how many attempts a pass has whose duration tells well how fast calls are.
	leastAttempts = 20
	// nearRate is by how much slower than the rate passes are at most if nothing else slows them down.
	nearRate = 1.05
	// mostPaced is how many passes count at most, the newest ones.
	mostPaced = 300
)

// A Limit says how many calls there are at a time, and how many begin in a second; 0: any number.
type Limit struct {
	Concurrency int
	Rate        float64
}

// PaceOf returns the pace of the passes that ended before a time, such as the beginning of an outage, in which calls
// may be faster or slower.
func PaceOf(passes []Pass, before time.Time, l Limit) Pace {
	var known []Pass
	for _, p := range passes {
		if p.Ended().Before(before) {
			known = append(known, p)
		}
	}
	known = newest(known, mostPaced)
	slices.SortFunc(known, func(a, b Pass) int { return time.Time(a.Started).Compare(time.Time(b.Started)) })
	pace := Pace{CallTime: l.callTime(known)}
	if len(known) < 2 {
		return pace
	}
	var fresh, failed tally
	for _, p := range known[1:] { // what the first one found may be years old
		for _, a := range p.Ages {
			fresh.add(a.Fresh)
			failed.add(a.Failed)
		}
	}
	hours := time.Time(known[len(known)-1].Started).Sub(time.Time(known[0].Started)).Hours()
	if hours <= 0 || fresh.tried == 0 {
		return pace
	}
	pace.PerHour = float64(fresh.tried) / hours
	pace.Failures = 1 - float64(fresh.succeeded)/float64(fresh.tried)
	if failed.tried > 0 {
		perPass := float64(failed.succeeded) / float64(failed.tried)
		pace.Recovering = perPass * float64(len(known)-1) / hours
	}
	return pace
}

// A tally counts attempts.
type tally struct{ tried, succeeded int }

// add adds a pair of a band of ages.
func (t *tally) add(pair []int) {
	if len(pair) == 2 {
		t.tried += pair[0]
		t.succeeded += pair[1]
	}
}

// callTime returns how long calls take by the median of the passes, 0 without passes. Passes of few attempts count
// only if there are no others.
func (l Limit) callTime(passes []Pass) time.Duration {
	type measured struct {
		seconds  float64
		attempts int
	}
	var list []measured
	for _, p := range passes {
		if n := p.Succeeded + p.Failed + p.Rejected; p.Complete && n > 0 {
			list = append(list, measured{l.callSeconds(&p, n), n})
		}
	}
	isSmall := func(m measured) bool { return m.attempts < leastAttempts }
	if large := slices.DeleteFunc(slices.Clone(list), isSmall); len(large) > 0 {
		list = large
	}
	slices.SortFunc(list, func(a, b measured) int { return cmp.Compare(a.seconds, b.seconds) })
	all := 0
	for _, m := range list {
		all += m.attempts
	}
	sum := 0
	for _, m := range list {
		sum += m.attempts
		if 2*sum >= all {
			return time.Duration(m.seconds * float64(time.Second))
		}
	}
	return 0
}

// callSeconds returns how long each of n calls of a pass took, with what came besides. While the last ones end, the
// other places are idle for half a call. If the rate alone explains that, only the handler's own time counts.
func (l Limit) callSeconds(p *Pass, n int) float64 {
	c := float64(max(1, l.Concurrency))
	rounds := float64(n)/c + (c-1)/(2*c)
	seconds := p.Duration / max(1, rounds)
	if l.Rate > 0 && seconds < nearRate*c/l.Rate && p.CallTime > 0 {
		return p.CallTime
	}
	return seconds
}
