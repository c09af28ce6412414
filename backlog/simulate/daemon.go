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

// A Table is a store to which records can be added.
type Table interface {
	backlog.Store
	// Add inserts a record. Its key is an int64: its place in the workload, from 0.
	Add(place int, r *Record) error
}

// A daemon is simulated where passes depend on each other: a cap or an abort leaves records to
// the next pass, a pass still runs at the next tick, or ticks are missed. The clock of package
// tiers and the plan of each pass decide as they do in the real daemon. What that does in
// goroutines is a sequence of events here, ordered by time and, at the same time, by the cases
// of step.
type daemon struct {
	*run
	err        error // the first of the table; the simulation ends with it
	now        time.Time
	table      Table
	records    []simRecord
	nextRecord int // index of the first that is not in the table yet

	clock    tiers.Clock
	wakeAt   time.Time
	lastStop time.Time
	running  map[string]*pass // by tier
	resume   map[string]backlog.Resume

	flights      *flight.Set
	freeHandlers int
	waiting      []*job        // for a handler, first come first served
	calls        []*job        // under way, in the order of their ends
	limiter      *rate.Limiter // nil: no limit
	reserved     []*job        // have a handler and wait for their reservation of the limiter

	outcomes []outcome // not written yet
	settleAt time.Time // when they are written; zero: there are none
}

// A simRecord is a record and what has become of it so far.
type simRecord struct {
	*Record
	tries int
	done  bool // it has succeeded or was given up
}

// A job is a record that a pass has claimed.
type job struct {
	*claimed
	pass     *pass
	reserves bool      // it waits for a handler or the limiter on behalf of all limited jobs of its pass
	until    time.Time // end of the call or of the wait for the limiter
	success  bool      // of the call
}

// An outcome waits to be written with others.
type outcome struct {
	backlog.Settlement
	flight *flight.Flight
}

// The engine writes a group of outcomes when it has so many, or so long after the first.
const (
	groupSize = backlog.MaxGroup / 2
	groupTime = 100 * time.Millisecond
)

// simulateDaemon simulates the workload pass by pass.
func (r *run) simulateDaemon(records []Record) error {
	d := &daemon{
		run:          r,
		now:          r.workload.From,
		table:        r.NewTable(),
		records:      make([]simRecord, len(records)),
		clock:        tiers.Clock{Last: r.workload.From},
		running:      make(map[string]*pass),
		resume:       make(map[string]backlog.Resume),
		flights:      flight.New(),
		freeHandlers: max(1, r.Concurrency),
	}
	if r.Rate > 0 {
		d.limiter = rate.NewLimiter(rate.Limit(r.Rate), max(1, int(r.Rate/100)))
	}
	for i := range records {
		d.records[i].Record = &records[i]
	}
	d.wakeAt = d.nextWake()
	d.goOn()
	for d.err == nil && r.ctx.Err() == nil && d.step() {
	}
	if d.err != nil {
		return d.err
	}
	end := r.workload.To
	if r.ctx.Err() != nil {
		end = d.now
	}
	r.report.Records = 0
	for i := range d.records {
		if records[i].Inserted.After(end) {
			continue
		}
		r.report.Records++
		r.minute(records[i].Inserted).added++
		if !d.records[i].done {
			r.countExpiry(&records[i], end)
		}
	}
	return nil
}

// step advances the clock to the next event and lets it happen. It reports whether there was
// one.
func (d *daemon) step() bool {
	callEnds := firstUntil(d.calls)
	stopAt := d.nextStop()
	reservedAt := firstUntil(d.reserved)
	at := earliest(callEnds, d.settleAt, stopAt, d.wakeAt, reservedAt)
	if at.IsZero() || at.After(d.workload.To) {
		return false
	}
	d.now = at
	switch {
	case at.Equal(callEnds):
		d.endCall()
	case at.Equal(d.settleAt):
		d.settle()
	case at.Equal(stopAt):
		d.stop()
	case at.Equal(d.wakeAt):
		d.wake()
	default:
		j := d.reserved[0]
		d.reserved = d.reserved[1:]
		d.beginCall(j)
		d.dispatch() // the next one of its pass may wait for the limiter now
	}
	return true
}

// firstUntil returns the time of the first job, or the zero time.
func firstUntil(jobs []*job) time.Time {
	if len(jobs) == 0 {
		return time.Time{}
	}
	return jobs[0].until
}

// insertByTime inserts a job into a list that is ordered by time, after the jobs of the same time.
func insertByTime(jobs []*job, j *job) []*job {
	place := len(jobs)
	for place > 0 && jobs[place-1].until.After(j.until) {
		place--
	}
	return slices.Insert(jobs, place, j)
}

// fail keeps the first error.
func (d *daemon) fail(err error) { d.err = cmp.Or(d.err, err) }

// earliest returns the first of the times that are not zero, zero if all are.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// nextStop returns when the daemon is stopped next, zero if no pass runs that a stop could end.
func (d *daemon) nextStop() time.Time {
	if len(d.running) > 0 {
		for _, o := range d.Down {
			if o.From.After(d.lastStop) && !o.From.Before(d.now) {
				return o.From
			}
		}
	}
	return time.Time{}
}

// nextWake returns when the daemon looks for a tier that is due: at the next tick or, after a
// downtime, when it is started again.
func (d *daemon) nextWake() time.Time {
	at := d.Schedule.Next(d.clock.Last)
	for _, o := range d.Down {
		if o.To.After(d.clock.Last) && !at.Before(o.From) {
			at = o.To
		}
	}
	return at
}

