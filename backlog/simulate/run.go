package simulate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// Options are what else a simulation depends on.
type Options struct {
	Schedule *tiers.Schedule
	Policy   *backlog.Policy // nil: progressive
	Bucket   time.Duration   // of the series; 0: what makes about a hundred

	// As of [backlog.Engine]; 0: none. With one of them, and with those below,
	// every pass is gone through, on an empty table of NewTable.
	MaxRecords, AbortAfter int
	Rate                   float64
	NewTable               func() Table

	CallTime    time.Duration // that a handler takes for a record; 0: none
	Concurrency int           // handlers at a time, over all passes; 0: 1
	Down        []Outage      // when the daemon does not run

	callTime func(record, try int) time.Duration // of each call; nil: CallTime

	Ticks bool // fill in Report.Ticks

	// Observe, if not nil, is called with every attempt: when it begins, the
	// tier of its pass, the record's place in the workload, and whether it
	// succeeds. Only the attempts at one record come in order.
	Observe func(at time.Time, tier string, record int, success bool)

	// Progress, if not nil, is called with how much is done, of how much, at
	// most about a thousand times, by the goroutine of Run.
	Progress func(done, of int)
}

// A run is a simulation under way.
type run struct {
	Options
	w       *Workload
	outages outages
	list    []tiers.Tier
	rule    *backlog.Rule // of the policy
	widest  time.Duration
	report  *Report
	minutes []minute // since w.From
	ticks   map[time.Time]Tick
	ctx     context.Context
	begins  *pass // whose call begins; nil: passes are not gone through, in the order of time
	told    int   // the progress that was told last
}

// Run simulates the workload: every record is tried at each tick at which the
// schedule and the policy make it due, as by a daemon whose passes all get
// through at once unless calls take time. Records that never succeed are
// counted, not walked through, where age alone decides. When ctx is done it returns what it has so far with
// the context's error; any other is the table's.
func Run(ctx context.Context, w *Workload, o Options) (r *Report, err error) {
	records := w.records(ctx)
	o.Bucket = cmp.Or(o.Bucket, bucketOf(w.To.Sub(w.From)))
	n := int((w.To.Sub(w.From) + o.Bucket - 1) / o.Bucket)
	x := &run{
		Options: o, w: w, outages: merged(w.Outages), list: o.Schedule.Tiers(), rule: o.Policy.Rule(), widest: o.Schedule.Widest().MaxAge,
		report:  &Report{Records: len(records), Series: make([]Bucket, n)},
		minutes: make([]minute, int(w.To.Sub(w.From)/time.Minute)+2), ticks: make(map[time.Time]Tick), ctx: ctx,
	}
	if o.MaxRecords > 0 || o.AbortAfter > 0 || o.Rate > 0 || o.CallTime > 0 || len(o.Down) > 0 {
		x.Down = merged(o.Down)
		err = x.passes(records)
	} else {
		x.lives(records)
	}
	x.finish()
	err = errors.Join(err, ctx.Err())
	x.report.Complete = err == nil
	return x.report, err
}

// lives goes through the workload record by record.
func (x *run) lives(records []Record) {
	var alike []int64
	for i := range records {
		if i%1024 == 0 && x.ctx.Err() != nil {
			x.report.Records = i
			break
		}
		x.tell(i - len(alike))
		rec := &records[i]
		x.minute(rec.Inserted).come++
		hopeless := (rec.Poison || x.w.Success == 0) && x.Policy == nil && x.Observe == nil
		if hopeless && !rec.Inserted.IsZero() && rec.Eligible.IsZero() && rec.Expires.IsZero() {
			alike = append(alike, rec.Inserted.UnixNano())
			continue
		}
		x.life(i, rec)
	}
	slices.Sort(alike)
	x.never(alike)
}

// bucket returns the index of the bucket that the time is in; what comes before
// is in the first.
func (x *run) bucket(at time.Time) int {
	i := int((at.Sub(x.w.From) - 1) / x.Bucket)
	return min(max(i, 0), len(x.report.Series)-1)
}

// attempt counts n attempts at a time.
func (x *run) attempt(at time.Time, n, failed int) {
	x.report.Attempts += n
	x.report.Failed += failed
	b := &x.report.Series[x.bucket(at)]
	b.Attempts += n
	b.Failed += failed
	x.minutes[int(at.Sub(x.w.From)/time.Minute)].calls += uint32(n)
	tick := at // that they belong to
	if x.begins != nil {
		tick = x.begins.now
		x.reached(at, x.report.Records)
	}
	if !x.Ticks {
		return
	}
	t := x.ticks[tick]
	if t.Tier == "" {
		t.Tier = x.tierAt(at)
	}
	t.At, t.Attempts = tick, t.Attempts+n
	x.ticks[tick] = t
}

// reached tells how far the simulation of so many records, the last there are,
// has come by its own clock.
func (x *run) reached(at time.Time, records int) {
	share := float64(at.Sub(x.w.From)) / float64(x.w.To.Sub(x.w.From))
	x.tell(x.report.Records - records + int(share*float64(records)))
}

// tell tells that so many records are done.
func (x *run) tell(done int) {
	if x.Progress != nil && done-x.told > x.report.Records/1000 {
		x.told = done
		x.Progress(done, x.report.Records)
	}
}

