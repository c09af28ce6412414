package backlog

import (
	"context"
	"slices"
	"time"

	"backlog/tiers"
)

// runPass runs one pass of the tier under the run lock. at is its tick if that
// has just been, else zero.
func (l *Loop) runPass(ctx context.Context, e *Engine, t tiers.Tier, widest bool, at time.Time) {
	lost := false // the rest of the pass, with the lock or by a reload
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, t.Name)
		if lost {
			l.owed[t.Name] = true
		}
	}()
	locked, unlock, err := l.lock.acquire(ctx, l.Locker, e, t.Name)
	if err != nil {
		if ctx.Err() == nil {
			l.emit(Event{Kind: PassEnded, Tier: t.Name, Report: &Report{Tier: t.Name, MaxAge: t.MaxAge, Stopped: StoppedError}, Err: err})
		} else {
			l.update(func(s *State) { s.owe(t.Name) })
		}
		return
	}
	defer unlock()
	var resume Resume
	if l.State != nil {
		s, err := l.State.Load()
		if err == nil {
			resume = s.Resume[t.Name]
		} else {
			l.emit(Event{Kind: StateFailed, Err: err})
		}
	}
	began := l.Now()
	l.mu.Lock()
	l.running[t.Name], l.lastTick = true, began
	l.mu.Unlock()
	if began.Sub(at) > time.Second {
		at = time.Time{} // it had to wait for the lock
	}
	report := l.pass(locked, e, Pass{Tier: t.Name, MaxAge: t.MaxAge, Widest: widest, Now: at, Resume: resume})
	lost = report.cutShort() && ctx.Err() == nil
	l.update(func(s *State) { s.Note(report) })
}

// waitLate is how long a pass whose lock is lost is waited for: its handlers
// have ended by then.
const waitLate = LockGrace + time.Second

// pass runs the pass and returns its report. Where it has lost its lock and
// cannot write its outcomes, it is left to itself, and the report is one of a
// pass that came to nothing.
func (l *Loop) pass(ctx context.Context, e *Engine, p Pass) Report {
	nothing := Report{Tier: p.Tier, MaxAge: p.MaxAge, Resume: p.Resume}
	ended := make(chan Report, 1)
	l.late.Go(func() {
		report := nothing
		l.safely(func() { report, _ = e.Pass(ctx, p) }) // the error is in PassEnded
		ended <- report
	})
	select {
	case report := <-ended:
		return report
	case <-ctx.Done():
	}
	if !lockLost(ctx) {
		return <-ended
	}
	t := time.NewTimer(waitLate)
	defer t.Stop()
	select {
	case report := <-ended:
		return report
	case <-t.C:
		nothing.Stopped = StoppedLock
		return nothing
	}
}

// Note remembers where the next pass of the report's tier goes on, and that
// it is owed one if a stop ended this one.
func (s *State) Note(r Report) {
	if r.Resume.IsZero() {
		delete(s.Resume, r.Tier)
	} else {
		if s.Resume == nil {
			s.Resume = make(map[string]Resume)
		}
		s.Resume[r.Tier] = r.Resume
	}
	if r.cutShort() {
		s.owe(r.Tier)
	}
}

// owe notes that the tier's pass could not be finished.
func (s *State) owe(tier string) {
	if !slices.Contains(s.Unfinished, tier) {
		s.Unfinished = append(s.Unfinished, tier)
	}
}
