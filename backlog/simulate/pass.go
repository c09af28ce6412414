package simulate

import (
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/flight"
	"backlog/backlog/plan"
	"backlog/tiers"
)

// A pass is a simulated pass under way.
type pass struct {
	d       *daemon
	tier    tiers.Tier
	now     time.Time // when it has started
	plan    plan.Plan
	lanes   [2]*lane
	workers int          // that have a job
	limited []*job       // wait for the rate limiter; only the first asks for a reservation
	failed  map[int]bool // records that have failed in this pass, by their place in the workload
	closed  bool         // nothing more is dispatched
	aborted bool         // by AbortAfter
	stopped bool         // by a stop of the daemon
}

// A lane is a lane of a pass, read as the engine reads it: the next page is read when the
// records of the one before it begin to be claimed.
type lane struct {
	d       *daemon
	p       *pass
	lane    backlog.Lane
	walk    *plan.Walk
	reading *plan.Reading // nil: nothing was read since the start or the last restart
	page    page          // whose records are being claimed
	next    int           // index of the page's next record
	ahead   *page         // the page after it, already read; nil: none
	since   time.Time     // when the first record of the page could be claimed
}

// A page is a page of a lane as it was when it was read.
type page struct {
	backlog.Page
	flights *flight.Page // nil: it is closed
	section int
	read    time.Time
	final   bool // no page of the lane comes after it
}

// claimed is a record that a worker has claimed.
type claimed struct {
	backlog.Record
	record int // its place in the workload
	flight *flight.Flight
	place  plan.Place
}

// indexOf returns the record's place in the workload.
func indexOf(r *backlog.Record) int { return int(r.Key.Part(0).(int64)) }

// startPass starts a pass of the tier.
func (d *daemon) startPass(t tiers.Tier) {
	p := d.newPass(t)
	d.running[t.Name] = p
	d.assign(p)
}

// newPass returns a pass of the tier that has not taken a record yet.
func (d *daemon) newPass(t tiers.Tier) *pass {
	p := &pass{d: d, tier: t, now: d.now, failed: make(map[int]bool)}
	p.plan = plan.Plan{MaxRecords: d.MaxRecords, AbortAfter: d.AbortAfter, From: d.resume[t.Name]}
	for _, l := range []backlog.Lane{plan.Fresh, plan.Failed} {
		p.plan.ByWait[l] = d.rule.ByWait(l)
		p.lanes[l] = &lane{d: d, p: p, lane: l, walk: p.plan.From.Walk(l)}
		p.lanes[l].page.final = !d.rule.Tries(l) // such a lane is not read at all
	}
	return p
}

// assign gives records to the idle workers of the pass. It ends the pass when nothing is left
// to do.
func (d *daemon) assign(p *pass) {
	for !p.closed && p.workers < max(1, d.Concurrency) {
		c := p.claim()
		if c == nil {
			break
		}
		p.workers++
		p.markExhausted()
		d.waiting = append(d.waiting, &job{claimed: c, pass: p})
	}
	d.dispatch()
	if p.workers == 0 && d.running[p.tier.Name] == p {
		d.endPass(p)
	}
}

// claim takes the next record of the pass, or nil.
func (p *pass) claim() *claimed {
	for {
		name, room := p.plan.Next()
		if room == 0 {
			return nil
		}
		l := p.lanes[name]
		if !l.hasNext() {
			p.plan.Exhausted(name)
			continue
		}
		if p.d.now.Sub(l.page.read) > plan.MaxPageAge {
			l.restart()
			continue
		}
		if c := l.claim(); c != nil {
			return c
		}
	}
}

// markExhausted tells the plan which lanes have no more records, so that it knows whether the
// pass is complete. While the cap has room, it skips records that have failed in this pass.
func (p *pass) markExhausted() {
	for {
		name, room := p.plan.Next()
		if room == 0 {
			break
		}
		if p.lanes[name].skipFailed() {
			return
		}
		p.plan.Exhausted(name)
	}
	for name, l := range p.lanes {
		if !l.hasNext() {
			p.plan.Exhausted(plan.Lane(name))
		}
	}
}

