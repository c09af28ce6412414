package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

// A run is one pass under way. Workers take records from the walk, in chunks
// that they share, and give the outcomes to the settler.
type run struct {
	e        *Engine
	pass     Pass
	handler  Handler
	settling bool     // it writes its successes itself
	lock     *holding // that the pass is under; nil: none

	caller  context.Context // the one Pass was called with
	stop    context.Context // done: dispatch nothing more
	endWalk context.CancelCauseFunc
	work    context.Context // done: running handlers are to end

	pull    chan struct{} // holds a token: somebody refills the chunk and owns the walk
	walk    *walk
	chunk   atomic.Pointer[chunk]
	turn    chan struct{} // holds a token: one of the workers waits to start
	workers sync.WaitGroup
	hands   atomic.Int64  // workers
	settled chan struct{} // holds a token: unsettled has come to zero

	accounted chan struct{} // holds a token: what was claimed is accounted for, or let go

	refusals map[int]effort // of the trials, by state; guarded by pull
	rounds   int            // of trials that rows have passed; likewise
	whole    error          // a state's rows refuse what no row takes; likewise

	attempts sync.Map // running, of a refresh policy: their UIDs, and what cancels each

	mu        sync.Mutex // guards what follows
	unsettled int        // attempts that have ended and are not accounted for
	left      bool       // the pass has ended before its outcomes were written; also guarded by the settler
	gaveUp    bool       // they are not to be written any more; guarded by the settler alone
	stoppedAt time.Time  // when caller was done; no guard: watch has it first, then settleRest

	// What the pass has come to so far.
	plan    plan.Plan
	report  Report
	err     error
	sick    error               // why a lane was ended before its last record
	aborted bool                // by AbortAfter
	tried   map[uint64]struct{} // attempted in this pass and perhaps still pending
}

// A job is a record to be worked on, or at work.
type job struct {
	rec    *Record
	hash   uint64
	flight *flight.Flight
	weight int64 // in the gate's room
	lane   *lane
	place  plan.Place
	round  int     // of trials, after which it was claimed
	began  *Memory // what the row remembered before its start; nil: the policy starts nothing
}

// A chunk is a run of records that are dispatched one by one.
type chunk struct {
	jobs []job
	next atomic.Int64
}

// maxChunk is the largest chunk. It is what is dispatched in about a millisecond:
// where handlers take microseconds that saves locks, where they take long none
// is claimed that would be given to its handler as it was long ago.
const maxChunk = 128

func newRun(ctx context.Context, e *Engine, p Pass) *run {
	r := &run{
		e:       e,
		pass:    p,
		handler: e.Handler,
		caller:  ctx,
		pull:    make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
		settled: make(chan struct{}, 1),

		accounted: make(chan struct{}, 1),
		report:    Report{Tier: p.Tier, MaxAge: p.MaxAge, Tick: p.Tick, Started: p.Now},
		tried:     p.tried,
	}
	if r.tried == nil {
		r.tried = make(map[uint64]struct{})
	}
	r.lock, _ = ctx.Value(holdingKey{}).(*holding)
	if h, ok := e.Handler.(SettlingHandler); ok {
		r.settling = true
		r.handler = HandlerFunc(func(ctx context.Context, rec *Record) error { return h.HandleAndSettle(ctx, rec, e.Now) })
	}
	r.stop, r.endWalk = context.WithCancelCause(ctx)
	r.chunk.Store(new(chunk))
	r.plan = plan.Plan{MaxRecords: e.MaxRecords, AbortAfter: e.AbortAfter, From: p.Resume}
	for _, l := range []Lane{Fresh, Failed} {
		r.plan.ByWait[l] = e.rule.ByWait(l)
	}
	r.walk = newWalk(r)
	return r
}

