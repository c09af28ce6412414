package backlog

import (
	"context"
	"slices"
	"time"
)

// A page is read with as many records as are handed out in about a second, so
// that a slow handler is not given rows as they were minutes ago.
const (
	minPage = 10
	maxPage = 1000
)

// maxPageAge is how old a page may be when a record of it is handed out. The
// rest of an older one, left over by handlers that take minutes, is read again:
// somebody may have taken a record back meanwhile.
const maxPageAge = 5 * time.Minute

// walk hands out the fresh lane, then the failed lane, and waits for the
// handlers. What it returns notes, once all is settled, where the next pass
// goes on if this one did not get through.
func (r *run) walk() (conclude func()) {
	resume := r.pass.Resume
	fresh := r.newLaneWalk(Fresh, freshSections(resume))
	failed := r.newLaneWalk(Failed, failedSections(resume))
	defer fresh.close()
	defer failed.close()

	if limit := r.e.MaxRecords; limit <= 0 {
		fresh.handOut(-1)
		failed.handOut(-1)
	} else {
		// However many fresh records there are, the failed lane keeps a
		// tenth of the cap; what it does not need goes back.
		reserve := (limit + 9) / 10
		if limit == 1 && !resume.TurnFailed {
			reserve = 0 // a cap of one is each lane's in turn
		}
		fresh.handOut(limit - reserve)
		failed.handOut(limit - fresh.staged)
		fresh.handOut(limit - fresh.staged - failed.staged)
	}
	fresh.end()
	failed.end()
	close(r.jobs)
	r.workers.Wait()
	return func() { r.conclude(fresh, failed) }
}

// conclude notes how far the pass came.
func (r *run) conclude(fresh, failed *laneWalk) {
	stopped := r.stop.Err() != nil
	complete := fresh.ended() && failed.ended() && r.report.Interrupted == 0
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &r.report
	switch {
	case r.err != nil:
		rep.Stopped = StoppedError
	case complete: // also if the last of all failures would have ended it
		rep.Complete = true
		return
	case r.aborted:
		rep.Stopped = StoppedAbortAfter
	case lockLost(r.caller):
		rep.Stopped = StoppedLock
	case stopped && r.e.retired.Load() && r.caller.Err() == nil:
		rep.Stopped = StoppedReload
	case stopped:
		rep.Stopped = StoppedSignal
	default:
		rep.Stopped = StoppedMaxRecords
		rep.Resume.TurnFailed = r.e.MaxRecords == 1 && fresh.handed > 0
	}
	old := r.pass.Resume
	if !fresh.ended() {
		rep.Resume.freshFrom(old, fresh)
	}
	// The order of a policy's failed lane is that of waiting: only what was
	// skipped stays where it was, and could keep the others from a cap.
	if keeps := r.e.Policy != nil; !failed.ended() && (!keeps || failed.skipped) {
		rep.Resume.FailedLast = old.FailedLast
		if !failed.last.IsZero() {
			rep.Resume.FailedLast = failed.last
		}
	}
}

// A section is a part of a lane: the records between two places.
type section struct{ after, until Cursor }

// freshSections: what came since the last pass waits behind nothing, then comes
// what of that the last pass did not reach; then go on where it stopped. What
// is left from before is there only if it was skipped or keeps its status on
// errors.
func freshSections(r Resume) []section {
	if r.FreshLast.IsZero() || r.FreshTop.IsZero() {
		return []section{{}}
	}
	if r.FreshMid.IsZero() {
		return []section{{until: r.FreshTop}, {after: r.FreshLast}, {after: r.FreshTop, until: r.FreshLast}}
	}
	return []section{
		{until: r.FreshTop}, {after: r.FreshMid, until: r.FreshOld}, {after: r.FreshLast},
		{after: r.FreshOld, until: r.FreshLast}, {after: r.FreshTop, until: r.FreshMid},
	}
}

