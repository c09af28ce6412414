package backlog

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"backlog/tiers"
)

// maxWait bounds how far ahead the loop's timer is set. The timer follows the
// monotonic clock, which stands still while a machine is suspended.
const maxWait = 30 * time.Second

// A State is what the daemon remembers between two lives.
type State struct {
	// LastWake is the moment up to which ticks have been handled.
	LastWake time.Time `json:"last_wake"`
	// Resume has where the next pass goes on, by tier.
	Resume map[string]Resume `json:"resume,omitempty"`
	// Unfinished are the tiers whose pass was ended by a stop.
	Unfinished []string `json:"unfinished,omitempty"`
}

// A StateKeeper keeps a State. Its methods may be called concurrently.
type StateKeeper interface {
	// Load returns the kept state, the zero State if there is none yet.
	Load() (State, error)
	// Update changes the kept state in one step.
	Update(change func(*State)) error
}

// A Loop runs the passes of a schedule as their ticks come. Schedule and
// Engine are required.
type Loop struct {
	Schedule *tiers.Schedule
	Engine   *Engine

	State StateKeeper // nil: nothing is remembered
	// Since is the moment after which ticks count. Zero: State's last wake,
	// or, if there is none, the start of Run.
	Since time.Time
	// Locker, if not nil, is asked for the RunLock before a pass and keeps
	// it until no pass runs. When the lock is lost its passes are stopped,
	// and taken up at the next wake.
	Locker Locker

	Now     func() time.Time // nil: time.Now
	Observe func(Event)      // nil: none

	mu       sync.Mutex // guards what follows, and Schedule and Engine once Run has begun
	lastWake time.Time
	lastTick time.Time       // when a tick was last handled
	running  map[string]bool // tiers that have a pass, and whether it has begun
	owed     map[string]bool // tiers to be taken as due at the next wake

	waking sync.Mutex // held during a wake
	lock   runLock
	passes sync.WaitGroup // that have begun, or wait for the lock
	late   sync.WaitGroup // passes, also those that are no longer waited for
}

// Run wakes at every tick, and at least every thirty seconds, and starts the
// pass that is due then, until ctx is done; it returns when all passes have
// ended. Ticks missed before the start, or while the machine slept, are one
// pass.
//
// A pass that has lost its lock and cannot write its outcomes goes on trying
// beside the loop, which takes up the rest of it. Only when the cause of ctx's
// end is a [LostLock], so that the process may go on, Run leaves such passes
// behind: another Loop may run at once if its engine replaces this one's, and
// [Engine.Finish] ends them.
func (l *Loop) Run(ctx context.Context) error {
	if l.Now == nil {
		l.Now = time.Now
	}
	if l.Observe == nil {
		l.Observe = func(Event) {}
	}
	now := l.Now()
	l.mu.Lock()
	l.lastWake, l.lastTick = now, now
	l.running, l.owed = make(map[string]bool), make(map[string]bool)
	l.mu.Unlock()
	l.lock.emit, l.lock.now = l.emit, l.Now
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		l.watch(ctx)
	}()
	l.safely(func() { l.restore(now) })

	// Recover must be innermost: outside of a skipping wrapper it would
	// leave that locked for ever. Overlap is dealt with by wake.
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	c.Schedule(cronSchedule{l}, cron.FuncJob(func() { l.safely(func() { l.wake(ctx) }) }))
	l.safely(func() { l.wake(ctx) })
	c.Start()

	<-ctx.Done()
	<-c.Stop().Done()
	<-watch
	l.passes.Wait()
	if !lockLost(ctx) {
		l.mu.Lock()
		e := l.Engine
		l.mu.Unlock()
		e.Finish()
		l.late.Wait()
	}
	return nil
}

