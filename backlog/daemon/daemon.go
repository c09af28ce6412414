// Package daemon leads the work on a table, or stands by while another process leads. It
// takes over when the leader is gone, and goes on by another schedule and engine at a reload.
// It knows no configuration, log, page or signal: a program follows it by its [Change]s.
package daemon

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/tiers"
)

// lockEvery is how often a standby asks for the leader lock.
const lockEvery = 2 * time.Second

// A Role is what a daemon does.
type Role string

const (
	// Waiting daemons have not asked for the leader lock yet, or have stopped leading.
	Waiting Role = "waiting"
	// Unavailable daemons cannot ask for the leader lock: another one may lead.
	Unavailable Role = "unavailable"
	// Standby daemons ask for the leader lock, which another daemon holds.
	Standby Role = "standby"
	// TakingOver daemons hold the leader lock and wait until the handlers of another one,
	// which may not know yet that it lost the lock, are dead.
	TakingOver Role = "taking over"
	// Leader daemons hold the leader lock and run the Loop.
	Leader Role = "leader"
	// Demoted daemons have lost the leader lock, and their passes are ending.
	Demoted Role = "demoted"
)

// A Change is another role, or another reason for the role.
type Change struct {
	Role Role
	Was  Role // before; the same if a Rival is only mentioned again
	// Seen is when another leader was last seen before this change. Zero: none has been, since
	// Run was called or the lead was lost.
	Seen time.Time
	// Rival, of a Standby, says how the leader's configuration differs. It is mentioned when
	// that is first seen and every five minutes.
	Rival *backlog.Rival
	// Err is why the role is Unavailable or Demoted, or why TakingOver has failed, so that
	// the daemon is what it was before.
	Err error
}

// A Daemon runs a [backlog.Loop] while it holds the [backlog.LeaderLock]. As long as
// another process holds that, the daemon stands by and asks for it every two seconds. It
// leads at once if the lock was free at its first try. Otherwise another daemon may have led until
// now, and it waits [backlog.TakeOverAfter] first.
//
// The fields are set before Run and not changed afterwards. Loop and Leaders are required.
type Daemon struct {
	// Loop runs the passes. Run sets its Since, and its State if that is nil: the next lead takes up
	// what one leaves unfinished. Observe does not get the loss of a run lock that is lost together
	// with the leader lock.
	Loop *backlog.Loop
	// Leaders is asked for the leader lock.
	Leaders backlog.Locker

	// Changed is called for each change, one at a time and in order. The daemon waits for it. nil: nothing is called.
	Changed func(Change)
	// Patient reports whether an error of Leaders may pass, such as a missing right, so that
	// the daemon waits as it does for ErrUnavailable. Run returns all others. nil: none may.
	Patient func(error) bool
	// Doubtful says that another daemon may have led until Run was called: the database was
	// unavailable until then.
	Doubtful bool
	// Replace makes the daemon stand by while a leader works by any other configuration. Without it Run
	// returns the [backlog.Rival], unless the configurations were the same before, or are versions
	// of one file. These have ten minutes to become the same.
	Replace bool
	// Reconfigure is called in a goroutine of Run after calls of Reload. It calls Swap unless the
	// old configuration stays. Its context is done when Run's is. nil: Reload does nothing.
	Reconfigure func(context.Context)

	claim    backlog.Claim
	seen     time.Time // when another leader was last seen; zero: not since the last lead
	rival    rivalry
	asking   sync.Once
	asked    chan struct{} // a reload is asked for
	changing sync.Mutex    // held while Changed is called, which keeps changes in order
	swapping sync.Mutex    // guards the Loop's schedule and engine

	role atomic.Value                 // a Role; none: Waiting
	lock atomic.Pointer[backlog.Lock] // under which the daemon leads, or has led last
}

// Role returns what the daemon does.
func (d *Daemon) Role() Role {
	role, _ := d.role.Load().(Role)
	return cmp.Or(role, Waiting)
}

