package backlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A run is one pass under way. The goroutine that calls do walks the lanes and
// hands records out; workers run the handler; one goroutine settles.
type run struct {
	e        *Engine
	pass     Pass
	handler  Handler
	settling bool // it writes its successes itself

	caller   context.Context // the one Pass was called with
	lock     *holding        // that the pass is under; nil: none
	finish   chan struct{}   // holds a token: the process is about to end
	stop     context.Context // done: hand out nothing more
	endWalk  context.CancelFunc
	work     context.Context // done: running handlers are to end
	endWork  context.CancelFunc
	patience context.Context // done: give up reaching the store
	giveUp   context.CancelFunc

	turn    chan struct{} // holds a token: one of the workers waits to start
	jobs    chan job      // staged: handed out as soon as a handler is free
	staged  atomic.Int64  // how many those are
	ahead   int64         // how many there may be; owned by the walking goroutine
	room    chan struct{} // holds a token: fewer are staged than were
	waited  bool          // the walking goroutine has, for room, since it last looked at the clock
	busy    atomic.Int64  // staged or at a handler
	nWorker int64         // owned by the walking goroutine
	// Keys of the unreadable rows so far; owned by the walking goroutine.
	reported map[uint64]struct{}
	workers  sync.WaitGroup

	first    chan struct{} // holds a token: the group is no longer empty
	flushNow chan struct{} // holds a token: write the group without waiting for others
	done     chan struct{} // closed: no outcome will come any more
	settler  sync.WaitGroup
	writing  atomic.Int64 // since when the settler waits for the store, in unix nanoseconds; 0: it does not
	doubted  bool         // an outcome was refused, and the store asked to prove itself; owned by the settler
	unfit    error        // what it said then; likewise
	inRow    int          // outcomes refused since the last that was taken; likewise

	mu      sync.Mutex // guards what follows
	report  Report
	err     error
	streak  int                 // failures since the last success
	aborted bool                // by AbortAfter
	tried   map[uint64]struct{} // attempted in this pass and still pending
	group   []Settlement
	hashes  []uint64 // of the group's keys
}

// A job is a record to be worked on, or at work.
type job struct {
	rec  *Record
	hash uint64
	walk *laneWalk
	seq  int // its place among the jobs of the lane
	part int // and the section it is of
}

// maxAhead is how many records are staged at most, beyond one for each handler.
// Where handlers take microseconds it saves a switch of goroutines for each;
// where they take long none is staged that would be given to its handler as it
// was long ago.
const maxAhead = 64

// atLeast is how many records are staged at any rate: as many as wait in turn
// with those of other passes for the handlers to be free.
func (r *run) atLeast() int64 { return int64(r.e.Concurrency) - 1 }

func newRun(ctx context.Context, e *Engine, p Pass) *run {
	r := &run{
		e:        e,
		pass:     p,
		caller:   ctx,
		finish:   make(chan struct{}, 1),
		turn:     make(chan struct{}, 1),
		jobs:     make(chan job, maxAhead+e.Concurrency+1),
		room:     make(chan struct{}, 1),
		first:    make(chan struct{}, 1),
		flushNow: make(chan struct{}, 1),
		done:     make(chan struct{}),
		reported: make(map[uint64]struct{}),
		tried:    make(map[uint64]struct{}),
		report:   Report{Tier: p.Tier, MaxAge: p.MaxAge, Started: p.Now},
	}
	r.lock, _ = ctx.Value(holdingKey{}).(*holding)
	r.handler, r.settling = e.settling()
	r.stop, r.endWalk = context.WithCancel(ctx)
	r.work, r.endWork = context.WithCancel(context.WithoutCancel(ctx))
	r.patience, r.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

func (r *run) do() {
	r.e.join(r)
	defer r.e.leave(r)
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { r.watchStop(ended) })
	r.settler.Go(r.settle)

	if r.e.OnDead == nil {
		r.expire(r.stop, nil)
	}
	conclude := r.walk()
	if r.e.OnDead != nil && !r.broken() { // it may take long, and records wait
		r.expire(r.caller, r.tellExpired)
	}
	close(r.done)
	r.settler.Wait()
	conclude()
	close(ended)
	watch.Wait()
	r.endWalk()
	r.endWork()
	r.giveUp()
}

