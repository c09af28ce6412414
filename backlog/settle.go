package backlog

import (
	"errors"
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
	r.writing.Store(0)
	if err != nil {
		left = left[:0]
		for i := range group {
			left = append(left, Unsettled{i, errUnwritten})
		}
		r.fail(err)
	}
	r.account(group, hashes, left)
	r.e.flights.land(hashes...)
	r.e.unsettle.release(len(group))
	return true
}

// errUnwritten marks the settlements that were given up.
var errUnwritten = errors.New("not written")

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
		case errors.Is(ev.Err, ErrConflict):
			r.report.Conflicts++
			r.tried[hashes[i]] = struct{}{} // it may now be in the other lane
			ev.Kind = Conflicted
		case errors.Is(ev.Err, errUnwritten):
			r.report.Unwritten++
			ev.Kind = Unwritten
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