// Run leads whenever it can, until ctx is done. It returns when all passes have ended and
// their outcomes are written or given up: nil, or the error of Leaders for which it does not wait.
// It is called once.
func (d *Daemon) Run(ctx context.Context) error {
	d.claim.Locker = d.Leaders
	if d.Doubtful {
		d.claim.Doubt()
	}
	if d.Loop.Now == nil {
		d.Loop.Now = time.Now
	}
	if d.Loop.State == nil {
		d.Loop.State = new(checkpoint.File) // in memory
	}
	if d.Loop.Observe != nil {
		d.Loop.Observe = d.withoutLossOfBoth(d.Loop.Observe)
	}
	reloads, endReloads := context.WithCancel(ctx)
	defer endReloads()
	var reloading sync.WaitGroup
	reloading.Go(func() { d.reconfigure(reloads) })
	var err error
	for err == nil && ctx.Err() == nil {
		err = d.lead(ctx)
	}
	endReloads()
	reloading.Wait()
	d.become(Change{Role: Waiting})
	d.flush()
	return err
}

// lead waits for the leader lock, then runs the loop until ctx is done or the lock is lost.
func (d *Daemon) lead(ctx context.Context) error {
	lock, since, err := d.standBy(ctx)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	defer d.claim.Doubt() // unless this is a stop, the lock is lost
	d.lock.Store(&lock)
	d.rival.agreed = true
	d.Loop.Since = since
	d.changing.Lock() // Demoted comes after Leader
	held, release := backlog.WhileHeld(ctx, lock, d.Loop.Now, d.demote)
	defer release()
	d.emit(Change{Role: Leader})
	d.changing.Unlock()
	err = d.Loop.Run(held)
	if ctx.Err() == nil {
		d.demote(context.Cause(held)) // the probe that tells why has no answer yet
	}
	d.become(Change{Role: Waiting})
	return err
}

// demote is called when the leader lock is lost. Only the first call during a lead is a change.
func (d *Daemon) demote(why error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if d.Role() == Leader {
		d.emit(Change{Role: Demoted, Err: why})
	}
}

// become takes a role, if it has another one or a Rival is to be mentioned.
func (d *Daemon) become(c Change) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if c.Role != d.Role() || c.Rival != nil {
		d.emit(c)
	}
}

// emit takes the role and calls Changed. d.changing must be held.
func (d *Daemon) emit(c Change) {
	c.Was = d.Role()
	d.role.Store(c.Role)
	if d.Changed != nil {
		d.Changed(c)
	}
}

// withoutLossOfBoth returns observe without the loss of the run lock where the leader lock is lost,
// too: what takes one takes both, and that is a Change already.
func (d *Daemon) withoutLossOfBoth(observe func(backlog.Event)) func(backlog.Event) {
	return func(ev backlog.Event) {
		if ev.Kind != backlog.LockLost || d.holdsLock() {
			observe(ev)
		}
	}
}

// holdsLock asks whether the leader lock is still held. It waits for an answer no longer than a probe does.
func (d *Daemon) holdsLock() bool {
	ctx, cancel := context.WithTimeout(context.Background(), backlog.LockGrace/2)
	defer cancel()
	return (*d.lock.Load()).Check(ctx) == nil
}

// Mark replaces the marks of the leader lock, if the daemon leads and the lock has marks.
func (d *Daemon) Mark(ctx context.Context, w backlog.Work) error {
	if d.Role() != Leader {
		return nil
	}
	if lock, ok := (*d.lock.Load()).(backlog.Marker); ok {
		return lock.Mark(ctx, w)
	}
	return nil
}

// Swap ends the passes under way and goes on with the schedule and the engine that change
// returns, see [backlog.Loop.Reload]. It may be called at any time, also by [Daemon.Reconfigure].
func (d *Daemon) Swap(change func() (*tiers.Schedule, *backlog.Engine)) {
	d.swapping.Lock()
	defer d.swapping.Unlock()
	d.Loop.Reload(change)
}

// flush writes what a lead could not write before it lost its lock, for as long as the
// engine's handlers may take at a stop.
func (d *Daemon) flush() {
	d.swapping.Lock()
	engine := d.Loop.Engine
	d.swapping.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
	defer cancel()
	engine.Flush(ctx)
}
