package backlog

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog/flight"
	"backlog/backlog/plan"
)

// groupDelay is how long an outcome waits at most for others to be settled
// with it.
const groupDelay = 100 * time.Millisecond

// fullGroup is the number of outcomes that are not kept waiting for more: half
// of what may be unsettled at all, so that as many can come together while they
// are written.
const fullGroup = MaxGroup / 2

// maxInRow is how many outcomes of a lane may be refused in a row before it ends, unless
// [run.mayRecover]: each is of a record that was handled in vain.
const maxInRow = 10

// An attempt is one that has ended and whose outcome is to be written.
type attempt struct {
	ending
	*job
	run *run
}

// A settler writes the outcomes of all passes in groups, one after the other. It
// outlives passes, locks and reloads: an outcome stays with it until the
// store takes it, or the end of the process gives it up.
type settler struct {
	mu          sync.Mutex
	queue       []attempt
	group       []attempt          // being written
	spare       []attempt          // what the group is a part of: to be used again after it
	settlements []Settlement       // of the last group, likewise
	abort       context.CancelFunc // of the write under way
	reason      error              // why the last write failed
	running     bool
	urgent      bool          // the queue is to be written without waiting for more
	wake        chan struct{} // holds a token: look at the queue

	since atomic.Int64 // when the write under way began, in unix nanoseconds; 0: there is none
	kept  atomic.Int64 // outcomes of passes that have lost their lock and ended
}

// isStuck reports whether a write has been under way for long, or outcomes of
// ended passes are yet to be written.
func (s *settler) isStuck(now time.Time) bool {
	since := s.since.Load()
	return since != 0 && now.UnixNano()-since >= int64(contactEvery) || s.kept.Load() > 0
}

func (s *settler) add(a attempt) {
	s.mu.Lock()
	s.queue = append(s.queue, a)
	n, start := len(s.queue), !s.running
	s.running = true
	s.mu.Unlock()
	if start {
		go s.write()
	} else if n == fullGroup {
		signal(s.wake)
	}
}

// flush has the queue written at once: nothing more comes, or somebody waits for
// room.
func (s *settler) flush() {
	s.mu.Lock()
	s.urgent = len(s.queue) > 0
	s.mu.Unlock()
	signal(s.wake)
}

// signal puts a token into a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write writes groups until nothing is left.
func (s *settler) write() {
	select {
	case <-s.wake: // it was about a queue that is written
	default:
	}
	for waited, seen := false, 0; ; {
		s.mu.Lock()
		n := len(s.queue)
		if n == 0 {
			s.running, s.urgent = false, false
			s.mu.Unlock()
			return
		}
		if n < fullGroup && !s.urgent && !waited && s.queue[0].run.e.queue == nil {
			s.mu.Unlock()
			select { // more may come
			case <-time.After(groupDelay):
			case <-s.wake:
			}
			waited = true
			continue
		}
		if n > seen && n < MaxGroup && !s.urgent {
			seen = n
			s.mu.Unlock()
			runtime.Gosched() // handlers that wait for a processor come first: one write of more costs less
			continue
		}
		seen = 0
		n = min(n, MaxGroup)
		for i := range n {
			if s.queue[i].run.e != s.queue[0].run.e {
				n = i // another engine may have another store
				break
			}
		}
		s.group = s.queue[:n:n]
		s.queue, s.spare = append(s.spare[:0], s.queue[n:]...), s.queue
		waited = len(s.queue) > 0
		s.urgent = s.urgent && waited
		s.mu.Unlock()
		s.settle()
	}
}

// settle writes the group, however long the store is unavailable, but for what
// is given up meanwhile.
func (s *settler) settle() {
	e := s.group[0].run.e
	began := e.Now()
	s.since.Store(began.UnixNano())
	defer func() {
		s.since.Store(0)
		clear(s.settlements)
		s.mu.Lock()
		s.group = nil
		s.mu.Unlock()
	}()
	for {
		group, ctx := s.begin()
		if len(group) == 0 {
			return
		}
		list := s.settlements[:0]
		for i := range group {
			list = append(list, group[i].Settlement)
		}
		s.settlements = list
		var left []Unsettled
		err := e.persistSettling(ctx, func() (err error) {
			left, err = e.Store.Settle(ctx, list)
			s.setReason(err)
			return err
		})
		if err != nil && ctx.Err() != nil {
			if !isUnavailable(err) { // the end has cut it short
				err = fmt.Errorf("%w: no answer within %v", ErrUnavailable, e.Now().Sub(began).Round(time.Second))
			}
			s.setReason(err)
			continue
		}
		s.abort()
		if err != nil {
			giveUp(group, err)
			return
		}
		for _, u := range left {
			group[u.Index].reason = u.Err
		}
		account(group)
		return
	}
}

// setReason notes why the last write failed; nil: it did not.
func (s *settler) setReason(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = err
}

// begin returns what of the group is not given up, and the context for its
// write. What is given up is accounted for.
func (s *settler) begin() (group []attempt, ctx context.Context) {
	s.mu.Lock()
	var lost []attempt
	s.group, lost = split(s.group)
	ctx, s.abort = context.WithCancel(context.Background())
	group = s.group
	reason := s.reason
	s.mu.Unlock()
	giveUp(lost, reason)
	return group, ctx
}

