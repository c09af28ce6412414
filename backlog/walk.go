package backlog

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

// recordMemory bounds the memory of records: half of it is for those dispatched and
// not yet settled, a quarter each for the page at hand and the one read ahead.
// One record always passes.
const recordMemory = 32 << 20

// A walk goes through the lanes as the run's plan says. It belongs to
// whoever has the run's pull token.
type walk struct {
	r        *run
	lanes    [2]*lane
	reported map[uint64]struct{} // keys of the unreadable rows so far
}

func newWalk(r *run) *walk {
	w := &walk{r: r, reported: make(map[uint64]struct{})}
	for _, l := range []Lane{Fresh, Failed} {
		w.lanes[l] = &lane{w: w, lane: l, walk: r.pass.Resume.Walk(l)}
		if !r.e.rule.Tries(l) {
			w.lanes[l].unread = true
			w.lanes[l].page.final = true
		}
	}
	return w
}

// next returns the lane to go on with, and how many of its records may be claimed; nil if
// nothing more is to be claimed.
func (w *walk) next() (l *lane, room int) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	name, room := w.r.plan.Next()
	if room == 0 {
		return nil, 0
	}
	return w.lanes[name], room
}

// exhausted tells the plan that the lane has no more records, unless the pass was stopped
// before that could be known.
func (l *lane) exhausted() {
	r := l.w.r
	if r.stop.Err() == nil {
		r.count(func(*Report) { r.plan.Exhausted(l.lane) })
	}
}

// fill claims the records of the next chunk, none if nothing more is to be
// dispatched.
func (w *walk) fill() (jobs []job) {
	r := w.r
	for full := false; !full && r.stop.Err() == nil; {
		l, room := w.next()
		if l == nil || len(jobs) > 0 && (len(jobs) >= min(l.page.chunk, maxChunk) || l.next >= len(l.page.Records)) {
			break
		}
		if !l.peek() {
			l.exhausted()
			continue
		}
		if len(jobs) == 0 {
			waited, ok := r.handlerOpens()
			if !ok {
				break
			}
			if waited || r.e.Now().Sub(l.page.read) > plan.MaxPageAge && r.e.queue == nil {
				l.reread()
				continue
			}
		}
		if l.page.section > l.trusted { // it may begin with rows that were refused to the pass before
			l.trusted = l.page.section
			r.e.trials.taken.Store(0)
		}
		list := l.page.Records[l.next:]
		switch r.try(list) {
		case endPass:
			return jobs
		case endLane:
			l.passRefused()
			r.count(func(*Report) { l.close() })
			continue
		}
		if !r.e.trials.isProven(&list[0]) { // the first outcomes decide whether more are worth a handler call
			room = min(room, r.unprovenRoom(l))
			if room <= 0 && len(jobs) > 0 {
				break
			}
			if room <= 0 {
				w.awaitOutcome()
				continue
			}
		}
		size := max(1, min(l.page.chunk, maxChunk))
		if jobs == nil {
			jobs = make([]job, 0, size)
		}
		list = list[:min(len(list), room, size-len(jobs))]
		for i := range list {
			if origin(&list[i]) != origin(&list[0]) { // which is to be tried first
				list = list[:i]
				break
			}
		}
		jobs, full = w.claim(l, list, jobs)
	}
	return jobs
}

// unprovenRoom returns how many more records of the lane may be claimed before a success is
// written: the handler is called in vain for as many as end the lane, and for no more. An
// outcome that is refused counts in both numbers for a moment.
func (r *run) unprovenRoom(l *lane) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := maxInRow - l.inRow
	unsettled := int(l.unsettled.Load())
	if unsettled == 0 {
		return max(1, room) // nothing is under way that would be waited for
	}
	return room - unsettled
}

// awaitOutcome waits until something that was claimed is accounted for, or the stop.
func (w *walk) awaitOutcome() {
	w.r.e.settler.flush()
	select {
	case <-w.r.accounted:
	case <-w.r.stop.Done():
	}
}

// look goes on to the next record that was not tried. The cap may be used up:
// then it looks in both lanes.
func (w *walk) look() {
	for l, _ := w.next(); l != nil; l, _ = w.next() {
		if l.untried() || w.r.stop.Err() != nil {
			return
		}
		l.exhausted()
	}
	for _, l := range w.lanes {
		if w.r.stop.Err() == nil && !l.peek() {
			l.exhausted()
		}
	}
}