func (r *run) do() {
	kill, killNow := context.WithCancel(killOf(r.caller))
	work, endWork := context.WithCancel(context.WithValue(context.WithoutCancel(r.caller), killKey{}, kill))
	r.work = work
	uncut := context.AfterFunc(r.pass.cut, func() { r.endWalk(context.Cause(r.pass.cut)) })
	over, end := context.WithCancel(context.Background())
	context.AfterFunc(kill, endWork)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(over, endWork, killNow) })
	_ = r.e.Collect(r.stop) // a handler that cannot hear says so when it is asked for more
	if r.e.Policy.HasDeadlines() {
		watch.Go(func() { r.supersede(over) })
		r.overdue()
	}
	if r.e.isPaused() {
		r.endWalk(errPause)
	}
	watch.Go(func() { r.heedPause(over) })

	if r.e.OnDead == nil {
		r.expire(r.stop)
	}
	r.hands.Store(1)
	r.refill() // the database is asked on a stack that is deep already; a worker's would have to grow for it
	r.workers.Go(r.worker)
	r.workers.Wait()
	r.walk.finish()
	r.concludeTrials()
	if r.e.OnDead != nil && !r.broken() { // it may take long, and records wait
		r.awaitSettled(r.caller)
		r.expire(r.caller)
	}
	uncut()
	end()
	watch.Wait()
	r.settleRest()
	r.conclude()
	r.endWalk(nil)
	endWork()
	killNow()
}

// watch turns a stop into the end of the handlers: at once where the lock is
// lost or the stop is a hard one, else when the time is over that they have to
// finish.
func (r *run) watch(over context.Context, endWork, killNow func()) {
	caller, hard := r.caller.Done(), r.e.Hard
	var after <-chan time.Time
	for {
		select {
		case <-over.Done():
			return
		case <-caller:
			caller = nil
			r.stoppedAt = time.Now()
			if lockLost(r.caller) {
				endWork()
			} else {
				after = time.After(r.e.ShutdownTimeout)
			}
		case <-hard:
			hard = nil
			r.endWalk(nil)
			endWork()
			killNow()
		case <-after:
			endWork()
		}
	}
}

const (
	// lateWrites is how long outcomes may be written after the last handler
	// has ended, if the time for the stop is over by then.
	lateWrites = 3 * time.Second
	// hardWrites is as long on a hard stop.
	hardWrites = time.Second
)

// settleRest waits until all outcomes are written. A stop limits the wait; what
// is left then is given up. If the lock is lost, it stays with the settler.
func (r *run) settleRest() {
	ended := time.Now()
	caller, hard, isHard := r.caller.Done(), r.e.Hard, false
	var after <-chan time.Time
	r.e.settler.flush()
	for {
		if r.isSettled() {
			return
		}
		select {
		case <-r.settled:
		case <-caller:
			caller = nil
			switch {
			case isHard:
			case lockLost(r.caller):
				after = time.After(LockGrace)
			default:
				r.stoppedAt = cmp.Or(r.stoppedAt, time.Now())
				after = time.After(max(time.Until(r.stoppedAt.Add(r.e.ShutdownTimeout)), time.Until(ended.Add(lateWrites))))
			}
		case <-hard:
			hard, isHard = nil, true
			after = time.After(hardWrites)
		case <-after:
			if lockLost(r.caller) && !isHard {
				r.leave()
				return
			}
			r.e.settler.giveUp(func(of *run) bool { return of == r })
		}
	}
}

// leave ends the pass before its outcomes are written.
func (r *run) leave() {
	s := &r.e.settler
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	r.report.Unwritten += r.unsettled
	s.kept.Add(int64(r.unsettled))
}

// conclude notes how far the pass came.
func (r *run) conclude() {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &r.report
	r.err = cmp.Or(r.err, r.sick)
	switch {
	case r.err != nil:
		rep.Stopped = StoppedError
		rep.cutShort = r.caller.Err() != nil || isUnavailable(r.err)
	case r.plan.Complete() && rep.Interrupted == 0: // also if the last of all failures would have ended it
		rep.Complete = true
		return
	case r.aborted:
		rep.Stopped = StoppedAbortAfter
	case lockLost(r.caller):
		rep.Stopped = StoppedLock
	case context.Cause(r.stop) == errReload && r.caller.Err() == nil:
		rep.Stopped = StoppedReload
		rep.tried = r.tried
	case context.Cause(r.stop) == errPause && r.caller.Err() == nil:
		rep.Stopped = StoppedPause
	case r.stop.Err() != nil:
		rep.Stopped = StoppedSignal
	default:
		rep.Stopped = StoppedMaxRecords
	}
	rep.Resume = r.plan.Resume()
}

// isSettled reports whether all outcomes are written.
func (r *run) isSettled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsettled == 0
}

// broken reports whether the store has failed for good.
func (r *run) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// fail ends the pass because the store or the handler failed for good.
func (r *run) fail(err error) {
	r.count(func(*Report) { r.err = cmp.Or(r.err, err) })
	r.endWalk(nil)
}

// failUnlessStopped is fail for an error that says nothing once the pass is stopped.
func (r *run) failUnlessStopped(err error) {
	if r.stop.Err() == nil {
		r.fail(err)
	}
}

