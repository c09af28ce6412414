package backlog

import (
	"context"
	"encoding/json"
	"math"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

// recordMemory bounds the memory of records: a half for those dispatched and not yet settled, a
// quarter each for the current page and the one read ahead. One record always fits.
const recordMemory = 32 << 20

// A walk goes through the lanes as the run's plan says. Only the holder of the run's walking
// token uses it.
//
// Three methods look for another record:
//
//   - walk.nextLane: may the pass claim more, and from which lane?
//   - lane.hasNext: has the lane another record, perhaps on the next page?
//   - lane.hasUntried: has it one that this pass has not attempted?
type walk struct {
	r        *run
	lanes    [2]*lane
	reported map[uint64]struct{} // keys of the unreadable rows so far
}

func newWalk(r *run) *walk {
	w := &walk{r: r, reported: make(map[uint64]struct{})}
	for _, l := range []Lane{Fresh, Failed} {
		w.lanes[l] = &lane{w: w, lane: l, progress: r.pass.Resume.Walk(l)}
		if !r.e.rule.Tries(l) {
			w.lanes[l].neverDue = true
			w.lanes[l].page.final = true
		}
	}
	return w
}

// nextLane returns the lane to go on with, and how many of its records may be claimed. The
// lane is nil if nothing more is to be claimed.
func (w *walk) nextLane() (l *lane, room int) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	name, room := w.r.plan.Next()
	if room == 0 {
		return nil, 0
	}
	return w.lanes[name], room
}

// claimChunk claims the records of the next chunk, none if nothing more is to be dispatched.
func (w *walk) claimChunk() (jobs []job) {
	r := w.r
	for r.stop.Err() == nil {
		l, room := w.nextLane()
		if l == nil || len(jobs) > 0 && l.endsChunk(len(jobs)) {
			break
		}
		if !l.hasNext() {
			l.setExhausted()
			continue
		}
		if len(jobs) == 0 {
			waited, ok := r.awaitHandler()
			if !ok {
				break
			}
			if waited || l.isStale() {
				l.restart()
				continue
			}
		}
		verdict := l.try()
		if verdict == endPass {
			break
		}
		if verdict == endLane {
			l.passRefused()
			r.count(func(*Report) { l.close() })
			continue
		}
		room = min(room, l.unprovenRoom())
		if room <= 0 && len(jobs) > 0 {
			break // these are dispatched before any outcome is waited for
		}
		if room <= 0 {
			w.awaitOutcome()
			continue
		}
		size := l.chunkSize()
		if jobs == nil {
			jobs = make([]job, 0, size)
		}
		list := l.sameState(min(room, size-len(jobs)))
		var full bool
		jobs, full = w.claim(l, list, jobs)
		if full {
			break
		}
	}
	return jobs
}

// awaitOutcome waits until a claimed record is accounted for, or the stop.
func (w *walk) awaitOutcome() {
	w.r.e.settler.flush()
	w.r.accounted.take(w.r.stop)
}

// noteExhausted finds out for the plan which lanes have no more untried records. If the cap is
// used up it looks for any record in both lanes.
func (w *walk) noteExhausted() {
	for l, _ := w.nextLane(); l != nil; l, _ = w.nextLane() {
		if l.hasUntried() || w.r.stop.Err() != nil {
			return
		}
		l.setExhausted()
	}
	for _, l := range w.lanes {
		if w.r.stop.Err() == nil && !l.hasNext() {
			l.setExhausted()
		}
	}
}