// claim adds to the chunk the records, the next of the lane, that are to be tried now. full
// says that there is no room for the rest; it is waited for, until the stop, if the chunk is empty.
func (w *walk) claim(l *lane, list []Record, jobs []job) (_ []job, full bool) {
	r, e := w.r, w.r.e
	var hashes [maxChunk]uint64
	for i := range list {
		hashes[i] = e.hash(&list[i])
	}
	age := l.page.age
	if e.queue != nil {
		age = nil
	}
	flights := e.flights.Claim(age, hashes[:len(list)]...)
	spared := r.sparesSome() // after the claim: what was let go of before it is known
	before := len(jobs)
	defer func() {
		r.count(func(*Report) { r.plan.Claimed(l.lane, len(jobs)-before) })
	}()
	for i := range list {
		rec, f := &list[i], flights[i]
		if f != nil && (spared && r.spares(hashes[i]) || w.cannotStart(rec)) {
			e.flights.Drop(f)
			f = nil
		}
		weight := e.gate.weigh(rec)
		if f != nil && !w.makeRoom(weight, len(jobs) == 0) {
			e.flights.Drop(flights[i:]...)
			return jobs, true
		}
		l.pass(rec)
		if f == nil {
			e.release(rec)
			continue
		}
		l.unsettled.Add(1)
		jobs = append(jobs, job{rec: rec, hash: hashes[i], flight: f, weight: weight, lane: l, place: l.walk.Look(rec.Cursor), round: r.rounds})
	}
	return jobs, false
}

// cannotStart reports whether the policy finds no start for the record, whose row is
// unreadable then.
func (w *walk) cannotStart(rec *Record) bool {
	_, err := w.r.e.Policy.Start(rec.Memory, w.r.pass.Now, "")
	if err != nil {
		w.unreadable([]Unreadable{{rec.Key, err}})
	}
	return err != nil
}

// makeRoom takes room for a record, and reports whether it has any. With wait it waits
// for it, until the stop.
func (w *walk) makeRoom(weight int64, wait bool) bool {
	e := w.r.e
	if e.gate.room.TryAcquire(weight) {
		return true
	}
	if wait && e.settler.since.Load() == 0 { // else room is being made
		e.settler.flush()
	}
	return wait && e.gate.room.Acquire(w.r.stop, weight) == nil
}

// finish looks whether there is anything left, unless the pass was stopped, and
// ends the reading. The workers have ended.
func (w *walk) finish() {
	c := w.r.chunk.Load()
	for i := min(c.next.Load(), int64(len(c.jobs))); i < int64(len(c.jobs)); i++ {
		w.r.drop(&c.jobs[i])
	}
	w.look()
	for _, l := range w.lanes {
		l.endReading()
	}
	w.strays()
}

// strays counts the rows that no page has, because their date is in another form than the
// others'.
func (w *walk) strays() {
	r := w.r
	store, ok := r.e.Store.(StrayFinder)
	if !ok {
		return
	}
	for _, l := range w.lanes {
		if r.stop.Err() != nil || l.page.err != nil || l.unread {
			continue
		}
		q := Query{Lane: l.lane, Now: r.pass.Now, Since: r.pass.since(), Widest: r.pass.Widest}
		rows, err := ask(r.stop, r.e, func() ([]Unreadable, error) { return store.Strays(r.stop, q) })
		if err != nil {
			r.failUnlessStopped(err)
		}
		w.unreadable(rows)
	}
}

// unreadable counts the rows that cannot be records, each once: a page may be
// read again.
func (w *walk) unreadable(rows []Unreadable) {
	for _, u := range rows {
		hash := u.Key.Hash()
		if _, ok := w.reported[hash]; ok && !u.Key.IsZero() {
			continue
		}
		w.reported[hash] = struct{}{}
		w.r.count(func(rep *Report) { rep.Unreadable++ })
		w.r.e.emit(Event{Kind: UnreadableRow, Tier: w.r.pass.Tier, Record: &Record{Key: u.Key}, Err: u.Err})
	}
}

// A lane is walked section by section. A goroutine reads the next page while the
// present one is dispatched; there is none where the first page is all.
type lane struct {
	w      *walk
	lane   Lane
	walk   *plan.Walk
	unread bool // none of its records is ever tried

	pages     chan readPage // nil until the lane is begun; behind the first
	cancel    context.CancelFunc
	page      readPage     // the present one
	next      int          // index of its next record
	trusted   int          // the section whose states are known to be taken
	closed    atomic.Bool  // nothing more of it is dispatched
	unsettled atomic.Int64 // claimed and not accounted for

	// Guarded by the run's mutex.
	inRow      int // outcomes refused since the last that was taken
	firstRound int // of the first of them
}

type readPage struct {
	Page
	age     *flight.Page
	section int
	read    time.Time
	final   bool // nothing comes after it
	fits    int  // how many records as large as its own may be read at a time
	chunk   int  // how many records to claim at a time, by the speed so far
	err     error
}

// peek makes the present page one that has a record to dispatch, and reports
// whether there is one.
func (l *lane) peek() bool {
	for l.next >= len(l.page.Records) {
		l.shut()
		if l.page.final || l.page.err != nil {
			return false
		}
		p, ok := l.turn()
		if !ok {
			return false // stopped
		}
		l.page = p
		l.next = 0
		l.walk.Enter(p.section)
		l.w.r.count(func(*Report) { l.w.r.plan.Enter(l.lane, p.section, p.First()) })
		if p.err != nil {
			l.w.r.fail(p.err)
			return false
		}
		l.w.unreadable(p.Unreadable)
	}
	return true
}

