package simulate

import (
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/flight"
	"backlog/backlog/plan"
	"backlog/tiers"
)

// A pass is one under way.
type pass struct {
	d       *daemon
	tier    tiers.Tier
	now     time.Time
	plan    plan.Plan
	lanes   [2]*lane
	workers int          // that have a job
	slow    []*job       // which the rate keeps waiting; the first of them reserves the next call
	tried   map[int]bool // records that have failed in it
	over    bool         // nothing more is dispatched
	aborted bool         // by AbortAfter
	stopped bool         // by a stop of the daemon
}

// A lane is one of a pass, read as the engine does it: one page is handed out, and the next
// one is read then.
type lane struct {
	d       *daemon
	p       *pass
	lane    backlog.Lane
	walk    *plan.Walk
	reading *plan.Reading // nil until the lane, or the rest of it, is begun
	page    page          // which is handed out
	next    int           // index of its next record
	ahead   *page         // the page after it; nil: there is none
	since   time.Time     // when the page began to be handed out
}

// A page is one of a lane, as it was when it was read.
type page struct {
	backlog.Page
	age     *flight.Page // nil: it is used up
	section int
	read    time.Time
	final   bool
}

// claimed is what a worker has of a record.
type claimed struct {
	backlog.Record
	record int // in the workload
	flight *flight.Flight
	place  plan.Place
}

func place(r *backlog.Record) int { return int(r.Key.Part(0).(int64)) }

// begin starts a pass of the tier.
func (d *daemon) begin(t tiers.Tier) {
	p := &pass{d: d, tier: t, now: d.now, tried: make(map[int]bool)}
	p.plan = plan.Plan{MaxRecords: d.MaxRecords, AbortAfter: d.AbortAfter, From: d.resume[t.Name]}
	for _, l := range []backlog.Lane{plan.Fresh, plan.Failed} {
		p.plan.ByWait[l] = d.rule.ByWait(l)
		p.lanes[l] = &lane{d: d, p: p, lane: l, walk: p.plan.From.Walk(l)}
		p.lanes[l].page.final = !d.rule.Tries(l) // nothing is read
	}
	d.running[t.Name] = p
	d.fill(p)
}

// fill gives records to the workers of the pass that have none, and ends it when there is
// nothing left to do.
func (d *daemon) fill(p *pass) {
	for !p.over && p.workers < max(1, d.Concurrency) {
		c := p.claim()
		if c == nil {
			break
		}
		p.workers++
		p.look()
		d.waiting = append(d.waiting, &job{claimed: c, pass: p})
	}
	d.start()
	if p.workers == 0 && d.running[p.tier.Name] == p {
		d.end(p)
	}
}

// claim takes the next record of the pass, nil if there is none.
func (p *pass) claim() *claimed {
	for {
		name, room := p.plan.Next()
		if room == 0 {
			return nil
		}
		l := p.lanes[name]
		if !l.peek() {
			p.plan.Exhausted(name)
			continue
		}
		if p.d.now.Sub(l.page.read) > plan.MaxPageAge {
			l.reread()
			continue
		}
		if c := l.claim(); c != nil {
			return c
		}
	}
}

// look goes on to the next record that was not tried. The cap may be used up: then it looks
// in both lanes.
func (p *pass) look() {
	for name, room := p.plan.Next(); room > 0; name, room = p.plan.Next() {
		if p.lanes[name].untried() {
			return
		}
		p.plan.Exhausted(name)
	}
	for name, l := range p.lanes {
		if !l.peek() {
			p.plan.Exhausted(plan.Lane(name))
		}
	}
}

// ended takes the end of a call, and reports whether it ends the pass.
func (p *pass) ended(j *job) (abort bool) {
	p.workers--
	p.plan.Dispatched(j.place)
	if j.success {
		return p.plan.Ended(j.Lane, plan.Succeeded)
	}
	p.tried[j.record] = true
	p.aborted = p.plan.Ended(j.Lane, plan.HasFailed) || p.aborted
	return p.aborted
}