// claim passes the given records, the next of the lane, and adds to jobs the ones that are to be
// tried now. full says that there is no room for the rest, which are not passed. If jobs is empty
// it waits for room, until the stop.
func (w *walk) claim(l *lane, list []Record, jobs []job) (_ []job, full bool) {
	r := w.r
	e := w.r.e
	var hashes [maxChunk]uint64
	for i := range list {
		hashes[i] = e.hash(&list[i])
	}
	age := l.page.age
	if e.queue != nil {
		age = nil
	}
	flights := e.flights.Claim(age, hashes[:len(list)]...)
	excludesAny := r.excludesAny() // after the claim: a record released until then is known to be excluded
	before := len(jobs)
	for i := range list {
		rec := &list[i]
		f := flights[i]
		if f != nil && (excludesAny && r.excludes(hashes[i]) || w.cannotStart(rec)) {
			e.flights.Drop(f)
			f = nil
		}
		weight := e.gate.weigh(rec)
		if f != nil && !w.makeRoom(weight, len(jobs) == 0) {
			e.flights.Drop(flights[i:]...)
			full = true
			break
		}
		l.pass(rec)
		if f == nil {
			e.release(rec)
			continue
		}
		l.unsettled.Add(1)
		jobs = append(jobs, job{
			rec: rec, hash: hashes[i], flight: f, weight: weight,
			lane: l, place: l.progress.Place(rec.Cursor), round: r.trialRound,
		})
	}
	r.count(func(*Report) { r.plan.Claimed(l.lane, len(jobs)-before) })
	return jobs, full
}

// cannotStart reports whether the policy finds no start for the record. Its row counts as
// unreadable then.
func (w *walk) cannotStart(rec *Record) bool {
	_, err := w.r.e.Policy.Start(rec.Memory, w.r.pass.Now, "")
	if err != nil {
		w.unreadable([]Unreadable{{rec.Key, err}})
	}
	return err != nil
}

// makeRoom takes room for a record and reports whether it got it. With wait it waits for
// that, until the stop.
func (w *walk) makeRoom(weight int64, wait bool) bool {
	e := w.r.e
	if e.gate.room.TryAcquire(weight) {
		return true
	}
	if !wait {
		return false
	}
	if e.settler.writing.Load() == 0 { // else the write under way makes room
		e.settler.flush()
	}
	return e.gate.room.Acquire(w.r.stop, weight) == nil
}

// finish returns what is left of the chunk, finds out whether there are more records unless the
// pass was stopped, and ends the reading. The workers have ended.
func (w *walk) finish() {
	c := w.r.chunk.Load()
	for i := min(c.next.Load(), int64(len(c.jobs))); i < int64(len(c.jobs)); i++ {
		w.r.returnJob(&c.jobs[i])
	}
	w.noteExhausted()
	for _, l := range w.lanes {
		l.endReading()
	}
	w.strays()
}