// restore sets the state from which ticks are counted. If that panics, ticks
// count from now.
func (l *Loop) restore(now time.Time) {
	var s State
	if l.State != nil {
		var err error
		if s, err = l.State.Load(); err != nil {
			l.emit(Event{Kind: StateFailed, Err: err})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.Since
	if since.IsZero() {
		since = s.LastWake
	}
	if !since.IsZero() && since.Before(now) {
		l.lastWake = since
	}
	for _, name := range s.Unfinished {
		l.owed[name] = true
	}
}

// Reload replaces schedule and engine from the next wake on. Passes under way
// hand out nothing more, and what they have not come to is taken up by the new
// engine when their handlers have ended. See [Engine.Replace].
func (l *Loop) Reload(s *tiers.Schedule, e *Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Replace(l.Engine)
	l.Engine.Retire()
	l.Schedule, l.Engine = s, e
}

// LastWake returns when the loop last looked at the clock.
func (l *Loop) LastWake() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastWake
}

// cronSchedule makes the loop's next wake a schedule of robfig/cron.
type cronSchedule struct{ l *Loop }

// Next adds to t rather than return a tick as it is, since only so the result
// has t's monotonic reading: without it a clock that is set back would keep the
// timer waiting until the same time comes again.
func (c cronSchedule) Next(t time.Time) time.Time {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	wait := maxWait
	if tick := c.l.Schedule.Next(t); !tick.IsZero() {
		wait = min(wait, tick.Sub(t))
	}
	return t.Add(wait)
}

// wake handles the ticks since the last wake.
func (l *Loop) wake(ctx context.Context) {
	if ctx.Err() != nil || !l.waking.TryLock() {
		return // stopped, or the last wake hangs, which watch will say
	}
	defer l.waking.Unlock()
	l.mu.Lock()
	now, e := l.Now(), l.Engine
	back := l.lastWake.Sub(now)
	if back > 0 {
		l.lastWake = now // waiting for the clock to catch up could take for ever
	}
	due, taken := l.addOwed(l.Schedule.Due(l.lastWake, now), now)
	l.lastWake = now
	pick := tiers.Coalesce(due, func(t tiers.Tier) bool { _, busy := l.running[t.Name]; return !busy })
	for _, d := range pick.Skipped {
		if l.running[d.Tier.Name] {
			l.lastTick = now
		}
	}
	missed := 0
	var start func()
	if pick.Start != nil {
		for _, d := range append(pick.Covered, *pick.Start) {
			missed += d.Ticks - 1
		}
		tier, widest := pick.Start.Tier, pick.Start.Tier.Name == l.Schedule.Widest().Name
		l.running[tier.Name] = false
		// A pass goes by its tick, not by the moment it took to start.
		var at time.Time
		if tick := pick.Start.Last; now.Sub(tick) < time.Second {
			at = tick
		}
		start = func() { l.safely(func() { l.runPass(ctx, e, tier, widest, at) }) }
	}
	l.mu.Unlock()

	l.passes.Go(func() { l.safely(func() { e.askAgain(ctx) }) })
	if back > time.Second {
		l.emit(Event{Kind: ClockSetBack, Err: fmt.Errorf("the clock was set back by %v", back.Round(time.Millisecond))})
	}
	for _, d := range pick.Skipped {
		l.emit(Event{Kind: TierSkipped, Tier: d.Tier.Name})
	}
	if start != nil {
		if missed > 0 {
			l.emit(Event{Kind: TicksMissed, Tier: pick.Start.Tier.Name, N: missed})
		}
		for _, d := range pick.Covered {
			l.emit(Event{Kind: TierCovered, Tier: d.Tier.Name})
		}
		l.passes.Go(start)
	}
	l.update(func(s *State) {
		s.LastWake = now
		s.Unfinished = slices.DeleteFunc(s.Unfinished, func(name string) bool { return taken[name] })
	})
	l.emit(Event{Kind: Woke})
}

// addOwed adds the tiers whose pass a stop had cut short, as if they had
// ticked just now, and returns which those were.
func (l *Loop) addOwed(due []tiers.Due, now time.Time) (all []tiers.Due, owed map[string]bool) {
	if len(l.owed) == 0 {
		return due, nil
	}
	for _, t := range l.Schedule.Tiers() {
		i := slices.IndexFunc(due, func(d tiers.Due) bool { return d.Tier.Name == t.Name })
		switch {
		case i >= 0:
			all = append(all, due[i])
		case l.owed[t.Name]:
			all = append(all, tiers.Due{Tier: t, Ticks: 1, Last: now})
		}
	}
	owed, l.owed = l.owed, make(map[string]bool)
	return all, owed
}

func (l *Loop) update(change func(*State)) {
	if l.State == nil {
		return
	}
	if err := l.State.Update(change); err != nil {
		l.emit(Event{Kind: StateFailed, Err: err})
	}
}

// watch says when no tick was handled for twice the narrowest interval: a loop
// that hangs is otherwise silent.
func (l *Loop) watch(ctx context.Context) {
	var said, suspect time.Time // the last tick of which that was said, or may have to be
	var of *tiers.Schedule
	var grace time.Duration // takes milliseconds to find
	for sleep(ctx, maxWait) {
		l.mu.Lock()
		s, now, last := l.Schedule, l.Now(), l.lastTick
		l.mu.Unlock()
		if s != of {
			of, grace = s, 2*s.MinInterval()
		}
		quiet := now.Sub(last)
		// A cron tier may rest for a night: count from the tick that was due.
		late := now.Sub(s.Next(last)) > grace
		// After a suspend the loop has yet to wake: look twice.
		if late && !last.Equal(suspect) {
			suspect = last
		} else if late && !last.Equal(said) {
			said = last
			l.emit(Event{Kind: NoTick, Err: fmt.Errorf("no tick was handled for %v", quiet.Round(time.Second))})
		}
	}
}

func (l *Loop) emit(ev Event) {
	if ev.At.IsZero() {
		ev.At = l.Now()
	}
	tell(l.Observe, ev)
}

// safely turns a panic into an event.
func (l *Loop) safely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.emit(Event{Kind: Panicked, Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())})
		}
	}()
	f()
}
