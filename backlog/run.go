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

// A run is one pass under way. Its workers take jobs from a shared chunk, call the handler and
// pass the outcomes to the settler. The walk fills the next chunk.
type run struct {
	e            *Engine
	pass         Pass
	handler      Handler
	selfSettling bool        // the handler writes its successes itself
	lock         *probedLock // the lock over the pass; nil: none

	caller       context.Context // the context of Pass
	stop         context.Context // done: dispatch nothing more
	stopDispatch context.CancelCauseFunc
	work         context.Context // done: running handlers are to end

	walking token // a mutex over the walk and the refill of the chunk
	walk    *walk
	chunk   atomic.Pointer[chunk]
	waiting token // a mutex: one worker of the pass waits to start a handler call
	workers sync.WaitGroup
	started atomic.Int64 // number of workers

	accounted  token // a signal: a claimed record is accounted for or released
	allSettled token // a signal: unsettled has come to zero

	refusals   map[int]refusalCount // by the trials, by state; guarded by walking
	trialRound int                  // counts the trials that a row has passed; guarded by walking
	stateErr   error                // why the rows of a state refuse what no row takes; guarded by walking

	attempts sync.Map // under a policy with deadlines: UID of a running attempt -> its CancelCauseFunc

	mu        sync.Mutex // guards what follows
	unsettled int        // attempts that have ended and are not accounted for
	detached  bool       // the pass has ended before its outcomes were written; also guarded by the settler's mutex
	gaveUp    bool       // the outcomes are not to be written any more; guarded by the settler's mutex alone
	stoppedAt time.Time  // when caller was done; without a mutex: watch uses it first, then settleRest

	// What the pass has come to so far.
	plan    plan.Plan
	report  Report
	err     error
	laneErr error               // why a lane was ended before its last record
	aborted bool                // by AbortAfter
	tried   map[uint64]struct{} // attempted in this pass and perhaps still pending
}

// A job is a claimed record.
type job struct {
	rec    *Record
	hash   uint64
	flight *flight.Flight
	weight int64 // its share of the gate's room
	lane   *lane
	place  plan.Place
	round  int     // run.trialRound at the claim
	before *Memory // what the row remembered before its start; nil: the policy starts nothing
}

// A chunk is a list of jobs that the workers take one by one.
type chunk struct {
	jobs []job
	next atomic.Int64
}

// maxChunk is the largest chunk, and about what is dispatched in a millisecond. Larger chunks
// save locks for fast handlers; a slow handler would be given records as they were long ago.
const maxChunk = 128

func newRun(ctx context.Context, e *Engine, p Pass) *run {
	r := &run{
		e:          e,
		pass:       p,
		handler:    e.Handler,
		lock:       probedLockOf(ctx),
		caller:     ctx,
		walking:    newMutex(),
		waiting:    newMutex(),
		accounted:  newSignal(),
		allSettled: newSignal(),
		report:     Report{Tier: p.Tier, MaxAge: p.MaxAge, Tick: p.Tick, Started: p.Now},
		tried:      p.tried,
	}
	if r.tried == nil {
		r.tried = make(map[uint64]struct{})
	}
	if h, ok := e.Handler.(SettlingHandler); ok {
		r.selfSettling = true
		r.handler = HandlerFunc(func(ctx context.Context, rec *Record) error {
			return h.HandleAndSettle(ctx, rec, e.Now)
		})
	}
	r.stop, r.stopDispatch = context.WithCancelCause(ctx)
	r.chunk.Store(new(chunk))
	r.plan = plan.Plan{MaxRecords: e.MaxRecords, AbortAfter: e.AbortAfter, From: p.Resume}
	for _, l := range []Lane{Fresh, Failed} {
		r.plan.ByWait[l] = e.rule.ByWait(l)
	}
	r.walk = newWalk(r)
	return r
}

// do runs the pass to its end. Its result is in report and err.
func (r *run) do() {
	ctx, killed, kill := withKill(context.WithoutCancel(r.caller))
	work, endWork := context.WithCancel(ctx)
	r.work = work
	context.AfterFunc(killed, endWork)
	detachCut := context.AfterFunc(r.pass.cut, func() { r.stopDispatch(context.Cause(r.pass.cut)) })
	done, end := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(done, endWork, kill) })
	_ = r.e.Collect(r.stop) // what is wrong shows again when the handler is given more
	if r.e.Policy.HasDeadlines() {
		watch.Go(func() { r.watchSuperseded(done) })
		r.failOverdue()
	}
	if r.e.isPaused() {
		r.stopDispatch(errPause)
	}
	watch.Go(func() { r.watchPause(done) })

	if r.e.OnDead == nil {
		r.expire(r.stop)
	}
	r.started.Store(1)
	r.nextChunk() // here, because this stack is deep already and a worker's would have to grow for the query
	r.workers.Go(r.worker)
	r.workers.Wait()
	r.walk.finish()
	r.concludeTrials()
	if r.e.OnDead != nil && !r.broken() { // last, because it may take long and records wait
		r.awaitSettled(r.caller)
		r.expire(r.caller)
	}
	detachCut()
	end()
	watch.Wait()
	r.settleRest()
	r.conclude()
	r.stopDispatch(nil)
	endWork()
	kill()
}

