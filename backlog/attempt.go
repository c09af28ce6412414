package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

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
		r.e.newAttempt(j.rec)
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
	if snooze, asks := SnoozeOf(err); asks && !snooze.After(now).After(now) { // it is over already
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
	if x.outcome == Snoozed && !x.writesRow() {
		e.snooze(x.tier, j.hash, x.snoozedUntil) // before the claim ends, so that no other pass takes it
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
	case a.outcome == Snoozed && !a.writesRow():
		r.report.Snoozed++
		settles = false
	}
	end := planEnds[a.outcome]
	keepsPlace := interrupted || a.outcome == Snoozed && !settles
	if keepsPlace {
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
	Snoozed:    plan.EndNeutral,
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
