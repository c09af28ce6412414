package simulate

import (
	"context"
	"slices"
	"sort"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Report is what became of a workload.
type Report struct {
	Records                  int // Succeeded + Dead + Pending
	Attempts                 int
	Succeeded, Dead, Pending int
	Failed                   int // attempts that failed
	PeakPerMinute            int // attempts that begin in one minute of the clock, at most
	Recovery                 []time.Duration
	Series                   []Bucket
}

// A Bucket is what happened in (At, At + the width of a bucket].
type Bucket struct {
	At               time.Time
	Attempts, Failed int
	Pending          int // at the end of it
}

// Options are what else a simulation depends on.
type Options struct {
	Schedule *tiers.Schedule
	Policy   *backlog.Policy // nil: progressive
	Bucket   time.Duration   // of the series; more than 0
}

// A run is a simulation under way.
type run struct {
	Options
	w       *Workload
	service service
	list    []tiers.Tier
	widest  time.Duration
	report  *Report
	minutes []uint32 // attempts by minute since w.From
	pending []int    // changes of it by bucket
}

// Run simulates the workload: every record is tried at each tick at which the
// schedule and the policy make it due, as by a daemon whose passes all get
// through at once. Records that never succeed are counted, not walked through,
// where age alone decides. When ctx is done it returns what it has so far, and
// false.
func Run(ctx context.Context, w *Workload, o Options) (r *Report, complete bool) {
	records := w.records()
	n := int((w.To.Sub(w.From) + o.Bucket - 1) / o.Bucket)
	x := &run{
		Options: o, w: w, service: w.service(), list: o.Schedule.Tiers(), widest: o.Schedule.Widest().MaxAge,
		report:  &Report{Records: len(records), Series: make([]Bucket, n)},
		minutes: make([]uint32, int(w.To.Sub(w.From)/time.Minute)+1),
		pending: make([]int, n),
	}
	var poison []int64
	for i := range records {
		if i%1024 == 0 && ctx.Err() != nil {
			break
		}
		rec := &records[i]
		x.pending[x.bucket(rec.inserted)]++
		if rec.poison && o.Policy == nil {
			poison = append(poison, rec.inserted)
			continue
		}
		x.life(rec)
	}
	x.never(ctx, poison)
	x.finish()
	return x.report, ctx.Err() == nil
}

// bucket returns the index of the bucket that the time is in.
func (x *run) bucket(at int64) int {
	i := (at - x.w.From.UnixNano() - 1) / int64(x.Bucket)
	return int(min(max(i, 0), int64(len(x.pending)-1)))
}

// attempt counts n attempts at a time.
func (x *run) attempt(at time.Time, n, failed int) {
	x.report.Attempts += n
	x.report.Failed += failed
	b := &x.report.Series[x.bucket(at.UnixNano())]
	b.Attempts += n
	b.Failed += failed
	x.minutes[int(at.Sub(x.w.From)/time.Minute)] += uint32(n)
}

// end takes a record out of what is pending.
func (x *run) end(at int64, n int) { x.pending[x.bucket(at)] -= n }

// life goes through the attempts at one record.
func (x *run) life(rec *record) {
	inserted := time.Unix(0, rec.inserted).UTC()
	var state backlog.Retry
	var down time.Time // the end of an outage that it has been tried in
	at, narrowest := inserted, 0
	for n := 1; ; n++ {
		at, narrowest = nextTick(x.list, narrowest, inserted, at)
		if at.IsZero() {
			if dies := rec.inserted + int64(x.widest); dies < x.w.To.UnixNano() {
				x.report.Dead++
				x.end(dies, 1)
			}
			return
		}
		if at.After(x.w.To) {
			return
		}
		outage, out := x.service.outage(at)
		if out {
			down = outage.To
		}
		if !out && !rec.poison && draw(rec.seed, 2*n) < x.service.success {
			x.attempt(at, 1, 0)
			x.report.Succeeded++
			x.end(at.UnixNano(), 1)
			if !down.IsZero() {
				x.report.Recovery = append(x.report.Recovery, at.Sub(down))
			}
			return
		}
		x.attempt(at, 1, 1)
		givenUp := false
		if state, givenUp = x.Policy.After(state, at, draw(rec.seed, 2*n+1)); givenUp {
			x.report.Dead++
			x.end(at.UnixNano(), 1)
			return
		}
		if due, ok := x.Policy.Due(state); ok && due.After(at) {
			at = due.Add(-1)
		}
	}
}

// never counts the attempts at records that never succeed, by their times of
// insertion in ascending order: all of the pass's ages at each tick.
func (x *run) never(ctx context.Context, inserted []int64) {
	oldest := make([]int, len(x.list)) // within the age of each tier
	next := make([]time.Time, len(x.list))
	for i, t := range x.list {
		next[i] = t.Next(x.w.From)
	}
	for seen := 0; len(inserted) > 0 && ctx.Err() == nil; {
		at := slices.MinFunc(next, time.Time.Compare)
		if at.After(x.w.To) {
			break
		}
		start := 0 // the widest of those that tick now
		for i, t := range x.list {
			if next[i].Equal(at) {
				start, next[i] = i, t.Next(at)
			}
		}
		now := at.UnixNano()
		for seen < len(inserted) && inserted[seen] < now {
			seen++
		}
		i := oldest[start]
		for i < seen && inserted[i] < now-int64(x.list[start].MaxAge) {
			i++
		}
		oldest[start] = i
		if seen > i {
			x.attempt(at, seen-i, seen-i)
		}
	}
	if ctx.Err() != nil {
		return
	}
	end := x.w.To.UnixNano() - int64(x.widest)
	dead := sort.Search(len(inserted), func(i int) bool { return inserted[i] >= end })
	for _, at := range inserted[:dead] {
		x.end(at+int64(x.widest), 1)
	}
	x.report.Dead += dead
}

func (x *run) finish() {
	r := x.report
	r.Pending = r.Records - r.Succeeded - r.Dead
	now := 0
	for i := range r.Series {
		now += x.pending[i]
		r.Series[i].At, r.Series[i].Pending = x.w.From.Add(time.Duration(i)*x.Bucket), now
	}
	for _, n := range x.minutes {
		r.PeakPerMinute = max(r.PeakPerMinute, int(n))
	}
	slices.Sort(r.Recovery)
}

// RecoveryQuantile returns how long that share of the records that were tried in
// an outage, and succeeded later, waited at most beyond its end.
func (r *Report) RecoveryQuantile(q float64) time.Duration { return quantile(r.Recovery, q) }
