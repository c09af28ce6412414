package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

// groupDelay is how long an outcome waits at most for others to be settled with it.
const groupDelay = 100 * time.Millisecond

// fullGroup is the number of outcomes that do not wait for more. It is half of what may be
// unsettled at all, so that as many can come in during the write.
const fullGroup = MaxGroup / 2

// maxInRow is how many outcomes of a lane may be refused in a row before the lane ends, see
// [run.mayRecover]. The handler was called in vain for each of them.
const maxInRow = 10

// An attempt is a handler call that has ended, with its outcome.
type attempt struct {
	ending
	*job
	run *run
}

// A settler writes the outcomes of all passes in groups, one group after the other. It
// outlives passes, locks and reloads: an outcome stays with it until the store takes it or the
// process gives it up.
type settler struct {
	mu          sync.Mutex
	queue       []attempt
	group       []attempt          // being written
	spare       []attempt          // the array of the group, which the queue uses again after it
	settlements []Settlement       // of the last group; the array is used again
	abort       context.CancelFunc // ends the write under way
	reason      error              // why the last write failed
	running     bool               // write has been started and not ended
	urgent      bool               // write the queue without waiting for more
	wake        token              // a signal: the queue is full or urgent

	writing  atomic.Int64 // when the write under way began, in unix nanoseconds; 0: no write is under way
	detached atomic.Int64 // outcomes of passes that lost their lock and ended before these were written
}

// isStuck reports whether a write takes long, or outcomes of ended passes are not written yet.
func (s *settler) isStuck(now time.Time) bool {
	began := s.writing.Load()
	takesLong := began != 0 && now.UnixNano()-began >= int64(contactEvery)
	return takesLong || s.detached.Load() > 0
}

// add queues an outcome.
func (s *settler) add(a attempt) {
	s.mu.Lock()
	s.queue = append(s.queue, a)
	n := len(s.queue)
	wasRunning := s.running
	s.running = true
	s.mu.Unlock()
	if !wasRunning {
		go s.write()
	} else if n == fullGroup {
		s.wake.give()
	}
}

// flush has the queue written at once, because nothing more comes or a pass waits for room.
func (s *settler) flush() {
	s.mu.Lock()
	s.urgent = len(s.queue) > 0
	s.mu.Unlock()
	s.wake.give()
}

// write writes groups until the queue is empty.
func (s *settler) write() {
	s.wake.tryTake() // it was given for a queue that is written
	waited := false  // for more outcomes to come
	seen := 0        // length of the queue when handlers were last let go first
	for {
		s.mu.Lock()
		n := len(s.queue)
		if n == 0 {
			s.running = false
			s.urgent = false
			s.mu.Unlock()
			return
		}
		atOnce := n >= fullGroup || s.urgent || s.queue[0].run.e.queue != nil
		if !atOnce && !waited {
			s.mu.Unlock()
			select {
			case <-time.After(groupDelay):
			case <-s.wake:
			}
			waited = true
			continue
		}
		if n > seen && n < MaxGroup && !s.urgent {
			seen = n
			s.mu.Unlock()
			runtime.Gosched() // handlers that wait for a processor go first: fewer writes cost less
			continue
		}
		seen = 0
		s.cutGroup()
		waited = len(s.queue) > 0
		s.urgent = s.urgent && waited
		s.mu.Unlock()
		s.writeGroup()
	}
}

// cutGroup moves the next group out of the queue. Its outcomes are all of one engine, since
// another may have another store. s.mu must be held.
func (s *settler) cutGroup() {
	n := min(len(s.queue), MaxGroup)
	for i := range n {
		if s.queue[i].run.e != s.queue[0].run.e {
			n = i
			break
		}
	}
	whole := s.queue
	s.group = whole[:n:n]
	s.queue = append(s.spare[:0], whole[n:]...)
	s.spare = whole
}

