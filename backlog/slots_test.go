package backlog

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// queue makes n goroutines wait for a slot, one after the other, that note
// their number when they have it.
func queue(ctx context.Context, s *slots, n int, got *[]int) {
	for i := range n {
		go func() {
			if s.acquire(ctx) {
				s.mu.Lock()
				defer s.mu.Unlock()
				*got = append(*got, i)
			}
		}()
		synctest.Wait()
	}
}

func TestSlots(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *slots, cancel func())
		want []int // who of five has a slot of two in the end
	}{
		{"as many as there are", func(*slots, func()) {}, []int{0, 1}},
		{"first come, first served", func(s *slots, _ func()) { s.release(1); synctest.Wait(); s.release(1) }, []int{0, 1, 2, 3}},
		{"more", func(s *slots, _ func()) { s.resize(3) }, []int{0, 1, 2}},
		{"fewer: two are held for one", func(s *slots, _ func()) { s.resize(1); s.release(1) }, []int{0, 1}},
		{"fewer, and both given back", func(s *slots, _ func()) { s.resize(1); s.release(2) }, []int{0, 1, 2}},
		{"fewer, then as many as before", func(s *slots, _ func()) { s.resize(1); s.release(1); s.resize(2) }, []int{0, 1, 2}},
		{"cancelled", func(s *slots, cancel func()) { cancel(); synctest.Wait(); s.release(2) }, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var s slots
				s.resize(2)
				var got []int
				queue(ctx, &s, 5, &got)
				c.do(&s, cancel)
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				slices.Sort(got)
				if !slices.Equal(got, c.want) {
					t.Errorf("want slots for %v, got %v", c.want, got)
				}
			})
		})
	}
}

// Who no longer waits, and who asks without waiting, take nobody's turn.
func TestSlotsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var s slots
		s.resize(1)
		if !s.tryAcquire() || s.tryAcquire() {
			t.Error("want one slot taken at once, and no second one")
		}
		var gone, there []int
		queue(ctx, &s, 1, &gone)
		queue(t.Context(), &s, 1, &there)
		cancel()
		synctest.Wait()
		s.release(1)
		if s.tryAcquire() {
			t.Error("want the slot to be that of the one who waits")
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(gone) != 0 || len(there) != 1 || s.held != 1 || s.waiting.Len() != 0 {
			t.Errorf("want one slot held by the one who waited on, got %v and %v, %d held", gone, there, s.held)
		}
	})
}

// A slot that comes right after the end of the wait is given back.
func TestSlotThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var s slots
		s.resize(1)
		s.tryAcquire()
		var got []int
		queue(ctx, &s, 1, &got)
		s.mu.Lock()
		cancel()
		s.held--
		s.admit()
		s.mu.Unlock()
		synctest.Wait()
		if s.mu.Lock(); len(got) != 0 || s.held != 0 {
			t.Errorf("want no slot held, got %d", s.held)
		}
		s.mu.Unlock()
	})
}