// broken reports whether the store has failed for good.
func (r *run) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// fail ends the pass because the store or the handler failed for good.
func (r *run) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.endWalk()
}

// mayStart waits until a handler may be called: one is free, the store is
// there to take the outcome, and neither a pause nor the rate forbids it. It
// returns false when nothing more is to be handed out; otherwise the caller
// owns one slot.
func (r *run) mayStart() bool {
	e := r.e
	if !e.slots.acquire(r.stop) {
		return false
	}
	if r.mayStartNow() {
		return true
	}
	// One waits for all: a slot and a turn of the rate for each of them
	// would keep another pass waiting for as many turns.
	select {
	case r.turn <- struct{}{}:
	default:
		e.slots.release(1)
		select {
		case r.turn <- struct{}{}:
		case <-r.stop.Done():
			return false
		}
		if !e.slots.acquire(r.stop) {
			<-r.turn
			return false
		}
	}
	ok := r.waitToStart()
	<-r.turn
	if !ok {
		e.slots.release(1)
	}
	return ok
}

// mayStartNow reports whether the owner of a slot has nothing to wait for but,
// maybe, the store's sign of life, and would not overtake records that have.
func (r *run) mayStartNow() bool {
	e := r.e
	if len(r.turn) > 0 || e.health.failing.Load() > 0 {
		return false
	}
	now := e.Now().UnixNano() // once: it is asked for with every record
	return (e.storeRecent(now) || e.reachStore(r.stop)) &&
		r.settles(now) && r.lock.recent() && e.paused() == 0 && r.stop.Err() == nil && e.rateAllows()
}

// waitToStart waits for all that the owner of a slot has to wait for. It
// returns false when nothing more is to be handed out.
func (r *run) waitToStart() bool {
	e := r.e
	// Each wait may be long, and what was found before it no longer true:
	// the rate's turn, taken before a pause, would be one of many taken at
	// once after it.
	ok, turn := true, false
	for ok && !turn {
		for pause := e.paused(); ok && pause > 0; pause = e.paused() {
			ok = sleep(r.stop, pause)
		}
		ok = ok && r.reachStore() && e.waitRate(r.stop)
		since := e.Now()
		ok = ok && r.reachStore()
		turn = e.paused() == 0 && e.Now().Sub(since) < contactEvery
	}
	return ok && r.stop.Err() == nil
}

// reachStore is the engine's, and holds back too while a settlement of this
// run has been waiting for long: a store can answer reads and take no writes; or
// while the lock has not been seen for long.
func (r *run) reachStore() bool {
	for !r.settles(r.e.Now().UnixNano()) || !r.lock.recent() {
		if !sleep(r.stop, 20*time.Millisecond) {
			return false
		}
	}
	return r.e.reachStore(r.stop)
}

// settles reports whether no settlement of this run has been waiting for long
// at the time now, in unix nanoseconds.
func (r *run) settles(now int64) bool {
	since := r.writing.Load()
	return since == 0 || now-since < int64(contactEvery)
}

// stage gives the record to the workers, unless it is not to be tried now. ok
// is false when nothing more is to be handed out.
func (r *run) stage(w *laneWalk, rec *Record, age *pageAge) (staged, ok bool) {
	e, hash := r.e, rec.Key.Hash()
	if r.wasTried(hash) || e.isRefused(hash) {
		return false, true
	}
	if !e.unsettle.tryAcquire() {
		e.flushAll()
		r.waited = true
		if !e.unsettle.acquire(r.stop) {
			return false, false
		}
	}
	if !r.waitRoom() {
		e.unsettle.release(1)
		return false, false
	}
	if !e.flights.claim(hash, age) {
		e.unsettle.release(1)
		return false, true
	}
	w.staged++
	r.staged.Add(1)
	if r.busy.Add(1) > r.nWorker && r.nWorker < int64(e.Concurrency) {
		r.nWorker++
		r.workers.Go(r.worker)
	}
	r.jobs <- job{rec, hash, w, w.staged, w.page.section}
	return true, true
}

