package simulate

import (
	"cmp"
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
		x.flow.comes(records[i].Inserted)
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