func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
}

func (r *run) wasTried(hash uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.tried[hash]
	return ok
}

// sparesSome reports whether there are records that the pass does not try.
func (r *run) sparesSome() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tried) > 0 || r.e.refused.Len() > 0
}

// spares reports whether the pass does not try a record: it did before, or the database
// refuses what the record comes to.
func (r *run) spares(hash uint64) bool { return r.wasTried(hash) || r.e.refused.Contains(hash) }

func (r *run) worker() {
	var now time.Time // zero: something has been waited for since it was read
	for j := r.take(&now); j != nil; j = r.take(&now) {
		if j.lane.closed.Load() {
			r.drop(j)
			continue
		}
		began, ok := r.enter(now)
		if !ok {
			r.drop(j)
			continue
		}
		now = time.Time{}
		j.rec.Tier, j.rec.AttemptID = r.pass.Tier, r.e.attemptID()
		if r.begin(j) {
			if j.began != nil {
				began = r.e.Now()
			}
			ctx, end := r.attend(j)
			r.e.gate.running.Add(1)
			err := r.handle(ctx, j.rec)
			r.e.gate.running.Add(-1)
			now = r.e.Now()
			if err != nil {
				r.e.pauseFor(err) // before the next call can start
			}
			if ctx != r.work && context.Cause(ctx) == errSuperseded {
				r.lose(j, now, fmt.Errorf("%w: %w", ErrConflict, errSuperseded))
			} else {
				r.ended(j, began, now, err) // before the slot is free: it may end the pass
			}
			end()
		}
		r.e.gate.slots.Release(1)
	}
	if r.pass.dispatched != nil {
		r.pass.dispatched()
	}
}

// take returns the next record, nil if nothing more is to be dispatched. If it has to wait
// for that, now becomes zero.
func (r *run) take(now *time.Time) *job {
	for {
		c := r.chunk.Load()
		if i := c.next.Add(1); i <= int64(len(c.jobs)) {
			if n := r.hands.Load(); n < int64(r.e.Concurrency) && r.hands.CompareAndSwap(n, n+1) {
				r.workers.Go(r.worker)
			}
			if i == int64(len(c.jobs)) {
				r.workers.Go(r.lookAhead)
			}
			return &c.jobs[i-1]
		}
		*now = time.Time{}
		if !r.refill() {
			return nil
		}
	}
}

// lookAhead finds out, while handlers run, whether there is anything behind the
// chunk: a stop that comes after the last record changes nothing.
func (r *run) lookAhead() {
	select {
	case r.pull <- struct{}{}:
		r.walk.look()
		<-r.pull
	case <-r.stop.Done():
	}
}

// refill puts a new chunk in the place of one that is used up. It returns false
// if there is none. Of many idle workers as many come through as there are records:
// the next one fills, and the others stay asleep.
func (r *run) refill() bool {
	select { // no mutex: the walk may wait for long
	case r.pull <- struct{}{}:
		defer func() { <-r.pull }()
	case <-r.stop.Done():
		return false
	}
	if c := r.chunk.Load(); c.next.Load() < int64(len(c.jobs)) {
		return true // another has
	}
	jobs := r.walk.fill()
	if len(jobs) == 0 {
		return false
	}
	r.chunk.Store(&chunk{jobs: jobs})
	return true
}

// drop takes back a record that was claimed when the pass was stopped.
func (r *run) drop(j *job) {
	r.count(func(*Report) { r.plan.Returned(j.lane.lane) })
	r.unclaim(j)
}

// unclaim lets go of a record that stays as it was.
func (r *run) unclaim(j *job) {
	j.lane.unsettled.Add(-1)
	signal(r.accounted)
	r.e.release(j.rec)
	r.e.finished(j.rec, true)
	r.e.flights.Drop(j.flight)
	r.e.gate.room.Release(j.weight)
}

