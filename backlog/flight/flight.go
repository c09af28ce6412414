// Package flight knows which records are being worked on, and which pages of a table
// are too old to say that a record is pending.
package flight

import "sync"

// A Set knows which records are being worked on, and which were settled
// after a page that is still being handed out was read: such a page is too old
// to say that the record is pending. All methods may be called concurrently.
type Set struct {
	mu        sync.Mutex
	clock     uint64 // counts settlements
	held      map[uint64]*Flight
	landed    [][]*Flight // those held that are settled, in about the order of the clock
	pages     map[*Page]struct{}
	forgotten uint64 // the clock at the last settlement that no page is older than
}

// A Flight is what is known of a record from a claim on.
type Flight struct {
	hash          uint64
	before, after uint64 // the clock at its settlements before and after the claim; 0: none that a page is older than
	replaced      bool   // it has been claimed again
}

// A Page is the reading of the clock before a page was read.
type Page struct{ at uint64 }

// New returns a set that knows nothing.
func New() *Set {
	return &Set{held: make(map[uint64]*Flight), pages: make(map[*Page]struct{})}
}

// Open notes that a page is about to be read. Every opened page is closed when
// the last of its records has been claimed or passed over.
func (s *Set) Open() *Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Page{s.clock}
	s.pages[p] = struct{}{}
	return p
}

// Close notes that the page is used up.
func (s *Set) Close(p *Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, p)
	s.forget()
}

// Len returns how many records are remembered, and how many pages are open.
func (s *Set) Len() (records, pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), len(s.pages)
}

// forget lets go of the settlements that no page is older than.
func (s *Set) forget() {
	s.forgotten = s.clock
	for p := range s.pages {
		s.forgotten = min(s.forgotten, p.at)
	}
	for len(s.landed) > 0 && s.landed[0][0].after <= s.forgotten {
		for _, f := range s.landed[0] {
			if !f.replaced {
				delete(s.held, f.hash)
			}
		}
		s.landed = s.landed[1:]
	}
}

// Claim takes records of the page, by the hashes of their keys. What it returns is nil for
// one that is being worked on, or was settled after the page was read. A queue's record, p
// is nil, may come again at any time.
func (s *Set) Claim(p *Page, hashes ...uint64) []*Flight {
	flights, list := make([]*Flight, len(hashes)), make([]Flight, len(hashes))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, hash := range hashes {
		last := s.held[hash]
		if last != nil && (last.after == 0 || p != nil && last.after > p.at) {
			continue
		}
		f := &list[i]
		if f.hash = hash; last != nil {
			last.replaced, f.before = true, last.after
		}
		s.held[hash], flights[i] = f, f
	}
	return flights
}

// Land ends the flight of records that have been settled. It keeps the list.
func (s *Set) Land(flights ...*Flight) {
	if len(flights) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	for _, f := range flights {
		f.after = s.clock
	}
	s.landed = append(s.landed, flights)
	if len(s.pages) == 0 {
		s.forget()
	}
}

// Drop ends the flight of records whose rows were not changed; nil is passed over.
func (s *Set) Drop(flights ...*Flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range flights {
		switch {
		case f == nil:
		case f.before > s.forgotten:
			f.after = f.before
			s.landed = append(s.landed, []*Flight{f})
		default:
			delete(s.held, f.hash)
		}
	}
}
