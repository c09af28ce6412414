package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"backlog/backlog"
	"backlog/backlog/flight"
	"backlog/tiers"
)

// A Table is a store that records can be put into.
type Table interface {
	backlog.Store
	// Add puts in a record. Its key is an int64: its place in the workload,
	// from 0.
	Add(place int, r *Record) error
}

// A daemon is simulated where passes depend on each other: a cap or an abort
// leaves something for the next pass, a pass still runs at the next tick, ticks are
// missed. The clock of tiers and the plan of each pass decide as they do in the real one.
// What the real one does in goroutines are events here, in the order of their times, at the
// same time in the order of the cases of step.
type daemon struct {
	*run
	err     error // of the table; nothing happens after it
	now     time.Time
	table   Table
	records []simRecord
	added   int // so many of them are in the table

	clock   tiers.Clock
	next    time.Time        // the next wake
	stopped time.Time        // the last stop
	running map[string]*pass // by tier
	resume  map[string]backlog.Resume

	flights *flight.Set
	free    int           // handlers
	waiting []*job        // for a handler, in this order
	calls   []*job        // under way, in the order in which they end
	pace    *rate.Limiter // nil: no limit
	paced   []*job        // they hold a handler, and wait for the rate

	outcomes []outcome // not written yet
	settleAt time.Time // when they are; zero: there are none
}

// A simRecord is a record and what has become of it so far.
type simRecord struct {
	*Record
	tries int
	done  bool // it has succeeded, or is given up
}

// A job is a record that a pass has claimed.
type job struct {
	*claimed
	pass     *pass
	reserves bool      // it waits for a reservation of the rate, as no other of its pass does
	until    time.Time // of the call, or of the wait for the rate
	success  bool      // of the call
}

// An outcome waits for others to be written with them.
type outcome struct {
	backlog.Settlement
	flight *flight.Flight
}

// The engine writes outcomes in groups: as soon as so many have come, or so long after the
// first.
const (
	groupSize = backlog.MaxGroup / 2
	groupTime = 100 * time.Millisecond
)

// passes goes through the workload pass by pass.
func (x *run) passes(records []Record) error {
	d := &daemon{
		run:     x,
		now:     x.w.From,
		table:   x.NewTable(),
		records: make([]simRecord, len(records)),
		clock:   tiers.Clock{Last: x.w.From},
		running: make(map[string]*pass),
		resume:  make(map[string]backlog.Resume),
		flights: flight.New(),
		free:    max(1, x.Concurrency),
	}
	if x.Rate > 0 {
		d.pace = rate.NewLimiter(rate.Limit(x.Rate), max(1, int(x.Rate/100)))
	}
	for i := range records {
		d.records[i].Record = &records[i]
	}
	d.next = d.nextWake()
	for d.err == nil && x.ctx.Err() == nil && d.step() {
	}
	if d.err != nil {
		return d.err
	}
	until := x.w.To
	if x.ctx.Err() != nil {
		until = d.now
	}
	x.report.Records = 0
	for i := range d.records {
		if records[i].Inserted.After(until) {
			continue
		}
		x.report.Records++
		x.minute(records[i].Inserted).come++
		if !d.records[i].done {
			x.growsOld(&records[i], until)
		}
	}
	return nil
}

// step lets the next event happen, and reports whether there was one.
func (d *daemon) step() bool {
	end := firstOf(d.calls)
	stop := d.nextStop()
	turn := firstOf(d.paced)
	at := soonest(end, d.settleAt, stop, d.next, turn)
	if at.IsZero() || at.After(d.w.To) {
		return false
	}
	d.now = at
	switch {
	case at.Equal(end):
		d.answered()
	case at.Equal(d.settleAt):
		d.settle()
	case at.Equal(stop):
		d.stop()
	case at.Equal(d.next):
		d.wake()
	default:
		j := d.paced[0]
		d.paced = d.paced[1:]
		d.call(j)
	}
	return true
}

// firstOf returns until when the first job goes on, zero if there is none.
func firstOf(jobs []*job) time.Time {
	if len(jobs) == 0 {
		return time.Time{}
	}
	return jobs[0].until
}

// inOrder puts a job behind those that do not go on longer.
func inOrder(jobs []*job, j *job) []*job {
	place := len(jobs)
	for place > 0 && jobs[place-1].until.After(j.until) {
		place--
	}
	return slices.Insert(jobs, place, j)
}

// fail keeps the first error.
func (d *daemon) fail(err error) { d.err = cmp.Or(d.err, err) }

// soonest returns the first of the times that are not zero.
func soonest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// nextStop returns when the daemon is stopped next, if it has anything to do.
func (d *daemon) nextStop() time.Time {
	if len(d.running) > 0 {
		for _, o := range d.Down {
			if o.From.After(d.stopped) && !o.From.Before(d.now) {
				return o.From
			}
		}
	}
	return time.Time{}
}

