package backlog

import "time"

// watchStop turns a stop into the end of the handlers once the time they have
// to finish is over, or at once on a hard stop. What has just been ended still
// wants to be settled, but a store that is away is not waited for without end,
// unless it is a lost lock that has ended the pass: then the process lives on.
func (r *run) watchStop(ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-r.caller.Done():
	case <-r.e.Hard:
		r.endWalk()
	}
	t := time.NewTimer(timeToEnd(r.caller, r.e.ShutdownTimeout))
	defer t.Stop()
	const atLeast = 5 * time.Second
	last := max(r.e.ShutdownTimeout, atLeast)
	select {
	case <-ended:
		return
	case <-t.C:
	case <-r.e.Hard:
		last = atLeast
	}
	r.endWork()
	if lockLost(r.caller) {
		select {
		case <-ended:
			return
		case <-r.finish:
		case <-r.e.Hard:
			last = atLeast
		}
	}
	t.Reset(last)
	select {
	case <-ended:
	case <-t.C:
		r.giveUp()
	}
}
