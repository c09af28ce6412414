package backlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// shared is what an engine has in common with those it replaces: their passes
// go on while its own begin. All methods may be called concurrently.
type shared struct {
	flights  *flights
	slots    slots                // running handlers
	unsettle slots                // records handed out and not yet settled
	pace     atomic.Pointer[pace] // nil: no limit
	pause    atomic.Int64         // unix nanoseconds before which no call starts
	health   health

	anyRefused atomic.Bool // spares a lock for the rare case

	mu      sync.Mutex
	passes  int       // under way, until their end has been told
	ended   sync.Cond // one of them has
	runs    map[*run]struct{}
	refused map[uint64]struct{} // keys whose outcome the database did not take
}

// maxRefused bounds the memory of rows the database refuses; a table that
// refuses more than this has been failing loudly for long.
const maxRefused = 100_000

func newShared() *shared {
	s := &shared{flights: newFlights(), runs: make(map[*run]struct{}), refused: make(map[uint64]struct{})}
	s.ended.L = &s.mu
	return s
}

// limit sets the limits, for passes under way as well.
func (s *shared) limit(concurrency int, perSecond float64) {
	s.slots.resize(concurrency)
	s.unsettle.resize(max(MaxGroup, concurrency))
	s.setRate(perSecond)
}

// A pace limits the rate of handler calls.
type pace struct {
	*rate.Limiter
	over chan struct{} // closed: no longer in force
}

// setRate sets the rate of handler calls; 0: no limit. What waits for its turn
// by the old rate waits by the new one.
func (s *shared) setRate(perSecond float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pace.Load()
	var next *pace
	if perSecond > 0 {
		// Bursts of ten milliseconds' worth: exact at low rates, not
		// bound by timer resolution at high ones.
		limit, burst := rate.Limit(perSecond), max(1, int(perSecond/100))
		if old != nil && old.Limit() == limit {
			return
		}
		next = &pace{rate.NewLimiter(limit, burst), make(chan struct{})}
		if old != nil && !old.Allow() {
			for range burst { // what has just been called counts
				next.Allow()
			}
		}
	}
	s.pace.Store(next)
	if old != nil {
		close(old.over)
	}
}

// rateAllows takes a turn of the rate if there is one now.
func (s *shared) rateAllows() bool {
	p := s.pace.Load()
	return p == nil || p.Allow()
}

// waitRate returns when the rate allows another call, or false when ctx is
// done.
func (s *shared) waitRate(ctx context.Context) bool {
	for {
		p := s.pace.Load()
		if p == nil {
			return true
		}
		turn := p.Reserve()
		wait := turn.Delay()
		if wait <= 0 {
			return true
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			return true
		case <-p.over:
		case <-ctx.Done():
		}
		t.Stop()
		turn.Cancel()
		if ctx.Err() != nil {
			return false
		}
	}
}

// flushAll makes every pass write what it holds: somebody waits for room.
func (s *shared) flushAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.runs {
		if r.writing.Load() == 0 { // else room is being made
			r.flush()
		}
	}
}

func (s *shared) join(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[r] = struct{}{}
	if r.e.retired.Load() {
		r.endWalk()
	}
}

// retire ends the walks of the engine's passes, and the pause.
func (s *shared) retire(e *Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause.Store(0)
	for r := range s.runs {
		if r.e == e {
			r.endWalk()
		}
	}
}

func (s *shared) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes++
}

func (s *shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes--
	s.ended.Broadcast()
}

// finish limits the time of the passes that have lost their lock, and waits
// until no pass is under way.
func (s *shared) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.passes > 0 {
		for r := range s.runs {
			signal(r.finish)
		}
		s.ended.Wait()
	}
}

func (s *shared) leave(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, r)
}

// refuse remembers a row whose outcome the database does not take, so that
// this process does not repeat the attempt at every tick for ever.
func (s *shared) refuse(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) < maxRefused {
		s.refused[hash] = struct{}{}
		s.anyRefused.Store(true)
	}
}

func (s *shared) isRefused(hash uint64) bool {
	if !s.anyRefused.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.refused[hash]
	return ok
}