// nextWake returns when the daemon looks for what is due next: at a tick, or
// when it is started again.
func (d *daemon) nextWake() time.Time {
	at := d.Schedule.Next(d.clock.Last)
	for _, o := range d.Down {
		if o.To.After(d.clock.Last) && !at.Before(o.From) {
			at = o.To
		}
	}
	return at
}

// wake starts the pass that is due.
func (d *daemon) wake() {
	for ; d.added < len(d.records) && d.records[d.added].Inserted.Before(d.now); d.added++ {
		d.fail(d.table.Add(d.added, d.records[d.added].Record))
	}
	w := d.clock.Wake(d.Schedule, d.now, false, func(t tiers.Tier) bool { return d.running[t.Name] != nil })
	d.next = d.nextWake()
	d.report.SkippedTicks += len(w.Skipped)
	if w.Start != nil {
		d.begin(w.Start.Tier)
	}
}

// stop ends all passes: what is at a handler still ends, nothing more is
// started.
func (d *daemon) stop() {
	d.stopped = d.now
	for _, t := range d.list {
		if p := d.running[t.Name]; p != nil {
			p.stopped = true
			d.cut(p)
			d.fill(p) // it may have ended
		}
	}
}

// start has waiting jobs called while there are handlers for them.
func (d *daemon) start() {
	for d.free > 0 && len(d.waiting) > 0 {
		j := d.waiting[0]
		d.waiting = d.waiting[1:]
		d.free--
		switch {
		case j.reserves:
			j.until = d.now.Add(d.pace.ReserveN(d.now, 1).DelayFrom(d.now))
			d.paced = inOrder(d.paced, j)
		case d.pace == nil || d.pace.AllowN(d.now, 1):
			d.call(j)
		default: // one of its pass waits for all of them
			d.free++
			j.pass.slow = append(j.pass.slow, j)
			d.reserve(j.pass)
		}
	}
}

// reserve has the first of the pass's jobs that the rate keeps waiting wait for a
// reservation, if none does so yet.
func (d *daemon) reserve(p *pass) {
	if len(p.slow) > 0 && !p.slow[0].reserves {
		p.slow[0].reserves = true
		d.waiting = append(d.waiting, p.slow[0])
	}
}

// call begins the call for the job's record.
func (d *daemon) call(j *job) {
	if j.reserves {
		j.pass.slow = j.pass.slow[1:]
		d.reserve(j.pass)
	}
	f := &d.records[j.record]
	f.tries++
	j.success = !d.outages.isOut(d.now) && !f.Poison && luckOf(f.Seed, 2*f.tries) < d.w.Success
	j.until = d.now.Add(d.takes(j.record, f.tries))
	d.begins = j.pass
	d.one(d.now, j.record, j.success)
	d.calls = inOrder(d.calls, j)
}

// takes returns how long a call for a record takes.
func (d *daemon) takes(record, try int) time.Duration {
	if d.callTime != nil {
		return d.callTime(record, try)
	}
	return d.CallTime
}

// answered takes the outcome of the call that ends now.
func (d *daemon) answered() {
	j := d.calls[0]
	d.calls = d.calls[1:]
	f := &d.records[j.record]
	s := backlog.Settlement{Record: &j.Record, Target: backlog.RowSuccess, At: d.now}
	if j.success {
		f.done = true
		d.succeeds(d.now, f.Record)
	} else {
		s.Target = backlog.RowError
		var givenUp bool
		s.Memory, givenUp = fails(d.Policy, j.Memory, d.now, func() float64 { return luckOf(f.Seed, 2*f.tries+1) })
		if givenUp {
			s.Target = backlog.RowDead
			f.done = true
			d.dies(d.now, f.Record)
		}
	}
	if len(d.outcomes) == 0 {
		d.settleAt = d.now.Add(groupTime)
	}
	d.outcomes = append(d.outcomes, outcome{s, j.flight})
	if len(d.outcomes) == groupSize {
		d.settle()
	}
	if j.pass.ended(j) {
		d.cut(j.pass)
	}
	d.free++
	d.fill(j.pass)
}

// settle writes the outcomes that wait for that.
func (d *daemon) settle() {
	list := make([]backlog.Settlement, len(d.outcomes))
	flights := make([]*flight.Flight, len(d.outcomes))
	for i, o := range d.outcomes {
		list[i] = o.Settlement
		flights[i] = o.flight
	}
	d.outcomes = d.outcomes[:0]
	d.settleAt = time.Time{}
	left, err := d.table.Settle(context.WithoutCancel(d.ctx), list)
	if err != nil || len(left) > 0 {
		d.fail(fmt.Errorf("records are not settled: %v, %w", left, err))
	}
	d.flights.Land(flights...)
}
