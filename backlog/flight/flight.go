// Package flight keeps a record from being handled twice: it knows which records are being
// worked on, and which pages of a table were read before a record was settled.
package flight

import "sync"

// A Set knows which records are being worked on. It also remembers which ones were settled, as
// long as a page is in use that was read before that: on such a page the record still seems to
// be pending. All methods may be called concurrently.
type Set struct {
	mu        sync.Mutex
	clock     uint64             // counts settlements
	held      map[uint64]*Flight // by the hash of the record's key
	landed    [][]*Flight        // the settled flights of held, roughly in the order of the clock
	pages     map[*Page]struct{} // in use
	forgotten uint64             // settlements up to this reading of the clock are older than every page
}

// A Flight is one claim of a record, until no page is older than its settlement.
type Flight struct {
	hash     uint64
	before   uint64 // clock at the last settlement before the claim; 0: none that matters
	after    uint64 // clock at the settlement after the claim; 0: not settled yet
	replaced bool   // the record has been claimed again
}

// A Page is the clock at the time when a page was read.
type Page struct{ at uint64 }

// New returns an empty set.
func New() *Set {
	return &Set{held: make(map[uint64]*Flight), pages: make(map[*Page]struct{})}
}

// Open notes that a page is about to be read. The page is closed when the last
// of its records has been claimed or passed over.
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

// forget deletes the settlements that are older than every page.
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

// Claim claims records of the page, by the hashes of their keys. The flight of a record is nil if
// the record is being worked on, or was settled after the page was read. p is nil for the records
// of a queue: these may come again at any time.
func (s *Set) Claim(p *Page, hashes ...uint64) []*Flight {
	flights := make([]*Flight, len(hashes))
	list := make([]Flight, len(hashes)) // one allocation for all
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, hash := range hashes {
		f := &list[i]
		f.hash = hash
		if last := s.held[hash]; last != nil {
			inFlight := last.after == 0
			settledSince := p != nil && last.after > p.at
			if inFlight || settledSince {
				continue
			}
			last.replaced = true
			f.before = last.after
		}
		s.held[hash] = f
		flights[i] = f
	}
	return flights
}

// Land ends the flights of records that have been settled. The set keeps the list.
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

// Drop ends the flights of records whose rows were not changed. A flight may be nil.
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