// freshFrom sets where the fresh lane goes on after a walk that began with old
// and was ended early.
func (r *Resume) freshFrom(old Resume, w *laneWalk) {
	r.FreshTop, r.FreshMid, r.FreshOld, r.FreshLast = old.FreshTop, old.FreshMid, old.FreshOld, old.FreshLast
	if w.last.IsZero() {
		return
	}
	if !w.top.IsZero() {
		r.FreshTop = w.top
	}
	isNew := w.lastSection == 0 || w.lastSection == 1 && !old.FreshMid.IsZero()
	switch {
	case old.FreshLast.IsZero() || !isNew:
		r.FreshMid, r.FreshOld, r.FreshLast = Cursor{}, Cursor{}, w.last
	case old.FreshMid.IsZero():
		r.FreshMid, r.FreshOld = w.last, old.FreshTop
	default:
		r.FreshMid = w.last
	}
}

func failedSections(r Resume) []section {
	if r.FailedLast.IsZero() {
		return []section{{}}
	}
	return []section{{after: r.FailedLast}, {until: r.FailedLast}}
}

// A laneWalk hands out one lane, section by section. A goroutine reads the
// next page while the present one is handed out.
type laneWalk struct {
	r        *run
	lane     Lane
	sections []section

	from   int           // the section that is read first
	pages  chan readPage // nil until the lane is begun
	cancel context.CancelFunc

	page readPage // the present one
	next int      // index of its next record

	staged int    // records given to the workers
	top    Cursor // before the first record looked at in the first section

	// Guarded by the run's mutex until the workers have ended.
	handed  int    // records given to the handler
	skipped bool   // some of them were
	dropped int    // staged, but not handed out before the stop
	last    Cursor // of the last of them
	lastSeq int
	// The section that last is in.
	lastSection int
}

type readPage struct {
	Page
	age     *pageAge
	section int
	read    time.Time
	final   bool  // nothing comes after it
	ahead   int64 // how many records may be staged, by the speed so far
	err     error
}

func (r *run) newLaneWalk(lane Lane, sections []section) *laneWalk {
	w := &laneWalk{r: r, lane: lane, sections: sections}
	if p := r.e.Policy; lane == Failed && p != nil && p.Never {
		w.pages, w.cancel, w.page.final = make(chan readPage), func() {}, true // nothing is read
		close(w.pages)
	}
	return w
}

// handOut hands out up to n records, without limit if n is negative.
func (w *laneWalk) handOut(n int) {
	for n != 0 {
		if w.r.stop.Err() != nil || !w.peek() {
			return
		}
		if w.next == 0 || w.r.waited { // else it is as young as it was
			w.r.waited = false
			if w.r.e.Now().Sub(w.page.read) > maxPageAge {
				w.reread()
				continue
			}
		}
		rec := &w.page.Records[w.next]
		staged, ok := w.r.stage(w, rec, w.page.age)
		if !ok {
			return
		}
		w.next++
		w.sections[w.page.section].after = rec.Cursor // where reread goes on
		if w.top.IsZero() && w.page.section == 0 {
			w.top = rec.Cursor
			w.top.Before = true
		}
		if staged {
			n--
		}
	}
}

// peek makes the present page one that has a record to hand out, and reports
// whether there is one.
func (w *laneWalk) peek() bool {
	if w.pages == nil {
		w.begin()
	}
	for w.next >= len(w.page.Records) {
		w.shut()
		if w.page.final || w.page.err != nil {
			return false
		}
		p, ok := <-w.pages
		if !ok {
			return false // stopped
		}
		w.page, w.next = p, 0
		w.r.ahead = max(p.ahead, w.r.atLeast())
		if p.err != nil {
			w.r.fail(p.err)
			return false
		}
		w.r.unreadable(p.Unreadable)
	}
	return true
}

