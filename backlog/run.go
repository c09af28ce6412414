package backlog

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog/plan"
)

// A run is one pass under way. Its workers take jobs from a shared chunk, call the handler and
// pass the outcomes to the settler. The walk fills the next chunk.
type run struct {
	e            *Engine
	pass         Pass
	handler      Handler
	selfSettling bool // the handler writes its successes itself

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

func newRun(ctx context.Context, e *Engine, p Pass) *run {
	r := &run{
		e:          e,
		pass:       p,
		handler:    e.Handler,
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
// outcomes are given up. After the loss of the lock they stay with the settler instead. A reload
// limits the wait if the store refuses every outcome, since it may have the cure.
func (r *run) settleRest() {
	ended := time.Now()
	caller := r.caller.Done()
	cut := r.pass.cut.Done()
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
		case <-cut:
			cut = nil
			if timeout == nil {
				timeout = time.After(r.e.ShutdownTimeout)
			}
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
			isReload := r.caller.Err() == nil && !isHard
			if isReload && !r.e.settler.isRefused() {
				timeout = time.After(time.Second)
				continue
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

// excludes reports whether the pass does not try a record: it did before, the database refused
// an outcome of the record, or it is snoozed.
func (r *run) excludes(hash uint64) bool {
	return r.wasTried(hash) || r.e.refused.Contains(hash) || !r.e.snoozed.at(hash, r.pass.Now).IsZero()
}

// excludesAny reports whether there is a record that the pass does not try.
func (r *run) excludesAny() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tried) > 0 || r.e.refused.Len() > 0 || r.e.snoozed.until.Len() > 0
}
