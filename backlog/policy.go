package backlog

import "time"

// A Failures is what a row remembers of its failures in the columns of a policy.
// What is NULL there is zero here.
type Failures struct {
	Count int       // how often the record has failed
	Last  time.Time // when it last did
	Next  time.Time // when it is to be tried again; planned policies only
}

// A Policy says when a failed record is due again and when it is given up. A
// nil *Policy is the progressive one, for which age alone decides: the record
// is due in every pass that is wide enough, and never given up.
//
// A counted policy works out the wait from the number of failures whenever it
// is asked; a planned one draws it once, when the failure is settled. A Policy
// is not changed once made; its methods may be called concurrently.
type Policy struct {
	Name string

	// Wait returns the bounds of the wait after the n-th failure,
	// 1 <= n <= 1,000,000: never negative, never above MaxWait, and the same
	// for every greater n. Both bounds of a counted policy are equal; with
	// more than 100 retries they do not shrink as n grows, because [Policy.Waits]
	// ends with the first that is as long as the last.
	Wait func(n int) (least, most time.Duration)

	Retries int  // after the first attempt; negative: no end
	Planned bool // the next time is written at settlement
	Never   bool // no failed record is ever due, and nothing is kept in the row

	// Refresher, if not nil, plans the starts of records that are processed again
	// and again; the fields above but Name are zero then, and the store is a [Beginner].
	Refresher Refresher
}

// MaxWait is the longest wait of any policy: a hundred years.
const MaxWait = 100 * 365 * 24 * time.Hour

// manyFailures stands for more failures than any curve grows with.
const manyFailures = 1_000_000

// wait is Wait for any n.
func (p *Policy) wait(n int) (least, most time.Duration) {
	if n <= 0 {
		return 0, 0
	}
	return p.Wait(min(n, manyFailures))
}

// Draw returns the wait after the n-th failure for a random number that is
// uniform in [0, 1).
func (p *Policy) Draw(n int, random float64) time.Duration {
	least, most := p.wait(n)
	return least + time.Duration(random*float64(most-least))
}

// GivenUp reports whether a record that has failed so often is never tried
// again.
func (p *Policy) GivenUp(failures int) bool {
	return p != nil && p.Retries >= 0 && failures > p.Retries
}

// Due returns the first moment at which a failed record is due, zero for at
// once; ok is false if it never is.
func (p *Policy) Due(r Failures) (at time.Time, ok bool) {
	switch {
	case p == nil:
		return time.Time{}, true
	case p.Never || p.GivenUp(r.Count):
		return time.Time{}, false
	case p.Planned:
		return r.Next, true
	case r.Count <= 0 || r.Last.IsZero():
		return time.Time{}, true
	}
	least, _ := p.wait(r.Count)
	return r.Last.Add(least), true
}

// After returns what a failure at the given time leaves, and whether the
// record is given up. random is uniform in [0, 1).
func (p *Policy) After(r Failures, at time.Time, random float64) (next Failures, givenUp bool) {
	if p == nil {
		return r, false
	}
	next = Failures{Count: max(r.Count, 0) + 1, Last: at}
	givenUp = p.GivenUp(next.Count)
	if p.Planned && !givenUp {
		next.Next = at.Add(p.Draw(next.Count, random))
	}
	return next, givenUp
}

// Waits returns the waits of a counted policy by number of failures, from 0
// on; the last applies to every greater number for which the record is not
// given up.
func (p *Policy) Waits() (list []time.Duration) {
	last, _ := p.wait(manyFailures)
	grow := p.Retries < 0 || p.Retries > 100
	for n := 0; ; n++ {
		w, _ := p.wait(n)
		list = append(list, w)
		if n == p.Retries || grow && w == last {
			return list
		}
	}
}
