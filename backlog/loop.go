package backlog

import (
	"cmp"
	"context"
	"errors"
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

// A Checkpoint is what the daemon remembers between two lives.
type Checkpoint struct {
	// LastWake is the moment up to which ticks have been handled.
	LastWake time.Time `json:"last_wake"`
	// Resume has where the next pass goes on, by tier.
	Resume map[string]Resume `json:"resume,omitempty"`
	// Unfinished are the tiers that have ticked and whose pass has not come to its
	// end: it is under way, or was cut short by a stop, a kill or a lost lock.
	Unfinished []string `json:"unfinished,omitempty"`
}

// errReload is the cause for which passes are cut by a reload.
var errReload = errors.New("reload")

// A CheckpointKeeper keeps a Checkpoint. Its methods may be called concurrently.
type CheckpointKeeper interface {
	// Load returns the checkpoint, zero if there is none yet.
	Load() (Checkpoint, error)
	// Update changes the checkpoint in one step.
	Update(change func(*Checkpoint)) error
}

// A Loop runs the passes of a schedule as their ticks come. Schedule and
// Engine are required.
type Loop struct {
	Schedule *tiers.Schedule
	Engine   *Engine
	Now      func() time.Time // nil: time.Now
	Observe  func(Event)      // nil: none

	State CheckpointKeeper // nil: nothing is remembered
	// Since is the moment after which ticks count. Zero: State's last wake,
	// or, if there is none, the start of Run.
	Since time.Time
	// Locker, if not nil, is asked for the RunLock before a pass and keeps
	// it until no pass runs. When the lock is lost its passes are stopped,
	// and taken up at the next wake.
	Locker Locker

	mu       sync.Mutex // guards what follows, and Schedule and Engine once Run has begun
	clock    tiers.Clock
	looked   time.Time         // when a wake last looked at the clock
	lastTick time.Time         // when a tick was last handled
	running  map[string]bool   // tiers that have a pass, and whether it has begun
	passID   uint64            // of the last pass started
	ticksOf  map[string]uint64 // tiers that Unfinished has, and the pass that their last tick is left to
	carried  []Pass            // cut by a reload, to go on after it
	cut      context.Context   // done: passes are to end, for a reload if that is its cause, or with Run's
	endCut   context.CancelCauseFunc

	ctx    context.Context // of Run; guarded by waking
	waking sync.Mutex      // held during a wake, or a reload
	lock   runLock
	passes sync.WaitGroup
}

// Run wakes at every tick, and at least every thirty seconds, and starts the
// pass that is due then, until ctx is done; it returns when all passes have
// ended. Ticks missed before the start, or while the machine slept, are one
// pass.
//
// After the loss of a lock, outcomes that the store does not take yet stay with
// the engine. Run gives up what is left of them when it ends, but for an end by
// a lost lock, see [WhileHeld]: then another Loop may go on with the same engine.
func (l *Loop) Run(ctx context.Context) error {
	if l.Now == nil {
		l.Now = time.Now
	}
	now := l.Now()
	l.waking.Lock() // a reload may be under way
	l.mu.Lock()
	l.ctx = ctx
	l.clock = tiers.Clock{Last: now}
	l.looked = now
	l.lastTick = now
	l.cut, l.endCut = context.WithCancelCause(ctx)
	l.running = make(map[string]bool)
	l.ticksOf = make(map[string]uint64)
	l.mu.Unlock()
	l.waking.Unlock()
	l.lock.emit, l.lock.now, l.lock.turn = l.emit, l.Now, make(chan struct{}, 1)
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(ctx) })
	watch.Go(func() { l.listen(ctx) })
	l.safely(func() { l.restore(now) })

	// Recover must be innermost: outside of a skipping wrapper it would
	// leave that locked for ever. Overlap is dealt with by wake.
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	c.Schedule(cronSchedule{l}, cron.FuncJob(func() { l.safely(func() { l.wake(ctx) }) }))
	l.safely(func() { l.wake(ctx) })
	c.Start()

	<-ctx.Done()
	<-c.Stop().Done()
	watch.Wait()
	l.passes.Wait()
	if !lockLost(ctx) {
		fctx, cancel := context.WithTimeout(context.Background(), lateWrites)
		defer cancel()
		l.engine().Flush(fctx)
	}
	return nil
}