// watch ends the handlers after a stop: at once if the lock is lost or the stop is a hard
// one, else after ShutdownTimeout. It returns when done is.
func (r *run) watch(done context.Context, endWork, kill func()) {
	caller := r.caller.Done()
	hard := r.e.Hard
	var timeout <-chan time.Time
	for {
		select {
		case <-done.Done():
			return
		case <-caller:
			caller = nil
			r.stoppedAt = time.Now()
			if lockLost(r.caller) {
				endWork()
			} else {
				timeout = time.After(r.e.ShutdownTimeout)
			}
		case <-hard:
			hard = nil
			r.stopDispatch(nil)
			endWork()
			kill()
		case <-timeout:
			endWork()
		}
	}
}

const (
	// lateWrites is how long outcomes may be written after the last handler has ended, where
	// ShutdownTimeout is over by then.
	lateWrites = 3 * time.Second
	// hardWrites is the same for a hard stop.
	hardWrites = time.Second
)

// settleRest waits until all outcomes are written. A stop limits the wait, and the remaining
// outcomes are given up. After the loss of the lock they stay with the settler instead.
func (r *run) settleRest() {
	ended := time.Now()
	caller := r.caller.Done()
	hard := r.e.Hard
	isHard := false
	var timeout <-chan time.Time
	r.e.settler.flush()
	for {
		if r.isSettled() {
			return
		}
		select {
		case <-r.allSettled:
		case <-caller:
			caller = nil
			switch {
			case isHard:
			case lockLost(r.caller):
				timeout = time.After(LockGrace)
			default:
				r.stoppedAt = cmp.Or(r.stoppedAt, time.Now())
				untilShutdown := time.Until(r.stoppedAt.Add(r.e.ShutdownTimeout))
				untilLate := time.Until(ended.Add(lateWrites))
				timeout = time.After(max(untilShutdown, untilLate))
			}
		case <-hard:
			hard = nil
			isHard = true
			timeout = time.After(hardWrites)
		case <-timeout:
			if lockLost(r.caller) && !isHard {
				r.detach()
				return
			}
			r.e.settler.giveUp(func(other *run) bool { return other == r })
		}
	}
}

// detach ends the pass before its outcomes are written. They stay with the settler.
func (r *run) detach() {
	s := &r.e.settler
	s.mu.Lock()
	defer s.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detached = true
	r.report.Unwritten += r.unsettled
	s.detached.Add(int64(r.unsettled))
}

// conclude sets how far the pass came and why it stopped.
func (r *run) conclude() {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &r.report
	r.err = cmp.Or(r.err, r.laneErr)
	cause := context.Cause(r.stop)
	stopped := r.caller.Err() != nil
	switch {
	case r.err != nil:
		rep.Stopped = StoppedError
		rep.cutShort = stopped || isUnavailable(r.err)
	case r.plan.Complete() && rep.Interrupted == 0: // also if the last of all failures would have ended it
		rep.Complete = true
		return
	case r.aborted:
		rep.Stopped = StoppedAbortAfter
	case lockLost(r.caller):
		rep.Stopped = StoppedLock
	case cause == errReload && !stopped:
		rep.Stopped = StoppedReload
		rep.tried = r.tried
	case cause == errPause && !stopped:
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

// fail ends the pass because the store or the handler has failed for good.
func (r *run) fail(err error) {
	r.count(func(*Report) { r.err = cmp.Or(r.err, err) })
	r.stopDispatch(nil)
}

// failUnlessStopped is fail for an error that says nothing once the pass is stopped.
func (r *run) failUnlessStopped(err error) {
	if r.stop.Err() == nil {
		r.fail(err)
	}
}

// count calls f while it holds r.mu.
func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
}

// wasTried reports whether the pass has attempted the record already.
func (r *run) wasTried(hash uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.tried[hash]
	return ok
}

// excludes reports whether the pass does not try a record: it did before, or the database
// refused an outcome of the record.
func (r *run) excludes(hash uint64) bool { return r.wasTried(hash) || r.e.refused.Contains(hash) }

// excludesAny reports whether there is a record that the pass does not try.
func (r *run) excludesAny() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tried) > 0 || r.e.refused.Len() > 0
}