// end looks whether there is anything left, unless the pass was stopped.
func (w *laneWalk) end() {
	if w.r.stop.Err() == nil {
		w.peek()
	}
}

// ended reports whether every record of the lane has been looked at and none
// was held back. The workers must have ended.
func (w *laneWalk) ended() bool {
	return w.page.final && w.next >= len(w.page.Records) && w.dropped == 0
}

// shut lets go of the present page.
func (w *laneWalk) shut() {
	if w.page.age != nil {
		w.r.e.flights.close(w.page.age)
		w.page.age = nil
	}
}

func (w *laneWalk) begin() {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(w.r.stop)
	w.pages = make(chan readPage)
	go w.read(ctx, slices.Clone(w.sections), w.pages)
}

// reread begins anew behind the last record that was looked at.
func (w *laneWalk) reread() {
	from := w.page.section
	w.close()
	w.from, w.pages, w.page, w.next = from, nil, readPage{}, 0
}

func (w *laneWalk) close() {
	if w.pages == nil {
		return
	}
	w.cancel()
	for p := range w.pages {
		w.r.e.flights.close(p.age)
	}
	w.shut()
}

// read sends the lane's pages until the end, an error, or the end of ctx.
func (w *laneWalk) read(ctx context.Context, sections []section, pages chan<- readPage) {
	defer close(pages)
	e := w.r.e
	limit := min(max(minPage, 2*e.Concurrency), maxPage)
	var present readPage // the page that is being handed out
	var since time.Time  // when that began
	var ahead int64
	for i, s := range sections {
		if i < w.from {
			continue // done, before a reread
		}
		q := Query{Lane: w.lane, Now: w.r.pass.Now, MaxAge: w.r.pass.MaxAge, Widest: w.r.pass.Widest, After: s.after, Until: s.until}
		for more := true; more; {
			q.Limit = limit
			p := readPage{age: e.flights.open(), section: i, ahead: ahead}
			p.err = e.persist(ctx, func() (err error) {
				p.Page, err = e.Store.Pending(ctx, q)
				return err
			})
			if ctx.Err() != nil {
				e.flights.close(p.age)
				return
			}
			p.read = e.Now()
			more = p.More && p.err == nil
			p.final = !more && p.err == nil && i == len(sections)-1
			select {
			case pages <- p:
			case <-ctx.Done():
				e.flights.close(p.age)
				return
			}
			if p.err != nil {
				return
			}
			// It was taken when the page before it was used up.
			now := e.Now()
			handed := len(present.Records)
			if n := handed + len(present.Unreadable); n > 0 {
				limit = nextLimit(n, now.Sub(since))
			}
			if handed > 0 {
				ahead = nextAhead(handed, now.Sub(since))
			}
			present, since = p, now
			q.After = p.Next
		}
	}
}

// nextLimit returns how many records are handed out in about a second when n
// took that long, at most four times as many.
func nextLimit(n int, took time.Duration) int {
	fit := maxPage
	if took > 0 {
		fit = int(min(float64(n)*float64(time.Second)/float64(took), maxPage))
	}
	return max(minPage, min(fit, 4*n))
}

// nextAhead returns how many records are handed out in about a millisecond.
func nextAhead(n int, took time.Duration) int64 {
	if took <= 0 {
		return maxAhead
	}
	return min(int64(n)*int64(time.Millisecond)/int64(took), maxAhead)
}

// unreadable counts the rows that cannot be records, each once: a page may be
// read again.
func (r *run) unreadable(rows []Unreadable) {
	for _, u := range rows {
		hash := u.Key.Hash()
		if _, ok := r.reported[hash]; ok && !u.Key.IsZero() {
			continue
		}
		r.reported[hash] = struct{}{}
		r.count(func(rep *Report) { rep.Unreadable++ })
		r.e.emit(Event{Kind: UnreadableRow, Tier: r.pass.Tier, Record: &Record{Key: u.Key}, Err: u.Err})
	}
}