// waitRoom waits until another record may be staged.
func (r *run) waitRoom() bool {
	if r.staged.Load() <= r.ahead {
		return true
	}
	r.waited = true
	// Where many are staged, much room is to be made at once.
	for r.staged.Load() > max(r.ahead/2, r.atLeast()) {
		select {
		case <-r.room:
		case <-r.stop.Done():
			return false
		}
	}
	return true
}

func (r *run) wasTried(hash uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.tried[hash]
	return ok
}

func (r *run) worker() {
	for j := range r.jobs {
		if r.mayStart() {
			r.left()
			r.started(j)
			err := r.handle(j)
			r.e.pauseFor(err)   // before the next call can start
			r.attempted(j, err) // before the slot is free: it may end the pass
			r.e.slots.release(1)
		} else {
			r.left()
			r.drop(j)
		}
		r.busy.Add(-1)
	}
}

// drop takes back a record that was staged when the pass was stopped.
func (r *run) drop(j job) {
	r.mu.Lock()
	j.walk.dropped++
	r.mu.Unlock()
	r.e.flights.drop(j.hash)
	r.e.unsettle.release(1)
}

// left notes that a record is no longer staged.
func (r *run) left() {
	r.staged.Add(-1)
	signal(r.room)
}

// started makes the record an attempt.
func (r *run) started(j job) {
	j.rec.Tier, j.rec.AttemptID = r.pass.Tier, r.e.attemptID()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Selected++
	j.walk.handed++
	if j.seq > j.walk.lastSeq {
		j.walk.lastSeq, j.walk.last, j.walk.lastSection = j.seq, j.rec.Cursor, j.part
	}
}

// attempted takes the outcome of one handler call.
func (r *run) attempted(j job, err error) {
	e, outcome, now := r.e, OutcomeOf(err), r.e.Now()
	if r.settling && (err == nil || errors.Is(err, ErrConflict)) {
		r.settled(j, err, now)
		return
	}
	if outcome == Errored && r.work.Err() != nil {
		// The stop ended the handler: that says nothing about the record.
		outcome = Skipped
		r.count(func(rep *Report) { rep.Interrupted++ })
	} else if outcome == Skipped {
		r.count(func(rep *Report) { rep.Skipped++ })
	}
	s := Settlement{Record: j.rec, Outcome: outcome, At: now}
	if outcome == Errored || outcome == Rejected {
		s.Error = err.Error()
		s.Retry, s.GivenUp = e.Policy.After(j.rec.Retry, now, e.Random())
	}
	e.emit(Event{Kind: AttemptEnded, At: now, Tier: r.pass.Tier, Record: j.rec, Outcome: outcome, Err: err, GivenUp: s.GivenUp})
	switch {
	case outcome == Skipped:
		if u := (*unstarted)(nil); errors.As(err, &u) {
			r.fail(fmt.Errorf("the handler cannot be started: %w", err))
		}
		r.count(func(*Report) { j.walk.skipped = true })
		e.flights.drop(j.hash)
		e.unsettle.release(1)
		return
	case outcome == Rejected && !r.tellDead(j.rec, ReasonRejected, s.Error),
		outcome == Errored && s.GivenUp && !r.tellDead(j.rec, ReasonRetries, s.Error):
		r.count(func(rep *Report) { rep.Interrupted++ })
		e.flights.drop(j.hash)
		e.unsettle.release(1)
		return
	}
	r.enqueue(s, j.hash)
}

func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
}
