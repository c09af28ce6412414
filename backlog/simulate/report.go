package simulate

import (
	"slices"
	"time"
)

// A Report is what became of a workload.
type Report struct {
	Records                  int // Succeeded + Dead + Pending
	Attempts                 int
	Succeeded, Dead, Pending int
	Failed                   int  // attempts that failed
	Complete                 bool // it was not stopped
	PeakPerMinute            int  // attempts that begin in one minute of the clock, at most
	Series                   []Bucket
	ByTick                   map[time.Time]*TickAttempts // nil unless asked for

	// Recovery is how long after the end of an outage those that were pending
	// at that moment succeeded, the last outage if there were several. Lost
	// is how many of those that could have succeeded were pending in one and
	// died.
	Recovery []time.Duration
	Lost     int

	SkippedTicks int           // of tiers whose last pass still ran
	LongestPass  time.Duration // from its tick to its end
}

// TickAttempts are those of the pass that a tick has started, whenever they
// begin.
type TickAttempts struct {
	Tier     string
	Attempts int
}

// A Bucket is what happened in (At, At + the width of a bucket].
type Bucket struct {
	At               time.Time
	Attempts, Failed int
	Dead             int // records given up or past their time
	Pending          int // at the end of it
	Most             int // pending at any time in it
}

// finish works out what is known only when all has happened.
func (x *run) finish() {
	r := x.report
	r.Pending = r.Records - r.Succeeded - r.Dead
	now := 0
	for i := range r.Series {
		now += x.pending[i]
		r.Series[i].At, r.Series[i].Pending, r.Series[i].Most = x.w.From.Add(time.Duration(i)*x.Bucket), now, now
	}
	x.flow.most(func(at time.Time, pending int) {
		b := &r.Series[x.bucket(at)]
		b.Most = max(b.Most, pending)
	})
	for _, n := range x.minutes {
		r.PeakPerMinute = max(r.PeakPerMinute, int(n))
	}
	slices.Sort(r.Recovery)
}

// RecoveryQuantile returns how long that share of the records that Recovery is
// about waited at most.
func (r *Report) RecoveryQuantile(q float64) time.Duration { return quantile(r.Recovery, q) }