// restore sets the state from which ticks are counted. If that panics, ticks
// count from now.
func (l *Loop) restore(now time.Time) {
	var s Checkpoint
	if l.State != nil {
		var err error
		if s, err = l.State.Load(); err != nil {
			l.emit(Event{Kind: StateFailed, Err: err})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since := cmp.Or(l.Since, s.LastWake)
	if !since.IsZero() && since.Before(now) {
		l.clock.Last = since
	}
	for _, name := range s.Unfinished {
		l.clock.Owe(name)
	}
}

// Reload ends the passes under way as soon as their running handlers have ended,
// however long those take, and calls change then for the schedule and the
// engine to go on with. The engine must work on the same table. What the passes
// have not come to is taken up at once. A stop meanwhile is one as ever. Reload may be
// called whether the loop runs or not, but not twice at a time.
func (l *Loop) Reload(change func() (*tiers.Schedule, *Engine)) {
	l.waking.Lock()
	l.mu.Lock()
	if l.cut != nil {
		l.endCut(errReload)
	}
	l.mu.Unlock()
	l.passes.Wait()
	s, e := change()
	l.mu.Lock()
	if e != l.Engine {
		e.follow(l.Engine)
	}
	l.Schedule, l.Engine = s, e
	ctx, carried := l.ctx, l.carried
	l.carried = nil
	if ctx != nil {
		l.cut, l.endCut = context.WithCancelCause(ctx)
	}
	for _, old := range carried {
		if ctx.Err() != nil {
			break
		}
		t, ok := s.ByName(old.Tier)
		if !ok {
			l.owe(old) // the next wake forgets the tier itself, and runs what its pass covered
			continue
		}
		p := TierPass(s, t)
		p.Now, p.Tick, p.Resume, p.tried = old.Now, old.Tick, old.Resume, old.tried
		p.id, p.ticks = old.id, old.ticks
		l.running[p.Tier] = false
		l.start(p)
	}
	l.mu.Unlock()
	l.waking.Unlock()
	if ctx != nil && ctx.Err() == nil {
		l.safely(func() { l.wake(ctx) }) // for ticks meanwhile
	}
}

// start starts a pass of a tier that is noted as running. l.mu must be held.
func (l *Loop) start(p Pass) {
	ctx, e := l.ctx, l.Engine
	p.cut = l.cut
	l.passes.Go(func() { l.safely(func() { l.runPass(ctx, e, p) }) })
}

// owe has the ticks that the pass was for taken as due at the next wake, but for those
// that another pass has been started for since. l.mu must be held.
func (l *Loop) owe(p Pass) {
	for _, tier := range p.ticks {
		if l.ticksOf[tier] == p.id {
			l.clock.Owe(tier)
		}
	}
}

// handled returns the tiers whose last tick was left to the pass, which has ended. l.mu must
// be held.
func (l *Loop) handled(p Pass) map[string]bool {
	done := make(map[string]bool)
	for _, tier := range p.ticks {
		if l.ticksOf[tier] == p.id {
			done[tier] = true
			delete(l.ticksOf, tier)
		}
	}
	return done
}

// LastWake returns when the loop last looked at the clock.
func (l *Loop) LastWake() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looked
}

func (l *Loop) engine() *Engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Engine
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
	if ctx.Err() != nil {
		return
	}
	if !l.waking.TryLock() { // the last wake hangs, which watch will say, or a reload waits for handlers
		l.mu.Lock()
		if l.cut.Err() != nil {
			l.looked = l.Now()
		}
		l.mu.Unlock()
		return
	}
	defer l.waking.Unlock()
	e := l.engine()
	paused := e.isPaused()
	l.mu.Lock()
	now := l.Now()
	l.looked = now
	w := l.clock.Wake(l.Schedule, now, paused, func(t tiers.Tier) bool {
		_, busy := l.running[t.Name]
		return busy
	})
	if len(w.Delayed) > 0 {
		l.lastTick = now
	}
	for _, d := range w.Skipped {
		if l.running[d.Tier.Name] {
			l.lastTick = now
		}
	}
	var pass *Pass
	if w.Start != nil && (!paused || e.Policy.HasDeadlines()) { // whose passes also end what nobody answers
		pass = l.plan(w.Pick, now)
	}
	l.mu.Unlock()

	l.passes.Go(func() { l.safely(func() { e.askAgain(ctx) }) })
	if w.Back > time.Second {
		l.emit(Event{Kind: ClockSetBack, Err: fmt.Errorf("the clock was set back by %v", w.Back.Round(time.Millisecond))})
	}
	for _, d := range w.Skipped {
		l.emit(Event{Kind: TierSkipped, Tier: d.Tier.Name})
	}
	// The state has the ticks before their pass begins: a kill at any moment leaves them
	// either after the last wake or unfinished.
	l.update(func(s *Checkpoint) {
		s.LastWake = now
		s.Taken(w.Taken)
		s.Owe(w.Delayed...)
		if pass != nil {
			s.Owe(pass.ticks...)
		}
	})
	if pass != nil {
		l.announce(w)
		l.mu.Lock()
		l.start(*pass)
		l.mu.Unlock()
	}
	l.emit(Event{Kind: Woke})
}