// worker handles one job after the other until nothing more is to be dispatched.
func (r *run) worker() {
	var now time.Time // zero if the worker has waited since it read the clock
	for j := r.nextJob(&now); j != nil; j = r.nextJob(&now) {
		if j.lane.closed.Load() {
			r.returnJob(j)
			continue
		}
		began, ok := r.enter(now)
		if !ok {
			r.returnJob(j)
			continue
		}
		now = time.Time{}
		j.rec.Tier = r.pass.Tier
		j.rec.AttemptID = r.e.attemptID()
		if r.writeStart(j) {
			now = r.attempt(j, began)
		}
		r.e.gate.slots.Release(1)
	}
	if r.pass.allDispatched != nil {
		r.pass.allDispatched()
	}
}

// attempt calls the handler for a job, and returns when it ended. began is when the job got
// its slot.
func (r *run) attempt(j *job, began time.Time) (ended time.Time) {
	if j.before != nil { // the start was written since
		began = r.e.Now()
	}
	ctx, release := r.attemptContext(j)
	defer release()
	r.e.gate.running.Add(1)
	err := r.handle(ctx, j.rec)
	r.e.gate.running.Add(-1)
	ended = r.e.Now()
	if err != nil {
		r.e.pauseFor(err) // before the next call can start
	}
	superseded := ctx != r.work && context.Cause(ctx) == errSuperseded
	if superseded {
		r.abandon(j, ended, fmt.Errorf("%w: %w", ErrConflict, errSuperseded))
	} else {
		r.ended(j, began, ended, err) // before the slot is free, because it may end the pass
	}
	return ended
}

// nextJob returns the next job, nil if nothing more is to be dispatched. If it has to wait,
// now becomes zero. It starts another worker where there is a job for one.
func (r *run) nextJob(now *time.Time) *job {
	for {
		c := r.chunk.Load()
		size := int64(len(c.jobs))
		if i := c.next.Add(1); i <= size {
			n := r.started.Load()
			if n < int64(r.e.Concurrency) && r.started.CompareAndSwap(n, n+1) {
				r.workers.Go(r.worker)
			}
			if i == size {
				r.workers.Go(r.lookAhead)
			}
			return &c.jobs[i-1]
		}
		*now = time.Time{}
		if !r.nextChunk() {
			return nil
		}
	}
}

// lookAhead finds out, while handlers run, whether there are records behind the chunk. So a
// stop that comes after the last record leaves the pass complete.
func (r *run) lookAhead() {
	if r.walking.take(r.stop) {
		r.walk.noteExhausted()
		r.walking.give()
	}
}

// nextChunk replaces a chunk that is used up, and returns false if there is nothing more to
// dispatch. Only as many idle workers come through as there are jobs: one refills, the others
// keep waiting.
func (r *run) nextChunk() bool {
	if !r.walking.take(r.stop) { // no sync.Mutex, because the walk may wait for long
		return false
	}
	defer r.walking.give()
	c := r.chunk.Load()
	if c.next.Load() < int64(len(c.jobs)) {
		return true // another worker has refilled it
	}
	jobs := r.walk.claimChunk()
	if len(jobs) == 0 {
		return false
	}
	r.chunk.Store(&chunk{jobs: jobs})
	return true
}

// returnJob gives back a record that was claimed and not dispatched: the next pass takes it.
func (r *run) returnJob(j *job) {
	r.count(func(*Report) { r.plan.Returned(j.lane.lane) })
	r.releaseJob(j)
}

// releaseJob ends the claim on a record whose row stays as it was.
func (r *run) releaseJob(j *job) {
	j.lane.unsettled.Add(-1)
	r.accounted.give()
	r.e.release(j.rec)
	r.e.finished(j.rec, true)
	r.e.flights.Drop(j.flight)
	r.e.gate.room.Release(j.weight)
}

