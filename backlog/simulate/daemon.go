package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"backlog/backlog"
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
// missed. Wakes, passes and calls are events in the order of their times, at the
// same time in the order of the cases of step.
type daemon struct {
	*run
	err   error // of the table; nothing happens after it
	now   time.Time
	table Table
	fates []fate
	added int // so many of their records are in the table

	woke    time.Time        // the last wake
	next    time.Time        // the next one
	stopped time.Time        // the last stop
	running map[string]*pass // by tier
	resume  map[string]backlog.Resume
	owed    map[string]bool // tiers whose pass a stop has cut short

	free  int           // handlers
	queue []*pass       // in which a worker waits for one of them, in their order
	calls []call        // under way, in the order in which they end, since all take the same time
	pace  *rate.Limiter // nil: no limit
	gate  time.Time     // when that allows the next call; zero: nobody waits for it
}

// A fate is what has become of a record so far.
type fate struct {
	*Record
	tries  int
	failed bool
	retry  backlog.Failures
	over   bool // it has succeeded, or is given up
	flying bool // it has been handed out

	settled time.Time // when its outcome is written
}

// passes goes through the workload pass by pass.
func (x *run) passes(records []Record) error {
	d := &daemon{
		run: x, now: x.w.From, woke: x.w.From, table: x.NewTable(), fates: make([]fate, len(records)),
		running: make(map[string]*pass), resume: make(map[string]backlog.Resume), owed: make(map[string]bool),
		free: max(1, x.Concurrency),
	}
	if x.Rate > 0 {
		d.pace = rate.NewLimiter(rate.Limit(x.Rate), max(1, int(x.Rate/100)))
	}
	for i := range records {
		d.fates[i] = fate{Record: &records[i], failed: records[i].Failed, retry: records[i].Failures}
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
	for i := range d.fates {
		if records[i].Inserted.After(until) {
			continue
		}
		x.report.Records++
		x.minute(records[i].Inserted).come++
		if !d.fates[i].over {
			x.growsOld(&records[i], until)
		}
	}
	return nil
}

// step lets the next event happen, and reports whether there was one.
func (d *daemon) step() bool {
	var end time.Time
	if len(d.calls) > 0 {
		end = d.calls[0].at
	}
	stop := d.nextStop()
	at := soonest(end, stop, d.next, d.gate)
	if at.IsZero() || at.After(d.w.To) {
		return false
	}
	d.now = at
	switch {
	case at.Equal(end):
		c := d.calls[0]
		d.calls = d.calls[1:]
		d.answered(c)
	case at.Equal(stop):
		d.stop()
	case at.Equal(d.next):
		d.wake()
	default:
		d.gate = time.Time{}
	}
	d.start()
	return true
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
	at := d.Schedule.Next(d.woke)
	for _, o := range d.Down {
		if o.To.After(d.woke) && !at.Before(o.From) {
			at = o.To
		}
	}
	return at
}

// wake starts the pass that is due.
func (d *daemon) wake() {
	for ; d.added < len(d.fates) && (d.fates[d.added].Inserted.IsZero() || d.fates[d.added].Inserted.Before(d.now)); d.added++ {
		d.fail(d.table.Add(d.added, d.fates[d.added].Record))
	}
	due := d.Schedule.DueOrOwed(d.woke, d.now, d.owed)
	clear(d.owed)
	d.woke = d.now
	d.next = d.nextWake()
	pick := tiers.Coalesce(due, func(t tiers.Tier) bool { return d.running[t.Name] == nil })
	d.report.SkippedTicks += len(pick.Skipped)
	if pick.Start != nil {
		d.begin(&pass{tier: pick.Start.Tier, now: d.now, resume: d.resume[pick.Start.Tier.Name]})
	}
}

// stop ends all passes: what is at a handler still ends, nothing more is
// started.
func (d *daemon) stop() {
	d.stopped = d.now
	for _, t := range d.list {
		if p := d.running[t.Name]; p != nil && !p.isThrough() {
			d.owed[t.Name] = true
			d.cut(p)
			d.fill(p) // it may be over
		}
	}
}

// A pass is one under way. The engine of the real daemon says which records it
// is to try, and in which order; the calls are made in virtual time.
type pass struct {
	tier   tiers.Tier
	now    time.Time
	resume backlog.Resume // from the tier's last pass
	after  backlog.Resume // for its next one

	all    []backlog.Record // in the order of handling, without a cap
	list   []backlog.Record // what of them, under the cap, is still to be looked at
	failed bool             // the failed lane has been looked at again
	over   bool             // nothing more is started

	staged  []*backlog.Record // they wait for a handler
	waiting int               // workers that do
	busy    int               // workers at a call
	taken   int               // records that were ever staged
	streak  int               // of failures
	tried   map[int]bool      // records that have come to a call

	lastFailed int           // the last of the failed lane at a call
	passed     map[turn]bool // what somebody else had taken when its turn came
}

// A turn is a record's in a lane.
type turn struct {
	place int
	lane  backlog.Lane
}

func place(r *backlog.Record) int { return int(r.Key.Part(0).(int64)) }

// isThrough reports whether there is nothing left to be started.
func (p *pass) isThrough() bool { return len(p.list)+len(p.staged) == 0 }

// fill stages records for the workers of the pass, as many as there are of
// these, and ends it when there is nothing left to do.
func (d *daemon) fill(p *pass) {
	workers := max(1, d.Concurrency)
	for !p.over && len(p.staged) < workers && (d.MaxRecords == 0 || p.taken < d.MaxRecords) {
		d.lookAgain(p)
		if len(p.list) == 0 {
			break
		}
		r := &p.list[0]
		if p.list = p.list[1:]; d.claim(p, r) {
			p.taken++
			p.staged = append(p.staged, r)
		} else {
			p.passed[turn{place(r), r.Lane}] = true
		}
	}
	for p.waiting < min(workers-p.busy, len(p.staged)) {
		p.waiting++
		d.queue = append(d.queue, p)
	}
	if p.busy == 0 && len(p.staged) == 0 {
		if d.MaxRecords > 0 && !p.over && d.now.After(p.now) {
			d.pickAgain(p, -1)
		}
		delete(d.running, p.tier.Name)
		d.resume[p.tier.Name] = p.after
		d.report.LongestPass = max(d.report.LongestPass, Span(d.now.Sub(p.now)))
	}
}

// claim takes the record, unless somebody else has, or has tried it since it was
// picked.
func (d *daemon) claim(p *pass, r *backlog.Record) bool {
	f := &d.fates[place(r)]
	if f.over || d.isFlying(place(r)) || f.failed != (r.Lane == backlog.Failed) || f.retry != r.Failures || p.tried[place(r)] {
		return false
	}
	f.flying = true
	return true
}

// start makes the calls for which there are a handler and, where that is
// limited, a turn of the rate.
func (d *daemon) start() {
	for d.free > 0 && len(d.queue) > 0 && d.gate.IsZero() {
		if d.pace != nil {
			turn := d.pace.ReserveN(d.now, 1)
			if wait := turn.DelayFrom(d.now); wait > 0 {
				turn.CancelAt(d.now)
				d.gate = d.now.Add(wait)
				return
			}
		}
		p := d.queue[0]
		d.queue = d.queue[1:]
		d.call(p)
		d.fill(p)
	}
}

// groupTime is how long the engine waits for other outcomes to settle one with.
const groupTime = 100 * time.Millisecond

// call begins the call for the pass's next record.
func (d *daemon) call(p *pass) {
	d.free--
	p.waiting--
	p.busy++
	r := p.staged[0]
	p.staged = p.staged[1:]
	i := place(r)
	if r.Lane == backlog.Failed {
		p.lastFailed = i
	}
	p.tried[i] = true
	f := &d.fates[i]
	f.tries++
	success := !d.outages.isOut(d.now) && !f.Poison && luckOf(f.Seed, 2*f.tries) < d.w.Success
	d.begins = p
	d.one(d.now, i, success)
	d.calls = append(d.calls, call{d.now.Add(d.CallTime), p, r, success})
}

// answered settles the outcome of a call.
func (d *daemon) answered(c call) {
	p, i := c.pass, place(c.record)
	f := &d.fates[i]
	f.flying = false
	s := backlog.Settlement{Record: c.record, Target: backlog.RowSuccess, At: d.now}
	if c.success {
		f.over = true
		p.streak = 0
		d.succeeds(d.now, f.Record)
	} else {
		s.Target = backlog.RowError
		var givenUp bool
		s.Failures, givenUp = d.Policy.After(f.retry, d.now, luckOf(f.Seed, 2*f.tries+1))
		f.failed, f.retry = true, s.Failures
		p.streak++
		if givenUp {
			s.Target = backlog.RowDead
			f.over = true
			d.dies(d.now, f.Record)
		}
	}
	if left, err := d.table.Settle(context.WithoutCancel(d.ctx), []backlog.Settlement{s}); err != nil || len(left) > 0 {
		d.fail(fmt.Errorf("record %d is not settled: %v, %w", i, left, err))
	}
	d.free++
	p.busy--
	if !p.isThrough() || p.busy > 0 {
		f.settled = d.now.Add(min(d.CallTime, groupTime))
	}
	if d.AbortAfter > 0 && p.streak >= d.AbortAfter && !p.over && !p.isThrough() {
		d.cut(p)
	}
	d.fill(p)
}

// cut has nothing more of the pass started.
func (d *daemon) cut(p *pass) {
	p.over, p.waiting = true, 0
	d.queue = slices.DeleteFunc(d.queue, func(q *pass) bool { return q == p })
	for _, r := range p.staged {
		d.fates[place(r)].flying = false
	}
	p.staged = nil
	d.pickAgain(p, len(p.tried))
}

// A call is one under way, until at.
type call struct {
	at      time.Time
	pass    *pass
	record  *backlog.Record
	success bool
}

// begin has the engine pick the records of the pass.
func (d *daemon) begin(p *pass) {
	d.running[p.tier.Name] = p
	p.tried, p.passed = make(map[int]bool), make(map[turn]bool)
	p.list, p.after = d.pick(p, onGround{d}, d.MaxRecords, -1)
	p.all = p.list
	if d.MaxRecords > 0 && (d.AbortAfter > 0 || d.CallTime > 0 || d.Rate > 0 || len(d.Down) > 0) {
		p.all, _ = d.pick(p, onGround{d}, 0, -1)
	}
	d.fill(p)
}

// pick runs the engine with the cap on a store with a handler that only looks,
// at no more than so many records, and returns those and where the next pass
// would go on.
func (d *daemon) pick(p *pass, store backlog.Store, limit, most int) (list []backlog.Record, after backlog.Resume) {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	if most == 0 {
		cancel()
	}
	e := &backlog.Engine{
		Store: store, Policy: d.Policy, MaxRecords: limit,
		Now: func() time.Time { return d.now },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			if list = append(list, *r); len(list) == most {
				cancel()
			}
			return backlog.Skip
		}),
	}
	pass := backlog.TierPass(d.Schedule, p.tier)
	pass.Now, pass.Resume = p.now, p.resume
	report, err := e.Pass(ctx, pass)
	d.fail(err)
	after = report.Resume
	if d.Policy != nil {
		after.FailedLast = backlog.Cursor{} // it is for what was skipped, and this was looked at
	}
	return list, after
}