// plan returns the pass that is picked, and notes that its tier has one. l.mu must be held.
func (l *Loop) plan(pick tiers.Pick, now time.Time) *Pass {
	pass := TierPass(l.Schedule, pick.Start.Tier)
	// A pass goes by its tick, not by the moment it took to start.
	pass.Tick = pick.Start.Last
	if now.Sub(pass.Tick) < time.Second {
		pass.Now = pass.Tick
	}
	l.passID++
	pass.id = l.passID
	pass.ticks = []string{pass.Tier}
	for _, d := range pick.Covered {
		pass.ticks = append(pass.ticks, d.Tier.Name)
	}
	for _, tier := range pass.ticks {
		l.ticksOf[tier] = pass.id
	}
	l.running[pass.Tier] = false
	return &pass
}

// announce emits what the picked pass makes up for and covers.
func (l *Loop) announce(w tiers.Wake) {
	if missed, more := w.Missed(); missed > 0 {
		l.emit(Event{Kind: TicksMissed, Tier: w.Start.Tier.Name, N: missed, AtLeast: more, Since: w.Since})
	}
	for _, d := range w.Covered {
		l.emit(Event{Kind: TierCovered, Tier: d.Tier.Name, By: w.Start.Tier.Name})
	}
}

// update changes the state. A keeper that panics stops nothing.
func (l *Loop) update(change func(*Checkpoint)) {
	if l.State == nil {
		return
	}
	l.safely(func() {
		if err := l.State.Update(change); err != nil {
			l.emit(Event{Kind: StateFailed, Err: err})
		}
	})
}

// watch says when no tick was handled for twice the narrowest interval: a loop
// that hangs is otherwise silent.
func (l *Loop) watch(ctx context.Context) {
	var said, suspect time.Time // the last tick that was reported as late, or may have to be
	var of *tiers.Schedule
	var grace time.Duration // takes milliseconds to find
	for Sleep(ctx, maxWait) {
		l.mu.Lock()
		s, now, last := l.Schedule, l.Now(), l.lastTick
		l.mu.Unlock()
		if s != of {
			of, grace = s, 2*s.MinInterval()
		}
		// A cron tier may rest for a night: count from the tick that was due.
		late := now.Sub(s.Next(last)) > grace
		// After a suspend the loop has yet to wake: look twice.
		if late && !last.Equal(suspect) {
			suspect = last
		} else if late && !last.Equal(said) {
			said = last
			l.emit(Event{Kind: NoTick, Err: fmt.Errorf("no tick was handled for %v", now.Sub(last).Round(time.Second))})
		}
	}
}