// callEnded takes the end of a call, and reports whether it aborts the pass.
func (p *pass) callEnded(j *job) (abort bool) {
	p.workers--
	p.plan.Dispatched(j.place)
	if j.success {
		return p.plan.CountEnd(j.Lane, plan.EndSuccess)
	}
	p.failed[j.record] = true
	p.aborted = p.plan.CountEnd(j.Lane, plan.EndFailure) || p.aborted
	return p.aborted
}

// closePass dispatches nothing more of the pass, and returns its waiting jobs to the plan.
func (d *daemon) closePass(p *pass) {
	p.closed = true
	var dropped []*job
	drop := func(j *job) bool {
		if j.pass == p && !slices.Contains(dropped, j) {
			dropped = append(dropped, j)
		}
		return j.pass == p
	}
	reserved := len(d.reserved)
	d.reserved = slices.DeleteFunc(d.reserved, drop)
	d.freeHandlers += reserved - len(d.reserved)
	d.waiting = slices.DeleteFunc(d.waiting, drop)
	p.limited = slices.DeleteFunc(p.limited, drop)
	for _, j := range dropped {
		p.workers--
		p.plan.Returned(j.Lane)
		d.flights.Drop(j.flight)
	}
}

// endPass ends the pass and keeps where the tier's next pass goes on.
func (d *daemon) endPass(p *pass) {
	if !p.closed {
		p.markExhausted()
	}
	for _, l := range p.lanes {
		l.closePages()
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

// claim takes the next record of the page. It returns nil for a record that another pass is
// working on, or that has failed in this pass.
func (l *lane) claim() *claimed {
	r := &l.page.Records[l.next]
	i := indexOf(r)
	f := l.d.flights.Claim(l.page.flights, uint64(i))[0]
	if f != nil && l.p.failed[i] {
		l.d.flights.Drop(f)
		f = nil
	}
	l.advance(r)
	if f == nil {
		return nil
	}
	l.p.plan.Claimed(l.lane, 1)
	return &claimed{Record: *r, record: i, flight: f, place: l.walk.Place(r.Cursor)}
}

// skipFailed skips records that have failed in this pass, and reports whether another one
// follows.
func (l *lane) skipFailed() bool {
	for l.hasNext() {
		r := &l.page.Records[l.next]
		if !l.p.failed[indexOf(r)] {
			return true
		}
		l.advance(r)
	}
	return false
}

// advance moves on to the record after r.
func (l *lane) advance(r *backlog.Record) {
	l.next++
	l.walk.Pass(r.Cursor)
}

// hasNext reports whether the lane has another record. It turns to the next page that has one
// if the present page is used up.
func (l *lane) hasNext() bool {
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

// nextPage turns to the page that was read ahead, and reads the one after it.
func (l *lane) nextPage() {
	used := len(l.page.Records)
	took := l.d.now.Sub(l.since)
	if l.reading == nil {
		l.reading = l.walk.Reading()
		l.ahead = l.readPage()
	}
	l.page = *l.ahead
	l.next = 0
	l.ahead = nil
	if l.page.final {
		return
	}
	l.reading.Paced(used, took, plan.MaxPage)
	l.since = l.d.now
	l.ahead = l.readPage()
}

// readPage reads the next page of the table.
func (l *lane) readPage() *page {
	next := l.reading.Request()
	pass := backlog.TierPass(l.d.Schedule, l.p.tier)
	q := backlog.Query{
		Lane: l.lane, Now: l.p.now, Since: l.p.now.Add(-pass.MaxAge), Widest: pass.Widest,
		After: next.After, Until: next.Until, Limit: next.Limit,
	}
	p := &page{flights: l.d.flights.Open(), section: next.Section, read: l.d.now}
	var err error
	p.Page, err = l.d.table.Pending(l.d.ctx, q)
	l.d.fail(err)
	p.final = err != nil || l.reading.Read(p.Next, p.More)
	return p
}

// restart reads the lane again from behind the last record that was claimed or skipped.
func (l *lane) restart() {
	l.closePages()
	l.reading = nil
	l.page = page{}
	l.next = 0
}

// closePages closes the present page and the one that was read ahead.
func (l *lane) closePages() {
	l.closePage()
	if l.ahead != nil {
		l.d.flights.Close(l.ahead.flights)
		l.ahead = nil
	}
}

// closePage closes the present page.
func (l *lane) closePage() {
	if l.page.flights != nil {
		l.d.flights.Close(l.page.flights)
		l.page.flights = nil
	}
}
