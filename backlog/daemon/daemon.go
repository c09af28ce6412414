// Package daemon leads the work on a table, or stands by while another process leads. It takes
// over when the leader is gone, and replaces schedule and engine at a reload. It does not deal
// with configuration, logs, pages or signals: a program learns its role from [Change]s.
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

// askEvery is the pause between two requests of a standby for the leader lock.
const askEvery = 2 * time.Second

// A Role is what a daemon does.
type Role string

const (
	// Waiting daemons have not asked for the leader lock yet, or have stopped leading.
	Waiting Role = "waiting"
	// Unavailable daemons cannot ask for the leader lock. Another daemon may lead.
	Unavailable Role = "unavailable"
	// Standby daemons wait for the leader lock, which another daemon holds.
	Standby Role = "standby"
	// TakingOver daemons hold the leader lock and wait until the handlers of the last leader
	// must have ended: it may not have noticed yet that it lost the lock.
	TakingOver Role = "taking over"
	// Leader daemons hold the leader lock and run the Loop.
	Leader Role = "leader"
	// Demoted daemons have lost the leader lock, and their passes are ending.
	Demoted Role = "demoted"
)

// A Change reports a new role, or again a Rival.
type Change struct {
	Role Role
	Was  Role // the role before; equal to Role if a Rival is only reported again
	// Seen is when another leader was last seen. It is zero if none was seen since the call of Run
	// or since the last lead.
	Seen time.Time
	// Rival says how the configuration of the leader differs. It is reported in the role Standby,
	// first when the difference is seen and then every five minutes.
	Rival *backlog.Rival
	// Err says why the role is Unavailable or Demoted. If Was is TakingOver, it says why that has
	// failed, and the daemon returns to its earlier role.
	Err error
}

// A Daemon runs a [backlog.Loop] while it holds the [backlog.LeaderLock]. While another process
// holds the lock, it stands by and asks for the lock every two seconds. If the lock was free at the
// first try, it leads at once. Otherwise another daemon may have led until now, and it waits
// [backlog.TakeOverAfter] first.
//
// The fields are set before Run and not changed afterwards. Loop and Leaders are required.
type Daemon struct {
	// Loop runs the passes. Run sets its Since and, if that is nil, its State, so that a lead resumes
	// what the last one left unfinished. If the run lock is lost together with the leader lock,
	// Observe is not called for it.
	Loop *backlog.Loop
	// Leaders provides the leader lock.
	Leaders backlog.Locker

	// Changed is called for each change, one at a time and in order. The daemon waits for it. It may
	// be nil.
	Changed func(Change)
	// Patient reports whether an error of Leaders is temporary, such as a missing right, before they have
	// answered for the first time. The daemon then waits, as it does after ErrUnavailable. Other errors end
	// Run. nil: none is temporary. Once Leaders have answered, only ErrReplaced ends Run.
	Patient func(error) bool
	// Doubtful says that another daemon may have led until Run is called, because the database was
	// unavailable until then.
	Doubtful bool
	// Replace makes the daemon stand by even if the leader has another configuration. Without it, Run
	// returns the [backlog.Rival], with two exceptions: the configurations were the same before,
	// or they are versions of one file. Such versions have ten minutes to become the same.
	Replace bool
	// Reconfigure is called in a goroutine of Run after calls of Reload. It calls Swap, unless the
	// old configuration stays. Its context is done when the context of Run is. nil: Reload does nothing.
	Reconfigure func(context.Context)

	claim    backlog.Claim
	answered bool      // Leaders have answered: this or another daemon has the lock
	seen     time.Time // when another leader was last seen; zero: not since the last lead
	rival    rivalry
	initOnce sync.Once
	reloads  chan struct{} // holds a request for a reload
	changing sync.Mutex    // held while Changed is called, to keep changes in order
	swapping sync.Mutex    // guards the Loop's schedule and engine

	role atomic.Value                 // a Role; none: Waiting
	lock atomic.Pointer[backlog.Lock] // of the current or the last lead
}

// Role returns what the daemon does.
func (d *Daemon) Role() Role {
	role, _ := d.role.Load().(Role)
	return cmp.Or(role, Waiting)
}

// Run leads whenever it can, until ctx is done. It returns when all passes have ended and their
// outcomes are written or given up. The error is one of Leaders that is not temporary. Run may be
// called once.
func (d *Daemon) Run(ctx context.Context) error {
	d.claim.Locker = d.Leaders
	if d.Doubtful {
		d.claim.Doubt()
	}
	if d.Loop.Now == nil {
		d.Loop.Now = time.Now
	}
	if d.Loop.State == nil {
		d.Loop.State = new(checkpoint.File) // in memory only
	}
	if d.Loop.Observe != nil {
		d.Loop.Observe = d.withoutLossOfBoth(d.Loop.Observe)
	}
	reloading, endReloading := context.WithCancel(ctx)
	defer endReloading()
	var running sync.WaitGroup
	running.Go(func() { d.reconfigure(reloading) })
	var err error
	for err == nil && ctx.Err() == nil {
		err = d.lead(ctx)
	}
	endReloading()
	running.Wait()
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
	defer d.claim.Doubt() // afterwards another daemon may lead
	d.lock.Store(&lock)
	d.rival.agreed = true
	d.Loop.Since = since
	d.changing.Lock() // so that Demoted comes after Leader
	held := backlog.WhileHeld(ctx, lock, d.Loop.Now, d.demote)
	defer held.Release()
	d.Loop.Held = held
	d.emit(Change{Role: Leader})
	d.changing.Unlock()
	err = d.Loop.Run(held.Context())
	if ctx.Err() == nil {
		d.demote(context.Cause(held.Context())) // if the callback has not been called yet
	}
	d.become(Change{Role: Waiting})
	return err
}

// demote changes the role when the leader lock is lost. Only the first call of a lead has an effect.
func (d *Daemon) demote(why error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if d.Role() == Leader {
		d.emit(Change{Role: Demoted, Err: why})
	}
}

// become emits the change, unless the daemon has the role already and there is no Rival to report.
func (d *Daemon) become(c Change) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if c.Role != d.Role() || c.Rival != nil {
		d.emit(c)
	}
}

// emit sets the role and calls Changed. The caller holds changing.
func (d *Daemon) emit(c Change) {
	c.Was = d.Role()
	d.role.Store(c.Role)
	if d.Changed != nil {
		d.Changed(c)
	}
}

// withoutLossOfBoth wraps observe so that it drops the loss of the run lock if the leader lock is lost,
// too. One cause takes both, and the loss of the leader lock is reported as a Change.
func (d *Daemon) withoutLossOfBoth(observe func(backlog.Event)) func(backlog.Event) {
	return func(ev backlog.Event) {
		if ev.Kind != backlog.LockLost || d.holdsLock() {
			observe(ev)
		}
	}
}

// holdsLock checks whether the leader lock is still held. No answer within half of the lock's grace counts as lost.
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

// Swap ends the passes under way and continues with the schedule and the engine that change
// returns: see [backlog.Loop.Reload]. It may be called at any time, also by [Daemon.Reconfigure].
func (d *Daemon) Swap(change func() (*tiers.Schedule, *backlog.Engine)) {
	d.swapping.Lock()
	defer d.swapping.Unlock()
	d.Loop.Reload(change)
}

// flush writes outcomes that could not be written before a lock was lost. It gives up after the
// ShutdownTimeout of the engine.
func (d *Daemon) flush() {
	d.swapping.Lock()
	engine := d.Loop.Engine
	d.swapping.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
	defer cancel()
	engine.Flush(ctx)
}