// writeGroup writes the group, however long the store is unavailable. Outcomes that are given
// up during that time are left out.
func (s *settler) writeGroup() {
	e := s.group[0].run.e
	began := e.Now()
	s.writing.Store(began.UnixNano())
	defer func() {
		s.writing.Store(0)
		clear(s.settlements)
		s.mu.Lock()
		s.group = nil
		s.mu.Unlock()
	}()
	for {
		group, ctx := s.startWrite()
		if len(group) == 0 {
			return
		}
		list := s.settlements[:0]
		for i := range group {
			list = append(list, group[i].Settlement)
		}
		s.settlements = list
		var unsettled []Unsettled
		err := e.persistSettling(ctx, func() (err error) {
			unsettled, err = e.Store.Settle(ctx, list)
			s.setReason(err)
			return err
		})
		if err != nil && ctx.Err() != nil {
			if !isUnavailable(err) { // the call was cut short
				err = fmt.Errorf("%w: no answer within %v", ErrUnavailable, e.Now().Sub(began).Round(time.Second))
			}
			s.setReason(err)
			continue
		}
		s.abort()
		if err != nil {
			accountGivenUp(group, err)
			return
		}
		for _, u := range unsettled {
			group[u.Index].reason = u.Err
			e.keepRefused(&group[u.Index].ending)
		}
		account(group)
		return
	}
}

// isRefused reports whether the store refused every outcome in the last write.
func (s *settler) isRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.reason, ErrRefusesAll)
}

// setReason notes why the last write failed; nil: it did not.
func (s *settler) setReason(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = err
}

// startWrite returns the outcomes of the group that are to be written, and the context for
// the write. It accounts for those that were given up.
func (s *settler) startWrite() (group []attempt, ctx context.Context) {
	s.mu.Lock()
	var givenUp []attempt
	s.group, givenUp = splitGivenUp(s.group)
	ctx, s.abort = context.WithCancel(context.Background())
	group = s.group
	reason := s.reason
	s.mu.Unlock()
	accountGivenUp(givenUp, reason)
	return group, ctx
}

// splitGivenUp returns the outcomes that are to be written and those that are given up.
func splitGivenUp(list []attempt) (rest, givenUp []attempt) {
	rest = slices.DeleteFunc(list, func(a attempt) bool {
		if a.run.gaveUp {
			givenUp = append(givenUp, a)
		}
		return a.run.gaveUp
	})
	return rest, givenUp
}

// accountGivenUp accounts for outcomes that are not to be written any more.
func accountGivenUp(list []attempt, reason error) {
	reason = cmp.Or(reason, fmt.Errorf("%w: there was no time to write", ErrUnavailable))
	for i := range list {
		list[i].reason = unwritten{reason}
	}
	account(list)
}

// giveUp gives up the outcomes of the runs for which the function returns true.
func (s *settler) giveUp(of func(*run) bool) {
	s.mu.Lock()
	for _, list := range [][]attempt{s.queue, s.group} {
		for _, a := range list {
			a.run.gaveUp = a.run.gaveUp || of(a.run)
		}
	}
	var givenUp []attempt
	s.queue, givenUp = splitGivenUp(s.queue)
	reason := s.reason
	if s.abort != nil && slices.ContainsFunc(s.group, func(a attempt) bool { return a.run.gaveUp }) {
		s.abort()
	}
	s.mu.Unlock()
	accountGivenUp(givenUp, reason)
}

// Flush waits until the outcomes are written that passes left behind when they lost their
// lock and ended. When ctx is done it gives up the rest, each with an event [Unwritten]. A
// process calls it before its end.
func (e *Engine) Flush(ctx context.Context) {
	e.init()
	for e.settler.detached.Load() > 0 {
		if !Sleep(ctx, 20*time.Millisecond) {
			e.settler.giveUp(func(r *run) bool { return r.detached })
			ctx = context.Background() // until these are accounted for, which is soon
		}
	}
}