// pickAgain works out where the next pass goes on after this one, which has
// tried so many records, or all, when others have gone on beside it.
func (d *daemon) pickAgain(p *pass, most int) {
	table, added := d.NewTable(), make(map[int]bool)
	for i := range p.all {
		r := &p.all[i]
		at := turn{place(r), r.Lane}
		if p.passed[at] || added[at.place] {
			continue
		}
		added[at.place] = true
		row := *d.fates[at.place].Record
		row.Failed, row.Failures = r.Lane == backlog.Failed, r.Failures
		d.fail(table.Add(at.place, &row))
	}
	_, p.after = d.pick(p, table, d.MaxRecords, most)
	// Those that this pass has tried itself are behind the others, unlooked at.
	rest := slices.IndexFunc(p.all, func(r backlog.Record) bool { return r.Lane == backlog.Failed && place(&r) == p.lastFailed })
	if d.Policy == nil && p.taken == d.MaxRecords && p.after.FailedLast.IsZero() && rest >= 0 && rest < len(p.all)-1 {
		p.after.FailedLast = p.all[rest].Cursor
	}
}

// onGround is the table without the records that are at a handler.
type onGround struct{ *daemon }

func (g onGround) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	page, err := g.table.Pending(ctx, q)
	page.Records = slices.DeleteFunc(page.Records, func(r backlog.Record) bool { return g.isFlying(place(&r)) })
	return page, err
}

func (g onGround) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil // what is looked at is skipped
}

// isFlying reports whether the record has been handed out and not been settled.
func (d *daemon) isFlying(place int) bool {
	f := &d.fates[place]
	return f.flying || f.settled.After(d.now)
}

// lookAgain picks the records of the failed lane anew when that has its turn,
// if this is not the moment at which the pass began: others have gone on since.
func (d *daemon) lookAgain(p *pass) {
	if p.failed || len(p.list) > 0 && p.list[0].Lane == backlog.Fresh {
		return
	}
	p.failed = true
	if d.now.Equal(p.now) {
		return
	}
	isFailed := func(r backlog.Record) bool { return r.Lane == backlog.Failed }
	failed, _ := d.pick(p, onGround{d}, 0, -1)
	failed = slices.DeleteFunc(failed, func(r backlog.Record) bool { return !isFailed(r) })
	p.all = append(slices.DeleteFunc(slices.Clone(p.all), isFailed), failed...)
	p.list = slices.DeleteFunc(failed, func(r backlog.Record) bool { return p.tried[place(&r)] })
}
