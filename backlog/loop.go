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

// A Checkpoint is what a daemon remembers from one start to the next.
type Checkpoint struct {
	// LastWake is the moment up to which ticks have been handled.
	LastWake time.Time `json:"last_wake"`
	// Resume is where the next pass goes on, by tier.
	Resume map[string]Resume `json:"resume,omitempty"`
	// Unfinished are the tiers that have ticked and whose pass has not come to its
	// end. It is under way, or was cut short by a stop, a kill or a lost lock.
	Unfinished []string `json:"unfinished,omitempty"`
}

// errReload is the cause for which a reload ends passes.
var errReload = errors.New("reload")

// A CheckpointKeeper keeps a Checkpoint. Its methods may be called concurrently.
type CheckpointKeeper interface {
	// Load returns the checkpoint, the zero one before the first Update.
	Load() (Checkpoint, error)
	// Update changes the checkpoint in one step.
	Update(change func(*Checkpoint)) error
}

// A Loop runs the passes of a schedule at its ticks. Schedule and Engine are
// required.
type Loop struct {
	Schedule *tiers.Schedule
	Engine   *Engine
	Now      func() time.Time // nil: time.Now
	Observe  func(Event)      // nil: none

	State CheckpointKeeper // nil: nothing is remembered
	// Since is the moment after which ticks count. Zero: State's last wake or,
	// if State has none, the start of Run.
	Since time.Time
	// Locker, if not nil, is asked for the RunLock before a pass. The lock is
	// held until no pass runs. When it is lost its passes are stopped, and
	// taken up at the next wake.
	Locker Locker
	// Held is the lock under which Run works, such as a leader's. Run must have its context. Nil: none.
	Held *HeldLock

	mu           sync.Mutex // guards what follows, and Schedule and Engine once Run has begun
	clock        tiers.Clock
	lastWake     time.Time         // when a wake last read the clock
	lastTick     time.Time         // when a tick was last handled
	begun        map[string]bool   // tier -> its pass has begun; a tier without a pass is left out
	passID       uint64            // of the last pass started
	passFor      map[string]uint64 // tier in Unfinished -> ID of the pass that its last tick is left to
	interrupted  []Pass            // by a reload, to go on after it
	cut          context.Context   // done: passes are to end, for a reload if that is its cause, or with Run's
	cancelPasses context.CancelCauseFunc

	ctx    context.Context // of Run; guarded by waking
	waking sync.Mutex      // held during a wake, or a reload
	lock   runLock
	passes sync.WaitGroup
}

// Run wakes at every tick, and at least every thirty seconds, and starts the
// pass that is due then. When ctx is done it waits for all passes and returns
// nil. Ticks missed before the start, or while the machine slept, become one
// pass.
//
// After the loss of a lock, outcomes that the store does not take yet stay with
// the engine. Run gives up the rest of them when it ends, unless it ends by a lost
// lock, see [WhileHeld]: then another Loop may go on with the same engine.
func (l *Loop) Run(ctx context.Context) error {
	if l.Now == nil {
		l.Now = time.Now
	}
	now := l.Now()
	l.waking.Lock() // a reload may be under way
	l.mu.Lock()
	l.ctx = ctx
	l.clock = tiers.Clock{Last: now}
	l.lastWake = now
	l.lastTick = now
	l.cut, l.cancelPasses = context.WithCancelCause(ctx)
	l.begun = make(map[string]bool)
	l.passFor = make(map[string]uint64)
	l.mu.Unlock()
	l.waking.Unlock()
	l.lock.emit = l.emit
	l.lock.now = l.Now
	l.lock.outer = l.Held
	l.lock.acquiring = newMutex()
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(ctx) })
	watch.Go(func() { l.collect(ctx) })
	l.safely(func() { l.restore(now) })

	// Recovery from a panic is inside the job: cron's wrapper that skips overlapping runs would
	// stay locked after a panic. wake itself handles overlaps.
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

