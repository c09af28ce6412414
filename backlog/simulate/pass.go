package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A pass is one under way. The engine of the real daemon says which records it
// is to try, and in which order; the calls are made in virtual time.
type pass struct {
	tier   tiers.Tier
	now    time.Time
	resume backlog.Resume // from the tier's last pass
	after  backlog.Resume // for its next one

	list   []backlog.Record // in the order of handling
	at     int              // so many of them have been looked at
	failed bool             // the failed lane has been looked at again
	over   bool             // nothing more is started
	all    []backlog.Record // list without a cap

	staged  []int // of list: they wait for a handler
	waiting int   // workers that do
	busy    int   // workers at a call
	taken   int   // records that were ever staged
	begun   int   // of them, at a call
	streak  int   // of failures
	tried   map[int]bool

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
func (p *pass) isThrough() bool { return p.at == len(p.list) && len(p.staged) == 0 }

// fill stages records for the workers of the pass, as many as there are of
// these, and ends it when there is nothing left to do.
func (d *daemon) fill(p *pass) {
	workers := max(1, d.Concurrency)
	for !p.over && len(p.staged) < workers && (d.MaxRecords == 0 || p.taken < d.MaxRecords) {
		d.lookAgain(p)
		if p.at == len(p.list) {
			break
		}
		if d.claim(p, &p.list[p.at]) {
			p.taken++
			p.staged = append(p.staged, p.at)
		} else {
			p.passed[turn{place(&p.list[p.at]), p.list[p.at].Lane}] = true
		}
		p.at++
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
	p.begun++
	r := &p.list[p.staged[0]]
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
	for _, at := range p.staged {
		d.fates[place(&p.list[at])].flying = false
	}
	p.staged = nil
	d.pickAgain(p, p.begun)
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
	if p.failed || p.at < len(p.list) && p.list[p.at].Lane == backlog.Fresh {
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
	failed = slices.DeleteFunc(failed, func(r backlog.Record) bool { return p.tried[place(&r)] })
	p.list = slices.Concat(p.list[:p.at], failed, slices.DeleteFunc(slices.Clone(p.list[p.at:]), isFailed))
}