// ended takes the outcome of one handler call.
func (r *run) ended(j *job, began, now time.Time, err error) {
	e := r.e
	took := now.Sub(began)
	x := ending{
		Settlement: Settlement{Record: j.rec, At: now},
		tier:       r.pass.Tier,
		outcome:    OutcomeOf(err),
		before:     j.before,
	}
	if r.selfSettling && (err == nil || errors.Is(err, ErrConflict)) {
		r.endSelfSettled(j, x, err, took)
		return
	}
	interrupted := x.outcome == Errored && r.work.Err() != nil
	if interrupted { // the stop ended the handler: that says nothing about the record
		x.outcome = Skipped
	}
	answerable := j.before != nil && j.rec.Memory.UID != ""
	if x.outcome == HandedOver && !answerable {
		x.outcome = Errored
	}
	e.conclude(r.work, &x, err, took)
	if x.outcome == Skipped && errors.As(err, new(*unstarted)) {
		r.fail(handlerFault{fmt.Errorf("the handler cannot be started: %w", err)})
	}
	if x.deathReason != "" {
		dead := x // a copy, because what announce gets lives on the heap
		e.announce(r.work, []*ending{&dead})
		x = dead
	}
	if x.death == deathInterrupted {
		interrupted = true
		x.Memory = nil
	}
	a := attempt{ending: x, job: j, run: r}
	settles := r.countEnded(&a, interrupted)
	switch {
	case !settles:
		r.releaseJob(j)
	case x.death == deathRefused:
		r.account([]attempt{a})
	default:
		e.settler.add(a)
	}
}

// endSelfSettled accounts for a handler call that has written its success itself, or found
// that another program had changed the row, which undid its work.
func (r *run) endSelfSettled(j *job, x ending, err error, took time.Duration) {
	if err != nil {
		x.outcome = Skipped
	}
	r.e.storeAnswered()
	r.e.emit(Event{
		Kind: AttemptEnded, At: x.At, Tier: x.tier, Record: x.Record,
		Outcome: x.outcome, Err: err, Took: took,
	})
	x.outcome = Succeeded
	x.reason = err
	r.accountUnsettled(attempt{ending: x, job: j, run: r})
}

// countEnded counts an attempt that has ended, and reports whether there is something to
// settle.
func (r *run) countEnded(a *attempt, interrupted bool) (settles bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countDispatched(a.job)
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
	end := planEnds[a.outcome]
	if interrupted {
		end = plan.EndKeptPlace
	}
	if r.plan.CountEnd(a.lane.lane, end) {
		r.aborted = true
		r.stopDispatch(nil)
	}
	if a.outcome != Succeeded && r.e.queue == nil {
		r.tried[a.hash] = struct{}{} // the walk may come to it again
	}
	if settles {
		r.unsettled++
	}
	return settles
}

// planEnds are the ends of attempts, by outcome, as the plan counts them.
var planEnds = [...]plan.End{
	Succeeded:  plan.EndSuccess,
	Errored:    plan.EndFailure,
	Rejected:   plan.EndNeutral,
	Skipped:    plan.EndKeptPlace,
	HandedOver: plan.EndNeutral,
}

// countDispatched counts a record that was given to the handler. r.mu must be held.
func (r *run) countDispatched(j *job) {
	r.report.Selected++
	r.plan.Dispatched(j.place)
}

// accountUnsettled accounts for an attempt that the settler does not write.
func (r *run) accountUnsettled(a attempt) {
	r.mu.Lock()
	r.countDispatched(a.job)
	r.unsettled++
	if a.reason == nil {
		r.plan.CountEnd(a.lane.lane, plan.EndSuccess)
	}
	r.mu.Unlock()
	r.account([]attempt{a})
}

// handle calls the handler for a record. A handler that settles works in the database: while
// that is unavailable nothing else is dispatched, and the call is made again afterwards.
func (r *run) handle(ctx context.Context, rec *Record) error {
	for tries := 1; ; tries++ {
		err := Call(ctx, r.handler, r.e.Timeout, rec)
		unavailable := r.selfSettling && isUnavailable(err) && !errors.Is(err, ErrConflict)
		if !unavailable || r.work.Err() != nil {
			return err
		}
		noAttempt := fmt.Errorf("%w: %w", errNoAttempt, err)
		if !r.awaitStore(err) || tries == maxUnavailable {
			return noAttempt
		}
		// A database that is full, for example, answers and still takes nothing.
		if tries > 1 && !Sleep(r.stop, time.Duration(tries)*time.Second) {
			return noAttempt
		}
	}
}

// awaitStore waits until a store answers that a handler has found unavailable, for the reason
// why, and reports whether it does. The pass fails if the engine has no more patience.
func (r *run) awaitStore(why error) bool {
	e := r.e
	e.storeFails(why)
	err := e.persist(r.stop, func() error { return e.ping(r.stop) })
	e.health.failing.Add(-1)
	if err == nil {
		e.storeAnswered()
	}
	noPatience := err != nil || e.endsAtOnce(why)
	if noPatience && r.stop.Err() == nil {
		r.fail(cmp.Or(err, why))
		return false
	}
	return err == nil
}

// maxUnavailable is how many calls a record gets from which the handler returns that the
// database is unavailable. One record may ask more of the database than it can ever do.
const maxUnavailable = 3

// errNoAttempt says why a row is left as it was.
var errNoAttempt = fmt.Errorf("%w: no attempt was made", Skip)