// listen asks, every second, what has become of records that were handed over, and wakes
// the loop when a pause is over. What goes wrong is said by the next pass that wants to
// hand over more.
func (l *Loop) listen(ctx context.Context) {
	for was := false; Sleep(ctx, collectEvery); {
		l.safely(func() {
			e := l.engine()
			is := e.isPaused()
			if was && !is {
				l.wake(ctx)
			}
			was = is
			_ = e.Collect(ctx)
		})
	}
}

func (l *Loop) emit(ev Event) { tell(l.Observe, l.Now, ev) }

// safely turns a panic into an event.
func (l *Loop) safely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.emit(Event{Kind: Panicked, Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())})
		}
	}()
	f()
}

// runPass runs one pass of a tier under the run lock. Its Now is the tick if that
// has just been, else zero.
func (l *Loop) runPass(ctx context.Context, e *Engine, p Pass) {
	tier, owed := p.Tier, false
	free := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, tier)
	})
	defer func() {
		free()
		l.mu.Lock()
		defer l.mu.Unlock()
		if owed {
			l.owe(p)
		}
	}()
	if e.Policy.HasDeadlines() { // an attempt may take hours, and others are due meanwhile
		p.dispatched = free
	}
	locked, unlock, err := l.lock.acquire(ctx, p.cut, l.Locker, e, tier) // a reload does not wait for the lock
	switch {
	case err == nil:
		defer unlock()
	case ctx.Err() != nil: // the state has it as unfinished
		return
	case p.cut.Err() != nil:
		owed = true
		return
	default:
		report := Report{Tier: tier, MaxAge: p.MaxAge, Started: l.Now(), Stopped: StoppedError}
		l.emit(Event{Kind: PassEnded, Tier: tier, Report: &report, Err: err})
		l.update(func(s *Checkpoint) { l.ended(s, p, report) })
		return
	}
	if l.State != nil && p.tried == nil {
		if s, err := l.State.Load(); err == nil {
			p.Resume = s.Resume[tier]
		} else {
			l.emit(Event{Kind: StateFailed, Err: err})
		}
	}
	began := l.Now()
	l.mu.Lock()
	l.running[tier], l.lastTick = true, began
	l.mu.Unlock()
	if p.tried == nil && began.Sub(p.Now) > time.Second {
		p.Now = time.Time{} // it had to wait for the lock
	}
	report, _ := e.Pass(locked, p) // the error is in PassEnded
	switch report.Stopped {
	case StoppedReload:
		l.mu.Lock()
		p.Now, p.Resume, p.tried = report.Started, report.Resume, report.tried
		l.carried = append(l.carried, p)
		l.mu.Unlock()
	case StoppedLock, StoppedPause:
		owed = ctx.Err() == nil
	}
	l.update(func(s *Checkpoint) { l.ended(s, p, report) })
}

// ended notes the end of a pass: unless it was cut short, the ticks it was for have run.
func (l *Loop) ended(s *Checkpoint, p Pass, r Report) {
	s.Note(r)
	if r.CutShort() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Taken(l.handled(p))
}

// CutShort reports whether something from outside has ended the pass before it came to
// its end: its ticks do not count as run.
func (r *Report) CutShort() bool {
	return r.cutShort || slices.Contains([]string{StoppedSignal, StoppedReload, StoppedLock, StoppedPause}, r.Stopped)
}

// Note remembers where the next pass of the report's tier goes on, and that
// it is owed one if this one was cut short.
func (s *Checkpoint) Note(r Report) {
	if r.Resume.IsZero() {
		delete(s.Resume, r.Tier)
	} else {
		if s.Resume == nil {
			s.Resume = make(map[string]Resume)
		}
		s.Resume[r.Tier] = r.Resume
	}
	if r.CutShort() {
		s.Owe(r.Tier)
	}
}

// Owe notes tiers that have ticked and whose pass has not ended.
func (s *Checkpoint) Owe(tiers ...string) {
	for _, tier := range tiers {
		if !slices.Contains(s.Unfinished, tier) {
			s.Unfinished = append(s.Unfinished, tier)
		}
	}
}

// Taken notes that the tiers are not unfinished any more.
func (s *Checkpoint) Taken(tiers map[string]bool) {
	s.Unfinished = slices.DeleteFunc(s.Unfinished, func(name string) bool { return tiers[name] })
}