// restore sets the moment after which ticks count, and the ticks that are owed. If that
// panics, ticks count from now.
func (l *Loop) restore(now time.Time) {
	var s Checkpoint
	if l.State != nil {
		var err error
		s, err = l.State.Load()
		if err != nil {
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
// however long that takes. Then it calls change for the schedule and the engine to
// go on with, which must work on the same table. The records that the passes have
// not come to are taken up at once. A stop during a reload works as usual. Reload may be
// called whether the loop runs or not, but not twice at a time.
func (l *Loop) Reload(change func() (*tiers.Schedule, *Engine)) {
	l.waking.Lock()
	l.mu.Lock()
	if l.cut != nil {
		l.cancelPasses(errReload)
	}
	l.mu.Unlock()
	l.passes.Wait()
	s, e := change()
	l.mu.Lock()
	if e != l.Engine {
		e.inherit(l.Engine)
	}
	l.Schedule = s
	l.Engine = e
	ctx := l.ctx
	if ctx != nil {
		l.cut, l.cancelPasses = context.WithCancelCause(ctx)
	}
	l.resumeInterrupted()
	l.mu.Unlock()
	l.waking.Unlock()
	if ctx != nil && ctx.Err() == nil {
		l.safely(func() { l.wake(ctx) }) // for ticks during the reload
	}
}

// resumeInterrupted lets the passes that the reload has interrupted go on, by the new schedule. l.mu
// must be held.
func (l *Loop) resumeInterrupted() {
	interrupted := l.interrupted
	l.interrupted = nil
	for _, old := range interrupted {
		if l.ctx.Err() != nil {
			return // the loop stops: the state has the remaining passes as unfinished
		}
		tier, exists := l.Schedule.ByName(old.Tier)
		if !exists {
			l.owe(old) // the tiers that it covered run at the next wake, which ignores unknown ones
			continue
		}
		p := TierPass(l.Schedule, tier)
		p.goOnFrom(old)
		l.reserve(p.Tier)
		l.start(p)
	}
}

// goOnFrom makes p go on where the pass old of the same tier was interrupted.
func (p *Pass) goOnFrom(old Pass) {
	p.Now = old.Now
	p.Tick = old.Tick
	p.Resume = old.Resume
	p.tried = old.tried
	p.id = old.id
	p.tickTiers = old.tickTiers
}

// reserve notes that the tier has a pass, which has not begun yet. A tier that has a pass starts no
// other. l.mu must be held.
func (l *Loop) reserve(tier string) { l.begun[tier] = false }

// start starts a pass of a tier that is reserved for it. l.mu must be held.
func (l *Loop) start(p Pass) {
	ctx := l.ctx
	e := l.Engine
	p.cut = l.cut
	l.passes.Go(func() { l.safely(func() { l.runPass(ctx, e, p) }) })
}

// owe makes the ticks that the pass was for due at the next wake, except those for which
// another pass has been started since. l.mu must be held.
func (l *Loop) owe(p Pass) {
	for _, tier := range p.tickTiers {
		if l.passFor[tier] == p.id {
			l.clock.Owe(tier)
		}
	}
}

// handled returns the tiers whose last tick was left to the pass, and forgets them: the pass
// has ended. l.mu must be held.
func (l *Loop) handled(p Pass) map[string]bool {
	done := make(map[string]bool)
	for _, tier := range p.tickTiers {
		if l.passFor[tier] == p.id {
			done[tier] = true
			delete(l.passFor, tier)
		}
	}
	return done
}

// LastWake returns when the loop last read the clock to look for ticks.
func (l *Loop) LastWake() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastWake
}

func (l *Loop) engine() *Engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Engine
}

// cronSchedule makes the loop's next wake a schedule of robfig/cron.
type cronSchedule struct{ l *Loop }

// Next returns a sum with t, and not the tick itself, because the result must have
// t's monotonic reading. Without it, a timer would wait longer after the clock was
// set back.
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
	if !l.waking.TryLock() { // the last wake hangs, which watch reports, or a reload waits for handlers
		l.mu.Lock()
		if l.cut.Err() != nil {
			l.lastWake = l.Now()
		}
		l.mu.Unlock()
		return
	}
	defer l.waking.Unlock()
	e := l.engine()
	paused := e.isPaused()
	l.mu.Lock()
	now := l.Now()
	l.lastWake = now
	w := l.clock.Wake(l.Schedule, now, paused, func(t tiers.Tier) bool {
		_, busy := l.begun[t.Name]
		return busy
	})
	if len(w.Delayed) > 0 {
		l.lastTick = now
	}
	for _, name := range w.Delayed {
		if _, busy := l.begun[name]; !busy {
			delete(l.passFor, name) // a wider pass under way began before this tick
		}
	}
	for _, d := range w.Skipped {
		if l.begun[d.Tier.Name] {
			l.lastTick = now
		}
	}
	var pass *Pass
	if w.Start != nil && (!paused || e.Policy.HasDeadlines()) { // such a pass also ends overdue attempts
		pass = l.plan(w.Pick, now)
	}
	l.mu.Unlock()

	l.passes.Go(func() { l.safely(func() { e.recheckStore(ctx) }) })
	if w.Back > time.Second {
		l.emit(Event{Kind: ClockSetBack, Err: fmt.Errorf("the clock was set back by %v", w.Back.Round(time.Millisecond))})
	}
	for _, d := range w.Skipped {
		l.emit(Event{Kind: TierSkipped, Tier: d.Tier.Name})
	}
	// The state is written before the pass begins, so that a kill at any moment leaves the
	// ticks either after the last wake or unfinished.
	l.update(func(s *Checkpoint) {
		s.LastWake = now
		s.Taken(w.Taken)
		s.Owe(w.Delayed...)
		if pass != nil {
			s.Owe(pass.tickTiers...)
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

// plan returns the pass for the picked ticks, and notes that its tier has one. l.mu must be
// held.
func (l *Loop) plan(pick tiers.Pick, now time.Time) *Pass {
	pass := TierPass(l.Schedule, pick.Start.Tier)
	// Ages are counted from the tick, unless the pass is late.
	pass.Tick = pick.Start.Last
	if now.Sub(pass.Tick) < time.Second {
		pass.Now = pass.Tick
	}
	l.passID++
	pass.id = l.passID
	pass.tickTiers = []string{pass.Tier}
	for _, d := range pick.Covered {
		pass.tickTiers = append(pass.tickTiers, d.Tier.Name)
	}
	for _, tier := range pass.tickTiers {
		l.passFor[tier] = pass.id
	}
	l.reserve(pass.Tier)
	return &pass
}

// announce emits which ticks the next pass makes up for and which tiers it covers.
func (l *Loop) announce(w tiers.Wake) {
	if missed, more := w.Missed(); missed > 0 {
		l.emit(Event{Kind: TicksMissed, Tier: w.Start.Tier.Name, N: missed, AtLeast: more, Since: w.Since})
	}
	for _, d := range w.Covered {
		l.emit(Event{Kind: TierCovered, Tier: d.Tier.Name, By: w.Start.Tier.Name})
	}
}

// update changes the state. A panic of the keeper does not stop the loop.
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

// watch emits when no tick was handled for twice the narrowest interval, since a loop that
// hangs is silent.
func (l *Loop) watch(ctx context.Context) {
	var suspect, reported time.Time // values of lastTick that were found too old, once and twice
	var known *tiers.Schedule
	var grace time.Duration // of the known schedule: it takes milliseconds to find
	for Sleep(ctx, maxWait) {
		l.mu.Lock()
		s := l.Schedule
		now := l.Now()
		last := l.lastTick
		l.mu.Unlock()
		if s != known {
			known = s
			grace = 2 * s.MinInterval()
		}
		// A cron tier may rest for a night, so the delay counts from the tick that was due.
		late := now.Sub(s.Next(last)) > grace
		// After a suspend the loop may not have woken yet, so it takes two looks.
		switch {
		case !late || last.Equal(reported):
		case !last.Equal(suspect):
			suspect = last
		default:
			reported = last
			l.emit(Event{Kind: NoTick, Err: fmt.Errorf("no tick was handled for %v", now.Sub(last).Round(time.Second))})
		}
	}
}

// collect calls Collect every second, and wakes the loop at the end of a pause. It ignores
// errors, because the next pass that calls the handler shows them.
func (l *Loop) collect(ctx context.Context) {
	wasPaused := false
	for Sleep(ctx, collectEvery) {
		l.safely(func() {
			e := l.engine()
			paused := e.isPaused()
			if wasPaused && !paused {
				l.wake(ctx)
			}
			wasPaused = paused
			_ = e.Collect(ctx)
		})
	}
}

func (l *Loop) emit(ev Event) { observe(l.Observe, l.Now, ev) }

// safely turns a panic into an event.
func (l *Loop) safely(f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.emit(Event{Kind: Panicked, Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())})
		}
	}()
	f()
}

// runPass runs one pass of a tier under the run lock. The pass's Now is its tick if that is
// less than a second ago, else zero.
func (l *Loop) runPass(ctx context.Context, e *Engine, p Pass) {
	tier := p.Tier
	owed := false
	freeTier := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.begun, tier)
	})
	defer func() {
		freeTier()
		l.mu.Lock()
		defer l.mu.Unlock()
		if owed {
			l.owe(p)
		}
	}()
	if e.Policy.HasDeadlines() { // an attempt may take hours, and other records become due before its end
		p.allDispatched = freeTier
	}
	passCtx := ctx
	p.Lock = l.Held
	var err error
	if l.Locker != nil {
		var unlock func()
		p.Lock, unlock, err = l.lock.acquire(ctx, p.cut, l.Locker, e, tier) // a reload does not wait for the lock
		if err == nil {
			defer unlock()
			passCtx = p.Lock.Context()
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil: // a stop: the state has the pass as unfinished
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
	l.begun[tier] = true
	l.lastTick = began
	l.mu.Unlock()
	if p.tried == nil && began.Sub(p.Now) > time.Second {
		p.Now = time.Time{} // it had to wait for the lock
	}
	report, tried, _ := e.pass(passCtx, p) // the error is in PassEnded
	switch report.Stopped {
	case StoppedReload:
		p.Now = report.Started
		p.Resume = report.Resume
		p.tried = tried
		l.mu.Lock()
		l.interrupted = append(l.interrupted, p)
		l.mu.Unlock()
	case StoppedLock, StoppedPause:
		owed = ctx.Err() == nil
	}
	l.update(func(s *Checkpoint) { l.ended(s, p, report) })
}

// ended notes the end of a pass. Unless it was cut short, the ticks that it was for have run.
func (l *Loop) ended(s *Checkpoint, p Pass, r Report) {
	s.Note(r)
	if r.CutShort() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Taken(l.handled(p))
}

// CutShort reports whether the pass was ended from outside: by a stop, a reload, a pause, the
// loss of its lock or an unavailable store. Its ticks do not count as run.
func (r *Report) CutShort() bool {
	switch r.Stopped {
	case StoppedSignal, StoppedReload, StoppedLock, StoppedPause:
		return true
	}
	return r.cutShort
}

// Note remembers where the next pass of the report's tier goes on. If the pass was cut short
// its tier is unfinished.
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

// Owe notes that the tiers are unfinished.
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
