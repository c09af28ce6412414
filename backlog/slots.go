package backlog

import (
	"container/list"
	"context"
	"sync"
)

// slots is a semaphore whose size may change, and that serves first come,
// first served, which a channel does not promise. The zero slots has none. All
// methods may be called concurrently.
type slots struct {
	mu      sync.Mutex
	size    int
	held    int       // more than size for a while after that was lowered
	waiting list.List // of chan struct{}: closed when its slot is held
}

// tryAcquire takes a slot if one is free and nobody waits for it.
func (s *slots) tryAcquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held >= s.size || s.waiting.Len() > 0 {
		return false
	}
	s.held++
	return true
}

// acquire waits for a slot and takes it, or returns false when ctx is done.
func (s *slots) acquire(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	s.mu.Lock()
	if s.held < s.size && s.waiting.Len() == 0 {
		s.held++
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	place := s.waiting.PushBack(turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn: // it came all the same
		s.held--
		s.admit()
	default:
		s.waiting.Remove(place)
	}
	return false
}

// release gives n slots back.
func (s *slots) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= n
	s.admit()
}

// resize sets how many may be held. Those above it stay held until they are
// given back.
func (s *slots) resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = n
	s.admit()
}

// admit serves those who wait. The mutex must be held.
func (s *slots) admit() {
	for s.held < s.size && s.waiting.Len() > 0 {
		s.held++
		close(s.waiting.Remove(s.waiting.Front()).(chan struct{}))
	}
}