// strays counts the rows that no page has, because their date is in another form than most.
func (w *walk) strays() {
	r := w.r
	store, ok := r.e.Store.(StrayFinder)
	if !ok {
		return
	}
	for _, l := range w.lanes {
		if r.stop.Err() != nil || l.page.err != nil || l.neverDue {
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

// unreadable counts the rows that cannot be records, each once, though a page may be read
// again.
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

// A lane is read page by page, section by section. A goroutine reads the next page while the
// current one is dispatched, unless the first page is the last.
type lane struct {
	w        *walk
	lane     Lane
	progress *plan.Walk
	neverDue bool // none of its records is ever tried

	pages     chan readPage // what follows the first page; nil: nothing is read yet
	cancel    context.CancelFunc
	page      readPage     // the current one
	next      int          // index of its next record
	trusted   int          // the last section in which the trials of states count
	closed    atomic.Bool  // nothing more of it is dispatched
	unsettled atomic.Int64 // claimed and not accounted for

	// Guarded by the run's mutex.
	inRow      int // outcomes refused since the last that was written
	firstRound int // job.round of the first of them
}

// A readPage is a page with what the reader knows of it.
type readPage struct {
	Page
	age     *flight.Page
	section int
	read    time.Time
	final   bool // nothing comes after it
	fits    int  // how many records of this size may be read at a time
	chunk   int  // how many records to claim at a time, by the speed so far
	err     error
}

// setExhausted notes in the plan that the lane has no more records, unless the pass was
// stopped before that could be found out.
func (l *lane) setExhausted() {
	r := l.w.r
	if r.stop.Err() == nil {
		r.count(func(*Report) { r.plan.Exhausted(l.lane) })
	}
}

// chunkSize returns how many of the lane's records a chunk has.
func (l *lane) chunkSize() int { return max(1, min(l.page.chunk, maxChunk)) }

// endsChunk reports whether a chunk of n jobs, at least one, is not added to: it is large
// enough, or the next page may have to be waited for.
func (l *lane) endsChunk(n int) bool { return n >= l.chunkSize() || l.next >= len(l.page.Records) }

// isStale reports whether the current page was read too long ago. A queue's records do not
// change while they are here.
func (l *lane) isStale() bool {
	e := l.w.r.e
	return e.queue == nil && e.Now().Sub(l.page.read) > plan.MaxPageAge
}

// sameState returns the next records of the page, at most limit, that have the same state as
// the first. Another state is to be tried first.
func (l *lane) sameState(limit int) []Record {
	list := l.page.Records[l.next:]
	list = list[:min(len(list), limit)]
	for i := range list {
		if origin(&list[i]) != origin(&list[0]) {
			return list[:i]
		}
	}
	return list
}

// try tries the outcomes of the next records on their rows, where that is needed.
func (l *lane) try() verdict {
	r := l.w.r
	if l.page.section > l.trusted { // it may begin with rows that were refused to the pass before
		l.trusted = l.page.section
		r.e.trials.passed.Store(0)
	}
	return r.tryState(l.page.Records[l.next:])
}

// unprovenRoom returns how many more records of the lane may be claimed. Before a success is
// written, that is as many as end the lane if all outcomes are refused: the handler is called
// in vain for no more. A refused outcome counts twice here for a moment.
func (l *lane) unprovenRoom() int {
	r := l.w.r
	if r.e.trials.isProven(&l.page.Records[l.next]) {
		return math.MaxInt
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	room := maxInRow - l.inRow
	unsettled := int(l.unsettled.Load())
	if unsettled == 0 {
		return max(1, room) // there is no outcome to wait for
	}
	return room - unsettled
}

// hasNext makes the current page one that has a next record, and reports whether there is one.
func (l *lane) hasNext() bool {
	for l.next >= len(l.page.Records) {
		l.releasePage()
		if l.page.final || l.page.err != nil {
			return false
		}
		p, ok := l.nextPage()
		if !ok {
			return false // stopped
		}
		l.page = p
		l.next = 0
		l.progress.Enter(p.section)
		l.w.r.count(func(*Report) { l.w.r.plan.Enter(l.lane, p.section, p.First()) })
		if p.err != nil {
			l.w.r.fail(p.err)
			return false
		}
		l.w.unreadable(p.Unreadable)
	}
	return true
}

// hasUntried makes the next record one that this pass has not attempted, and reports whether
// there is one.
func (l *lane) hasUntried() bool {
	for l.hasNext() {
		rec := &l.page.Records[l.next]
		if !l.w.r.wasTried(rec.Key.Hash()) {
			return true
		}
		l.pass(rec)
	}
	return false
}

// nextPage returns the next page, and false if the pass was stopped. The first call reads the
// page itself and starts the reading of those behind it.
func (l *lane) nextPage() (p readPage, ok bool) {
	if l.pages != nil {
		p, ok = <-l.pages
		return p, ok
	}
	r := &reader{lane: l, reading: l.progress.Reading()}
	r.ctx, l.cancel = context.WithCancel(l.w.r.stop)
	l.pages = make(chan readPage)
	p, ok = r.read()
	if !ok || p.final || p.err != nil {
		close(l.pages)
		return p, ok
	}
	r.startTiming(p)
	go r.send(l.pages)
	return p, ok
}

// pass goes on behind a record.
func (l *lane) pass(rec *Record) {
	l.next++
	l.progress.Pass(rec.Cursor)
}

// passRefused goes on behind the excluded records at the beginning of the page. The next pass
// begins there.
func (l *lane) passRefused() {
	for l.next < len(l.page.Records) {
		rec := &l.page.Records[l.next]
		if !l.w.r.excludes(rec.Key.Hash()) {
			return
		}
		l.pass(rec)
		l.w.r.count(func(*Report) {
			l.w.r.plan.Dispatched(l.progress.Place(rec.Cursor))
			l.w.r.plan.CountEnd(l.lane, plan.EndKeptPlace)
		})
	}
}

// close has nothing more of the lane dispatched. The run's mutex must be held.
func (l *lane) close() {
	l.closed.Store(true)
	l.w.r.plan.Close(l.lane)
}

// restart reads the lane again behind the last record that was passed.
func (l *lane) restart() {
	l.endReading()
	l.pages = nil
	l.page = readPage{}
	l.next = 0
}

// endReading ends the goroutine that reads, and releases all pages.
func (l *lane) endReading() {
	if l.pages != nil {
		l.cancel()
		for p := range l.pages {
			l.w.r.e.releasePage(&p)
		}
	}
	l.releasePage()
}

// releasePage releases what is left of the current page.
func (l *lane) releasePage() {
	l.page.Records = l.page.Records[l.next:]
	l.next = 0
	l.w.r.e.releasePage(&l.page)
}

// releasePage closes a page in the set of flights, and gives its records back to a queue. It may
// be called again.
func (e *Engine) releasePage(p *readPage) {
	if p.age != nil {
		e.flights.Close(p.age)
		p.age = nil
	}
	for i := range p.Records {
		e.release(&p.Records[i])
	}
	p.Records = nil
}

// A reader reads the pages of a lane, up to the end, an error, or the end of ctx.
type reader struct {
	ctx     context.Context
	lane    *lane
	reading *plan.Reading
	current readPage  // which is being dispatched
	since   time.Time // when that began
}

// send sends the pages that follow the first.
func (r *reader) send(pages chan<- readPage) {
	defer close(pages)
	for p, ok := r.read(); ok; p, ok = r.read() {
		select {
		case pages <- p: // received when the page before it is used up
		case <-r.ctx.Done():
			r.lane.w.r.e.releasePage(&p)
			return
		}
		if p.final || p.err != nil {
			return
		}
		r.startTiming(p)
	}
}

// read reads the next page, and returns false if ctx ended before.
func (r *reader) read() (readPage, bool) {
	e := r.lane.w.r.e
	pass := &r.lane.w.r.pass
	next := r.reading.Request()
	q := Query{
		Lane: r.lane.lane, Now: pass.Now, Since: pass.since(), Widest: pass.Widest,
		After: next.After, Until: next.Until, Limit: next.Limit,
	}
	p := readPage{age: e.flights.Open(), section: next.Section, chunk: r.current.chunk}
	p.Page, p.err = ask(r.ctx, e, func() (Page, error) { return e.Store.Pending(r.ctx, q) })
	if r.ctx.Err() != nil {
		e.releasePage(&p)
		return p, false
	}
	p.read = e.Now()
	p.fits = p.fit(plan.MaxPage) // here, because settling empties the records
	if p.err == nil {
		p.final = r.reading.Read(p.Next, p.More)
	}
	return p, true
}

// startTiming notes that a page is dispatched from now on. How long the one before it took
// says how much to read and claim at a time.
func (r *reader) startTiming(p readPage) {
	now := r.lane.w.r.e.Now()
	took := now.Sub(r.since)
	n := len(r.current.Records)
	if n > 0 {
		p.chunk = plan.Within(time.Millisecond, n, took, maxChunk)
	}
	r.reading.Paced(n+len(r.current.Unreadable), took, p.fits)
	r.current = p
	r.since = now
}

// fit returns how many records as large as the page's may be read at a time, at most limit.
func (p *Page) fit(limit int) int {
	bytes := 0
	for i := range p.Records {
		bytes += p.Records[i].approxBytes()
	}
	if bytes == 0 {
		return limit
	}
	return max(1, min(limit, recordMemory/4*len(p.Records)/bytes))
}

// recordOverhead is about how much memory a record takes apart from its long values, in bytes.
const recordOverhead = 512

// approxBytes returns about how much memory the record takes.
func (r *Record) approxBytes() int {
	n := recordOverhead
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