// cut has nothing more of the pass dispatched.
func (d *daemon) cut(p *pass) {
	p.over = true
	var dropped []*job
	drop := func(j *job) bool {
		if j.pass == p && !slices.Contains(dropped, j) {
			dropped = append(dropped, j)
		}
		return j.pass == p
	}
	before := len(d.paced)
	d.paced = slices.DeleteFunc(d.paced, drop)
	d.free += before - len(d.paced)
	d.waiting = slices.DeleteFunc(d.waiting, drop)
	p.slow = slices.DeleteFunc(p.slow, drop)
	for _, j := range dropped {
		p.workers--
		p.plan.Returned(j.Lane)
		d.flights.Drop(j.flight)
	}
}

// end notes where the tier's next pass goes on.
func (d *daemon) end(p *pass) {
	if !p.over {
		p.look()
	}
	for _, l := range p.lanes {
		l.endReading()
	}
	if len(d.outcomes) > 0 {
		d.settle() // as the engine does, rather than wait for more
	}
	if p.stopped && !p.aborted && !p.plan.Complete() {
		d.clock.Owe(p.tier.Name)
	}
	delete(d.running, p.tier.Name)
	d.resume[p.tier.Name] = p.plan.Resume()
	d.report.LongestPass = max(d.report.LongestPass, Span(d.now.Sub(p.now)))
}

// claim takes the next record of the page, and returns nil where another pass has it, or this
// one has tried it.
func (l *lane) claim() *claimed {
	r := &l.page.Records[l.next]
	i := place(r)
	f := l.d.flights.Claim(l.page.age, uint64(i))[0]
	if f != nil && l.p.tried[i] {
		l.d.flights.Drop(f)
		f = nil
	}
	l.pass(r)
	if f == nil {
		return nil
	}
	l.p.plan.Claimed(l.lane, 1)
	return &claimed{Record: *r, record: i, flight: f, place: l.walk.Look(r.Cursor)}
}

// untried makes the next record one that was not tried, and reports whether there
// is one.
func (l *lane) untried() bool {
	for l.peek() {
		r := &l.page.Records[l.next]
		if !l.p.tried[place(r)] {
			return true
		}
		l.pass(r)
	}
	return false
}

// pass goes on behind a record that was looked at.
func (l *lane) pass(r *backlog.Record) {
	l.next++
	l.walk.Pass(r.Cursor)
}

// peek makes the present page one that has a record, and reports whether there is one.
func (l *lane) peek() bool {
	for l.next >= len(l.page.Records) {
		l.closePage()
		if l.page.final {
			return false
		}
		l.nextPage()
		l.walk.Enter(l.page.section)
		l.p.plan.Enter(l.lane, l.page.section, l.page.First())
	}
	return true
}

// nextPage hands out the page that was read ahead, and reads the one after it.
func (l *lane) nextPage() {
	used := len(l.page.Records)
	took := l.d.now.Sub(l.since)
	if l.reading == nil {
		l.reading = l.walk.Reading()
		l.ahead = l.read()
	}
	l.page = *l.ahead
	l.next = 0
	l.ahead = nil
	if l.page.final {
		return
	}
	l.reading.Paced(used, took, plan.MaxPage)
	l.since = l.d.now
	l.ahead = l.read()
}

// read reads a page.
func (l *lane) read() *page {
	next := l.reading.Request()
	pass := backlog.TierPass(l.d.Schedule, l.p.tier)
	q := backlog.Query{
		Lane: l.lane, Now: l.p.now, Since: l.p.now.Add(-pass.MaxAge), Widest: pass.Widest,
		After: next.After, Until: next.Until, Limit: next.Limit,
	}
	p := &page{age: l.d.flights.Open(), section: next.Section, read: l.d.now}
	var err error
	p.Page, err = l.d.table.Pending(l.d.ctx, q)
	l.d.fail(err)
	p.final = err != nil || l.reading.Read(p.Next, p.More)
	return p
}

// reread begins anew behind the last record that was looked at.
func (l *lane) reread() {
	l.endReading()
	l.reading = nil
	l.page = page{}
	l.next = 0
}

// endReading lets go of all pages.
func (l *lane) endReading() {
	l.closePage()
	if l.ahead != nil {
		l.d.flights.Close(l.ahead.age)
		l.ahead = nil
	}
}

// closePage lets go of the present page.
func (l *lane) closePage() {
	if l.page.age != nil {
		l.d.flights.Close(l.page.age)
		l.page.age = nil
	}
}