// unwritten is why settlements were given up.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// account accounts for the attempts of a group, run by run.
func account(group []attempt) {
	from := 0
	for from < len(group) {
		r := group[from].run
		to := from + 1
		for to < len(group) && group[to].run == r {
			to++
		}
		r.account(group[from:to])
		from = to
	}
}

// mayRecover reports whether a trial may yet find the rows that refuse their outcomes, before
// the handler is called for them. That is so while all refused records were claimed since the
// same trial: the refusal of the first has the next page tried.
func (r *run) mayRecover(a *attempt) bool {
	_, ok := r.e.Store.(Trier)
	return ok && r.e.trials.isProven(a.Record) && a.round == a.lane.firstRound
}

// accountWritten counts an attempt whose outcome is written. r.mu must be held.
func (r *run) accountWritten(a *attempt) {
	r.report.add(a)
	if a.writesRow() {
		a.lane.inRow = 0
	}
	if a.outcome == Succeeded {
		r.e.trials.prove(a.Record)
	}
}

// accountNotWritten counts an attempt whose outcome is not written. r.mu must be held.
func (r *run) accountNotWritten(a *attempt) {
	switch a.kind() {
	case Unwritten:
		r.report.Unwritten++
		r.e.trials.passed.Store(0)
	case Conflicted:
		r.report.Conflicts++
		if r.e.queue == nil {
			r.tried[a.hash] = struct{}{} // it may now be in the other lane
		}
	case Refused:
		r.report.Refused++
		if r.e.queue == nil { // a queue publishes the outcome later, and no handler gets the message again
			r.accountRefused(a)
		}
	}
}

// accountRefused notes that the database does not take the outcome. It ends the lane after
// many of these in a row. r.mu must be held.
func (r *run) accountRefused(a *attempt) {
	r.e.trials.passed.Store(0)
	if !r.e.trials.broken.Load() {
		r.e.refused.Add(a.hash, struct{}{})
	}
	r.plan.CountEnd(a.lane.lane, plan.EndKeptPlace)
	a.lane.inRow++
	if a.lane.inRow == 1 {
		a.lane.firstRound = a.round
	}
	if a.lane.inRow >= maxInRow && !r.mayRecover(a) {
		many := fmt.Errorf("the database has refused %d outcomes in a row, look at the table's triggers and constraints; the last one: %w", maxInRow, a.reason)
		a.lane.close()
		r.laneErr = cmp.Or(r.laneErr, many)
	}
}

// account counts attempts of the run whose outcomes are written or given up, emits what
// became of each, and releases what they held.
func (r *run) account(list []attempt) {
	var failed error
	var weight int64
	flights := make([]*flight.Flight, len(list))
	r.mu.Lock()
	for i := range list {
		a := &list[i]
		flights[i] = a.flight
		weight += a.weight
		if a.reason == nil {
			r.accountWritten(a)
			continue
		}
		r.accountNotWritten(a)
		if a.kind() == Unwritten {
			failed = a.reason
		}
	}
	r.unsettled -= len(list)
	allSettled := r.unsettled == 0
	detached := r.detached
	r.mu.Unlock()
	if failed != nil && !detached {
		r.fail(failed)
	}
	settled := 0
	for i := range list {
		if r.e.emitSettled(&list[i].ending) {
			settled++
		}
	}
	if settled > 0 {
		r.e.emit(Event{Kind: Settled, Tier: r.pass.Tier, N: settled})
	}
	for i := range list {
		r.e.finished(list[i].Record, list[i].kind() != Unwritten)
		list[i].Record.Values = nil // the page lives on until all of its records are settled
	}
	for i := range list {
		list[i].lane.unsettled.Add(-1)
	}
	r.accounted.give()
	r.e.flights.Land(flights...)
	r.e.gate.room.Release(weight)
	if detached {
		r.e.settler.detached.Add(int64(-len(list)))
	}
	if allSettled {
		r.allSettled.give()
	}
}
