package daemon

import (
	"context"
	"errors"
	"time"

	"backlog/backlog"
)

const (
	// rollout is how long a standby waits for a leader that works by another version of the
	// same file: both are not restarted at once.
	rollout = 10 * time.Minute
	// remind is how often a Rival is mentioned.
	remind = 5 * time.Minute
	// sameState bounds the time between a leader's last wake and its last sight. A state whose last wake
	// is further away was kept by another one.
	sameState = time.Minute
)

// standBy takes the leader lock. It returns the lock when no other daemon can have handlers any
// more, with the moment after which ticks count. The lock is nil when ctx is done.
func (d *Daemon) standBy(ctx context.Context) (backlog.Lock, time.Time, error) {
	d.seen = time.Time{}
	for {
		lock, err := d.claim.TryLock(ctx, backlog.LeaderLock)
		switch {
		case err == nil:
			since, err := d.takeOver(ctx, lock)
			if err == nil {
				return lock, since, nil
			}
		case ctx.Err() != nil: // a stop, and no error
		case errors.Is(err, backlog.ErrLocked):
			if err := d.follow(err); err != nil {
				return nil, d.seen, err
			}
		case errors.Is(err, backlog.ErrUnavailable) || d.Patient != nil && d.Patient(err):
			d.become(Change{Role: Unavailable, Seen: d.seen, Err: err})
		default:
			return nil, d.seen, err
		}
		if !backlog.Sleep(ctx, lockEvery) {
			return nil, d.seen, nil
		}
	}
}

// takeOver waits, if another daemon may have led until now, until its handlers are dead. It returns
// the moment after which ticks count. On an error the lock is given back.
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

// lastWake returns when the leader that is gone was last awake. If it kept its state where
// this daemon does, the state says that exactly and has what is unfinished. Otherwise it may have
// ended in the middle of a pass, whose tick is before it was seen, so that a pass of the widest
// tier is owed.
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

// A rivalry is what a standby knows of the leader's configuration.
type rivalry struct {
	agreed    bool      // it was the same as ours once, or this daemon has led
	since     time.Time // when it was first seen to differ; zero: it does not
	mentioned time.Time
}

// follow stands by while another daemon holds the lock, as its error says. It returns the Rival
// if that works by a configuration that the daemon does not wait for.
func (d *Daemon) follow(held error) error {
	d.claim.Doubt()
	now := d.Loop.Now()
	rival, differs := errors.AsType[*backlog.Rival](held)
	switch {
	case !differs:
		d.rival = rivalry{agreed: true}
	case !d.accepts(rival, now):
		return rival
	case !d.rival.mentioned.IsZero() && now.Sub(d.rival.mentioned) < remind:
		rival = nil
	default:
		d.rival.mentioned = now
	}
	d.become(Change{Role: Standby, Seen: d.seen, Rival: rival})
	d.seen = now
	return nil
}

// accepts reports whether the daemon stands by while the rival leads.
func (d *Daemon) accepts(rival *backlog.Rival, now time.Time) bool {
	if d.rival.since.IsZero() {
		d.rival.since = now
	}
	rollingOut := rival.SameFile && now.Sub(d.rival.since) < rollout
	return d.rival.agreed || d.Replace || rollingOut
}