// turn returns the next page, and whether there is one: else the pass is stopped.
func (l *lane) turn() (p readPage, ok bool) {
	if l.pages != nil {
		p, ok = <-l.pages
		return p, ok
	}
	r := &reader{lane: l, reading: l.walk.Reading()}
	r.ctx, l.cancel = context.WithCancel(l.w.r.stop)
	l.pages = make(chan readPage)
	if p, ok = r.read(); !ok || p.final || p.err != nil {
		close(l.pages)
		return p, ok
	}
	r.given(p)
	go r.send(l.pages)
	return p, ok
}

// untried makes the next record one that was not tried, and reports whether there
// is one.
func (l *lane) untried() bool {
	for l.peek() {
		rec := &l.page.Records[l.next]
		if !l.w.r.wasTried(rec.Key.Hash()) {
			return true
		}
		l.pass(rec)
	}
	return false
}

// pass goes on behind a record that has been looked at.
func (l *lane) pass(rec *Record) {
	l.next++
	l.walk.Pass(rec.Cursor)
}

// passRefused goes on behind the records that are refused at the beginning of the page: the
// next pass begins there.
func (l *lane) passRefused() {
	for l.next < len(l.page.Records) {
		rec := &l.page.Records[l.next]
		if !l.w.r.spares(rec.Key.Hash()) {
			return
		}
		l.pass(rec)
		l.w.r.count(func(*Report) {
			l.w.r.plan.Dispatched(l.walk.Look(rec.Cursor))
			l.w.r.plan.Ended(l.lane, plan.Stayed)
		})
	}
}

// close has nothing more of the lane dispatched. The caller has the run's mutex.
func (l *lane) close() {
	l.closed.Store(true)
	l.w.r.plan.Close(l.lane)
}

// shut lets go of the present page.
func (l *lane) shut() {
	if l.page.age != nil {
		l.w.r.e.flights.Close(l.page.age)
		l.page.age = nil
	}
}

// reread begins anew behind the last record that was looked at.
func (l *lane) reread() {
	l.endReading()
	l.pages = nil
	l.page = readPage{}
	l.next = 0
}

// endReading ends the goroutine that reads, and lets go of all pages.
func (l *lane) endReading() {
	if l.pages != nil {
		l.cancel()
		for p := range l.pages {
			l.w.r.e.flights.Close(p.age)
		}
	}
	l.shut()
}

// A reader reads the pages of a lane, up to the end, an error, or the end of ctx.
type reader struct {
	ctx     context.Context
	lane    *lane
	reading *plan.Reading
	present readPage  // which is being dispatched
	since   time.Time // when that began
}

// send sends the pages that are left.
func (r *reader) send(pages chan<- readPage) {
	defer close(pages)
	for p, ok := r.read(); ok; p, ok = r.read() {
		select {
		case pages <- p: // it was taken when the page before it was used up
		case <-r.ctx.Done():
			r.lane.w.r.e.flights.Close(p.age)
			return
		}
		if p.final || p.err != nil {
			return
		}
		r.given(p)
	}
}

// read reads the next page, and reports whether it did before the end of ctx.
func (r *reader) read() (readPage, bool) {
	run, next := r.lane.w.r, r.reading.Request()
	e, pass := run.e, &run.pass
	q := Query{Lane: r.lane.lane, Now: pass.Now, Since: pass.since(), Widest: pass.Widest, After: next.After, Until: next.Until, Limit: next.Limit}
	p := readPage{age: e.flights.Open(), section: next.Section, chunk: r.present.chunk}
	p.Page, p.err = ask(r.ctx, e, func() (Page, error) { return e.Store.Pending(r.ctx, q) })
	if r.ctx.Err() != nil {
		e.flights.Close(p.age)
		return p, false
	}
	p.read = e.Now()
	p.fits = p.fit(plan.MaxPage) // before the page is given away
	if p.err == nil {
		p.final = r.reading.Read(p.Next, p.More)
	}
	return p, true
}

// given notes that a page is dispatched from now on, and how long the one before it took.
func (r *reader) given(p readPage) {
	took := r.lane.w.r.e.Now().Sub(r.since)
	n := len(r.present.Records)
	if n > 0 {
		p.chunk = plan.Within(time.Millisecond, n, took, maxChunk)
	}
	r.reading.Paced(n+len(r.present.Unreadable), took, p.fits)
	r.present, r.since = p, r.lane.w.r.e.Now()
}

// fit returns how many records as large as the page's may be read at a time, at most
// limit.
func (p *Page) fit(limit int) int {
	bytes := 0
	for i := range p.Records {
		bytes += p.Records[i].bytes()
	}
	if bytes == 0 {
		return limit
	}
	return max(1, min(limit, recordMemory/4*len(p.Records)/bytes))
}

// bytes is about the memory that the record takes.
func (r *Record) bytes() int {
	n := 512
	for _, v := range r.Values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		case json.RawMessage:
			n += len(v)
		}
	}
	return n
}
