package backlog

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// groupDelay is how long an outcome waits at most for others to be settled
// with it.
const groupDelay = 100 * time.Millisecond

// fullGroup is the number of outcomes that are not kept waiting for more. Less
// than half of what may be unsettled at all, so that as many can come together
// while they are written.
const fullGroup = MaxGroup * 2 / 5

// enqueue adds an outcome to the group that is settled next.
func (r *run) enqueue(s Settlement, hash uint64) {
	r.mu.Lock()
	switch s.Outcome {
	case Succeeded:
		r.streak = 0
	case Errored:
		r.streak++
		if n := r.e.AbortAfter; n > 0 && r.streak >= n {
			r.aborted = true
			r.endWalk()
		}
	}
	if s.Outcome != Succeeded {
		r.tried[hash] = struct{}{} // it may come up again in the failed lane
	}
	r.group = append(r.group, s)
	r.hashes = append(r.hashes, hash)
	n := len(r.group)
	r.mu.Unlock()
	if n == 1 {
		signal(r.first)
	}
	if n == fullGroup {
		r.flush()
	}
}

func (r *run) flush() { signal(r.flushNow) }

// signal puts a token into a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settle writes the outcomes in groups until no more come.
func (r *run) settle() {
	t := time.NewTimer(groupDelay)
	defer t.Stop()
	for {
		select {
		case <-r.first:
		case <-r.done:
			for r.writeGroup() {
			}
			return
		}
		t.Reset(groupDelay)
		select {
		case <-t.C:
		case <-r.flushNow:
		case <-r.done:
		}
		r.writeGroup()
	}
}

// writeGroup settles what has come together, however long the store is away,
// until patience ends. It reports whether there was anything to write.
func (r *run) writeGroup() bool {
	r.mu.Lock()
	n := min(len(r.group), MaxGroup)
	group, hashes := r.group[:n:n], r.hashes[:n:n]
	r.group = append(make([]Settlement, 0, n), r.group[n:]...)
	r.hashes = append(make([]uint64, 0, n), r.hashes[n:]...)
	select {
	case <-r.flushNow: // meant the group that is taken
	default:
	}
	if len(r.group) > 0 {
		signal(r.first)
		r.flush()
	}
	r.mu.Unlock()
	if len(group) == 0 {
		return false
	}
	r.writing.Store(r.e.Now().UnixNano())
	var left []Unsettled
	err := r.e.persist(r.patience, func() (err error) {
		left, err = r.e.Store.Settle(r.patience, group)
		return err
	})
	if err != nil && r.patience.Err() != nil && !isAway(err) { // the end has cut it short
		err = fmt.Errorf("%w: no answer within %v", ErrAway, r.e.Now().Sub(time.Unix(0, r.writing.Load())).Round(time.Second))
	}
	if err == nil {
		left, err = r.doubt(left)
	} else {
		left = left[:0]
		for i := range group {
			left = append(left, Unsettled{i, unwritten{err}})
		}
	}
	r.writing.Store(0)
	if err == nil {
		err = r.hopeless(len(group), left)
	}
	if err != nil {
		r.fail(err)
	}
	r.account(group, hashes, left)
	r.e.flights.land(hashes...)
	r.e.unsettle.release(len(group))
	return true
}

func isRefusal(u Unsettled) bool { return !errors.Is(u.Err, ErrConflict) }

// doubt has the store prove, after the first refused outcome of the pass, that
// it takes others; until it has, nothing more is handed out. If it does not,
// the rows are not to blame: what is refused is left unwritten.
func (r *run) doubt(left []Unsettled) ([]Unsettled, error) {
	p, ok := r.e.Store.(Prover)
	if !ok || !slices.ContainsFunc(left, isRefusal) {
		return left, nil
	}
	if !r.doubted {
		r.doubted = true
		r.writing.Store(forAges)
		r.unfit = r.e.persist(r.patience, func() error { return p.Prove(r.patience) })
	}
	if r.unfit == nil || isAway(r.unfit) { // away: nothing is known
		return left, nil
	}
	for i, u := range left {
		if isRefusal(u) {
			left[i].Err = unwritten{r.unfit}
		}
	}
	return left, r.unfit
}

// forAges is a time, for run.writing, that is long ago.
const forAges = 1

// maxInRow is how many outcomes in a row may be refused: each is of a record
// that was handled in vain.
const maxInRow = 10

// hopeless returns an error when too many outcomes have been refused, of which
// left are those of the last group of n, without one that was taken.
func (r *run) hopeless(n int, left []Unsettled) error {
	reason := make(map[int]error, len(left))
	for _, u := range left {
		reason[u.Index] = u.Err
	}
	for i := range n {
		switch err := reason[i]; {
		case err == nil:
			r.inRow = 0
		case !errors.Is(err, ErrConflict):
			if r.inRow++; r.inRow == maxInRow {
				return fmt.Errorf("the database has refused %d outcomes in a row, look at the table's triggers and constraints; the last one: %w", maxInRow, err)
			}
		}
	}
	return nil
}

// unwritten is why settlements were given up.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// account counts a group that has been settled but for left.
func (r *run) account(group []Settlement, hashes []uint64, left []Unsettled) {
	reason := make(map[int]error, len(left))
	for _, u := range left {
		reason[u.Index] = u.Err
	}
	var events []Event
	r.mu.Lock()
	for i := range group {
		s := &group[i]
		ev := Event{At: s.At, Tier: r.pass.Tier, Record: s.Record, Outcome: s.Outcome, Err: reason[i]}
		switch {
		case ev.Err == nil:
			r.report.add(s)
			continue
		case errors.As(ev.Err, new(unwritten)):
			r.report.Unwritten++
			ev.Kind = Unwritten
		case errors.Is(ev.Err, ErrConflict):
			r.report.Conflicts++
			r.tried[hashes[i]] = struct{}{} // it may now be in the other lane
			ev.Kind = Conflicted
		default:
			r.report.Refused++
			r.e.refuse(hashes[i])
			ev.Kind = Refused
		}
		events = append(events, ev)
	}
	r.mu.Unlock()
	for _, ev := range events {
		r.e.emit(ev)
	}
}