// wake adds the records that were inserted since the last wake, and starts the pass that is
// due.
func (d *daemon) wake() {
	d.addRecords()
	busy := func(t tiers.Tier) bool { return d.running[t.Name] != nil }
	w := d.clock.Wake(d.Schedule, d.now, false, busy)
	d.wakeAt = d.nextWake()
	d.report.SkippedTicks += len(w.Skipped)
	if w.Start != nil {
		d.startPass(w.Start.Tier)
	}
}

// addRecords adds the records to the table that are inserted by now.
func (d *daemon) addRecords() {
	for d.nextRecord < len(d.records) && d.records[d.nextRecord].Inserted.Before(d.now) {
		d.fail(d.table.Add(d.nextRecord, d.records[d.nextRecord].Record))
		d.nextRecord++
	}
}

// goOn starts the passes that are under way at the beginning, as far as they have come.
func (d *daemon) goOn() {
	d.addRecords()
	for _, r := range d.Options.running {
		t, _ := d.Schedule.ByName(r.Tier)
		p := d.newPass(t)
		p.now = r.Started
		for _, i := range r.failed {
			p.failed[i] = true
		}
		p.plan.Claimed(backlog.Failed, len(r.failed))
		d.running[t.Name] = p
	}
	for _, r := range d.Options.running {
		d.assign(d.running[r.Tier])
	}
}

// stop closes all passes. Calls under way still end, no other begins.
func (d *daemon) stop() {
	d.lastStop = d.now
	for _, t := range d.tiers {
		if p := d.running[t.Name]; p != nil {
			p.stopped = true
			d.closePass(p)
			d.assign(p) // which ends it if no call is under way
		}
	}
}

// dispatch gives waiting jobs to free handlers. Only one job per pass waits for the limiter: if
// all did, each would hold a reservation and starve the other passes.
func (d *daemon) dispatch() {
	for d.freeHandlers > 0 && len(d.waiting) > 0 {
		j := d.waiting[0]
		d.waiting = d.waiting[1:]
		switch {
		case j.reserves:
			d.freeHandlers--
			j.until = d.now.Add(d.limiter.ReserveN(d.now, 1).DelayFrom(d.now))
			d.reserved = insertByTime(d.reserved, j)
		case d.limiter == nil || d.limiter.AllowN(d.now, 1):
			d.freeHandlers--
			d.beginCall(j)
		default:
			j.pass.limited = append(j.pass.limited, j)
			d.queueLimited(j.pass)
		}
	}
}

// queueLimited lets the first limited job of the pass wait for a handler and a reservation,
// unless it does so already.
func (d *daemon) queueLimited(p *pass) {
	if len(p.limited) > 0 && !p.limited[0].reserves {
		p.limited[0].reserves = true
		d.waiting = append(d.waiting, p.limited[0])
	}
}

// beginCall begins the handler call for the job's record.
func (d *daemon) beginCall(j *job) {
	if j.reserves {
		j.pass.limited = j.pass.limited[1:]
		d.queueLimited(j.pass)
	}
	rec := &d.records[j.record]
	rec.tries++
	j.success = d.succeeds(rec.Record, rec.tries, d.now)
	j.until = d.now.Add(d.callDuration(j.record, rec.tries))
	d.currentPass = j.pass
	d.countAttempt(d.now, j.record, j.success)
	d.calls = insertByTime(d.calls, j)
}

// callDuration returns how long a handler call for a record takes.
func (d *daemon) callDuration(record, try int) time.Duration {
	if d.callTime != nil {
		return d.callTime(record, try)
	}
	return d.CallTime
}

// endCall ends the first of the calls and takes its outcome.
func (d *daemon) endCall() {
	j := d.calls[0]
	d.calls = d.calls[1:]
	rec := &d.records[j.record]
	s := backlog.Settlement{Record: &j.Record, Target: backlog.RowSuccess, At: d.now}
	if j.success {
		rec.done = true
		d.countSuccess(d.now, rec.Record)
	} else {
		s.Target = backlog.RowError
		var givenUp bool
		s.Memory, givenUp = afterFailure(d.Policy, j.Memory, d.now, delayRoll(rec.Record, rec.tries))
		if givenUp {
			s.Target = backlog.RowDead
			rec.done = true
			d.countDeath(d.now, rec.Record)
		}
	}
	if len(d.outcomes) == 0 {
		d.settleAt = d.now.Add(groupTime)
	}
	d.outcomes = append(d.outcomes, outcome{s, j.flight})
	if len(d.outcomes) == groupSize {
		d.settle()
	}
	if j.pass.callEnded(j) {
		d.closePass(j.pass)
	}
	d.freeHandlers++
	d.assign(j.pass)
}

// settle writes the outcomes to the table.
func (d *daemon) settle() {
	group := make([]backlog.Settlement, len(d.outcomes))
	flights := make([]*flight.Flight, len(d.outcomes))
	for i, o := range d.outcomes {
		group[i] = o.Settlement
		flights[i] = o.flight
	}
	d.outcomes = d.outcomes[:0]
	d.settleAt = time.Time{}
	unsettled, err := d.table.Settle(context.WithoutCancel(d.ctx), group)
	if err != nil || len(unsettled) > 0 {
		d.fail(fmt.Errorf("records are not settled: %v, %w", unsettled, err))
	}
	d.flights.Land(flights...)
}