// split parts a list into what is to be written and what is given up.
func split(list []attempt) (rest, lost []attempt) {
	rest = slices.DeleteFunc(list, func(a attempt) bool {
		if a.run.gaveUp {
			lost = append(lost, a)
		}
		return a.run.gaveUp
	})
	return rest, lost
}

func giveUp(lost []attempt, reason error) {
	reason = cmp.Or(reason, fmt.Errorf("%w: there was no time to write", ErrUnavailable))
	for i := range lost {
		lost[i].reason = unwritten{reason}
	}
	account(lost)
}

// giveUp ends the wait for the outcomes for which it is over.
func (s *settler) giveUp(over func(*run) bool) {
	s.mu.Lock()
	for _, list := range [][]attempt{s.queue, s.group} {
		for _, a := range list {
			a.run.gaveUp = a.run.gaveUp || over(a.run)
		}
	}
	var lost []attempt
	s.queue, lost = split(s.queue)
	reason := s.reason
	if s.abort != nil && slices.ContainsFunc(s.group, func(a attempt) bool { return a.run.gaveUp }) {
		s.abort()
	}
	s.mu.Unlock()
	giveUp(lost, reason)
}

// Flush returns when no outcome is left that a pass could not write before it
// lost its lock and ended. When ctx is done it gives up what is left, and tells
// of each as [Unwritten]: a process calls it before its end.
func (e *Engine) Flush(ctx context.Context) {
	e.init()
	for e.settler.kept.Load() > 0 {
		if !Sleep(ctx, 20*time.Millisecond) {
			e.settler.giveUp(func(r *run) bool { return r.left })
			ctx = context.Background() // it takes a moment
		}
	}
}

// unwritten is why settlements were given up.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// account counts the attempts of a group, run by run.
func account(group []attempt) {
	for from := 0; from < len(group); {
		r, to := group[from].run, from+1
		for to < len(group) && group[to].run == r {
			to++
		}
		r.account(group[from:to])
		from = to
	}
}

// mayRecover reports whether the trial may yet find out the rows that are refused, before
// their handler is called: they were all claimed since the same trial, and the refusal of the
// first of them has the next page tried.
func (r *run) mayRecover(a *attempt) bool {
	_, ok := r.e.Store.(Trier)
	return ok && r.e.trials.isProven(a.Record) && a.round == a.lane.firstRound
}

// accountWritten counts an attempt whose outcome is written. r.mu must be held.
func (r *run) accountWritten(a *attempt) {
	r.report.add(a)
	a.lane.inRow = 0
	if a.outcome == Succeeded {
		r.e.trials.prove(a.Record)
	}
}

// accountLeft counts an attempt whose outcome is not written. r.mu must be held.
func (r *run) accountLeft(a *attempt) {
	switch a.kind() {
	case Unwritten:
		r.report.Unwritten++
		r.e.trials.taken.Store(0)
	case Conflicted:
		r.report.Conflicts++
		if r.e.queue == nil {
			r.tried[a.hash] = struct{}{} // it may now be in the other lane
		}
	case Refused:
		r.report.Refused++
		if r.e.queue == nil { // else it publishes the outcome later, and gives the message to no handler
			r.accountRefused(a)
		}
	}
}

// accountRefused notes that the database does not take the outcome, and ends the lane after
// many of these in a row. r.mu must be held.
func (r *run) accountRefused(a *attempt) {
	r.e.trials.taken.Store(0)
	if !r.e.trials.broken.Load() {
		r.e.refused.Add(a.hash, struct{}{})
	}
	r.plan.Ended(a.lane.lane, plan.Stayed)
	a.lane.inRow++
	if a.lane.inRow == 1 {
		a.lane.firstRound = a.round
	}
	if a.lane.inRow >= maxInRow && !r.mayRecover(a) {
		many := fmt.Errorf("the database has refused %d outcomes in a row, look at the table's triggers and constraints; the last one: %w", maxInRow, a.reason)
		a.lane.close()
		r.sick = cmp.Or(r.sick, many)
	}
}

// account counts attempts of the run.
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
		r.accountLeft(a)
		if a.kind() == Unwritten {
			failed = a.reason
		}
	}
	r.unsettled -= len(list)
	over, left := r.unsettled == 0, r.left
	r.mu.Unlock()
	if failed != nil && !left {
		r.fail(failed)
	}
	settled := 0
	for i := range list {
		if r.e.observe(&list[i].ending) {
			settled++
		}
	}
	if settled > 0 {
		r.e.emit(Event{Kind: Settled, Tier: r.pass.Tier, N: settled})
	}
	for i := range list {
		r.e.finished(list[i].Record, list[i].kind() != Unwritten)
		list[i].Record.Values = nil // the rest of the page may live on for long
	}
	for i := range list {
		list[i].lane.unsettled.Add(-1)
	}
	signal(r.accounted)
	r.e.flights.Land(flights...)
	r.e.gate.room.Release(weight)
	if left {
		r.e.settler.kept.Add(int64(-len(list)))
	}
	if over {
		signal(r.settled)
	}
}