// succeeds takes a record out of what is pending.
func (x *run) succeeds(at time.Time, rec *Record) {
	x.report.Succeeded++
	x.minute(at).gone++
	if end := x.outages.lastEnd(at); end.After(rec.Inserted) {
		x.report.Recovery = append(x.report.Recovery, at.Sub(end))
	}
}

// dies takes a record that is never tried again out of what is pending.
func (x *run) dies(at time.Time, rec *Record) {
	at = latest(at, x.w.From)
	x.report.Dead++
	x.report.Series[x.bucket(at)].Dead++
	x.minute(at).gone++
	if !rec.Poison && x.w.Success > 0 && at.After(x.w.From) && x.outages.meets(rec.Inserted, at) {
		x.report.Lost++
	}
}

// next returns the first tick after the time at which the record is tried, zero
// if there is none.
func (x *run) next(rec *Record, after time.Time) time.Time {
	switch {
	case !rec.Inserted.IsZero():
		return nextTick(x.list, rec.Inserted, after)
	case rec.Oldest:
		return x.Schedule.Widest().Next(after)
	}
	return x.Schedule.Next(after)
}

// one counts an attempt at a record.
func (x *run) one(at time.Time, record int, success bool) {
	failed := 1
	if success {
		failed = 0
	}
	x.attempt(at, 1, failed)
	if x.Observe != nil {
		x.Observe(at, x.tierAt(at), record, success)
	}
}

// tierAt returns the tier of the pass that makes a call at a time: a tick, unless
// passes are gone through.
func (x *run) tierAt(at time.Time) string {
	if x.begins != nil {
		return x.begins.tier.Name
	}
	due := x.Schedule.Due(at.Add(-1), at)
	return due[len(due)-1].Tier.Name
}

// life goes through the attempts at one record.
func (x *run) life(i int, rec *Record) {
	state, end := &rec.Memory, x.end(rec)
	at := latest(rec.Inserted, x.w.From)
	if rec.Failed {
		if _, ok := x.rule.At(backlog.Failed, state); !ok { // it is not tried again
			x.growsOld(rec, x.w.To)
			return
		}
		at = waited(x.rule, state, at)
	}
	at = latest(at, rec.Eligible.Add(-1))
	for n := 1; ; n++ {
		at = x.next(rec, at)
		if !end.IsZero() && (at.IsZero() || at.After(end)) {
			x.growsOld(rec, x.w.To)
			return
		}
		if at.After(x.w.To) || n%4096 == 0 && x.ctx.Err() != nil {
			return
		}
		success := !x.outages.isOut(at) && !rec.Poison && luckOf(rec.Seed, 2*n) < x.w.Success
		x.one(at, i, success)
		if success {
			x.succeeds(at, rec)
			return
		}
		givenUp := false
		if state, givenUp = fails(x.Policy, state, at, func() float64 { return luckOf(rec.Seed, 2*n+1) }); givenUp {
			x.dies(at, rec)
			return
		}
		at = waited(x.rule, state, at)
	}
}

// growsOld lets a record that is not tried again die by its age, if it does so
// until then.
func (x *run) growsOld(rec *Record, until time.Time) {
	if end := x.end(rec); !end.IsZero() && end.Before(until) {
		x.dies(end.Add(1), rec)
	}
}

// fails returns what a row remembers after an attempt that fails, and whether it was the last.
func fails(p *backlog.Policy, state *backlog.Memory, at time.Time, random func() float64) (*backlog.Memory, bool) {
	next, last := p.End(state, backlog.End{Outcome: backlog.Errored, At: at, Random: random})
	return cmp.Or(next, state), last
}

// waited returns the time after which the next tick is one at which a failed record is due.
func waited(rule *backlog.Rule, state *backlog.Memory, after time.Time) time.Time {
	if due, ok := rule.At(backlog.Failed, state); ok && due.After(after) {
		return due.Add(-1) // a tick at that very moment is in time
	}
	return after
}

// end returns the last moment at which the record can be tried, zero if there is none.
func (x *run) end(rec *Record) time.Time {
	if rec.Inserted.IsZero() {
		return rec.Expires
	}
	return soonest(rec.Inserted.Add(x.widest), rec.Expires)
}

// never counts the attempts at records that never succeed, by their times of
// insertion in ascending order: all of the pass's ages at each tick.
func (x *run) never(inserted []int64) {
	oldest := make([]int, len(x.list)) // within the age of each tier
	next := make([]time.Time, len(x.list))
	for i, t := range x.list {
		next[i] = t.Next(x.w.From)
	}
	for seen := 0; len(inserted) > 0 && x.ctx.Err() == nil; {
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
		x.reached(at, len(inserted))
		i := oldest[start]
		for i < seen && inserted[i] < now-int64(x.list[start].MaxAge) {
			i++
		}
		oldest[start] = i
		if seen > i {
			x.attempt(at, seen-i, seen-i)
		}
	}
	if x.ctx.Err() != nil {
		return
	}
	for _, at := range inserted {
		x.growsOld(&Record{Inserted: time.Unix(0, at), Poison: true}, x.w.To)
	}
}

// A minute is how many calls begin in it, and how many records come and go until its
// end. What comes is there before anything goes, as what has come before a tick is.
type minute struct{ calls, come, gone uint32 }

// minute returns the one that a time is in, or the end of.
func (x *run) minute(t time.Time) *minute {
	return &x.minutes[min(max(0, int((t.Sub(x.w.From)+time.Minute-1)/time.Minute)), len(x.minutes)-1)]
}
