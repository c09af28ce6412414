package daemon

import (
	"context"
	"errors"
	"time"

	"backlog/backlog"
)

const (
	// rollout is how long a standby accepts a leader with another version of the same file. During a
	// deployment, daemons are restarted one after another.
	rollout = 10 * time.Minute
	// remind is the pause between two reports of a Rival.
	remind = 5 * time.Minute
	// sameState bounds the time between a leader's last wake and when it was last seen. If the last
	// wake in a state is further away, the state is another daemon's.
	sameState = time.Minute
)

// standBy waits for the leader lock. It returns the lock when no other daemon can still have running
// handlers, and the time after which ticks count as missed. The lock is nil if ctx is done.
func (d *Daemon) standBy(ctx context.Context) (backlog.Lock, time.Time, error) {
	d.seen = time.Time{}
	for {
		lock, err := d.claim.TryLock(ctx, backlog.LeaderLock)
		switch {
		case err == nil:
			d.answered = true
			since, err := d.takeOver(ctx, lock)
			if err == nil {
				return lock, since, nil
			}
		case ctx.Err() != nil: // a stop is not an error
		case errors.Is(err, backlog.ErrLocked):
			d.answered = true
			if err := d.standBehind(err); err != nil {
				return nil, d.seen, err
			}
		case d.mayPass(err):
			d.become(Change{Role: Unavailable, Seen: d.seen, Err: err})
		default:
			return nil, d.seen, err
		}
		if !backlog.Sleep(ctx, askEvery) {
			return nil, d.seen, nil
		}
	}
}

// mayPass reports whether an error of Leaders may pass. Once they have answered, the configuration is right, and what is
// wrong now, such as a password, was changed on the other side and may be changed back.
func (d *Daemon) mayPass(err error) bool {
	switch {
	case errors.Is(err, backlog.ErrReplaced):
		return false
	case errors.Is(err, backlog.ErrUnavailable), d.answered:
		return true
	}
	return d.Patient != nil && d.Patient(err)
}

// takeOver waits until the handlers of the last leader must have ended, if there may have been one. It
// returns the time after which ticks count as missed. After an error the lock is released.
func (d *Daemon) takeOver(ctx context.Context, lock backlog.Lock) (since time.Time, err error) {
	if !d.claim.Unsure() {
		return since, nil
	}
	was := d.Role()
	d.become(Change{Role: TakingOver, Seen: d.seen})
	if !d.seen.IsZero() {
		since = d.lastWake()
	}
	err = d.claim.AwaitSafe(ctx, lock)
	if err != nil && ctx.Err() == nil {
		d.become(Change{Role: was, Seen: d.seen, Err: err})
	}
	return since, err
}

// lastWake returns when the last leader last woke. If that used the same state as this daemon, the state
// has the exact time and what is unfinished. Otherwise the leader may have ended in the middle of a
// pass, whose tick came before it was last seen: lastWake then returns that time and notes in the state
// that a pass of the widest tier is owed.
func (d *Daemon) lastWake() time.Time {
	state := d.Loop.State
	kept, err := state.Load()
	if err == nil && d.seen.Sub(kept.LastWake).Abs() < sameState {
		return kept.LastWake
	}
	d.swapping.Lock()
	widest := d.Loop.Schedule.Widest().Name
	d.swapping.Unlock()
	err = state.Update(func(c *backlog.Checkpoint) { c.Owe(widest) })
	if err != nil && d.Loop.Observe != nil {
		d.Loop.Observe(backlog.Event{Kind: backlog.StateFailed, At: d.Loop.Now(), Err: err})
	}
	return d.seen
}

// A rivalry is what a standby knows about the configuration of the leader.
type rivalry struct {
	agreed   bool      // it was equal to ours before, or this daemon has led
	since    time.Time // when it was first seen to differ; zero: it does not differ
	reported time.Time // when the Rival was last reported
}

// standBehind stands by while another daemon leads, as the error of its lock says. It returns the Rival if
// the daemon does not accept the configuration of the leader.
func (d *Daemon) standBehind(held error) error {
	d.claim.Doubt()
	now := d.Loop.Now()
	rival, differs := errors.AsType[*backlog.Rival](held)
	switch {
	case !differs:
		d.rival = rivalry{agreed: true}
	case !d.accepts(rival, now):
		return rival
	case !d.rival.reported.IsZero() && now.Sub(d.rival.reported) < remind:
		rival = nil
	default:
		d.rival.reported = now
	}
	d.become(Change{Role: Standby, Seen: d.seen, Rival: rival})
	d.seen = now
	return nil
}

// accepts reports whether the daemon may stand by while the rival leads.
func (d *Daemon) accepts(rival *backlog.Rival, now time.Time) bool {
	if d.rival.since.IsZero() {
		d.rival.since = now
	}
	rollingOut := rival.SameFile && now.Sub(d.rival.since) < rollout
	return d.rival.agreed || d.Replace || rollingOut
}