// ended takes the outcome of one handler call.
func (r *run) ended(j *job, began, now time.Time, err error) {
	e := r.e
	took := now.Sub(began)
	x := ending{Settlement: Settlement{Record: j.rec, At: now}, tier: r.pass.Tier, outcome: OutcomeOf(err), began: j.began}
	if r.settling && (err == nil || errors.Is(err, ErrConflict)) {
		if err != nil { // somebody else has changed the row: the work is undone
			x.outcome = Skipped
		}
		e.storeAnswered()
		e.emit(Event{Kind: AttemptEnded, At: now, Tier: r.pass.Tier, Record: j.rec, Outcome: x.outcome, Err: err, Took: took})
		x.outcome = Succeeded
		x.reason = err
		r.over(attempt{ending: x, job: j, run: r})
		return
	}
	interrupted := x.outcome == Errored && r.work.Err() != nil
	if interrupted { // the stop ended the handler: that says nothing about the record
		x.outcome = Skipped
	}
	if x.outcome == HandedOver && (j.began == nil || j.rec.Memory.UID == "") {
		x.outcome = Errored // nobody could tell what became of it
	}
	e.conclude(r.work, &x, err, took)
	if x.outcome == Skipped && errors.As(err, new(*unstarted)) {
		r.fail(handlerFault{fmt.Errorf("the handler cannot be started: %w", err)})
	}
	if x.dies != "" {
		dead := x
		e.announce(r.work, []*ending{&dead})
		x = dead
	}
	if x.death == cutShort {
		interrupted = true
		x.Memory = nil
	}
	a := attempt{ending: x, job: j, run: r}
	switch settles := r.attempted(j, &a, interrupted); {
	case !settles:
		r.unclaim(j)
	case x.death == mustLive:
		r.account([]attempt{a})
	default:
		e.settler.add(a)
	}
}

// attempted counts an attempt, and reports whether there is something to settle.
func (r *run) attempted(j *job, a *attempt, interrupted bool) (settles bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dispatched(j)
	settles = true
	switch {
	case a.outcome == HandedOver:
		r.report.Accepted++
		settles = false
	case interrupted:
		r.report.Interrupted++
		settles = a.Memory != nil // its start is taken back
	case a.outcome == Skipped:
		r.report.Skipped++
		settles = a.Memory != nil
	}
	end := endsOf[a.outcome]
	if interrupted {
		end = plan.Stayed
	}
	if r.plan.Ended(j.lane.lane, end) {
		r.aborted = true
		r.endWalk(nil)
	}
	if a.outcome != Succeeded && r.e.queue == nil {
		r.tried[a.hash] = struct{}{} // it may come up again
	}
	if settles {
		r.unsettled++
	}
	return settles
}

// endsOf are what outcomes say of their lane, and of the service behind the handler.
var endsOf = [...]plan.End{
	Succeeded:  plan.Succeeded,
	Errored:    plan.HasFailed,
	Rejected:   plan.NoEvidence,
	Skipped:    plan.Stayed,
	HandedOver: plan.NoEvidence,
}

// dispatched counts a record that was given to the handler.
func (r *run) dispatched(j *job) {
	r.report.Selected++
	r.plan.Dispatched(j.place)
}

// over accounts for an attempt with nothing left to settle.
func (r *run) over(a attempt) {
	r.mu.Lock()
	r.dispatched(a.job)
	r.unsettled++
	if a.reason == nil {
		r.plan.Ended(a.job.lane.lane, plan.Succeeded)
	}
	r.mu.Unlock()
	r.account([]attempt{a})
}

// handle runs the handler on a record. One that settles works in the database:
// while that is unavailable no other record is dispatched, and this one is tried
// again when it is back.
func (r *run) handle(ctx context.Context, rec *Record) error {
	for tries := 1; ; tries++ {
		err := Call(ctx, r.handler, r.e.Timeout, rec)
		if !r.settling || !isUnavailable(err) || errors.Is(err, ErrConflict) || r.work.Err() != nil {
			return err
		}
		r.e.storeFails(err)
		back := r.e.persist(r.stop, func() error { return r.e.ping(r.stop) })
		if r.e.health.failing.Add(-1); back == nil {
			r.e.storeAnswered()
		}
		if r.stop.Err() == nil && (back != nil || r.e.endsAtOnce(err)) {
			r.fail(cmp.Or(back, err))
			return fmt.Errorf("%w: %w", errNoAttempt, err)
		}
		// A database can answer and still take nothing, as one that is full.
		if back != nil || tries == awayTries || tries > 1 && !Sleep(r.stop, time.Duration(tries)*time.Second) {
			return fmt.Errorf("%w: %w", errNoAttempt, err)
		}
	}
}

// awayTries is how often a record is given to a handler that finds the
// database unavailable. It is not for ever: what one record asks of the database
// may be more than it will ever do.
const awayTries = 3

// errNoAttempt says why a row is left as it was.
var errNoAttempt = fmt.Errorf("%w: no attempt was made", Skip)
